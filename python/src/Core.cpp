//===- Core.cpp - The extension module ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Binds the libraries for the package. Users import the package, not this
// module.
//
//===----------------------------------------------------------------------===//

#include "Bindings.h"
#include "Diagnostics.h"
#include "Enums.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Facts/Deployment.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "mlir/Transforms/Passes.h"

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Catalogue
//===----------------------------------------------------------------------===//

static nb::list optionsOf(const Family &family) {
  nb::list options;
  for (const FamilyOptionInfo &info : familyOptions())
    if (family.takes(info.option))
      options.append(toPython(info.name));
  return options;
}

/// One tuple per family: (name, summary, source, sizes, options).
static nb::list listFamilies() {
  nb::list listed;
  for (const Family &family : families())
    listed.append(nb::make_tuple(
        toPython(family.name), toPython(family.summary),
        toPython(family.source), toPython(family.sizes), optionsOf(family)));
  return listed;
}

/// One tuple per alias: (alias, family).
static nb::list listAliases() {
  nb::list listed;
  for (const FamilyAlias &alias : familyAliases())
    listed.append(
        nb::make_tuple(toPython(alias.alias), toPython(alias.family)));
  return listed;
}

/// One tuple per option of families: (name, values, summary).
static nb::list listOptions() {
  nb::list listed;
  for (const FamilyOptionInfo &option : familyOptions())
    listed.append(nb::make_tuple(toPython(option.name), toPython(option.values),
                                 toPython(option.summary)));
  return listed;
}

/// One tuple per option of a training: (name, kind, default, largest number,
/// unit, title, when it matters, summary).
static nb::list listDeployment() {
  static constexpr const char *kinds[] = {"count", "ratio", "choice", "sizes"};
  nb::list listed;
  for (const DeploymentOption &option : deploymentOptions()) {
    int64_t scale = option.kind == DeploymentKind::Ratio ? kOnePpm : 1;
    listed.append(nb::make_tuple(toPython(option.name), kinds[int(option.kind)],
                                 toPython(option.unsaidText),
                                 option.isChoice() ? 0 : option.most / scale,
                                 toPython(option.unit), toPython(option.title),
                                 toPython(option.matters),
                                 toPython(option.summary)));
  }
  return listed;
}

/// The letters of phases by their numbers, "" for numbers without a phase.
static nb::tuple listPhases(PhaseSet listed) {
  nb::list letters;
  for (int number = 0; number <= INT8_MAX; ++number) {
    std::optional<Phase> phase = phaseFromCode(number);
    if (!phase || !listed.contains(*phase))
      continue;
    while (letters.size() < size_t(number))
      letters.append(""); // a number that no phase has
    letters.append(toPython(enumName(*phase)));
  }
  return nb::tuple(letters);
}

/// One tuple per description: (name, text).
static nb::list listDescriptions(llvm::ArrayRef<EmbeddedFile> files) {
  nb::list descriptions;
  for (const EmbeddedFile &file : files)
    descriptions.append(
        nb::make_tuple(toPython(file.name), toPython(file.text)));
  return descriptions;
}

static void bindCatalogue(nb::module_ &m) {
  m.def(
      "phases", [] { return listPhases(kAllPhases); },
      nb::sig("def phases() -> tuple[str, ...]"));
  m.def(
      "costed_phases", [] { return listPhases(kCostedPhases); },
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
      "systems", [] { return listDescriptions(embeddedSystems()); },
      nb::sig("def systems() -> list[tuple[str, str]]"));
  m.def(
      "models", [] { return listDescriptions(embeddedModels()); },
      nb::sig("def models() -> list[tuple[str, str]]"));
}

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // objects live until the interpreter ends
  registerAllPasses();
  mlir::registerTransformsPasses();
  m.doc() = "What pipesched is made of; import pipesched instead.";
  m.attr("version") = version();
  m.attr("has_compiler") = hasCompiler();
  bindCatalogue(m);
  bindCosts(m);
  bindProblem(m);
  bindIR(m);
  bindModule(m);
  bindEvaluation(m);
  bindDrawing(m);
  bindSweep(m);
  bindOptimize(m);
  bindOverlap(m);
  bindPlanning(m);
  bindPlanSearch(m);
  bindProgram(m);
}
