//===- ExpertTraffic.h - Where the rows of experts go -----------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of the rows of an accelerator that goes over the link of its node,
// and the part over the network (docs/CostModel.md, "Expert parallelism").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H
#define PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H

#include "PipeSched/Facts/System.h"

namespace pipesched {

/// The parts of its rows that an accelerator sends: over the link to experts of
/// its node, and over the network to others. Both add up to (e - 1) / e for e
/// ranks that divide the experts, unless rows of one token share their way to a
/// node (ExpertDispatch::PerNode). `spine` is the part of `network` that leaves
/// the pod.
struct ExpertTraffic {
  double link = 0, network = 0, spine = 0;
};

/// The mean over all choices of experts that the groups of a token allow.
ExpertTraffic expertTraffic(const ExpertFacts &experts,
                            const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H
