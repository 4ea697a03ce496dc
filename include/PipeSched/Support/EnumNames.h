//===- EnumNames.h - One description per enum -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The names and meanings of enum values that users read and write. Options,
// JSON, the C API and Python use this single definition.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_ENUMNAMES_H
#define PIPESCHED_SUPPORT_ENUMNAMES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>

namespace pipesched {

/// One value of an enum: its name in text, and its meaning as one sentence
/// without a final period.
template <typename Enum>
struct EnumName {
  Enum value;
  llvm::StringLiteral name;
  llvm::StringLiteral meaning;
};

/// All values of an enum. Specialize it next to the enum:
///
///   template <> struct EnumNames<Transport> {
///     static constexpr EnumName<Transport> values[] = {..};
///   };
///
/// The i-th entry is the value i. Names must not be empty and must differ from
/// each other; every use of the enum checks this at compile time.
template <typename Enum>
struct EnumNames;

template <typename Enum>
constexpr std::size_t kNumEnumValues = std::size(EnumNames<Enum>::values);

namespace detail {
/// StringRef compares only at run time.
constexpr bool isSameText(llvm::StringRef left, llvm::StringRef right) {
  if (left.size() != right.size())
    return false;
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left.data()[i] != right.data()[i])
      return false;
  return true;
}

template <typename Enum>
constexpr bool isInOrderAndUnique() {
  const auto &values = EnumNames<Enum>::values;
  for (std::size_t i = 0; i < kNumEnumValues<Enum>; ++i) {
    if (static_cast<std::size_t>(values[i].value) != i ||
        values[i].name.size() == 0)
      return false;
    for (std::size_t j = 0; j < i; ++j)
      if (isSameText(values[i].name, values[j].name))
        return false;
  }
  return true;
}
} // namespace detail

/// All values with their names and meanings, in order.
template <typename Enum>
constexpr llvm::ArrayRef<EnumName<Enum>> enumValues() {
  static_assert(detail::isInOrderAndUnique<Enum>(),
                "entry i must have value i and a name of its own");
  return EnumNames<Enum>::values;
}

template <typename Enum>
constexpr llvm::StringLiteral enumName(Enum value) {
  static_assert(detail::isInOrderAndUnique<Enum>(),
                "entry i must have value i and a name of its own");
  return EnumNames<Enum>::values[static_cast<std::size_t>(value)].name;
}

template <typename Enum>
constexpr llvm::StringLiteral enumMeaning(Enum value) {
  return EnumNames<Enum>::values[static_cast<std::size_t>(value)].meaning;
}

/// Returns the names of all values, in order.
template <typename Enum>
llvm::SmallVector<llvm::StringRef> listEnumNames() {
  llvm::SmallVector<llvm::StringRef> names;
  for (const EnumName<Enum> &entry : enumValues<Enum>())
    names.push_back(entry.name);
  return names;
}

/// Returns the names of all values as prose: "concat, doubling or halving".
template <typename Enum>
std::string describeEnumNames() {
  llvm::SmallVector<llvm::StringRef> names = listEnumNames<Enum>();
  llvm::StringRef last = names.pop_back_val();
  if (names.empty())
    return last.str();
  return llvm::join(names, ", ") + " or " + last.str();
}

/// Returns the names of all values in quotes: "\"I\" or \"W\"".
template <typename Enum>
std::string quoteEnumNames() {
  return "\"" + llvm::join(listEnumNames<Enum>(), "\" or \"") + "\"";
}

/// Returns the value with a name, or nothing.
template <typename Enum>
std::optional<Enum> enumFromName(llvm::StringRef name) {
  for (const EnumName<Enum> &entry : enumValues<Enum>())
    if (entry.name == name)
      return entry.value;
  return std::nullopt;
}

/// Returns the value with a number from outside, if it is in range.
template <typename Enum>
std::optional<Enum> enumFromNumber(uint64_t number) {
  if (number >= kNumEnumValues<Enum>)
    return std::nullopt;
  return enumValues<Enum>()[number].value;
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_ENUMNAMES_H
