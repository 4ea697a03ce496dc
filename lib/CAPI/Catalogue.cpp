//===- Catalogue.cpp - C API for what there is to choose ------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The registry of families and the embedded descriptions, entry by entry.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Catalogue.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Schedule/Families.h"
#include "mlir/CAPI/Support.h"

using namespace pipesched;

intptr_t pipeschedGetNumFamilies(void) { return families().size(); }

PipeschedFamilyInfo pipeschedGetFamily(intptr_t family) {
  const Family &info = families()[family];
  return {wrap(info.name), wrap(info.summary), wrap(info.source),
          wrap(info.sizes)};
}

intptr_t pipeschedGetNumFamilyAliases(void) { return familyAliases().size(); }

PipeschedFamilyAlias pipeschedGetFamilyAlias(intptr_t alias) {
  const FamilyAlias &info = familyAliases()[alias];
  return {wrap(info.alias), wrap(info.family), wrap(info.usedBy)};
}

intptr_t pipeschedGetNumFamilyOptions(void) { return familyOptions().size(); }

PipeschedOptionInfo pipeschedGetFamilyOption(intptr_t option) {
  const FamilyOptionInfo &info = familyOptions()[option];
  return {wrap(info.name), wrap(info.values), wrap(info.summary)};
}

bool pipeschedFamilyTakesOption(intptr_t family, intptr_t option) {
  return families()[family].takes(familyOptions()[option].option);
}

static PipeschedDescription describe(const EmbeddedFile &file) {
  return {wrap(file.name), wrap(file.text)};
}

intptr_t pipeschedGetNumSystems(void) { return embeddedSystems().size(); }

PipeschedDescription pipeschedGetSystem(intptr_t system) {
  return describe(embeddedSystems()[system]);
}

intptr_t pipeschedGetNumModels(void) { return embeddedModels().size(); }

PipeschedDescription pipeschedGetModel(intptr_t model) {
  return describe(embeddedModels()[model]);
}
