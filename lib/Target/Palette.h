//===- Palette.h - Colours of phases ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shades of the hues in the table of phases, for pictures, pages and
// terminals.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_TARGET_PALETTE_H
#define PIPESCHED_LIB_TARGET_PALETTE_H

#include "PipeSched/Schedule/Kinds/Cell.h"

namespace pipesched {

/// sRGB, 0 to 255 each.
struct Colour {
  int red, green, blue;

  /// Whether white text is easier to read on it than black text.
  bool isDark() const;
};

/// Returns the closest of the 6 x 6 x 6 colours with the terminal numbers 16 to
/// 231.
uint8_t nearestAnsi(Colour colour);

/// Returns the colour of a phase. Shade 0 is the full hue, the last of
/// `numShades` is the lightest tint (white text on chunk 0, black text on the
/// last chunk, as in the zero-bubble papers).
Colour phaseColour(Phase phase, int shade, int numShades);

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Colour colour) {
  static constexpr char kDigits[] = "0123456789abcdef";
  os << '#';
  for (int value : {colour.red, colour.green, colour.blue})
    os << kDigits[value >> 4] << kDigits[value & 15];
  return os;
}

} // namespace pipesched

#endif // PIPESCHED_LIB_TARGET_PALETTE_H
