//===- AttachStageCosts.cpp - pipe-attach-stage-costs ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derives a model from the functions of stages and attaches it. Its layers are
// the stages, so each stage of a path has one layer.
//
//===----------------------------------------------------------------------===//

#include "../Attach/CostOwners.h"
#include "PipeSched/Stages/StageModel.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPEATTACHSTAGECOSTSPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Gives each stage of each path one block. Rows are kept, so their cells must
/// not be aligned to stages of different lengths.
static LogicalResult setBlocksOfPaths(PlacementOwnerOpInterface owner) {
  Block &body = owner->getRegion(0).front();
  bool hasRows = !body.getOps<pipe::WorkerOp>().empty();
  for (PathOp op : body.getOps<PathOp>()) {
    Path path = op.toPath();
    const std::vector<int64_t> &given =
        path.blocks.empty() ? path.weights : path.blocks;
    if (given.empty())
      continue;
    if (hasRows && !llvm::all_equal(given))
      return emitTableError(op)
             << "has stages of different lengths, and the schedule has rows "
                "for them; functions make one block of each stage, so attach "
                "their costs before rows are generated";
    op.setBlocks(SmallVector<int64_t>(given.size(), 1));
    op.removeWeightsAttr();
  }
  return success();
}

/// Refuses another kind of recompute, because the work of R follows only from
/// the functions.
static LogicalResult verifyRecompute(PlacementOwnerOpInterface owner) {
  auto schedule = dyn_cast<ScheduleOp>(owner.getOperation());
  if (!schedule || schedule.getRecompute() != RecomputeKind::Selective)
    return success();
  return emitTableError(owner)
         << "recomputes selectively, which functions of stages do not know; "
            "leave it out, and let 'recompute' functions give again what they "
            "shall";
}

namespace {
struct PipeAttachStageCostsPass final
    : pipe::impl::PipeAttachStageCostsPassBase<PipeAttachStageCostsPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(attach()))
      signalPassFailure();
  }

private:
  LogicalResult attach();
  LogicalResult attach(PlacementOwnerOpInterface owner, SymbolTable &symbols);
};
} // namespace

LogicalResult PipeAttachStageCostsPass::attach(PlacementOwnerOpInterface owner,
                                               SymbolTable &symbols) {
  FailureOr<StageFunctions> functions = loadStageFunctions(owner);
  if (failed(functions) || failed(verifyRecompute(owner)))
    return failure();
  FailureOr<ModelFacts> facts =
      makeStageModel(*functions, fusion, microbatchSize);
  if (failed(facts) || failed(setBlocksOfPaths(owner)))
    return failure();
  facts->name =
      (SymbolTable::getSymbolName(owner).getValue() + "_stages").str();
  ModelOp model =
      getOrCreateModel(getOperation(), symbols, owner, std::move(*facts));
  setModel(owner, model.getSymName());
  return success();
}

LogicalResult PipeAttachStageCostsPass::attach() {
  ModuleOp module = getOperation();
  if (microbatchSize < 1)
    return emitError(module.getLoc())
           << getArgument()
           << " expects a microbatch-size of at least 1, found "
           << microbatchSize;
  FailureOr<SmallVector<PlacementOwnerOpInterface>> owners =
      selectCostOwners(module, schedule);
  if (failed(owners))
    return failure();
  bool isNamed = !schedule.empty();
  if (!isNamed)
    llvm::erase_if(*owners, [](PlacementOwnerOpInterface owner) {
      return !hasStageFunctions(owner);
    });
  if (owners->empty())
    return emitError(module.getLoc())
           << "no schedule or program names functions of stages; expected "
              "clauses such as 'stage 0 forward @f'";
  SymbolTable symbols(module);
  for (PlacementOwnerOpInterface owner : *owners)
    if (failed(attach(owner, symbols)))
      return failure();
  return success();
}
