//===- Palette.cpp - Colours of phases ------------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Text is white on full hues and black on tints. In both columns CIE lightness
// rises in the order F, I, B, W, so that a grey print keeps phases apart.
//
//===----------------------------------------------------------------------===//

#include "Palette.h"
#include "llvm/Support/ErrorHandling.h"

using namespace pipesched;

bool Colour::isDark() const {
  // Rec. 601 luma; full hues lie below the threshold, tints above.
  return 299 * red + 587 * green + 114 * blue < 145 * 1000;
}

static std::pair<Colour, Colour> hueAndTint(Phase phase) {
  switch (phase) {
  case Phase::Forward:
    return {{0x24, 0x4f, 0xa3}, {0x9a, 0xb9, 0xec}};
  case Phase::InputGrad:
    return {{0x12, 0x7a, 0x86}, {0x96, 0xd8, 0xdc}};
  case Phase::Backward:
    return {{0xcf, 0x6a, 0x12}, {0xfc, 0xcb, 0x94}};
  case Phase::WeightGrad:
    return {{0x4f, 0x9e, 0x3d}, {0xc6, 0xec, 0xb2}};
  case Phase::Recompute:
    return {{0x74, 0x54, 0xa6}, {0xcd, 0xbb, 0xe8}};
  case Phase::Optimizer:
    return {{0xf3, 0xe3, 0x9a}, {0xfa, 0xf3, 0xd0}};
  case Phase::AllReduce:
    return {{0xb2, 0x48, 0x7f}, {0xee, 0xbf, 0xd8}};
  case Phase::Offload:
  case Phase::OffloadJoin:
    return {{0x6b, 0x5b, 0x4d}, {0xb5, 0xa8, 0x9b}};
  case Phase::Reload:
  case Phase::ReloadJoin:
    return {{0x9a, 0x86, 0x70}, {0xd2, 0xc7, 0xba}};
  case Phase::Idle:
    return {{0xee, 0xf0, 0xf2}, {0xee, 0xf0, 0xf2}};
  }
  llvm_unreachable("unknown phase");
}

Colour pipesched::phaseColour(Phase phase, int shade, int numShades) {
  auto [hue, tint] = hueAndTint(phase);
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
