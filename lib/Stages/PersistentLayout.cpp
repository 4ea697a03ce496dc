//===- PersistentLayout.cpp - State of a worker between steps -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Places the tensors of a worker's stages one after the other.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/PersistentLayout.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/JSON.h"
#include <set>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

int64_t pipesched::bytesOf(RankedTensorType type) {
  return type.getNumElements() * (type.getElementTypeBitWidth() / 8);
}

//===----------------------------------------------------------------------===//
// Look-ups
//===----------------------------------------------------------------------===//

const PersistentTensor *PersistentLayout::find(PersistentKind kind,
                                               int64_t stage,
                                               unsigned index) const {
  for (const PersistentTensor &tensor : tensors)
    if (tensor.kind == kind && tensor.stage == stage && tensor.index == index)
      return &tensor;
  return nullptr;
}

int64_t PersistentLayout::beginOf(int64_t stage) const {
  for (const PersistentTensor &tensor : tensors)
    if (tensor.stage == stage && tensor.kind != PersistentKind::Loss)
      return tensor.offset;
  return 0;
}

ArrayRef<GradientRun> PersistentLayout::runsOf(int64_t stage) const {
  return ArrayRef(runs)
      .drop_until([&](const GradientRun &run) { return run.stage == stage; })
      .take_while([&](const GradientRun &run) { return run.stage == stage; });
}

//===----------------------------------------------------------------------===//
// Layout
//===----------------------------------------------------------------------===//

namespace {
/// Lays out the block of one worker.
class BlockBuilder {
public:
  explicit BlockBuilder(PersistentLayout &layout) : layout(layout) {}

  void addStage(const Stage &stage);
  void addLosses(const StageFunctions &functions, int64_t numUnits);

private:
  void add(PersistentKind kind, int64_t stage, unsigned index,
           const NamedTensor &tensor);
  void addGradients(const Stage &stage);

  PersistentLayout &layout;
};
} // namespace

void BlockBuilder::add(PersistentKind kind, int64_t stage, unsigned index,
                       const NamedTensor &tensor) {
  int64_t bytes = bytesOf(tensor.type);
  layout.tensors.push_back(
      {kind, stage, index, tensor.name, tensor.type, layout.bytes, bytes});
  layout.bytes += alignToSlot(bytes);
}

/// Groups by element type, in the order in which types first appear:
///
///   gradients  a: f32  b: f16  c: f32
///   block      | a | c | b |
///   runs       |  f32  |f16|
///
/// Gradients of tied parameters have separate runs.
void BlockBuilder::addGradients(const Stage &stage) {
  auto isTied = [&](StringRef name) -> unsigned {
    return llvm::any_of(stage.params, [&](const NamedTensor &param) {
      return param.name == name && !param.tied.empty();
    });
  };
  llvm::MapVector<std::pair<Type, unsigned>, SmallVector<unsigned>> groups;
  for (auto [index, tensor] : llvm::enumerate(stage.gradients))
    groups[{tensor.type.getElementType(), isTied(tensor.name)}].push_back(
        index);
  for (auto &[kind, indices] : groups) {
    int64_t begin = layout.bytes;
    for (unsigned index : indices)
      add(PersistentKind::Gradient, stage.number, index,
          stage.gradients[index]);
    layout.runs.push_back({stage.number, kind.first, begin,
                           layout.bytes - begin, kind.second != 0});
  }
}

void BlockBuilder::addStage(const Stage &stage) {
  for (auto [index, tensor] : llvm::enumerate(stage.params))
    add(PersistentKind::Param, stage.number, index, tensor);
  for (auto [index, tensor] : llvm::enumerate(stage.states))
    add(PersistentKind::State, stage.number, index, tensor);
  addGradients(stage);
}

void BlockBuilder::addLosses(const StageFunctions &functions,
                             int64_t numUnits) {
  RankedTensorType one =
      functions.loss->findResult(StageRole::Loss)->getTensorType();
  add(PersistentKind::Loss, functions.stages.back().number, 0,
      {"loss", RankedTensorType::get(numUnits, one.getElementType()),
       /*tied=*/""});
}

std::vector<PersistentLayout>
pipesched::layOutPersistent(const StageFunctions &functions,
                            const Placement &placement) {
  std::vector<std::set<int64_t>> held(placement.getNumWorkers());
  for (const Path &path : placement.getPaths())
    for (auto [stage, worker] : llvm::enumerate(path.workers))
      held[worker].insert(stage);
  std::vector<PersistentLayout> layouts(held.size());
  for (auto [stages, layout] : llvm::zip_equal(held, layouts)) {
    BlockBuilder block(layout);
    for (int64_t stage : stages)
      block.addStage(functions.stages[stage]);
    if (functions.loss && stages.count(functions.stages.size() - 1))
      block.addLosses(functions, placement.getNumMicrobatches() *
                                     placement.getNumSlices());
  }
  return layouts;
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

void pipesched::writeTensors(llvm::json::OStream &json,
                             const PersistentLayout &layout) {
  json.array([&] {
    for (const PersistentTensor &tensor : layout.tensors)
      json.object([&] {
        std::string type;
        llvm::raw_string_ostream(type) << tensor.type.getElementType();
        json.attribute("kind", enumName(tensor.kind));
        json.attribute("stage", tensor.stage);
        json.attribute("name", llvm::json::fixUTF8(tensor.name));
        json.attribute("offset", tensor.offset);
        json.attribute("bytes", tensor.bytes);
        json.attributeArray("shape", [&] {
          for (int64_t size : tensor.type.getShape())
            json.value(size);
        });
        json.attribute("type", type);
      });
  });
}
