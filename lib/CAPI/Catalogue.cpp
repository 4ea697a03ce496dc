//===- Catalogue.cpp - C API for families and descriptions ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Lists the families and the embedded descriptions, entry by entry.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-c/Catalogue.h"
#include "Enums.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Facts/Deployment.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "mlir/CAPI/Support.h"

using namespace pipesched;

/// The entry at that index, or null.
template <typename T>
static const T *find(llvm::ArrayRef<T> entries, intptr_t index) {
  return index >= 0 && index < intptr_t(entries.size()) ? &entries[index]
                                                        : nullptr;
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

intptr_t pipeschedGetNumFamilies(void) { return families().size(); }

PipeschedFamilyInfo pipeschedGetFamily(intptr_t family) {
  if (const Family *info = find(families(), family))
    return {wrap(info->name), wrap(info->summary), wrap(info->source),
            wrap(info->sizes)};
  return {};
}

intptr_t pipeschedGetNumFamilyAliases(void) { return familyAliases().size(); }

PipeschedFamilyAlias pipeschedGetFamilyAlias(intptr_t alias) {
  if (const FamilyAlias *info = find(familyAliases(), alias))
    return {wrap(info->alias), wrap(info->family), wrap(info->usedBy)};
  return {};
}

intptr_t pipeschedGetNumFamilyOptions(void) { return familyOptions().size(); }

PipeschedOptionInfo pipeschedGetFamilyOption(intptr_t option) {
  if (const FamilyOptionInfo *info = find(familyOptions(), option))
    return {wrap(info->name), wrap(info->values), wrap(info->summary)};
  return {};
}

bool pipeschedFamilyTakesOption(intptr_t family, intptr_t option) {
  const Family *taking = find(families(), family);
  const FamilyOptionInfo *taken = find(familyOptions(), option);
  return taking && taken && taking->takes(taken->option);
}

//===----------------------------------------------------------------------===//
// Deployments
//===----------------------------------------------------------------------===//

static_assert(isSame(PipeschedDeploymentCount, DeploymentKind::Count) &&
              isSame(PipeschedDeploymentRatio, DeploymentKind::Ratio) &&
              isSame(PipeschedDeploymentChoice, DeploymentKind::Choice) &&
              isSame(PipeschedDeploymentSizes, DeploymentKind::Sizes));

intptr_t pipeschedGetNumDeploymentOptions(void) {
  return deploymentOptions().size();
}

PipeschedDeploymentOption pipeschedGetDeploymentOption(intptr_t option) {
  const DeploymentOption *info = find(deploymentOptions(), option);
  if (!info)
    return {};
  int64_t scale = info->kind == DeploymentKind::Ratio ? kOnePpm : 1;
  return {wrap(info->name),
          wrap(info->unsaidText),
          wrap(info->unit),
          wrap(info->title),
          wrap(info->matters),
          wrap(info->summary),
          static_cast<PipeschedDeploymentKind>(info->kind),
          info->isChoice() ? 0 : info->most / scale};
}

//===----------------------------------------------------------------------===//
// Systems and models
//===----------------------------------------------------------------------===//

static PipeschedDescription describe(const EmbeddedFile *file) {
  if (!file)
    return {};
  return {wrap(file->name), wrap(file->text)};
}

intptr_t pipeschedGetNumSystems(void) { return embeddedSystems().size(); }

PipeschedDescription pipeschedGetSystem(intptr_t system) {
  return describe(find(embeddedSystems(), system));
}

intptr_t pipeschedGetNumModels(void) { return embeddedModels().size(); }

PipeschedDescription pipeschedGetModel(intptr_t model) {
  return describe(find(embeddedModels(), model));
}
