//===- Translations.h - Imports and exports of the tool ---------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The translations of pipesched-translate, with their command line options.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TRANSLATIONS_H
#define PIPESCHED_TARGET_TRANSLATIONS_H

namespace pipesched {

/// Registers --export-report, --export-chrome-trace, --export-svg and
/// --export-comparison, and the options --transport, --receive-placement,
/// --forward-sends and --svg-variant.
void registerPipeSchedTranslations();

/// Registers --describe-model, --describe-execution and --export-models, and
/// the options --model-sequence and --model-microbatch-size.
void registerDescriptionTranslations();

/// Registers --import-torch-csv and --export-torch-csv, and the options
/// --keep-columns, --torch-replicas, --torch-csv-format and
/// --torch-csv-schedule.
void registerTorchCsvTranslations();

/// Registers --export-shardy-rules and the options --shardy-backward,
/// --shardy-mesh-prefix, --shardy-schedule, --shardy-stage-ids and
/// --shardy-stage-prefix.
void registerShardyTranslations();

/// Registers --export-megatron-layout and the option --megatron-schedule.
void registerMegatronTranslations();

/// Registers --export-text and the options --text-color, --text-slots,
/// --text-width and --text-workers.
void registerTextTranslations();

} // namespace pipesched

#endif // PIPESCHED_TARGET_TRANSLATIONS_H
