//===- Print.h - Texts of the C API in tests ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_TEST_CAPI_PRINT_H
#define PIPESCHED_TEST_CAPI_PRINT_H

#include "mlir-c/Diagnostics.h"
#include <stdio.h>
#include <string.h>

static inline MlirStringRef text(const char *string) {
  return mlirStringRefCreate(string, strlen(string));
}

static inline void print(MlirStringRef string, void *userData) {
  (void)userData;
  fwrite(string.data, 1, string.length, stdout);
}

/// As the callback for errors.
static inline void printError(MlirStringRef string, void *userData) {
  printf("error: ");
  print(string, userData);
  printf("\n");
}

static inline MlirLogicalResult printDiagnostic(MlirDiagnostic diagnostic,
                                                void *userData) {
  mlirDiagnosticPrint(diagnostic, print, userData);
  printf("\n");
  return mlirLogicalResultSuccess();
}

#endif // PIPESCHED_TEST_CAPI_PRINT_H
