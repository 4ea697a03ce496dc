//===- Diagnostics.h - Errors of the C API as exceptions --------*- C++ -*-===//
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

/// Collects the diagnostics of a context during its own lifetime.
class DiagnosticScope {
public:
  DiagnosticScope(MlirContext context, Diagnostics &collected);
  ~DiagnosticScope();
  DiagnosticScope(const DiagnosticScope &) = delete;

private:
  MlirContext context;
  MlirDiagnosticHandlerID handler;
};

/// Thrown after the C API has failed and emitted a diagnostic.
struct Failure {};

/// The text as Python takes it: bytes that are no UTF-8, which names in IR may
/// have, become replacement characters.
std::string toValid(std::string text);

/// Joins the pieces of text that the C API passes to a callback.
class Text {
public:
  static void append(MlirStringRef piece, void *text) {
    static_cast<Text *>(text)->text.append(piece.data, piece.length);
  }
  std::string take() { return toValid(std::move(text)); }
  /// For what is no text, such as bytecode.
  std::string takeBytes() { return std::move(text); }

private:
  std::string text;
};

inline MlirStringRef toRef(std::string_view text) {
  return mlirStringRefCreate(text.data(), text.size());
}
inline std::string toString(MlirStringRef text) {
  return toValid(std::string(text.data, text.length));
}

/// Raises a PipeSchedError with these diagnostics.
[[noreturn]] void raise(const Diagnostics &diagnostics);

/// Raises a PipeSchedError from a text: the first line is the error, the others
/// are notes.
[[noreturn]] void raise(std::string_view text);

/// Reports the diagnostics of a successful call: warnings as Python warnings,
/// remarks in the log.
void warn(const Diagnostics &diagnostics);

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H
