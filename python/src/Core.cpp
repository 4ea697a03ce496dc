//===- Core.cpp - The extension module ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Binds the C API for the package. Users import the package, not this module.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "PipeSched-c/Catalogue.h"
#include "PipeSched-c/RegisterEverything.h"
#include "PipeSched-c/Schedule.h"
#include "mlir-c/Transforms.h"

namespace nb = nanobind;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Catalogue
//===----------------------------------------------------------------------===//

static nb::str toPython(MlirStringRef text) {
  return nb::str(text.data, text.length);
}

static nb::list optionsOf(intptr_t family) {
  nb::list options;
  for (intptr_t i = 0; i < pipeschedGetNumFamilyOptions(); ++i)
    if (pipeschedFamilyTakesOption(family, i))
      options.append(toPython(pipeschedGetFamilyOption(i).name));
  return options;
}

/// One tuple per family: (name, summary, source, sizes, options).
static nb::list listFamilies() {
  nb::list families;
  for (intptr_t i = 0; i < pipeschedGetNumFamilies(); ++i) {
    PipeschedFamilyInfo info = pipeschedGetFamily(i);
    families.append(nb::make_tuple(toPython(info.name), toPython(info.summary),
                                   toPython(info.source), toPython(info.sizes),
                                   optionsOf(i)));
  }
  return families;
}

/// One tuple per alias: (alias, family).
static nb::list listAliases() {
  nb::list aliases;
  for (intptr_t i = 0; i < pipeschedGetNumFamilyAliases(); ++i) {
    PipeschedFamilyAlias info = pipeschedGetFamilyAlias(i);
    aliases.append(nb::make_tuple(toPython(info.alias), toPython(info.family)));
  }
  return aliases;
}

/// One tuple per option of families: (name, values, summary).
static nb::list listOptions() {
  nb::list options;
  for (intptr_t i = 0; i < pipeschedGetNumFamilyOptions(); ++i) {
    PipeschedOptionInfo info = pipeschedGetFamilyOption(i);
    options.append(nb::make_tuple(toPython(info.name), toPython(info.values),
                                  toPython(info.summary)));
  }
  return options;
}

/// One tuple per option of a training: (name, kind, default, largest number,
/// unit, title, when it matters, summary).
static nb::list listDeployment() {
  static constexpr const char *kinds[] = {"count", "ratio", "choice", "sizes"};
  nb::list options;
  for (intptr_t i = 0; i < pipeschedGetNumDeploymentOptions(); ++i) {
    PipeschedDeploymentOption info = pipeschedGetDeploymentOption(i);
    options.append(nb::make_tuple(
        toPython(info.name), kinds[info.kind], toPython(info.unsaid), info.most,
        toPython(info.unit), toPython(info.title), toPython(info.matters),
        toPython(info.summary)));
  }
  return options;
}

/// Maps the name of each enum to the names of its values.
static nb::dict listEnums() {
  nb::dict enums;
  for (intptr_t i = 0; i < pipeschedGetNumEnums(); ++i) {
    nb::list names;
    for (intptr_t value = 0; value < pipeschedGetNumEnumValues(i); ++value)
      names.append(toPython(pipeschedGetEnumValue(i, value).name));
    enums[toPython(pipeschedGetEnumName(i))] = nb::tuple(names);
  }
  return enums;
}

/// The letters of phases by their numbers, "" for numbers without a phase.
static nb::tuple listPhases(bool (*isListed)(PipeschedPhase)) {
  nb::list letters;
  for (int number = 0; number <= INT8_MAX; ++number) {
    auto phase = static_cast<PipeschedPhase>(number);
    if (!isListed(phase))
      continue;
    while (letters.size() < size_t(number))
      letters.append(""); // a number that no phase has
    letters.append(toPython(pipeschedPhaseGetLetter(phase)));
  }
  return nb::tuple(letters);
}

/// One tuple per description: (name, text).
template <typename Get>
static nb::list listDescriptions(intptr_t count, Get get) {
  nb::list descriptions;
  for (intptr_t i = 0; i < count; ++i) {
    PipeschedDescription description = get(i);
    descriptions.append(
        nb::make_tuple(toPython(description.name), toPython(description.text)));
  }
  return descriptions;
}

static void bindCatalogue(nb::module_ &m) {
  m.def(
      "phases",
      [] {
        return listPhases([](PipeschedPhase phase) {
          return pipeschedPhaseGetLetter(phase).length != 0;
        });
      },
      nb::sig("def phases() -> tuple[str, ...]"));
  m.def(
      "costed_phases", [] { return listPhases(pipeschedPhaseHasCost); },
      nb::sig("def costed_phases() -> tuple[str, ...]"));
  m.def("families", listFamilies,
        nb::sig("def families() -> "
                "list[tuple[str, str, str, str, list[str]]]"));
  m.def("family_aliases", listAliases,
        nb::sig("def family_aliases() -> list[tuple[str, str]]"));
  m.def("family_options", listOptions,
        nb::sig("def family_options() -> list[tuple[str, str, str]]"));
  m.def("deployment", listDeployment,
        nb::sig("def deployment() -> "
                "list[tuple[str, str, str, int, str, str, str, str]]"));
  m.def("enums", listEnums,
        nb::sig("def enums() -> dict[str, tuple[str, ...]]"));
  m.def(
      "systems",
      [] {
        return listDescriptions(pipeschedGetNumSystems(), pipeschedGetSystem);
      },
      nb::sig("def systems() -> list[tuple[str, str]]"));
  m.def(
      "models",
      [] {
        return listDescriptions(pipeschedGetNumModels(), pipeschedGetModel);
      },
      nb::sig("def models() -> list[tuple[str, str]]"));
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // objects live until the interpreter ends
  pipeschedRegisterAllPasses();
  mlirRegisterTransformsPasses();
  m.doc() = "What pipesched is made of; import pipesched instead.";
  MlirStringRef version = pipeschedGetVersion();
  m.attr("version") = toPython(version);
  m.attr("has_compiler") = pipeschedHasCompiler();
  bindCatalogue(m);
  bindProblem(m);
  bindModule(m);
  bindEvaluation(m);
  bindDrawing(m);
  bindSweep(m);
  bindOptimize(m);
  bindOverlap(m);
  bindPlanning(m);
  bindProgram(m);
}
