//===- Report.cpp - The report as JSON ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One function per section of the contract. Objects are indented, but each
// array is on one line, so that reports with many workers are readable.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Report.h"
#include "Format.h"
#include "PipeSched/Evaluation/SlotMeasure.h"
#include "PipeSched/Evaluation/Summary.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/Support/JSON.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::StringRef;
using llvm::json::OStream;

static void writeText(OStream &json, StringRef key, StringRef text) {
  json.attribute(key, llvm::json::fixUTF8(text));
}

static void writeTextOrNull(OStream &json, StringRef key, StringRef text) {
  if (text.empty())
    return json.attribute(key, nullptr);
  writeText(json, key, text);
}

static void writeDouble(OStream &json, StringRef key, double value) {
  json.attributeBegin(key);
  json.rawValue(formatDouble(value));
  json.attributeEnd();
}

/// Writes a list on one line; `write` prints one entry.
template <typename Range, typename Write>
static void writeList(OStream &json, StringRef key, const Range &range,
                      Write write) {
  json.attributeBegin(key);
  json.rawValue([&](llvm::raw_ostream &os) {
    StringRef separator = "[";
    for (const auto &entry : range) {
      os << separator;
      write(os, entry);
      separator = ", ";
    }
    os << (separator == "[" ? "[]" : "]");
  });
  json.attributeEnd();
}

static void writeList(OStream &json, StringRef key, ArrayRef<int64_t> values) {
  writeList(json, key, values,
            [](llvm::raw_ostream &os, int64_t value) { os << value; });
}

static void writeList(OStream &json, StringRef key, ArrayRef<double> values) {
  writeList(json, key, values, [](llvm::raw_ostream &os, double value) {
    os << formatDouble(value);
  });
}

//===----------------------------------------------------------------------===//
// Sections
//===----------------------------------------------------------------------===//

static void writeIdentity(OStream &json, const NamedEvaluation &result) {
  writeText(json, "schedule", result.name);
  json.attribute("kind", result.isProgram() ? "program" : "schedule");
  writeTextOrNull(json, "family", result.family);
  json.attribute("workers", result.placement.getNumWorkers());
  json.attribute("stages", result.placement.getMaxStages());
  json.attribute("microbatches", result.placement.getNumMicrobatches());
  if (int64_t slices = result.placement.getNumSlices(); slices > 1)
    json.attribute("slices", slices);
}

static void writeFormula(OStream &json, const Evaluation &evaluation) {
  if (!evaluation.formula) {
    json.attribute("formula", nullptr);
    writeText(json, "formula_reason", evaluation.formulaReason);
    return;
  }
  const FormulaResult &formula = *evaluation.formula;
  json.attributeObject("formula", [&] {
    writeDouble(json, "bubble_ratio", formula.bubbleRatio);
    json.attribute("peak_activations", formula.peakActivations);
    writeText(json, "source", formula.source);
    writeText(json, "conditions", formula.conditions);
    if (formula.bubbleRatioGeneral)
      writeDouble(json, "bubble_ratio_general", *formula.bubbleRatioGeneral);
    else
      json.attribute("bubble_ratio_general", nullptr);
    writeTextOrNull(json, "general_source", formula.generalSource);
    writeTextOrNull(json, "general_conditions", formula.generalConditions);
  });
  json.attribute("formula_reason", nullptr);
}

/// Writes the slots of the phases in use, by path and stage; null for unit
/// slots.
static void writeSlotLengths(OStream &json, const NamedEvaluation &result) {
  const TableView &table = result.table;
  if (table.slots.empty())
    return json.attribute("slot_lengths", nullptr);
  CellsInUse cells = cellsInUse(table);
  json.attributeObject("slot_lengths", [&] {
    (cells.phases & kComputePhases).forEach([&](Phase phase) {
      writeList(json, enumName(phase), table.slots,
                [&](llvm::raw_ostream &os, const StageSlots &stage) {
                  os << stage.of(phase);
                });
    });
    if (cells.isOverlapped && table.slots.front().overlapped)
      writeList(json, "FB", table.slots,
                [](llvm::raw_ostream &os, const StageSlots &stage) {
                  os << stage.overlapped.value_or(0);
                });
  });
}

static void writeTable(OStream &json, const NamedEvaluation &result) {
  if (result.isProgram())
    return json.attribute("table", nullptr);
  const TableMetrics &table = *result.evaluation.table;
  json.attributeObject("table", [&] {
    json.attribute("slots", table.slots);
    writeList(json, "busy_slots", table.busySlots);
    writeDouble(json, "bubble_ratio", table.bubbleRatio);
    writeList(json, "fill_slots", table.fillSlots);
    writeList(json, "drain_slots", table.drainSlots);
    writeList(json, "peak_activations", table.peakActivations);
    json.attributeObject("retention_slots", [&] {
      writeList(json, "mean", table.meanRetentionSlots);
      writeList(json, "max", table.maxRetentionSlots);
    });
    writeSlotLengths(json, result);
  });
}

static void writeIdle(OStream &json, const IdleTimes &idle) {
  json.attributeObject("idle_by_cause_ps", [&] {
    for (const IdleCause &cause : kIdleCauses)
      writeList(json, cause.key, idle.*cause.ps);
  });
}

/// Writes the compute cells on the path, and counts the messages between them.
static void writeCriticalPath(OStream &json, const Placement &placement,
                              llvm::ArrayRef<PathStep> path) {
  auto hasRole = [](InstructionRole role) {
    return [role](const PathStep &step) {
      return traitsOf(step.kind).role == role;
    };
  };
  std::vector<PathStep> cells;
  llvm::copy_if(path, std::back_inserter(cells), [](const PathStep &step) {
    InstructionRole role = traitsOf(step.kind).role;
    return role == InstructionRole::Compute ||
           role == InstructionRole::Collective;
  });
  writeList(json, "critical_path", cells,
            [&](llvm::raw_ostream &os, const PathStep &step) {
              os << '"' << placement.nameOf(step.cell);
              if (step.overlapped)
                os << '+' << placement.nameOf(*step.overlapped);
              os << '"';
            });
  int64_t messages = llvm::count_if(path, [](const PathStep &step) {
    return step.kind == InstructionKind::Send;
  });
  json.attribute("critical_path_messages", messages);
  json.attribute("critical_path_copies",
                 llvm::count_if(path, hasRole(InstructionRole::Copy)));
}

/// Writes one list by worker for each part of the exchanges of a resource.
static void
writeExchanges(OStream &json, ArrayRef<Exchange> workers,
               ArrayRef<std::pair<StringRef, int64_t Exchange::*>> keys) {
  for (auto [key, part] : keys)
    writeList(json, key, workers,
              [part = part](llvm::raw_ostream &os, const Exchange &exchange) {
                os << exchange.*part;
              });
}

/// Writes the exchanges with experts and between ranks of workers, if there are
/// any.
static void writeUsedExchanges(OStream &json, const Traffic &traffic) {
  auto isUsed = [&](Resource resource) {
    return llvm::any_of(traffic.exchanges[resource],
                        [](const Exchange &sum) { return sum.ps != 0; });
  };
  if (isUsed(Resource::Experts))
    writeExchanges(json, traffic.exchanges[Resource::Experts],
                   {{"all_to_all_ps", &Exchange::ps},
                    {"exposed_all_to_all_ps", &Exchange::exposedPs}});
  if (isUsed(Resource::Context))
    writeExchanges(json, traffic.exchanges[Resource::Context],
                   {{"context_exchange_ps", &Exchange::ps},
                    {"exposed_context_exchange_ps", &Exchange::exposedPs},
                    {"context_exchange_bytes", &Exchange::bytes}});
}

static void writeExecution(OStream &json, const NamedEvaluation &result) {
  const ExecutionTotals &execution = result.evaluation.totals;
  ExecutionSummary summary = summarize(execution);
  json.attributeObject("execution", [&] {
    json.attribute("transport", enumName(result.timing.transport));
    if (result.isProgram()) // a program places its own receives
      json.attribute("receive_placement", nullptr);
    else
      json.attribute("receive_placement",
                     enumName(result.timing.receivePlacement));
    json.attribute("forward_sends", enumName(result.timing.forwardSends));
    json.attribute("runtime", enumName(result.timing.runtime));
    if (!result.timing.disturbance.isEmpty())
      json.attribute("disturbance", result.timing.disturbance.text);
    json.attribute("makespan_ps", execution.makespanPs);
    writeList(json, "busy_ps", execution.idle.busyPs);
    writeDouble(json, "idle_ratio", summary.idleRatio);
    json.attribute("span_ps", summary.spanPs);
    writeDouble(json, "span_bubble_ratio", summary.spanBubbleRatio);
    writeIdle(json, execution.idle);
    writeUsedExchanges(json, execution.traffic);
    json.attribute("exposed_communication_ps", summary.exposedCommunicationPs);
    json.attribute("messages", execution.traffic.messages);
    writeList(json, "bytes_sent", execution.traffic.bytesSent);
    writeExchanges(json, execution.traffic.exchanges[Resource::Sharding],
                   {{"exposed_sharding_ps", &Exchange::exposedPs}});
    json.attribute("copies", execution.traffic.copies);
    writeList(json, "offload_ps", execution.idle.offloadPs);
    writeList(json, "reload_ps", execution.idle.reloadPs);
    if (execution.leavesOutPath)
      for (StringRef key :
           {"critical_path", "critical_path_messages", "critical_path_copies"})
        json.attribute(key, nullptr);
    else
      writeCriticalPath(json, result.placement, execution.criticalSteps);
  });
}

/// Writes one entry per worker; `get` returns it from the memory of the worker.
template <typename Get>
static void writePerWorker(OStream &json, StringRef key,
                           const MemoryUsage &memory, Get get) {
  writeList(json, key, memory.workers,
            [&](llvm::raw_ostream &os, const WorkerMemory &worker) {
              os << std::invoke(get, worker);
            });
}

static void writeComposition(OStream &json, const MemoryUsage &memory) {
  json.attributeObject("composition", [&] {
    writePerWorker(json, "weight_bytes", memory, &WorkerMemory::weightBytes);
    writePerWorker(json, "gradient_bytes", memory,
                   &WorkerMemory::gradientBytes);
    writePerWorker(json, "optimizer_bytes", memory,
                   &WorkerMemory::optimizerBytes);
    writePerWorker(json, "activation_bytes", memory,
                   &WorkerMemory::peakActivationBytes);
  });
}

static void writeCapacity(OStream &json, const MemoryUsage &memory) {
  json.attribute("bottleneck_worker", memory.bottleneckWorker);
  if (memory.capacityBytes == 0) {
    json.attribute("capacity_bytes", nullptr);
    json.attribute("fits", nullptr);
    return;
  }
  json.attribute("capacity_bytes", memory.capacityBytes);
  json.attribute("fits", memory.workers[memory.bottleneckWorker].peakBytes() <=
                             memory.capacityBytes);
}

static void writeMemory(OStream &json, const Placement &placement,
                        const ExecutionTotals &execution) {
  if (!execution.memory)
    return json.attribute("memory", nullptr);
  const MemoryUsage &memory = *execution.memory;
  json.attributeObject("memory", [&] {
    writePerWorker(json, "persistent_bytes", memory,
                   &WorkerMemory::persistentBytes);
    writePerWorker(json, "peak_activation_bytes", memory,
                   &WorkerMemory::peakActivationBytes);
    writePerWorker(json, "peak_bytes", memory, &WorkerMemory::peakBytes);
    writePerWorker(json, "peak_ps", memory, &WorkerMemory::peakPs);
    writeList(json, "peak_cell", memory.workers,
              [&](llvm::raw_ostream &os, const WorkerMemory &worker) {
                if (worker.peakCell)
                  os << '"' << placement.nameOf(*worker.peakCell) << '"';
                else
                  os << "null";
              });
    writePerWorker(json, "peak_activations", memory,
                   &WorkerMemory::peakMicrobatches);
    writePerWorker(json, "offloaded_bytes", memory,
                   &WorkerMemory::offloadedBytes);
    writePerWorker(json, "reloaded_bytes", memory,
                   &WorkerMemory::reloadedBytes);
    writeComposition(json, memory);
    writeCapacity(json, memory);
  });
}

void pipesched::writeReport(OStream &json, const NamedEvaluation &result) {
  json.object([&] {
    writeIdentity(json, result);
    writeFormula(json, result.evaluation);
    writeTable(json, result);
    writeExecution(json, result);
    writeMemory(json, result.placement, result.evaluation.totals);
  });
}
