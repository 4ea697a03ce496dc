//===- TextPicture.cpp - The table in a terminal --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folds a picture into panels of slots, each below a ruler:
//
//      slot  0              5              10
//   worker 0  F0 F1 F2 F3 ·  ·  ·  ·  ·  ·  B0─── B1───
//   worker 1  ·  F0 F1 F2 ·  ·  ·  ·  B0─── F3 B1─── B2
//
// A cell takes the columns of its slots; the last of these is blank.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/TextPicture.h"
#include "Format.h"
#include "Palette.h"
#include "Picture.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::raw_ostream;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Lines
//
// Blanks are written only when more text follows them. Colours are the escape
// sequences of terminals with 256 colours.
//===----------------------------------------------------------------------===//

namespace {
/// A line of text without trailing blanks; columns count from its start.
class TextLine {
public:
  TextLine(llvm::raw_ostream &os, bool hasColours)
      : os(os), hasColours(hasColours) {}
  ~TextLine() { end(); }

  /// Ends the line. The rest is on the next one.
  void end() {
    os << '\n';
    column = written = 0;
  }
  int64_t getColumn() const { return column; }
  /// Moves to a column by writing blanks; does nothing if the line is already
  /// past it.
  void moveTo(int64_t to) { column = std::max(column, to); }

  enum Style { Plain, Bold, Faint };
  /// `columns` is the width of `text` on a terminal.
  void write(llvm::StringRef text, int64_t columns, Style style = Plain);
  void write(llvm::StringRef text, int64_t columns, Colour background);

private:
  void writeAs(llvm::StringRef text, int64_t columns, llvm::StringRef code);

  llvm::raw_ostream &os;
  bool hasColours;
  int64_t column = 0, written = 0;
};
} // namespace

void TextLine::write(StringRef text, int64_t columns, Style style) {
  static constexpr const char *kCodes[] = {"", "\033[1m", "\033[2m"};
  writeAs(text, columns, kCodes[style]);
}

void TextLine::write(StringRef text, int64_t columns, Colour background) {
  std::string code;
  llvm::raw_string_ostream(code)
      << "\033[48;5;" << int(nearestAnsi(background)) << ";38;5;"
      << (background.isDark() ? "231m" : "16m");
  writeAs(text, columns, code);
}

void TextLine::writeAs(StringRef text, int64_t columns, StringRef code) {
  os.indent(column - written);
  if (hasColours && !code.empty() && !text.empty())
    os << code << text << "\033[0m";
  else
    os << text;
  column += columns;
  written = column;
}

/// Writes a text of one column `count` times.
static std::string repeatText(StringRef text, int64_t count) {
  std::string result;
  result.reserve(text.size() * count);
  for (int64_t i = 0; i < count; ++i)
    result += text;
  return result;
}

//===----------------------------------------------------------------------===//
// The legend
//
// Each line has as many items as fit. Items of phases come in the order of
// their codes.
//===----------------------------------------------------------------------===//

namespace {

/// The meaning of letters and signs, item by item.
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

/// Starts an item on this line, or on the next line if it does not fit.
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

/// Writes the meaning of the letters and signs of the pictures, item by item.
/// `withStage` states whether names of cells contain their stage.
static void writeTextLegend(raw_ostream &os, ArrayRef<Picture> pictures,
                            const TextPictureOptions &options, bool withStage) {
  Legend(os, pictures, options).write(withStage);
}

//===----------------------------------------------------------------------===//
// Ranges
//===----------------------------------------------------------------------===//

llvm::Expected<TextRange> pipesched::parseTextRange(StringRef text) {
  TextRange range;
  auto [begin, end] = text.split(':');
  bool isRead = text.contains(':') &&
                (begin.empty() || !begin.getAsInteger(10, range.begin)) &&
                (end.empty() || !end.getAsInteger(10, range.end));
  if (!isRead || range.begin < 0 || range.end <= range.begin)
    return llvm::createStringError("'" + text +
                                   "' is not a range; expected begin:end with "
                                   "begin < end, where either may be left out");
  return range;
}

static TextRange clip(TextRange range, int64_t size) {
  return {std::min(range.begin, size), std::min(range.end, size)};
}

/// Returns the drawn parts of a range: all of it, or `first` and `last` items
/// at its ends. The last part starts at a multiple of `step` if it is longer
/// than `step`.
static llvm::SmallVector<TextRange, 2>
leaveOutMiddle(TextRange all, int64_t first, int64_t last, int64_t step) {
  if (all.end - all.begin <= first + last)
    return {all};
  int64_t begin = all.end - last;
  if (last > step)
    begin = llvm::alignTo(begin, step);
  return {{all.begin, all.begin + first}, {begin, all.end}};
}

//===----------------------------------------------------------------------===//
// Names of cells
//===----------------------------------------------------------------------===//

/// Returns the label of a cell: `F0`, or `2F0` if workers have several stages.
static std::string labelOf(CellName named, bool withStage) {
  Cell cell = named.cell;
  std::string name = named.str();
  return withStage ? name
                   : name.substr(name.find(phaseLetter(cell.getPhase())));
}

static std::string labelOf(const Picture &picture, const Box &box,
                           bool withStage) {
  std::string label = labelOf(picture.nameOf(box.cell), withStage);
  return box.second
             ? label + "+" + labelOf(picture.nameOf(*box.second), withStage)
             : label;
}

//===----------------------------------------------------------------------===//
// Scale
//===----------------------------------------------------------------------===//

namespace {

/// Columns of text per slot, or slots per column if slots are short (blocks,
/// durations); one of the two is 1.
struct Scale {
  int64_t columnsPerSlot = 1, slotsPerColumn = 1;

  int64_t columns(int64_t slots) const {
    return slots / slotsPerColumn * columnsPerSlot;
  }
  /// Returns the whole slots that fit in `columns`, at least the slots of one
  /// column.
  int64_t slots(int64_t columns) const {
    return std::max<int64_t>(columns / columnsPerSlot, 1) * slotsPerColumn;
  }
};

} // namespace

/// Returns the narrowest scale in which every cell has room for its name. If
/// the mean cell would then be too wide, short cells get no name instead.
static Scale scaleOf(const Picture &picture, bool withStage) {
  constexpr double kWidest = 24; // columns of the mean cell
  // A hundred lines of kMaxWidth columns must stay below 2^62 slots.
  constexpr int64_t kMaxSlotsPerColumn = int64_t(1) << 38;
  double columnsPerSlot = 0, numSlots = 0, numBoxes = 0;
  for (const auto &row : picture.rows)
    for (const Box &box : row) {
      auto slots = static_cast<double>(box.end - box.begin);
      if (slots == 0)
        continue;
      auto columns =
          static_cast<double>(labelOf(picture, box, withStage).size() + 1);
      columnsPerSlot = std::max(columnsPerSlot, columns / slots);
      numSlots += slots;
      numBoxes += 1;
    }
  Scale scale;
  if (numSlots == 0)
    return scale;
  columnsPerSlot = std::min(columnsPerSlot, kWidest * numBoxes / numSlots);
  if (columnsPerSlot >= 1)
    scale.columnsPerSlot = static_cast<int64_t>(std::ceil(columnsPerSlot));
  else
    scale.slotsPerColumn = static_cast<int64_t>(
        std::min(1 / columnsPerSlot, static_cast<double>(kMaxSlotsPerColumn)));
  return scale;
}

//===----------------------------------------------------------------------===//
// Pictures
//===----------------------------------------------------------------------===//

namespace {

class TextPicture {
public:
  TextPicture(raw_ostream &os, const Picture &picture,
              const TextPictureOptions &options, bool withStage);

  void write();

private:
  TextLine startLine() const { return TextLine(os, options.hasColours); }
  void chooseRanges();
  int64_t pageWidth() const;
  int64_t slotsThatFit() const;
  int64_t slotsPerPanel(int64_t slots) const;
  int64_t tickStep() const;
  void writeTitle();
  void writePanels(TextRange slots);
  void writeRuler(TextRange slots);
  void writeWorkers(TextRange slots);
  void writeWorker(int64_t worker, TextRange slots);
  void writeIdle(TextLine &line, TextRange idle, int64_t origin);
  void writeBox(TextLine &line, const Box &box, TextRange slots);
  void writePiece(TextLine &line, const Box &box, StringRef label,
                  int64_t columns);
  void writeMarks(int64_t worker, Lane lane, TextRange slots);
  void writeLabel(TextLine &line, StringRef label);
  void writeGap();
  void writeLeftOut();
  void writeShort();

  raw_ostream &os;
  const Picture &picture;
  const TextPictureOptions &options;
  bool withStage;
  Scale scale;
  int64_t left = 0;     ///< columns before the first slot
  int64_t numSlots = 0; ///< including slots that have only marks
  llvm::SmallVector<TextRange, 2> slotRanges, workerRanges;
  int64_t rangeBegin = 0; ///< of the current range of slots
};

} // namespace

TextPicture::TextPicture(raw_ostream &os, const Picture &picture,
                         const TextPictureOptions &options, bool withStage)
    : os(os), picture(picture), options(options), withStage(withStage),
      scale(scaleOf(picture, withStage)), numSlots(picture.length) {
  for (const auto &marks : picture.marks)
    if (!marks.empty())
      numSlots = std::max(numSlots, marks.back().at + 1);
  auto numWorkers = static_cast<int64_t>(picture.rows.size());
  left =
      std::max<int64_t>(("worker " + std::to_string(numWorkers - 1)).size(), 8);
  left += 2;
  chooseRanges();
}

/// The columns of a line, limited because a wider line would exceed 64 bits.
int64_t TextPicture::pageWidth() const {
  constexpr int64_t kMaxWidth = TextPictureOptions::kMaxWidth;
  return options.width > 0 ? std::min(options.width, kMaxWidth) : kMaxWidth;
}

/// Returns the slots that fit on a line; a line that is long enough ends at a
/// tick of the ruler.
int64_t TextPicture::slotsThatFit() const {
  int64_t slots = scale.slots(pageWidth() - left);
  int64_t step = tickStep();
  return slots >= step ? llvm::alignDown(slots, step) : slots;
}

/// Divides `slots` into one line, or into lines of similar length.
int64_t TextPicture::slotsPerPanel(int64_t slots) const {
  if (slots <= scale.slots(pageWidth() - left))
    return slots;
  int64_t fit = slotsThatFit(), step = tickStep();
  int64_t even = llvm::divideCeil(slots, llvm::divideCeil(slots, fit));
  return std::min<int64_t>(fit, llvm::alignTo(even, step));
}

/// Limits a large table to about a hundred lines: its start and end, which show
/// fill and drain.
void TextPicture::chooseRanges() {
  constexpr int64_t kWorkersAtEnds = 12, kMaxLines = 100;
  auto numWorkers = static_cast<int64_t>(picture.rows.size());
  if (options.workers)
    workerRanges = {clip(*options.workers, numWorkers)};
  else
    workerRanges =
        leaveOutMiddle({0, numWorkers}, kWorkersAtEnds, kWorkersAtEnds, 1);
  if (options.slots) {
    slotRanges = {clip(*options.slots, numSlots)};
    return;
  }
  int64_t linesOfPanel = 2;
  for (TextRange workers : workerRanges)
    linesOfPanel += workers.end - workers.begin;
  int64_t numPanels = std::max<int64_t>(kMaxLines / linesOfPanel, 3);
  int64_t fit = slotsThatFit(), atEnd = numPanels / 3;
  slotRanges = leaveOutMiddle({0, numSlots}, (numPanels - atEnd) * fit,
                              atEnd * fit, tickStep());
}

/// Numbers of the ruler have a distance of at least ten columns.
int64_t TextPicture::tickStep() const {
  constexpr int64_t kApart = 10;
  int64_t columns =
      std::max<int64_t>(kApart, std::to_string(numSlots).size() + 2);
  double slots = static_cast<double>(columns * scale.slotsPerColumn) /
                 static_cast<double>(scale.columnsPerSlot);
  return niceStep(std::max(slots, 1.0));
}

void TextPicture::writeLabel(TextLine &line, StringRef label) {
  auto width = static_cast<int64_t>(label.size());
  line.moveTo(left - 2 - width);
  line.write(label, width);
  line.moveTo(left);
}

void TextPicture::writeTitle() {
  TextLine line = startLine();
  line.write(picture.title, 0, TextLine::Bold);
  line.write("  " + picture.subtitle, 0);
}

void TextPicture::writeGap() {
  TextLine line = startLine();
  line.moveTo(left - 3);
  line.write("⋮", 1);
}

void TextPicture::writeRuler(TextRange slots) {
  TextLine line = startLine();
  writeLabel(line, "slot");
  int64_t step = tickStep();
  for (int64_t at = llvm::alignTo(slots.begin, step); at < slots.end;
       at += step) {
    std::string number = std::to_string(at);
    line.moveTo(left + scale.columns(at - slots.begin));
    line.write(number, number.size(), TextLine::Faint);
  }
}

/// Writes a dot per slot, or per column if slots are shorter. The last column
/// stays blank.
void TextPicture::writeIdle(TextLine &line, TextRange idle, int64_t origin) {
  int64_t begin = left + scale.columns(idle.begin - origin);
  int64_t end = left + scale.columns(idle.end - origin);
  if (begin >= end)
    return;
  line.moveTo(begin);
  int64_t dots = (end - begin) / scale.columnsPerSlot;
  if (scale.columnsPerSlot == 1 && dots > 1)
    --dots;
  std::string blanks(scale.columnsPerSlot - 1, ' ');
  line.write(repeatText("·" + blanks, dots - 1) + "·",
             (dots - 1) * scale.columnsPerSlot + 1, TextLine::Faint);
  line.moveTo(end);
}

/// Fits a label into `columns`: the whole label, only its phases, or nothing.
static std::string fitLabel(const Box &box, StringRef label, int64_t columns) {
  if (static_cast<int64_t>(label.size()) <= columns)
    return label.str();
  std::string letters(1, phaseLetter(box.cell.getPhase()));
  if (box.second)
    letters += {'+', phaseLetter(box.second->getPhase())};
  return letters.substr(0, std::max<int64_t>(columns, 0));
}

/// Writes the name of a cell, and then a rule up to its end; with colours, the
/// colour shows the length instead. Each half of a pair has its own.
void TextPicture::writePiece(TextLine &line, const Box &box, StringRef label,
                             int64_t columns) {
  bool isLong = box.end - box.begin > 1;
  auto rest = columns - static_cast<int64_t>(label.size());
  if (!options.hasColours) {
    line.write(label.str() + (isLong ? repeatText("─", rest) : ""),
               isLong ? columns : label.size());
    return;
  }
  auto colour = [&](Cell cell) {
    return phaseColour(cell.getPhase(), picture.shade(cell), picture.numShades);
  };
  size_t split = label.size();
  if (box.second) {
    split = std::min(label.find('+'), label.size() - 1) + 1;
    line.write(label.take_front(split), split, colour(box.cell));
    label = label.drop_front(split);
    columns -= static_cast<int64_t>(split);
  }
  line.write(label.str() + std::string(rest, ' '), columns,
             colour(box.second.value_or(box.cell)));
}

/// Draws the part of a box in `slots`. The name is in the first panel that has
/// room for it.
void TextPicture::writeBox(TextLine &line, const Box &box, TextRange slots) {
  int64_t begin = std::max(box.begin, slots.begin);
  int64_t end = std::min(box.end, slots.end);
  int64_t first = left + scale.columns(begin - slots.begin);
  int64_t columns = left + scale.columns(end - slots.begin) - first;
  bool hasGap = end == box.end && columns > 1;
  if (columns <= 0)
    return;
  line.moveTo(first);
  std::string label = labelOf(picture, box, withStage);
  int64_t drawnBefore = scale.columns(begin - std::max(box.begin, rangeBegin));
  bool wasNamed = drawnBefore >= static_cast<int64_t>(label.size());
  int64_t inside = columns - (hasGap ? 1 : 0);
  writePiece(line, box, wasNamed ? "" : fitLabel(box, label, inside), inside);
  line.moveTo(first + columns);
}

/// Copies and joins take no slots. They have a separate line and start at the
/// slot of their issue, next to each other if they share a slot.
void TextPicture::writeMarks(int64_t worker, Lane lane, TextRange slots) {
  auto isDrawn = [&](const Mark &mark) {
    return mark.lane() == lane && mark.at >= slots.begin && mark.at < slots.end;
  };
  ArrayRef<Mark> marks = picture.marks[worker];
  if (llvm::none_of(marks, isDrawn))
    return;
  TextLine line = startLine();
  writeLabel(line, lane == Lane::Offload ? "offload" : "reload");
  int64_t previous = -1;
  for (const Mark &mark : marks) {
    if (!isDrawn(mark))
      continue;
    int64_t at = left + scale.columns(mark.at - slots.begin);
    bool isSame = mark.at == previous;
    if (!isSame && line.getColumn() >= at && previous >= 0)
      at = line.getColumn() + 1;
    line.moveTo(at);
    std::string text =
        (isSame ? "," : "") + labelOf(picture.nameOf(mark.cell), withStage);
    line.write(text, text.size());
    previous = mark.at;
  }
}

void TextPicture::writeWorker(int64_t worker, TextRange slots) {
  {
    TextLine line = startLine();
    writeLabel(line, "worker " + std::to_string(worker));
    ArrayRef<Box> row = picture.rows[worker];
    int64_t clock = slots.begin;
    const Box *box = llvm::partition_point(
        row, [&](const Box &box) { return box.end <= slots.begin; });
    for (; box != row.end() && box->begin < slots.end; ++box) {
      writeIdle(line, {clock, std::max(box->begin, clock)}, slots.begin);
      writeBox(line, *box, slots);
      clock = box->end;
    }
    int64_t end = std::min(slots.end, picture.length);
    writeIdle(line, {clock, std::max(end, clock)}, slots.begin);
  }
  writeMarks(worker, Lane::Offload, slots);
  writeMarks(worker, Lane::Reload, slots);
}

void TextPicture::writeWorkers(TextRange slots) {
  bool isFirst = true;
  for (TextRange workers : workerRanges) {
    if (!isFirst)
      writeGap();
    isFirst = false;
    for (int64_t worker = workers.begin; worker < workers.end; ++worker)
      writeWorker(worker, slots);
  }
}

void TextPicture::writePanels(TextRange slots) {
  rangeBegin = slots.begin;
  int64_t panel = slotsPerPanel(slots.end - slots.begin);
  for (int64_t begin = slots.begin; begin < slots.end; begin += panel) {
    if (begin > slots.begin)
      os << '\n';
    TextRange now = {begin, std::min(begin + panel, slots.end)};
    writeRuler(now);
    writeWorkers(now);
  }
}

void TextPicture::writeLeftOut() {
  auto write = [&](ArrayRef<TextRange> ranges, StringRef what) {
    if (ranges.size() < 2)
      return;
    int64_t begin = ranges[0].end, end = ranges[1].begin;
    os << what << ' ' << begin << " to " << end - 1 << " are left out; --text-"
       << what << '=' << begin << ':' << end << " draws them, --text-" << what
       << "=: all\n";
  };
  write(workerRanges, "workers");
  write(slotRanges, "slots");
}

/// Reports cells that take no slots, or less than a column.
void TextPicture::writeShort() {
  int64_t numShort = 0;
  for (const auto &row : picture.rows)
    numShort += llvm::count_if(row, [&](const Box &box) {
      return box.end - box.begin < scale.slotsPerColumn;
    });
  if (scale.slotsPerColumn > 1)
    os << "a column is " << scale.slotsPerColumn << " slots\n";
  if (numShort > 0)
    os << "cells shorter than a column, which may be missing: " << numShort
       << '\n';
}

void TextPicture::write() {
  writeTitle();
  if (slotRanges[0].begin == slotRanges[0].end ||
      workerRanges[0].begin == workerRanges[0].end)
    os << "nothing to draw: the table has " << picture.rows.size()
       << " workers and " << numSlots << " slots\n";
  bool isFirst = true;
  for (TextRange slots : slotRanges) {
    if (!isFirst)
      writeGap();
    isFirst = false;
    writePanels(slots);
  }
  writeShort();
  writeLeftOut();
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

llvm::Error pipesched::writeTextPictures(raw_ostream &os,
                                         ArrayRef<const NamedTable *> tables,
                                         const TextPictureOptions &options) {
  llvm::Expected<std::vector<Picture>> pictures = picturesOfSlots(tables);
  if (!pictures)
    return pictures.takeError();
  bool withStage = llvm::any_of(
      *pictures, [](const Picture &picture) { return picture.numShades > 1; });
  for (const Picture &picture : *pictures) {
    TextPicture(os, picture, options, withStage).write();
    os << '\n';
  }
  writeTextLegend(os, *pictures, options, withStage);
  return llvm::Error::success();
}
