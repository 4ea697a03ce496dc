//===- pipesched-translate.cpp - Import and export driver -----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// MLIR's translation driver with PipeSched's imports and exports. The output
// file appears only if the translation succeeds.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/InitAll.h"
#include "PipeSched/Support/OutputErrors.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableErrors.h"
#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"

int main(int argc, char **argv) {
  static pipesched::OutputErrors outputErrors;
  static pipesched::PrintableErrors errors(argc, argv);
  pipesched::registerAllTranslations();
  return pipesched::runWithWholeOutput(argc, argv, [](int argc, char **argv) {
    return int(mlir::failed(
        mlir::mlirTranslateMain(argc, argv, "PipeSched translation driver")));
  });
}
