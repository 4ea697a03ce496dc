//===- Enums.h - Enums of the C API -----------------------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the numbers that callers of the C API pass for enums.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_CAPI_ENUMS_H
#define PIPESCHED_LIB_CAPI_ENUMS_H

#include "PipeSched-c/Evaluation.h"
#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/Error.h"
#include <cstring>

namespace pipesched {

template <>
struct EnumNames<PipeschedSourceKind> {
  static constexpr EnumName<PipeschedSourceKind> values[] = {
      {PipeschedSourceNone, "none", "Nothing is given"},
      {PipeschedSourceName, "name", "The name of a description that ships"},
      {PipeschedSourceFile, "file", "The path of a JSON file"},
      {PipeschedSourceJson, "json", "The text of a JSON file"},
      {PipeschedSourceTimes, "times", "Times in words, for profiles only"}};
};

template <>
struct EnumNames<PipeschedOptimizerStep> {
  static constexpr EnumName<PipeschedOptimizerStep> values[] = {
      {PipeschedOptimizerStepNone, "none",
       "A step ends with its last backward"},
      {PipeschedOptimizerStepOverlapped, "overlapped",
       "Gradients are reduced as soon as they are there"},
      {PipeschedOptimizerStepExposed, "exposed",
       "Gradients are reduced behind all compute of the worker"}};
};

/// Whether a value of an enum of C is that of the library's.
template <typename CEnum, typename Enum>
constexpr bool isSame(CEnum inC, Enum inCpp) {
  return static_cast<int>(inC) == static_cast<int>(inCpp);
}

/// Makes an error such as "expected transport to be 0 (overlap) or 1 (delay),
/// found 7".
llvm::Error makeEnumError(llvm::StringRef what, uint32_t number,
                          llvm::ArrayRef<llvm::StringRef> names);

/// The number that a caller has stored in an enum of C. It may be any number,
/// and C++ must not read an enum whose number is out of range.
template <typename CEnum>
uint32_t numberOf(const CEnum &given) {
  uint32_t number;
  static_assert(sizeof(given) == sizeof(number), "enums of C are int");
  std::memcpy(&number, &given, sizeof(number));
  return number;
}

/// The value of Enum with the number of `given`. Errors: a number that no value
/// has, with the valid numbers.
template <typename Enum, typename CEnum>
llvm::Expected<Enum> readEnum(llvm::StringRef what, const CEnum &given) {
  uint32_t number = numberOf(given);
  if (std::optional<Enum> value = enumFromNumber<Enum>(number))
    return *value;
  return makeEnumError(what, number, listEnumNames<Enum>());
}

/// Reads several enums and keeps the first error.
class EnumReader {
public:
  /// Leaves `value` unchanged after an error.
  template <typename Enum, typename CEnum>
  void read(llvm::StringRef what, const CEnum &given, Enum &value) {
    llvm::Expected<Enum> read = readEnum<Enum>(what, given);
    if (read)
      value = *read;
    else
      keep(read.takeError());
  }

  llvm::Error take() const;

private:
  void keep(llvm::Error error);

  std::string first;
};

} // namespace pipesched

#endif // PIPESCHED_LIB_CAPI_ENUMS_H
