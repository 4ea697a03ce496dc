//===- TextLegend.cpp - What the letters stand for ------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Puts as many items on a line as fit. Those of phases come in the order of
// their codes.
//
//===----------------------------------------------------------------------===//

#include "TextLegend.h"
#include "Format.h"
#include "Palette.h"
#include "TextLine.h"

using namespace pipesched;
using llvm::ArrayRef;
using llvm::raw_ostream;
using llvm::StringRef;

namespace {

/// What the letters and signs are, item by item.
class Legend {
public:
  Legend(raw_ostream &os, ArrayRef<Picture> pictures,
         const TextPictureOptions &options)
      : pictures(pictures), options(options), line(os, options.hasColours) {}

  void write(bool withStage);

private:
  void writePhase(Phase phase);
  void writeItem(StringRef item, int64_t columns);
  void startItem(int64_t columns);

  ArrayRef<Picture> pictures;
  const TextPictureOptions &options;
  TextLine line;
};

} // namespace

/// Writes an item on this line, or on the next if this one is full.
void Legend::startItem(int64_t columns) {
  constexpr int64_t kApart = 3;
  if (line.getColumn() == 0)
    return;
  if (options.width > 0 && line.getColumn() + kApart + columns > options.width)
    line.end();
  else
    line.moveTo(line.getColumn() + kApart);
}

void Legend::writeItem(StringRef item, int64_t columns) {
  startItem(columns);
  line.write(item, columns);
}

void Legend::writePhase(Phase phase) {
  llvm::StringRef letter = enumName(phase);
  std::string name = enumMeaning(phase).str();
  if (kPerPathPhases.contains(phase))
    name += " of a path";
  startItem(2 + name.size());
  if (kCostedPhases.contains(phase))
    line.write(letter, 1, phaseColour(phase, 0, 1));
  else
    line.write(letter, 1);
  line.write(" " + name, 1 + name.size());
}

void Legend::write(bool withStage) {
  StringRef name =
      withStage ? "0F0 stage, phase, microbatch" : "F0 phase, microbatch";
  writeItem(name, name.size());
  phasesOf(pictures).forEach([&](Phase phase) { writePhase(phase); });
  writeItem("· idle", 6);
  std::string shades = describeShades(pictures);
  if (options.hasColours && !shades.empty())
    writeItem(shades, shades.size());
}

void pipesched::writeTextLegend(raw_ostream &os, ArrayRef<Picture> pictures,
                                const TextPictureOptions &options,
                                bool withStage) {
  Legend(os, pictures, options).write(withStage);
}
