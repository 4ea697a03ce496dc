//===- Optimize.cpp - Searches for schedules ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs pipelines with pipe-optimize and returns what they found as data.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Module.h"
#include "PipeSched/Support/Interrupt.h"
#include "PipeSched/Transforms/OptimizationLog.h"
#include "llvm/Support/ThreadPool.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;
using ModulePtr = std::shared_ptr<Module>;
using Summaries = std::vector<OptimizationSummary>;

/// Runs passes on all cores until Ctrl-C.
static Summaries searchIn(mlir::ModuleOp module, llvm::StringRef pipeline) {
  mlir::MLIRContext *context = module.getContext();
  pipe::OptimizationLog log(context);
  InterruptWatch watch;
  llvm::DefaultThreadPool pool;
  context->setThreadPool(pool);
  try {
    runPasses(module, pipeline);
  } catch (Failure) {
    context->disableMultithreading();
    throw;
  }
  context->disableMultithreading();
  return log.take();
}

/// Placement as a number of the enum, and microbatch size; None each where
/// there was no choice.
static void addChoice(nb::dict &described, const CandidateChoice &choice) {
  described["placement"] =
      choice.placement ? nb::cast(int(*choice.placement)) : nb::none();
  described["microbatch_size"] =
      choice.microbatchSize ? nb::cast(*choice.microbatchSize) : nb::none();
}

static nb::list listAlternatives(const std::vector<Alternative> &alternatives) {
  nb::list listed;
  for (const Alternative &found : alternatives) {
    nb::dict described;
    described["name"] = toValid(found.name);
    addChoice(described, found.choice);
    described["objective_ps"] =
        found.objective ? nb::cast(*found.objective) : nb::none();
    described["is_bound"] = found.isBound;
    described["reason"] = toValid(found.reason);
    listed.append(described);
  }
  return listed;
}

static nb::dict toDict(const OptimizationSummary &found) {
  nb::dict described;
  described["objective"] = int(found.objective);
  described["objective_ps"] = found.objectivePs;
  described["lower_bound_ps"] = found.lowerBoundPs;
  described["bound"] = toValid(found.bound);
  described["status"] = int(found.status);
  described["origin"] = toValid(found.origin);
  addChoice(described, found.choice);
  described["others"] = listAlternatives(found.others);
  described["without"] = listAlternatives(found.without);
  return described;
}

static std::pair<ModulePtr, nb::list> search(const Module &module,
                                             std::string_view pipeline) {
  Summaries found;
  ModulePtr changed = changeCopy(
      module, [&](mlir::ModuleOp copy) { found = searchIn(copy, pipeline); });
  nb::list listed;
  for (const OptimizationSummary &summary : found)
    listed.append(toDict(summary));
  return {std::move(changed), std::move(listed)};
}

void pipesched::python::bindOptimize(nb::module_ &m) {
  m.def("search", search, nb::arg("module"), nb::arg("pipeline"),
        nb::sig("def search(module: Module, pipeline: str) -> "
                "tuple[Module, list[dict[str, typing.Any]]]"));
}
