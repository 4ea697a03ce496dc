//===- Kinds.h - C API for kinds of cells -------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The numbers of phases, which files also use. They never change: a new phase
// gets the next number. The library checks this list against its own.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_KINDS_H
#define PIPESCHED_C_KINDS_H

/// The phase of a cell. PipeschedPhaseForward is F, and so on.
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

#endif // PIPESCHED_C_KINDS_H
