//===- StageUses.cpp - Uses of stage functions ----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects uses by function. Many stages with equal layers use one function,
// so consecutive stage numbers are written as a range.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/StageUses.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;

ArrayRef<func::FuncOp> StageUses::calledFrom(func::FuncOp function) {
  auto [known, isNew] = reached.try_emplace(function.getOperation());
  if (!isNew)
    return known->second;
  SetVector<Operation *> found;
  found.insert(function);
  for (size_t next = 0; next < found.size(); ++next)
    found[next]->walk([&](CallOpInterface call) {
      if (auto callee = dyn_cast_or_null<func::FuncOp>(
              call.resolveCallableInTable(&symbols)))
        found.insert(callee);
    });
  std::vector<func::FuncOp> all;
  for (Operation *op : found)
    all.push_back(cast<func::FuncOp>(op));
  return reached[function.getOperation()] = std::move(all);
}

void StageUses::add(func::FuncOp function, StringRef what, int64_t stage) {
  for (func::FuncOp called : calledFrom(function))
    uses[called.getOperation()][what.str()].push_back(stage);
}

/// Returns "stage 3" or "stages 0 to 2 and 5".
static std::string describeStages(std::vector<int64_t> stages) {
  llvm::sort(stages);
  stages.erase(llvm::unique(stages), stages.end());
  std::vector<std::string> parts;
  for (size_t first = 0; first < stages.size();) {
    size_t end = first + 1;
    while (end < stages.size() && stages[end] == stages[end - 1] + 1)
      ++end;
    parts.push_back(std::to_string(stages[first]));
    if (end - first > 2)
      parts.back() += " to " + std::to_string(stages[end - 1]);
    first = end - first > 2 ? end : first + 1;
  }
  std::string last = std::move(parts.back());
  parts.pop_back();
  std::string text = stages.size() == 1 ? "stage " : "stages ";
  return text + llvm::join(parts, ", ") + (parts.empty() ? "" : " and ") + last;
}

void StageUses::write() {
  for (auto &[function, byPhase] : uses) {
    std::vector<std::string> texts;
    if (auto earlier = function->getAttrOfType<StringAttr>(kStageUsesName))
      texts.push_back(earlier.getValue().str());
    for (auto &[what, stages] : byPhase) {
      std::string text = what + " of " + describeStages(stages);
      if (!llvm::is_contained(texts, text))
        texts.push_back(std::move(text));
    }
    function->setAttr(kStageUsesName, StringAttr::get(function->getContext(),
                                                      llvm::join(texts, "; ")));
  }
}

std::string pipesched::describeWithStages(func::FuncOp function) {
  std::string text = "function '" + function.getName().str() + "'";
  if (auto stages = function->getAttrOfType<StringAttr>(kStageUsesName))
    text += " (" + stages.getValue().str() + ")";
  return text;
}
