//===- Diagnostics.h - Errors of the C API as exceptions ------ -*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Collects what the C API reports and raises it in Python.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H
#define PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H

#include "mlir-c/Diagnostics.h"
#include <nanobind/nanobind.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipesched::python {

/// A diagnostic that outlives its context.
struct Diagnostic {
  struct Place {
    std::string file;
    unsigned line, column;
  };
  std::string severity, message;
  std::optional<Place> place;
  std::vector<Diagnostic> notes;
};
using Diagnostics = std::vector<Diagnostic>;

/// Collects the diagnostics of a context while it lives.
class DiagnosticScope {
public:
  DiagnosticScope(MlirContext context, Diagnostics &collected);
  ~DiagnosticScope();
  DiagnosticScope(const DiagnosticScope &) = delete;

private:
  MlirContext context;
  MlirDiagnosticHandlerID handler;
};

/// Thrown where the C API fails and has said why.
struct Failure {};

/// Gathers the text that a callback of the C API is passed, in pieces.
class Text {
public:
  static void append(MlirStringRef piece, void *text) {
    static_cast<Text *>(text)->text.append(piece.data, piece.length);
  }
  std::string take() { return std::move(text); }

private:
  std::string text;
};

inline MlirStringRef toRef(std::string_view text) {
  return mlirStringRefCreate(text.data(), text.size());
}
inline std::string toString(MlirStringRef text) {
  return std::string(text.data, text.length);
}

/// Raises a PipeSchedError with these diagnostics.
[[noreturn]] void raise(const Diagnostics &diagnostics);

/// The same for a text: its first line is the error, the others are notes.
[[noreturn]] void raise(std::string_view text);

/// Passes on what a call said that did not fail: warnings as warnings, remarks
/// to the log.
void warn(const Diagnostics &diagnostics);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H
