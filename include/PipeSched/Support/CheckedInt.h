//===- CheckedInt.h - Integers that detect overflow -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes of models are products of many factors, which may overflow for bad
// input. An overflow is carried through an expression and checked once at its
// end.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_CHECKEDINT_H
#define PIPESCHED_SUPPORT_CHECKEDINT_H

#include "llvm/Support/MathExtras.h"
#include <cstdint>

namespace pipesched {

/// An int64_t that becomes invalid when an operation overflows.
class CheckedInt {
public:
  CheckedInt(int64_t value = 0) : value(value) {}

  bool isValid() const { return valid; }
  int64_t get() const { return value; }

  friend CheckedInt operator+(CheckedInt a, CheckedInt b) {
    CheckedInt sum;
    sum.valid =
        !llvm::AddOverflow(a.value, b.value, sum.value) && a.valid && b.valid;
    return sum;
  }
  friend CheckedInt operator-(CheckedInt a, CheckedInt b) {
    CheckedInt difference;
    difference.valid = !llvm::SubOverflow(a.value, b.value, difference.value) &&
                       a.valid && b.valid;
    return difference;
  }
  friend CheckedInt operator*(CheckedInt a, CheckedInt b) {
    CheckedInt product;
    product.valid = !llvm::MulOverflow(a.value, b.value, product.value) &&
                    a.valid && b.valid;
    return product;
  }
  CheckedInt &operator+=(CheckedInt other) { return *this = *this + other; }

private:
  int64_t value = 0;
  bool valid = true;
};

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_CHECKEDINT_H
