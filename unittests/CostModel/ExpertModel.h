//===- ExpertModel.h - A layer with experts, by hand ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model of layers with experts and a system, whose times are computed by
// hand.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_COSTMODEL_EXPERTMODEL_H
#define PIPESCHED_UNITTESTS_COSTMODEL_EXPERTMODEL_H

#include "../Support/ToyCosts.h"

namespace pipesched::test {

inline ExpertFacts makeExperts(int64_t count, int64_t perToken,
                               int64_t groups = 1, int64_t groupsPerToken = 1) {
  ExpertFacts experts;
  experts.count = count;
  experts.perToken = perToken;
  experts.groups = groups;
  experts.groupsPerToken = groupsPerToken;
  return experts;
}

/// One layer with four experts; 16 tokens go to two each, which makes 32 rows
/// of 10 bytes. An expert has weights of 20 bytes.
inline ModelFacts expertModel() {
  BlockFacts block;
  block.name = "layer";
  block.count = 2;
  block.parameters = 50;
  block.activationBytes = 700;
  block.weightGradBytes = 340;
  ExpertFacts experts = makeExperts(4, 2);
  experts.rows = 32;
  experts.parameters = 40;
  experts.activationBytes = 640;
  experts.weightGradBytes = 320;
  experts.wide = {320, 160};
  block.experts = experts;
  Kernel mlp = {
      "expert_mlp", Engine::Matrix, {320, 400}, {640, 400}, {320, 400}};
  mlp.routed = true;
  mlp.weightBytes = 80;
  Kernel reduce = {"reduce", Engine::Link, {0, 160}, {0, 160}, {}};
  reduce.routed = true;
  Kernel dispatch = {"dispatch", Engine::AllToAll, {0, 320}, {0, 320}, {}};
  block.kernels = {
      {"linear", Engine::Matrix, {1600, 100}, {1600, 100}, {1600, 100}},
      dispatch,
      mlp,
      {"combine", Engine::AllToAll, {0, 320}, {0, 320}, {}},
      reduce};
  ModelFacts model;
  model.name = "experts";
  model.boundaryBytes = 5;
  model.blocks = {block};
  return model;
}

inline constexpr PhaseSet kSplit = PhaseSet(Phase::Forward) |
                                   PhaseSet(Phase::InputGrad) |
                                   PhaseSet(Phase::WeightGrad);

inline llvm::Expected<StageCosts> costsOf(const ModelFacts &model,
                                          const SystemFacts &system,
                                          PhaseSet phases = kSplit) {
  return costRoofline(linear(2), model, system, phases);
}

inline StageCost firstCost(const ModelFacts &model, const SystemFacts &system,
                           PhaseSet phases = kSplit) {
  return llvm::cantFail(costsOf(model, system, phases)).stages.front();
}

/// The part of a cell in which rows are on their way.
inline int64_t rowsPs(const StageCost &cost, Phase phase) {
  return cost.cells.on(Resource::Experts, phase).exposedPs;
}

/// Two accelerators: a link byte takes 1 ps and the first one 3 more, a network
/// byte of an accelerator 20 ps and the first one 7 more.
inline SystemFacts pairOfAccelerators() {
  SystemFacts system = toySystem();
  system.accelerators = 2;
  system.link = {1000000000000, 3, {}};
  return system;
}

} // namespace pipesched::test

#endif // PIPESCHED_UNITTESTS_COSTMODEL_EXPERTMODEL_H
