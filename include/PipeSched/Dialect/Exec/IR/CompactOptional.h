//===- CompactOptional.h - Optional values without a flag -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An optional without extra memory. Programs have millions of instructions, and
// nearly all of them state no facts; std::optional would double the size of
// these facts.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_DIALECT_EXEC_IR_COMPACTOPTIONAL_H
#define PIPESCHED_DIALECT_EXEC_IR_COMPACTOPTIONAL_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "llvm/ADT/Hashing.h"
#include <limits>
#include <optional>

namespace pipesched::exec {

/// The value that represents an absent fact: the lowest number.
template <typename T>
struct AbsentFact {
  static constexpr T value() { return std::numeric_limits<T>::min(); }
};
/// For cells: bits that are not a phase.
template <>
struct AbsentFact<Cell> {
  static constexpr Cell value() { return Cell::fromRaw(~uint64_t(0)); }
};

/// An optional with the size of its value. It cannot hold AbsentFact<T>, so
/// code that reads facts from outside must refuse that value.
template <typename T>
class CompactOptional {
public:
  constexpr CompactOptional() = default;
  constexpr CompactOptional(std::nullopt_t) {}
  constexpr CompactOptional(T value) : fact(value) {}
  constexpr CompactOptional(std::optional<T> value)
      : fact(value.value_or(AbsentFact<T>::value())) {}

  constexpr bool has_value() const { return fact != AbsentFact<T>::value(); }
  constexpr const T &operator*() const {
    assert(has_value() && "there is no fact");
    return fact;
  }
  constexpr std::optional<T> toOptional() const {
    return has_value() ? std::optional<T>(fact) : std::nullopt;
  }

  friend constexpr bool operator==(CompactOptional a, CompactOptional b) {
    return a.fact == b.fact;
  }
  friend llvm::hash_code hash_value(CompactOptional optional) {
    using llvm::hash_value;
    return hash_value(optional.toOptional());
  }

private:
  T fact = AbsentFact<T>::value();
};

} // namespace pipesched::exec

#endif // PIPESCHED_DIALECT_EXEC_IR_COMPACTOPTIONAL_H
