//===- Translations.h - Imports and exports of the tool ---------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The translations of pipesched-translate, with their command line options.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TRANSLATIONS_H
#define PIPESCHED_TARGET_TRANSLATIONS_H

namespace pipesched {

/// Registers --export-report, --export-chrome-trace, --export-svg,
/// --export-comparison and --export-text, and the options --transport,
/// --receive-placement, --forward-sends, --svg-variant, --text-color,
/// --text-slots, --text-width and --text-workers.
void registerPipeSchedTranslations();

/// Registers --describe-model, --describe-execution and --export-models, and
/// the options --model-sequence and --model-microbatch-size.
void registerDescriptionTranslations();

/// Registers --import-torch-csv, --export-torch-csv, --export-shardy-rules and
/// --export-megatron-layout, the option --keep-columns, and the options that
/// start with --torch, --shardy and --megatron.
void registerExchangeTranslations();

} // namespace pipesched

#endif // PIPESCHED_TARGET_TRANSLATIONS_H
