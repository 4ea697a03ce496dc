//===- PersistentLayout.h - State of a worker between steps -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout of the persistent block of a worker: one piece of memory with the
// parameters, the state of the optimizer, the gradients and the losses. It is
// also the format of the state file of a run, and compiled programs use its
// offsets (docs/Lowering.md).
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_STAGES_PERSISTENTLAYOUT_H
#define PIPESCHED_STAGES_PERSISTENTLAYOUT_H

#include "PipeSched/Stages/StageFunctions.h"

namespace llvm::json {
class OStream;
} // namespace llvm::json

namespace pipesched {

/// Tensors and slots of compiled programs start at multiples of this.
inline constexpr int64_t kSlotAlignment = 64;

/// Returns a size or offset rounded up to the next multiple of kSlotAlignment.
inline constexpr int64_t alignToSlot(int64_t bytes) {
  return (bytes + kSlotAlignment - 1) / kSlotAlignment * kSlotAlignment;
}

/// Returns the bytes of the elements of a tensor. It must be a tensor of
/// functions that loadStageFunctions has accepted, since these have at most
/// kMaxStageBytes.
int64_t bytesOf(mlir::RankedTensorType type);

enum class PersistentKind { Param, State, Gradient, Loss };

template <>
struct EnumNames<PersistentKind> {
  static constexpr EnumName<PersistentKind> values[] = {
      {PersistentKind::Param, "param", "A parameter of a stage"},
      {PersistentKind::State, "state", "State of the optimizer"},
      {PersistentKind::Gradient, "gradient",
       "The sum of a parameter's gradients over the step"},
      {PersistentKind::Loss, "loss", "The losses of the step"}};
};

struct PersistentTensor {
  PersistentKind kind;
  int64_t stage;
  /// An index into Stage::params, states or gradients, by kind; 0 for Loss.
  unsigned index;
  std::string name; ///< the name of its argument; for Loss "loss"
  /// The type. The loss has one number per microbatch of the step, in order.
  mlir::RankedTensorType type;
  int64_t offset, bytes; ///< the offset is a multiple of kSlotAlignment
};

/// Gradients of one element type that are adjacent: together they are `bytes /
/// sizeof(element)` numbers. The gaps between tensors stay zero in each block
/// that started as zeros.
struct GradientRun {
  int64_t stage;
  mlir::Type elementType;
  int64_t offset, bytes; ///< both multiples of kSlotAlignment
  /// Whether these are gradients of tied parameters, which are also summed with
  /// other stages.
  bool isTied = false;
};

/// The block of one worker. For each stage number that the worker holds on any
/// path, in ascending order and once: parameters, states, gradients (grouped by
/// element type). At the end, on a worker of the last stage: the losses of all
/// microbatches of the step.
struct PersistentLayout {
  std::vector<PersistentTensor> tensors; ///< by offset
  std::vector<GradientRun> runs;         ///< by offset
  int64_t bytes = 0;                     ///< a multiple of kSlotAlignment

  /// Returns the tensor, or null if the worker does not hold it.
  const PersistentTensor *find(PersistentKind kind, int64_t stage,
                               unsigned index = 0) const;
  /// Returns the offset of the first tensor of a stage, except losses; 0 if the
  /// worker holds none.
  int64_t beginOf(int64_t stage) const;
  /// The runs of a stage: one per element type of its gradients. Gradients of
  /// tied parameters have separate runs.
  llvm::ArrayRef<GradientRun> runsOf(int64_t stage) const;
};

/// Lays out the blocks of all workers. Linear in the tensors and paths,
/// independent of the microbatches.
std::vector<PersistentLayout> layOutPersistent(const StageFunctions &functions,
                                               const Placement &placement);

/// Writes the tensors as an array of objects: "kind", "stage", "name",
/// "offset" and "bytes" (of the block), "shape", "type" (as MLIR spells it).
void writeTensors(llvm::json::OStream &json, const PersistentLayout &layout);

} // namespace pipesched

#endif // PIPESCHED_STAGES_PERSISTENTLAYOUT_H
