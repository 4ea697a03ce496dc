//===- Catalogue.h - C API for families and descriptions ----------*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Schedule families and their options; the names of enums; the systems and
// models that ship. All strings live as long as the process. An index that is
// out of range gives empty strings.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_C_CATALOGUE_H
#define PIPESCHED_C_CATALOGUE_H

#include "mlir-c/Support.h"

#ifdef __cplusplus
extern "C" {
#endif

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// A schedule family. `sizes` says for which numbers of workers D and
/// microbatches N it has a table; "any": for all.
typedef struct PipeschedFamilyInfo {
  MlirStringRef name, summary, source, sizes;
} PipeschedFamilyInfo;

/// Another name of a family, and who uses it.
typedef struct PipeschedFamilyAlias {
  MlirStringRef alias, family, usedBy;
} PipeschedFamilyAlias;

/// An option of families. `values` describes its valid values.
typedef struct PipeschedOptionInfo {
  MlirStringRef name, values, summary;
} PipeschedOptionInfo;

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumFamilies(void);
MLIR_CAPI_EXPORTED PipeschedFamilyInfo pipeschedGetFamily(intptr_t family);

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumFamilyAliases(void);
MLIR_CAPI_EXPORTED PipeschedFamilyAlias pipeschedGetFamilyAlias(intptr_t alias);

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumFamilyOptions(void);
MLIR_CAPI_EXPORTED PipeschedOptionInfo
pipeschedGetFamilyOption(intptr_t option);
MLIR_CAPI_EXPORTED bool pipeschedFamilyTakesOption(intptr_t family,
                                                   intptr_t option);

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

/// A value of an enum: its name, and what it means in one sentence.
typedef struct PipeschedEnumValue {
  MlirStringRef name, meaning;
} PipeschedEnumValue;

/// The enums whose values users choose by name.
MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumEnums(void);
/// The name of the option that takes the enum, "transport".
MLIR_CAPI_EXPORTED MlirStringRef pipeschedGetEnumName(intptr_t enumIndex);
/// The number of values of an enum, which are 0, 1, ...; 0 for an index out of
/// range.
MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumEnumValues(intptr_t enumIndex);
MLIR_CAPI_EXPORTED PipeschedEnumValue pipeschedGetEnumValue(intptr_t enumIndex,
                                                            intptr_t value);

//===----------------------------------------------------------------------===//
// Deployments
//===----------------------------------------------------------------------===//

/// How the value of an option is written: as an integer from 1, as a number
/// from 1, as the name of a value of the enum that has the option's name, or as
/// such a name or sizes with commas between them.
typedef enum PipeschedDeploymentKind {
  PipeschedDeploymentCount,
  PipeschedDeploymentRatio,
  PipeschedDeploymentChoice,
  PipeschedDeploymentSizes
} PipeschedDeploymentKind;

/// An option that says how a training is divided. `unsaid` is its default and
/// `most` the largest number (0 for a choice). `matters` says for whom:
/// `always`, `given` (only where it is given), `experts` (models that have
/// some), `slices` (schedules that have some), or where the option of that name
/// is above 1. Without a `title` the name is one.
typedef struct PipeschedDeploymentOption {
  MlirStringRef name, unsaid, unit, title, matters, summary;
  PipeschedDeploymentKind kind;
  int64_t most;
} PipeschedDeploymentOption;

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumDeploymentOptions(void);
MLIR_CAPI_EXPORTED PipeschedDeploymentOption
pipeschedGetDeploymentOption(intptr_t option);

//===----------------------------------------------------------------------===//
// Systems and models
//===----------------------------------------------------------------------===//

/// A description that ships: its name and the text of its JSON file.
typedef struct PipeschedDescription {
  MlirStringRef name, text;
} PipeschedDescription;

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumSystems(void);
MLIR_CAPI_EXPORTED PipeschedDescription pipeschedGetSystem(intptr_t system);

MLIR_CAPI_EXPORTED intptr_t pipeschedGetNumModels(void);
MLIR_CAPI_EXPORTED PipeschedDescription pipeschedGetModel(intptr_t model);

#ifdef __cplusplus
}
#endif

#endif // PIPESCHED_C_CATALOGUE_H
