//===- CellCosts.cpp - Costs of cells as lists of segments ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Keeps the lists of all cells of a stage one behind the other.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/CellCosts.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/Support/MathExtras.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;

Resource pipesched::resourceOf(Phase phase) {
  if (kCopyPhases.contains(phase))
    return Resource::Copy;
  return becomes(traitsOf(phase), InstructionKind::AllReduce)
             ? Resource::Replicas
             : Resource::Compute;
}

bool Exchange::add(const Exchange &other, int64_t count) {
  for (auto part : {&Exchange::ps, &Exchange::exposedPs, &Exchange::bytes}) {
    int64_t product = 0;
    if (llvm::MulOverflow(count, other.*part, product) ||
        llvm::AddOverflow(this->*part, product, this->*part))
      return false;
  }
  return true;
}

Exchange pipesched::sumOn(Resource resource, ArrayRef<Segment> segments) {
  Exchange sum;
  for (const Segment &segment : segments)
    if (segment.resource == resource) {
      sum.ps += segment.ps + segment.hiddenPs;
      sum.exposedPs += segment.ps;
      sum.bytes += segment.bytes;
    }
  return sum;
}

void CellCosts::replace(Phase phase, int64_t slice, ArrayRef<Segment> list,
                        int64_t ps) {
  alone[slice][phase] = ps;
  size_t cell = numberOf(phase, slice);
  size_t oldEnd = begins[cell + 1], newEnd = begins[cell] + list.size();
  if (newEnd != oldEnd) {
    size_t size = segments.size();
    if (newEnd > oldEnd) {
      segments.resize(size + newEnd - oldEnd);
      std::move_backward(segments.begin() + oldEnd, segments.begin() + size,
                         segments.end());
    } else {
      std::move(segments.begin() + oldEnd, segments.end(),
                segments.begin() + newEnd);
      segments.truncate(size + newEnd - oldEnd);
    }
    for (uint32_t &begin : llvm::drop_begin(begins, cell + 1))
      begin += newEnd - oldEnd; // modulo 2^32
  }
  llvm::copy(list, segments.begin() + begins[cell]);
}

void CellCosts::set(Phase phase, int64_t ps, int64_t slice) {
  Segment segment = {resourceOf(phase), ps};
  replace(phase, slice, ps == 0 ? ArrayRef<Segment>() : segment, ps);
}

Error CellCosts::setSegments(Phase phase, ArrayRef<Segment> list,
                             int64_t slice) {
  llvm::SmallVector<Segment, 4> used;
  ResourceMap<Exchange> sums = {};
  int64_t ps = 0;
  for (const Segment &segment : list) {
    llvm::StringRef resource = enumName(segment.resource);
    for (int64_t number : {segment.ps, segment.hiddenPs, segment.bytes})
      if (number < 0)
        return formatError("a segment of {0} on {1} has {2} ps, {3} ps beside "
                           "others and {4} bytes; expected no number below 0",
                           enumName(phase), resource, segment.ps,
                           segment.hiddenPs, segment.bytes);
    if (llvm::AddOverflow(ps, segment.ps, ps))
      return formatError("the segments of {0} add up to more than 2^63 - 1 ps",
                         enumName(phase));
    Exchange part = {0, segment.ps, segment.bytes};
    if (llvm::AddOverflow(segment.ps, segment.hiddenPs, part.ps) ||
        !sums[segment.resource].add(part, 1))
      return formatError("the segments of {0} on {1} add up to more than "
                         "2^63 - 1 ps or bytes",
                         enumName(phase), resource);
    if (part.ps != 0 || part.bytes != 0)
      used.push_back(segment);
  }
  replace(phase, slice, used, ps);
  return Error::success();
}

Error CellCosts::splitOff(Phase phase, Segment part, int64_t slice) {
  llvm::SmallVector<Segment, 4> list(of(phase, slice));
  auto *compute = llvm::find_if(list, [](const Segment &segment) {
    return segment.resource == Resource::Compute;
  });
  int64_t most = compute == list.end() ? 0 : compute->ps;
  part.ps = std::min(part.ps, most);
  if (part.ps != 0)
    compute->ps -= part.ps;
  list.push_back(part);
  return setSegments(phase, list, slice);
}
