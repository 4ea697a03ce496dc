//===- Translations.h - Imports and exports of the tool -----*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What pipesched-translate offers, with its command line options.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TARGET_TRANSLATIONS_H
#define PIPESCHED_TARGET_TRANSLATIONS_H

namespace pipesched {

/// Registers --export-report, --export-chrome-trace, --export-svg and
/// --export-comparison, and the options --transport, --receive-placement and
/// --svg-variant.
void registerPipeSchedTranslations();

/// Registers --import-torch-csv and --export-torch-csv, and the options
/// --keep-columns, --torch-replicas, --torch-csv-format and
/// --torch-csv-schedule.
void registerTorchCsvTranslations();

} // namespace pipesched

#endif // PIPESCHED_TARGET_TRANSLATIONS_H
