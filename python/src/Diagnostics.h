//===- Diagnostics.h - Errors and diagnostics as exceptions -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the reports of the libraries and raises them in Python.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H
#define PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"
#include <nanobind/nanobind.h>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlir {
class Operation;
} // namespace mlir

namespace pipesched::python {

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

/// The text as Python takes it: bytes that are not UTF-8, which names in IR may
/// have, become replacement characters.
std::string toValid(std::string_view text);

/// For text that is UTF-8.
inline nanobind::str toPython(llvm::StringRef text) {
  return nanobind::str(text.data(), text.size());
}

/// The text that `write` writes to a stream.
template <typename Write>
std::string collect(Write write) {
  std::string text;
  llvm::raw_string_ostream os(text);
  write(os);
  return text;
}

//===----------------------------------------------------------------------===//
// Diagnostics
//===----------------------------------------------------------------------===//

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
  DiagnosticScope(mlir::MLIRContext &context, Diagnostics &collected);
  ~DiagnosticScope();
  DiagnosticScope(const DiagnosticScope &) = delete;

private:
  mlir::DiagnosticEngine &engine;
  mlir::DiagnosticEngine::HandlerID handler;
};

/// Raises a PipeSchedError with these diagnostics.
[[noreturn]] void raise(const Diagnostics &diagnostics);

/// Raises a PipeSchedError from a text: the first line is the error, the others
/// are notes.
[[noreturn]] void raise(std::string_view text);

/// Reports the diagnostics of a successful call: warnings as Python warnings,
/// remarks in the log.
void warn(const Diagnostics &diagnostics);

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

/// Thrown without the GIL after a diagnostic has been emitted.
struct Failure {};

/// Throws a Failure if a call has failed, which has emitted a diagnostic.
inline void orFail(mlir::LogicalResult result) {
  if (failed(result))
    throw Failure();
}
template <typename T>
T orFail(mlir::FailureOr<T> result) {
  if (failed(result))
    throw Failure();
  return std::move(*result);
}

/// Emits an error at the op, which continues `what`, and throws a Failure.
[[noreturn]] void fail(mlir::Operation *op, llvm::StringRef what,
                       llvm::Error error = llvm::Error::success());
template <typename T>
T orFail(mlir::Operation *op, llvm::StringRef what, llvm::Expected<T> result) {
  if (!result)
    fail(op, what, result.takeError());
  return std::move(*result);
}

/// Raises the error, if there is one.
void check(llvm::Error error);
/// The value of a call, or raises its error.
template <typename T>
T valueOf(llvm::Expected<T> result) {
  check(result.takeError());
  return std::move(*result);
}

/// Calls `work` without the GIL, and returns its value or raises its error.
template <typename Work>
auto runFree(Work work) {
  return valueOf([&] {
    nanobind::gil_scoped_release release;
    return work();
  }());
}

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_DIAGNOSTICS_H
