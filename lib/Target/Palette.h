//===- Palette.h - Colours of phases ----------------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The shades of the hues that the table of phases gives, for pictures, pages
// and terminals.
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

/// The closest of the 6 x 6 x 6 colours that terminals number 16 to 231.
uint8_t nearestAnsi(Colour colour);

/// The colour of a phase. Shade 0 is the full hue, the last of `numShades` the
/// lightest tint (white text on chunk 0, black text on the last, as in these
/// papers).
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
