//===- Palette.cpp - Colours of phases ------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes shades between the hue and the tint in the table of phases.
//
//===----------------------------------------------------------------------===//

#include "Palette.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"

using namespace pipesched;

bool Colour::isDark() const {
  // Rec. 601 luma; full hues are below the threshold, tints above it.
  return 299 * red + 587 * green + 114 * blue < 145 * 1000;
}

Colour pipesched::phaseColour(Phase phase, int shade, int numShades) {
  auto [hue, tint] = traitsOf(phase).colours;
  int steps = numShades > 1 ? numShades - 1 : 1;
  auto mix = [&](int from, int to) {
    return from + (to - from) * shade / steps;
  };
  return {mix(hue.red, tint.red), mix(hue.green, tint.green),
          mix(hue.blue, tint.blue)};
}

/// The levels of the colour cube are 0, 95, 135, 175, 215 and 255.
static int nearestLevel(int value) {
  return value < 48 ? 0 : value < 115 ? 1 : (value - 35) / 40;
}

uint8_t pipesched::nearestAnsi(Colour colour) {
  return 16 + 36 * nearestLevel(colour.red) + 6 * nearestLevel(colour.green) +
         nearestLevel(colour.blue);
}
