//===- Diagnostics.cpp - Errors and diagnostics as exceptions -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies diagnostics and passes them to the package, which defines the
// exception classes.
//
//===----------------------------------------------------------------------===//

#include "Diagnostics.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"

namespace nb = nanobind;
using namespace pipesched;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

/// The bytes of the character that a text starts with, or 0: no UTF-8.
static size_t sizeOfFirst(std::string_view text) {
  auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = at(0);
  if (lead < 0x80)
    return 1;
  size_t size = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size == 0 || lead > 0xF4 || size > text.size())
    return 0;
  for (size_t i = 1; i < size; ++i)
    if ((at(i) & 0xC0) != 0x80)
      return 0;
  bool isOverlong =
      (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xF0 && at(1) < 0x90);
  bool isOutside =
      (lead == 0xED && at(1) > 0x9F) || (lead == 0xF4 && at(1) > 0x8F);
  return isOverlong || isOutside ? 0 : size;
}

std::string pipesched::python::toValid(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string valid;
  for (size_t begin = 0; begin < text.size();) {
    size_t size = sizeOfFirst(text.substr(begin));
    valid += size == 0 ? kReplacement : text.substr(begin, size);
    begin += size == 0 ? 1 : size;
  }
  return valid;
}

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

static const char *nameOf(mlir::DiagnosticSeverity severity) {
  switch (severity) {
  case mlir::DiagnosticSeverity::Error:
    return "error";
  case mlir::DiagnosticSeverity::Warning:
    return "warning";
  case mlir::DiagnosticSeverity::Note:
    return "note";
  case mlir::DiagnosticSeverity::Remark:
    return "remark";
  }
  return "error";
}

static std::optional<Diagnostic::Place> placeOf(mlir::Location location) {
  auto range = llvm::dyn_cast<mlir::FileLineColRange>(location);
  if (!range)
    return std::nullopt;
  return Diagnostic::Place{toValid(range.getFilename().getValue()),
                           range.getStartLine(), range.getStartColumn()};
}

static Diagnostic copy(mlir::Diagnostic &diagnostic) {
  Diagnostic copied;
  copied.message = toValid(diagnostic.str());
  copied.severity = nameOf(diagnostic.getSeverity());
  copied.place = placeOf(diagnostic.getLocation());
  for (mlir::Diagnostic &note : diagnostic.getNotes())
    copied.notes.push_back(copy(note));
  return copied;
}

DiagnosticScope::DiagnosticScope(mlir::MLIRContext &context,
                                 Diagnostics &collected)
    : engine(context.getDiagEngine()),
      handler(engine.registerHandler([&](mlir::Diagnostic &diagnostic) {
        collected.push_back(copy(diagnostic));
      })) {}

DiagnosticScope::~DiagnosticScope() { engine.eraseHandler(handler); }

void pipesched::python::fail(mlir::Operation *op, llvm::StringRef what,
                             llvm::Error error) {
  pipe::emitTableError(op) << what << llvm::toString(std::move(error));
  throw Failure();
}

//===----------------------------------------------------------------------===//
// Raising
//===----------------------------------------------------------------------===//

/// Converts a diagnostic to the tuple that pipesched.errors takes: (severity,
/// message, place or None, notes).
static nb::list toTuples(const Diagnostics &diagnostics) {
  nb::list list;
  for (const Diagnostic &diagnostic : diagnostics) {
    nb::object place = nb::none();
    if (diagnostic.place)
      place = nb::make_tuple(diagnostic.place->file.c_str(),
                             diagnostic.place->line, diagnostic.place->column);
    list.append(nb::make_tuple(diagnostic.severity.c_str(),
                               toPython(diagnostic.message), place,
                               toTuples(diagnostic.notes)));
  }
  return list;
}

static nb::object errorsModule() {
  return nb::module_::import_("pipesched.errors");
}

void pipesched::python::raise(const Diagnostics &diagnostics) {
  nb::object error = errorsModule().attr("error_of")(toTuples(diagnostics));
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())),
                  error.ptr());
  throw nb::python_error();
}

static std::string_view takeLine(std::string_view &text) {
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

void pipesched::python::raise(std::string_view text) {
  constexpr std::string_view kNote = "note: ";
  Diagnostic error;
  error.severity = "error";
  error.message = takeLine(text);
  while (!text.empty()) {
    std::string_view line = takeLine(text);
    if (line.substr(0, kNote.size()) == kNote)
      line.remove_prefix(kNote.size());
    error.notes.push_back({"note", std::string(line), std::nullopt, {}});
  }
  raise(Diagnostics{std::move(error)});
}

void pipesched::python::check(llvm::Error error) {
  if (error)
    raise(toValid(llvm::toString(std::move(error))));
}

void pipesched::python::warn(const Diagnostics &diagnostics) {
  if (!diagnostics.empty())
    errorsModule().attr("report")(toTuples(diagnostics));
}
