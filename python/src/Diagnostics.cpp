//===- Diagnostics.cpp - Errors of the C API as exceptions ----------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Copies diagnostics and passes them to the package, which defines the
// exception classes.
//
//===----------------------------------------------------------------------===//

#include "Diagnostics.h"

namespace nb = nanobind;
using namespace pipesched::python;

//===----------------------------------------------------------------------===//
// Texts
//===----------------------------------------------------------------------===//

/// The bytes of the character that a text begins with, or 0: no UTF-8.
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

std::string pipesched::python::toValid(std::string text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string valid;
  std::string_view rest = text;
  for (size_t begin = 0; begin < rest.size();) {
    size_t size = sizeOfFirst(rest.substr(begin));
    valid += size == 0 ? kReplacement : rest.substr(begin, size);
    begin += size == 0 ? 1 : size;
  }
  return valid;
}

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

static const char *nameOf(MlirDiagnosticSeverity severity) {
  switch (severity) {
  case MlirDiagnosticError:
    return "error";
  case MlirDiagnosticWarning:
    return "warning";
  case MlirDiagnosticNote:
    return "note";
  case MlirDiagnosticRemark:
    return "remark";
  }
  return "error";
}

static std::optional<Diagnostic::Place> placeOf(MlirLocation location) {
  if (!mlirLocationIsAFileLineColRange(location))
    return std::nullopt;
  MlirIdentifier file = mlirLocationFileLineColRangeGetFilename(location);
  return Diagnostic::Place{
      toString(mlirIdentifierStr(file)),
      unsigned(mlirLocationFileLineColRangeGetStartLine(location)),
      unsigned(mlirLocationFileLineColRangeGetStartColumn(location))};
}

static Diagnostic copy(MlirDiagnostic diagnostic) {
  Diagnostic copied;
  Text text;
  mlirDiagnosticPrint(diagnostic, Text::append, &text);
  copied.message = text.take();
  copied.severity = nameOf(mlirDiagnosticGetSeverity(diagnostic));
  copied.place = placeOf(mlirDiagnosticGetLocation(diagnostic));
  for (intptr_t i = 0; i < mlirDiagnosticGetNumNotes(diagnostic); ++i)
    copied.notes.push_back(copy(mlirDiagnosticGetNote(diagnostic, i)));
  return copied;
}

static MlirLogicalResult collect(MlirDiagnostic diagnostic, void *collected) {
  static_cast<Diagnostics *>(collected)->push_back(copy(diagnostic));
  return mlirLogicalResultSuccess();
}

DiagnosticScope::DiagnosticScope(MlirContext context, Diagnostics &collected)
    : context(context), handler(mlirContextAttachDiagnosticHandler(
                            context, collect, &collected, nullptr)) {}

DiagnosticScope::~DiagnosticScope() {
  mlirContextDetachDiagnosticHandler(context, handler);
}

//===----------------------------------------------------------------------===//
// Raising
//===----------------------------------------------------------------------===//

/// Converts a diagnostic to the tuple that pipesched.errors takes: (severity,
/// message, place or None, notes).
static nb::list toPython(const Diagnostics &diagnostics) {
  nb::list list;
  for (const Diagnostic &diagnostic : diagnostics) {
    nb::object place = nb::none();
    if (diagnostic.place)
      place = nb::make_tuple(diagnostic.place->file.c_str(),
                             diagnostic.place->line, diagnostic.place->column);
    list.append(nb::make_tuple(
        diagnostic.severity.c_str(),
        nb::str(diagnostic.message.data(), diagnostic.message.size()), place,
        toPython(diagnostic.notes)));
  }
  return list;
}

static nb::object errorsModule() {
  return nb::module_::import_("pipesched.errors");
}

void pipesched::python::raise(const Diagnostics &diagnostics) {
  nb::object error = errorsModule().attr("error_of")(toPython(diagnostics));
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

void pipesched::python::warn(const Diagnostics &diagnostics) {
  if (!diagnostics.empty())
    errorsModule().attr("report")(toPython(diagnostics));
}
