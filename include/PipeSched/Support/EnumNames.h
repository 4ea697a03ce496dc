//===- EnumNames.h - One description per enum ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The names and meanings of an enum that people read and write; options, JSON,
// the C API and Python read them from here.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_ENUMNAMES_H
#define PIPESCHED_SUPPORT_ENUMNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include <cstddef>
#include <optional>

namespace pipesched {

/// One value of an enum: its name as people write it, and what it means in one
/// sentence without a final period.
template <typename Enum>
struct EnumName {
  Enum value;
  llvm::StringLiteral name;
  llvm::StringLiteral meaning;
};

/// All values of an enum. Specialize it beside the enum:
///
///   template <> struct EnumNames<Transport> {
///     static constexpr EnumName<Transport> values[] = {..};
///   };
///
/// The i-th entry must be the value i.
template <typename Enum>
struct EnumNames;

template <typename Enum>
constexpr std::size_t kNumEnumValues = std::size(EnumNames<Enum>::values);

/// The name of a value.
template <typename Enum>
constexpr llvm::StringLiteral enumName(Enum value) {
  return EnumNames<Enum>::values[static_cast<std::size_t>(value)].name;
}

/// The value with this name, if there is one.
template <typename Enum>
std::optional<Enum> enumFromName(llvm::StringRef name) {
  for (const EnumName<Enum> &entry : EnumNames<Enum>::values)
    if (entry.name == name)
      return entry.value;
  return std::nullopt;
}

/// The value of a number from outside, if it is in range.
template <typename Enum>
std::optional<Enum> enumFromNumber(uint64_t number) {
  if (number >= kNumEnumValues<Enum>)
    return std::nullopt;
  return EnumNames<Enum>::values[number].value;
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_ENUMNAMES_H
