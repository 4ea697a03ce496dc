//===- Enums.h - Enums as numbers -------------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the numbers that the package passes for enums, and lists their names.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_ENUMS_H
#define PIPESCHED_PYTHON_SRC_ENUMS_H

#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"
#include <nanobind/nanobind.h>

namespace pipesched {
namespace python {

/// The origin of a description.
enum class SourceKind { None, Name, File, Json, Times };

/// How a training step ends.
enum class OptimizerStep { None, Overlapped, Exposed };

} // namespace python

template <>
struct EnumNames<python::SourceKind> {
  static constexpr EnumName<python::SourceKind> values[] = {
      {python::SourceKind::None, "none", "Nothing is given"},
      {python::SourceKind::Name, "name",
       "The name of a description that ships"},
      {python::SourceKind::File, "file", "The path of a JSON file"},
      {python::SourceKind::Json, "json", "The text of a JSON file"},
      {python::SourceKind::Times, "times",
       "Times in words, for profiles only"}};
};

template <>
struct EnumNames<python::OptimizerStep> {
  static constexpr EnumName<python::OptimizerStep> values[] = {
      {python::OptimizerStep::None, "none",
       "A step ends with its last backward"},
      {python::OptimizerStep::Overlapped, "overlapped",
       "Gradients are reduced as soon as they are there"},
      {python::OptimizerStep::Exposed, "exposed",
       "Gradients are reduced behind all compute of the worker"}};
};

namespace python {

/// Makes an error such as "expected transport to be 0 (overlap) or 1 (delay),
/// found 7".
llvm::Error makeEnumError(llvm::StringRef what, int number,
                          llvm::ArrayRef<llvm::StringRef> names);

/// The value of a number. Errors: a number that no value has.
template <typename Enum>
llvm::Expected<Enum> readEnum(llvm::StringRef what, int number) {
  if (std::optional<Enum> value = enumFromNumber<Enum>(number))
    return *value;
  return makeEnumError(what, number, listEnumNames<Enum>());
}

/// The same, to `value`, which an error leaves unchanged.
template <typename Enum>
llvm::Error readEnum(llvm::StringRef what, int number, Enum &value) {
  llvm::Expected<Enum> read = readEnum<Enum>(what, number);
  if (read)
    value = *read;
  return read.takeError();
}

/// Maps the name of each enum to the names of its values.
nanobind::dict listEnums();

} // namespace python
} // namespace pipesched

#endif // PIPESCHED_PYTHON_SRC_ENUMS_H
