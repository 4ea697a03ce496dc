//===- Optimize.cpp - Searches for schedules ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs pipelines with pipe-optimize and returns what they found as data.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Optimize.h"
#include "Bindings.h"
#include "Module.h"
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>

namespace nb = nanobind;
using namespace pipesched::python;
using ModulePtr = std::shared_ptr<Module>;

namespace {
/// Owns the results of a search.
class Search {
public:
  Search() = default;
  Search(const Search &) = delete;
  ~Search() { pipeschedSearchDestroy(search); }

  MlirLogicalResult run(MlirModule module, std::string_view pipeline) {
    search = pipeschedModuleSearch(module, toRef(pipeline));
    return pipeschedSearchIsNull(search) ? mlirLogicalResultFailure()
                                         : mlirLogicalResultSuccess();
  }
  nb::list list() const;

private:
  using GetAlternative = decltype(pipeschedSearchGetOther);
  nb::list listAlternatives(intptr_t result, intptr_t count,
                            GetAlternative get) const;
  nb::dict describe(intptr_t index) const;

  PipeschedSearch search = {nullptr};
};
} // namespace

/// Raises the error of a call that may fail.
template <typename Call>
static void check(Call call) {
  Text error;
  if (mlirLogicalResultIsFailure(call(Text::append, &error)))
    raise(error.take());
}

/// Placement as a number of the C enum, and microbatch size; None each where
/// there was no choice.
static void addChoice(nb::dict &described, const PipeschedChoice &choice) {
  described["placement"] =
      choice.hasPlacement ? nb::cast(int(choice.placement)) : nb::none();
  described["microbatch_size"] =
      choice.microbatchSize != 0 ? nb::cast(choice.microbatchSize) : nb::none();
}

nb::list Search::listAlternatives(intptr_t result, intptr_t count,
                                  GetAlternative get) const {
  nb::list listed;
  for (intptr_t i = 0; i < count; ++i) {
    PipeschedAlternative found = {};
    check([&](MlirStringCallback onError, void *userData) {
      return get(search, result, i, &found, onError, userData);
    });
    nb::dict described;
    described["name"] = toString(found.name);
    addChoice(described, found.choice);
    described["objective_ps"] =
        found.hasSchedule ? nb::cast(found.objectivePs) : nb::none();
    described["is_bound"] = found.isBound;
    described["reason"] = toString(found.reason);
    listed.append(described);
  }
  return listed;
}

nb::dict Search::describe(intptr_t index) const {
  PipeschedSearchResult found = {};
  check([&](MlirStringCallback onError, void *userData) {
    return pipeschedSearchGetResult(search, index, &found, onError, userData);
  });
  nb::dict described;
  described["objective"] = int(found.objective);
  described["objective_ps"] = found.objectivePs;
  described["lower_bound_ps"] = found.lowerBoundPs;
  described["bound"] = toString(found.bound);
  described["status"] = int(found.status);
  described["origin"] = toString(found.origin);
  addChoice(described, found.choice);
  described["others"] =
      listAlternatives(index, found.numOthers, pipeschedSearchGetOther);
  described["without"] =
      listAlternatives(index, found.numWithout, pipeschedSearchGetWithout);
  return described;
}

nb::list Search::list() const {
  nb::list listed;
  intptr_t count = pipeschedSearchGetNumResults(search);
  for (intptr_t i = 0; i < count; ++i)
    listed.append(describe(i));
  return listed;
}

/// Runs passes on a copy of the module, on all cores until Ctrl-C.
static std::pair<ModulePtr, nb::list> search(const Module &module,
                                             std::string_view pipeline) {
  Search found;
  ModulePtr changed = changeCopy(
      module, [&](MlirModule copy) { return found.run(copy, pipeline); });
  return {std::move(changed), found.list()};
}

void pipesched::python::bindOptimize(nb::module_ &m) {
  m.def("search", search, nb::arg("module"), nb::arg("pipeline"),
        nb::sig("def search(module: Module, pipeline: str) -> "
                "tuple[Module, list[dict[str, typing.Any]]]"));
}
