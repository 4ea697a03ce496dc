//===- MemoryEffect.h - Memory effects of cells -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The changes of memory that the table of phases (Phases.h) names, and their
// amounts.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_KINDS_MEMORYEFFECT_H
#define PIPESCHED_SCHEDULE_KINDS_MEMORYEFFECT_H

#include <cstdint>

namespace pipesched {

/// How a cell changes the memory that its worker holds for the stage and unit
/// (docs/CostModel.md, "Memory"); changeOf turns a value into an amount.
enum class MemoryEffect : uint8_t {
  Same,
  AllocateAll,     ///< the activations of the stage
  AllocateDropped, ///< the part that a recomputed F dropped
  FreeInputGrad,   ///< the part that only the input gradient needs
  FreeRest,        ///< all activations except that part
  FreeAll,         ///< the activations of the stage
  CopyOut,         ///< frees the bytes that a copy to the host has moved
  CopyIn,          ///< allocates the bytes that a copy from the host brings
  AllocateShard,   ///< tensors that a vocabulary shard keeps from S to T
  FreeShard,       ///< the tensors of AllocateShard
  AllocateLookup,  ///< the rows that E looks up
  FreePart, ///< AllocateLookup's rows, on workers where they only go into the
            ///< sum
  FreeSum,  ///< AllocateLookup's rows, on the worker whose F takes the sum
  AllocateLookupGrad, ///< the gradient of the embedding's output
  FreeLookupGrad,     ///< the gradient of AllocateLookupGrad
};

/// Memory of a stage for a unit, in bytes or in any other unit.
struct HeldAmounts {
  int64_t activation; ///< between F and the end of its backward
  int64_t kept;       ///< the part that a recomputed F keeps until R
  int64_t inputGrad;  ///< the part that I frees
  int64_t shard = 0;  ///< in addition: tensors of a shard between S and T
  /// In addition, the output of a sharded embedding: `lookupSum` if it is the
  /// input of F, `lookupPart` if only the sum of the lookups takes it. One of
  /// the two is 0.
  int64_t lookupSum = 0, lookupPart = 0;
  int64_t lookupGrad = 0; ///< in addition: the gradient of that output
};

/// Returns the amount held after a change minus the amount held before.
constexpr int64_t changeOf(MemoryEffect change, const HeldAmounts &held) {
  switch (change) {
  case MemoryEffect::Same:
    return 0;
  case MemoryEffect::AllocateAll:
  case MemoryEffect::CopyIn:
    return held.activation;
  case MemoryEffect::AllocateDropped:
    return held.activation - held.kept;
  case MemoryEffect::FreeInputGrad:
    return -held.inputGrad;
  case MemoryEffect::FreeRest:
    return held.inputGrad - held.activation;
  case MemoryEffect::FreeAll:
  case MemoryEffect::CopyOut:
    return -held.activation;
  case MemoryEffect::AllocateShard:
    return held.shard;
  case MemoryEffect::FreeShard:
    return -held.shard;
  case MemoryEffect::AllocateLookup:
    return held.lookupSum + held.lookupPart;
  case MemoryEffect::FreePart:
    return -held.lookupPart;
  case MemoryEffect::FreeSum:
    return -held.lookupSum;
  case MemoryEffect::AllocateLookupGrad:
    return held.lookupGrad;
  case MemoryEffect::FreeLookupGrad:
    return -held.lookupGrad;
  }
  return 0;
}

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_KINDS_MEMORYEFFECT_H
