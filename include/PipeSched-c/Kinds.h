//===- Kinds.h - C API for what cells and instructions are --------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The numbers of phases and of kinds of instructions. They never change: a new
// one gets the next number. Each list has its enum, and the library checks it
// against its own.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_KINDS_H
#define PIPESCHED_C_KINDS_H

/// What a cell does; the numbers are also those of files. PipeschedPhaseForward
/// is F, and so on.
// clang-format off
#define PIPESCHED_PHASES(entry)                                                \
  entry(Forward, 0)   /* F */                                                  \
  entry(Backward, 1)  /* B, input and weight gradient in one */                \
  entry(InputGrad, 2) /* I */                                                  \
  entry(WeightGrad, 3) /* W */                                                 \
  entry(Recompute, 4) /* R */                                                  \
  entry(Offload, 5)   /* D */                                                  \
  entry(Reload, 6)    /* U */                                                  \
  entry(Optimizer, 7) /* O */                                                  \
  entry(AllReduce, 8) /* G */                                                  \
  entry(OffloadJoin, 9) /* d */                                                \
  entry(ReloadJoin, 10) /* u */                                                \
  entry(Idle, 11)     /* _ */                                                  \
  entry(Logits, 12)   /* S, of a vocabulary spread over workers */             \
  entry(LogitsGrad, 13) /* T */                                                \
  entry(Broadcast, 14) /* X */                                                 \
  entry(Combine, 15)  /* Y */                                                  \
  entry(Reduce, 16)   /* Z */                                                  \
  entry(Lookup, 17)   /* E */                                                  \
  entry(LookupSum, 18) /* A */                                                 \
  entry(GradientBroadcast, 19) /* C */                                         \
  entry(LookupGrad, 20) /* V */
// clang-format on

#define PIPESCHED_PHASE(name, number) PipeschedPhase##name = number,
typedef enum PipeschedPhase {
  PIPESCHED_PHASES(PIPESCHED_PHASE)
} PipeschedPhase;
#undef PIPESCHED_PHASE

/// What an instruction is; the enum "instruction" (pipeschedGetEnumValue) has
/// the names, which are those of exec's ops. PipeschedInstructionCompute is
/// `compute`, and so on.
// clang-format off
#define PIPESCHED_INSTRUCTIONS(entry)                                          \
  entry(Compute, 0)                                                            \
  entry(Send, 1)                                                               \
  entry(Recv, 2)                                                               \
  entry(Offload, 3)                                                            \
  entry(Reload, 4)                                                             \
  entry(Wait, 5)                                                               \
  entry(AllReduce, 6)                                                          \
  entry(Broadcast, 7)                                                          \
  entry(Combine, 8)                                                            \
  entry(Reduce, 9)                                                             \
  entry(ReduceLookups, 10)                                                     \
  entry(BroadcastGradient, 11)
// clang-format on

#define PIPESCHED_INSTRUCTION(name, number) PipeschedInstruction##name = number,
typedef enum PipeschedInstructionKind {
  PIPESCHED_INSTRUCTIONS(PIPESCHED_INSTRUCTION)
} PipeschedInstructionKind;
#undef PIPESCHED_INSTRUCTION

#endif // PIPESCHED_C_KINDS_H
