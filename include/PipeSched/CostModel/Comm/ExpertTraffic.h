//===- ExpertTraffic.h - Traffic of expert rows by link ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the rows that an accelerator sends to experts into the part over the
// link of its node and the part over the network (docs/CostModel.md, "Expert
// parallelism").
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H
#define PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H

#include "PipeSched/Facts/System.h"

namespace pipesched {

/// The fractions of its rows that an accelerator sends: over the link to
/// experts on its node, and over the network to all others. With experts
/// sharded over e ranks they add up to (e - 1) / e, unless rows of one token
/// travel to a node together (ExpertDispatch::PerNode). `spine` is the part of
/// `network` that leaves the pod.
struct ExpertTraffic {
  double link = 0, network = 0, spine = 0;
};

/// Returns the mean over all choices of experts that the groups of a token
/// allow.
ExpertTraffic expertTraffic(const ExpertFacts &experts,
                            const SystemFacts &system);

} // namespace pipesched

#endif // PIPESCHED_COSTMODEL_COMM_EXPERTTRAFFIC_H
