//===- EnumOptions.h - Command-line options of enums ------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The values of options of LLVM and of passes, taken from EnumNames.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_ENUMOPTIONS_H
#define PIPESCHED_SUPPORT_ENUMOPTIONS_H

#include "PipeSched/Support/EnumNames.h"
#include "llvm/Support/CommandLine.h"
#include <array>
#include <utility>

namespace pipesched {

namespace detail {
template <typename Enum>
llvm::cl::OptionEnumValue makeOptionValue(Enum value, llvm::StringRef meaning) {
  return {enumName(value), static_cast<int>(value), meaning};
}

template <typename Enum, std::size_t... indices>
llvm::cl::ValuesClass makeOptionValues(std::index_sequence<indices...>) {
  return llvm::cl::values(
      makeOptionValue(EnumNames<Enum>::values[indices].value,
                      EnumNames<Enum>::values[indices].meaning)...);
}

template <auto defaultValue, std::size_t... indices>
llvm::cl::ValuesClass makeOptionValuesWith(std::index_sequence<indices...>) {
  using Enum = decltype(defaultValue);
  // Options keep references to the texts.
  static const std::array<std::string, sizeof...(indices)> meanings = {
      (EnumNames<Enum>::values[indices].meaning.str() +
       (EnumNames<Enum>::values[indices].value == defaultValue ? " (default)"
                                                               : ""))...};
  return llvm::cl::values(makeOptionValue(
      EnumNames<Enum>::values[indices].value, meanings[indices])...);
}
} // namespace detail

template <typename Enum>
llvm::cl::ValuesClass enumOptionValues() {
  return detail::makeOptionValues<Enum>(
      std::make_index_sequence<kNumEnumValues<Enum>>());
}

/// Returns all values of the enum of `defaultValue`, which is marked as the
/// default.
template <auto defaultValue>
llvm::cl::ValuesClass enumOptionValuesWithDefault() {
  return detail::makeOptionValuesWith<defaultValue>(
      std::make_index_sequence<kNumEnumValues<decltype(defaultValue)>>());
}

/// Returns some values of an enum, in this order, for an option that does not
/// take all values.
template <auto... values>
llvm::cl::ValuesClass someEnumOptionValues() {
  return llvm::cl::values(
      detail::makeOptionValue(values, enumMeaning(values))...);
}

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_ENUMOPTIONS_H
