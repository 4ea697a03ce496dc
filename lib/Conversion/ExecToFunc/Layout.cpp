//===- Layout.cpp - The text that describes a plan ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes what `p_layout` returns. Instructions that repeat are written once,
// so that the text hardly grows with the microbatches.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Repeats.h"
#include "StepPlan.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace pipesched;

void StepPlan::describe(uint32_t instruction, std::string &text) const {
  auto [cell, peer, kind] = placed.loaded.program.instructions[instruction];
  int64_t numSlices = placed.loaded.program.numSlices;
  auto addCell = [&](Cell added) {
    text += llvm::utostr(added.getStage());
    text += phaseLetter(added.getPhase());
    if (!CellName{added, numSlices}.hasSlice()) {
      text += llvm::utostr(added.getNumber());
      return;
    }
    text += llvm::utostr(added.getUnit() / numSlices);
    text += '.';
    text += llvm::utostr(added.getUnit() % numSlices);
  };
  if (kind != InstructionKind::Compute) {
    text += enumName(kind);
    text += ' ';
  }
  addCell(cell);
  if (kind == InstructionKind::Compute && cell.overlapsNext()) {
    text += '+';
    addCell(placed.loaded.program.instructions[instruction + 1].cell);
  }
  if (kind != InstructionKind::Send && kind != InstructionKind::Recv)
    return;
  text += kind == InstructionKind::Send ? " to " : " from ";
  text += llvm::utostr(peer);
}

/// Whether two instructions of a worker differ in nothing but their
/// microbatches; of pairs the second halves likewise, which stand behind them.
static bool areAlike(const StepPlan &plan, uint32_t a, uint32_t b) {
  ArrayRef<Instruction> all = plan.placed.loaded.program.instructions;
  auto isSame = [](const Instruction &x, const Instruction &y) {
    return x.kind == y.kind && x.peer == y.peer &&
           x.cell.getStage() == y.cell.getStage() &&
           x.cell.getPhase() == y.cell.getPhase() &&
           x.cell.overlapsNext() == y.cell.overlapsNext();
  };
  bool isPair =
      all[a].is(InstructionKind::Compute) && all[a].cell.overlapsNext();
  return isSame(all[a], all[b]) && (!isPair || isSame(all[a + 1], all[b + 1]));
}

namespace {
/// Writes the names of a worker's instructions. They need no escapes.
class InstructionWriter {
public:
  InstructionWriter(const StepPlan &plan, const WorkerPlan &worker)
      : plan(plan), instructions(worker.instructions) {}

  std::string run();

private:
  /// By how much the microbatch of an instruction, or of the second half of a
  /// pair, is higher `period` instructions later.
  int64_t growth(uint32_t i, uint32_t period, uint32_t half) const {
    auto microbatch = [&](uint32_t j) {
      return plan.placed.loaded.program.instructions[instructions[j] + half]
          .cell.getNumber();
    };
    return microbatch(i + period) - microbatch(i);
  }
  bool follows(uint32_t i, uint32_t period, int64_t microbatches) const;
  void writeNames(uint32_t begin, uint32_t end);
  void comma();

  const StepPlan &plan;
  ArrayRef<uint32_t> instructions;
  std::string text;
};
} // namespace

bool InstructionWriter::follows(uint32_t i, uint32_t period,
                                int64_t microbatches) const {
  if (!areAlike(plan, instructions[i], instructions[i + period]) ||
      growth(i, period, 0) != microbatches)
    return false;
  const Instruction &instruction =
      plan.placed.loaded.program.instructions[instructions[i]];
  bool isPair = instruction.is(InstructionKind::Compute) &&
                instruction.cell.overlapsNext();
  return !isPair || growth(i, period, 1) == microbatches;
}

void InstructionWriter::comma() {
  if (text.back() != '[')
    text += ',';
}

void InstructionWriter::writeNames(uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) {
    comma();
    text += '"';
    plan.describe(instructions[i], text);
    text += '"';
  }
}

std::string InstructionWriter::run() {
  text = "[";
  auto followsAnchor = [&](uint32_t i, uint32_t period, uint32_t anchor) {
    return follows(i, period, growth(anchor, period, 0));
  };
  for (auto [begin, period, times] :
       findRepeats(instructions.size(), followsAnchor)) {
    if (times == 1) {
      writeNames(begin, begin + period);
      continue;
    }
    comma();
    text += "{\"times\":" + llvm::utostr(times) +
            ",\"microbatches\":" + llvm::itostr(growth(begin, period, 0)) +
            ",\"repeat\":[";
    writeNames(begin, begin + period);
    text += "]}";
  }
  return text + "]";
}

static void writeWorker(llvm::json::OStream &json, const StepPlan &plan,
                        const WorkerPlan &worker,
                        const PersistentLayout &layout) {
  json.object([&] {
    json.attribute("persistent", layout.bytes);
    json.attribute("arena", worker.arenaBytes);
    json.attribute("host", worker.hostBytes);
    json.attribute("requests", worker.numRequests);
    json.attributeBegin("tensors");
    writeTensors(json, layout);
    json.attributeEnd();
    json.attributeBegin("instructions");
    json.rawValue(InstructionWriter(plan, worker).run());
    json.attributeEnd();
  });
}

std::string pipesched::describeLayout(StringRef name, const StepPlan &plan) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os);
  json.object([&] {
    json.attribute("program", name);
    json.attribute("microbatches",
                   plan.placed.loaded.placement.getNumMicrobatches());
    json.attributeArray("workers", [&] {
      for (size_t i = 0; i < plan.workers.size(); ++i)
        writeWorker(json, plan, plan.workers[i], plan.layouts[i]);
    });
  });
  return text;
}
