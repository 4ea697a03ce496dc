//===- Svg.cpp - Drawings of schedules as in papers -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One page, from top to bottom: a legend, then for each picture a heading, rows
// and an axis.
//
//             left                                            width
//   legend     |  [] F forward   [] B backward   == send/receive
//   heading    |  one_f_one_b  1f1b · 4 workers × 4 microbatches · ...
//   worker 0   |  [0][1][2][3]      [0 ][1 ][2 ][3 ]
//              |     === ===           lanes of bars, if there are any
//   us         0       5       10      axis
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Svg.h"
#include "Format.h"
#include "Palette.h"
#include "Picture.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::raw_ostream;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Geometry
//===----------------------------------------------------------------------===//

namespace {

/// A length on the page, printed with at most two digits after the point.
struct Px {
  double value;
};

raw_ostream &operator<<(raw_ostream &os, Px length) {
  auto hundredths = static_cast<int64_t>(length.value * 100 + 0.5);
  writeDecimal(os, hundredths, 100);
  return os;
}

/// Sizes in px that all pictures of a page share.
struct Layout {
  static constexpr double kRight = 28, kTop = 18, kPxPerCharacter = 6.1;
  static constexpr double kLegendLine = 20, kLegendGap = 16, kSwatch = 15;
  static constexpr double kHeading = 26, kAxis = 30, kGap = 22;
  static constexpr double kLane = 4, kRowGap = 3, kWorkerGap = 6;
  static constexpr double kMinPlot = 960, kMaxPlot = 3200, kPerCell = 20;

  double left = 76; ///< left edge of the plot
  double plotWidth = kMinPlot;
  double rowHeight = 24;
  double pxPerUnit = 1;
  /// A lane that one picture uses is reserved in all pictures.
  bool usesLane[kNumLanes] = {};

  explicit Layout(ArrayRef<Picture> pictures);

  /// Returns the slots or ps per pixel, rounded up.
  int64_t pixel() const {
    return static_cast<int64_t>(std::ceil(1 / pxPerUnit));
  }
  double width() const { return left + plotWidth + kRight; }
  double x(int64_t at) const {
    return left + static_cast<double>(at) * pxPerUnit;
  }
  double lanesHeight() const { return kLane * llvm::count(usesLane, true); }
  double rowPitch() const { return rowHeight + lanesHeight() + kRowGap; }
  double laneOffset(Lane lane) const {
    auto before = ArrayRef(usesLane).take_front(static_cast<unsigned>(lane));
    return rowHeight + 0.5 + kLane * llvm::count(before, true);
  }
  double rowsHeight(const Picture &picture) const {
    return rowPitch() * static_cast<double>(picture.rows.size());
  }
  double pictureHeight(const Picture &picture) const {
    return kHeading + rowsHeight(picture) + kAxis + kGap;
  }
  double workerHeight(size_t numPictures) const {
    return rowPitch() * static_cast<double>(numPictures) + kWorkerGap;
  }
  double togetherHeight(ArrayRef<Picture> pictures) const {
    auto numPictures = static_cast<double>(pictures.size());
    auto numWorkers = static_cast<double>(pictures.front().rows.size());
    return kHeading * numPictures + workerHeight(pictures.size()) * numWorkers +
           kAxis + kGap;
  }
};

} // namespace

static double digitsOf(size_t number) {
  return static_cast<double>(std::to_string(number).size());
}

Layout::Layout(ArrayRef<Picture> pictures) {
  size_t mostCells = 0, mostRows = 0;
  int64_t longest = 1;
  for (const Picture &picture : pictures) {
    longest = std::max(longest, picture.length);
    mostRows = std::max(mostRows, picture.rows.size());
    for (const auto &row : picture.rows)
      mostCells = std::max(mostCells, row.size());
    for (const auto &bars : picture.bars)
      for (const Bar &bar : bars)
        usesLane[static_cast<unsigned>(bar.lane)] = true;
    for (const auto &marks : picture.marks)
      for (const Mark &mark : marks)
        usesLane[static_cast<unsigned>(mark.lane())] = true;
  }
  left = std::max(left, 16 + kPxPerCharacter * (7 + digitsOf(mostRows)));
  plotWidth =
      std::clamp(kPerCell * static_cast<double>(mostCells), kMinPlot, kMaxPlot);
  pxPerUnit = plotWidth / static_cast<double>(longest);
  rowHeight = std::clamp(
      640.0 / static_cast<double>(std::max<size_t>(mostRows, 1)), 10.0, 24.0);
}

//===----------------------------------------------------------------------===//
// Page
//===----------------------------------------------------------------------===//

namespace {

/// Swatches of a style, one per shade, and their meaning.
struct LegendItem {
  char style;
  int numSwatches;
  std::string text;
  double x = 0;
  int line = 0;
};

class Page {
public:
  Page(raw_ostream &os, std::vector<Picture> pictures);

  void write();
  void writeTogether();

private:
  void writeStart(double picturesHeight);
  double legendHeight() const {
    return Layout::kTop + Layout::kLegendLine * numLegendLines +
           Layout::kLegendGap;
  }
  void writeHead(double height);
  void writeStyles();
  void writeLegend();
  std::string describeLanes() const;
  void layOutLegend();
  void writeText(double x, double y, StringRef style, const llvm::Twine &text);
  void writeHeading(const Picture &picture, double top);
  void writePicture(const Picture &picture, double top);
  void writeAllTogether(double top);
  void writeAxis(const Picture &picture, double top, double bottom);
  void writeWorker(int64_t worker, double top);
  void writeRow(const Picture &picture, int64_t worker, double top);
  void writeBox(const Picture &picture, const Box &box, double top);
  void writeCell(const Picture &picture, const Box &box, Cell cell, double top,
                 double height);
  void writeNumber(const Picture &picture, Cell cell, double x, double y,
                   double width, double height, bool isOnDark);
  void writeBars(const Picture &picture, int64_t worker, double top);
  void writeMarks(const Picture &picture, int64_t worker, double top);
  void writeSpan(const Picture &picture, int64_t begin, int64_t end);

  raw_ostream &os;
  std::vector<Picture> pictures;
  Layout layout;
  PhaseSet phases; ///< the drawn phases
  int numShades = 1;
  bool hasRuns = false; ///< whether some cells narrower than a pixel are merged
  std::vector<LegendItem> legend;
  int numLegendLines = 1;
};

} // namespace

Page::Page(raw_ostream &os, std::vector<Picture> drawn)
    : os(os), pictures(std::move(drawn)), layout(pictures),
      phases(phasesOf(pictures)) {
  for (Picture &picture : pictures) {
    numShades = std::max(numShades, picture.numShades);
    hasRuns |= mergeShort(picture, layout.pixel());
  }
}

static StringRef axisTitle(const Picture &picture) {
  return picture.isInSlots ? "slot" : timeUnitFor(picture.length).name;
}

/// Writes one class per phase and shade (F0, F1, B0, ...), and `l` and `d` for
/// text on dark and light colours.
void Page::writeStyles() {
  os << "<style>\n"
        "text{font-family:Helvetica,Arial,'DejaVu Sans',sans-serif;"
        "font-size:11px;fill:#333}\n"
        ".t{font-size:14px;font-weight:bold;fill:#111}\n"
        ".s{font-size:12px;fill:#555}\n"
        ".w{text-anchor:end}\n"
        ".a{text-anchor:middle;fill:#666}\n"
        ".u{text-anchor:end;fill:#666;font-style:italic}\n"
        ".l{text-anchor:middle;fill:#fff}\n"
        ".d{text-anchor:middle;fill:#111}\n"
        ".i{fill:#eef0f2}\n"
        ".g{stroke:#d5d9dd;stroke-width:.6}\n"
        ".e{stroke:#333;stroke-width:1.2}\n"
        ".p{fill:none;stroke:#000;stroke-width:1.2}\n";
  (phases & kCostedPhases).forEach([&](Phase phase) {
    for (int shade = 0; shade < numShades; ++shade)
      os << '.' << phaseLetter(phase) << shade
         << "{fill:" << phaseColour(phase, shade, numShades) << "}\n";
  });
  os << "</style>\n";
}

void Page::writeHead(double height) {
  os << R"(<?xml version="1.0" encoding="UTF-8"?>)" << '\n'
     << R"(<svg xmlns="http://www.w3.org/2000/svg" width=")"
     << Px{layout.width()} << R"(" height=")" << Px{height}
     << R"(" viewBox="0 0 )" << Px{layout.width()} << ' ' << Px{height}
     << "\">\n<title>Pipeline schedules</title>\n";
  writeStyles();
  os << R"(<rect width="100%" height="100%" fill="#fff"/>)" << '\n';
}

/// Escapes any text for XML.
static void writeEscaped(llvm::raw_ostream &os, StringRef text) {
  llvm::printHTMLEscaped(printableName(text), os);
}

void Page::writeText(double x, double y, StringRef style,
                     const llvm::Twine &text) {
  os << "<text x=\"" << Px{x} << "\" y=\"" << Px{y} << '"';
  if (!style.empty())
    os << " class=\"" << style << '"';
  os << '>';
  writeEscaped(os, text.str());
  os << "</text>\n";
}

//===----------------------------------------------------------------------===//
// Legend
//===----------------------------------------------------------------------===//

std::string Page::describeLanes() const {
  std::string names;
  for (const EnumName<Lane> &lane : EnumNames<Lane>::values)
    if (layout.usesLane[static_cast<unsigned>(lane.value)])
      names += (names.empty() ? "" : ", ") + lane.name.str();
  return names.empty() ? "" : "bars below a row: " + names;
}

/// Places the items line by line.
void Page::layOutLegend() {
  constexpr double kSpace = 22;
  (phases & kCostedPhases).forEach([&](Phase phase) {
    legend.push_back({phaseLetter(phase), numShades,
                      (enumName(phase) + " " + enumMeaning(phase)).str()});
  });
  legend.push_back({'i', 1, "idle"});
  std::string runs = "narrower than a pixel: several cells as one";
  for (const std::string &text :
       {describeShades(pictures), describeLanes(), hasRuns ? runs : ""})
    if (!text.empty())
      legend.push_back({' ', 0, text});
  double x = layout.left, right = layout.width() - Layout::kRight;
  for (LegendItem &item : legend) {
    double width =
        Layout::kSwatch * item.numSwatches + 5 +
        Layout::kPxPerCharacter * static_cast<double>(item.text.size());
    if (x + width > right && x > layout.left) {
      x = layout.left;
      ++numLegendLines;
    }
    item.x = x;
    item.line = numLegendLines - 1;
    x += width + kSpace;
  }
}

void Page::writeLegend() {
  for (const LegendItem &item : legend) {
    double x = item.x, y = Layout::kTop + Layout::kLegendLine * item.line;
    for (int shade = 0; shade < item.numSwatches; ++shade) {
      os << "<rect class=\"" << item.style;
      if (item.style != 'i') // idle entries have no shades
        os << shade;
      os << "\" x=\"" << Px{x} << "\" y=\"" << Px{y} << "\" width=\""
         << Px{Layout::kSwatch - 1} << "\" height=\"" << Px{Layout::kSwatch - 1}
         << "\"/>\n";
      x += Layout::kSwatch;
    }
    writeText(x + (item.numSwatches > 0 ? 5 : 0), y + 11, "", item.text);
  }
}

//===----------------------------------------------------------------------===//
// Pictures
//===----------------------------------------------------------------------===//

/// Writes grid lines, ticks and their numbers, below the rows.
void Page::writeAxis(const Picture &picture, double top, double bottom) {
  constexpr double kPxPerTick = 80;
  int64_t step = niceStep(std::max(kPxPerTick / layout.pxPerUnit, 1.0));
  int64_t unit = picture.isInSlots ? 1 : timeUnitFor(picture.length).ps;
  for (int64_t at = 0;; at += step) {
    os << "<line class=\"g\" x1=\"" << Px{layout.x(at)} << "\" y1=\""
       << Px{top - 3} << "\" x2=\"" << Px{layout.x(at)} << "\" y2=\""
       << Px{bottom + 4} << "\"/>\n<text class=\"a\" x=\"" << Px{layout.x(at)}
       << "\" y=\"" << Px{bottom + 16} << "\">";
    writeDecimal(os, at, unit);
    os << "</text>\n";
    if (at > picture.length - step)
      break;
  }
  writeText(layout.left - 12, bottom + 16, "u", axisTitle(picture));
  os << "<line class=\"e\" x1=\"" << Px{layout.x(picture.length)} << "\" y1=\""
     << Px{top - 3} << "\" x2=\"" << Px{layout.x(picture.length)} << "\" y2=\""
     << Px{bottom + 4} << "\"/>\n";
}

/// Writes the microbatch. The largest number of the picture determines the text
/// size, so that equal cells have equal text; cells that are too narrow have no
/// number.
void Page::writeNumber(const Picture &picture, Cell cell, double x, double y,
                       double width, double height, bool isOnDark) {
  constexpr double kDigitWidth = 0.62, kDigitHeight = 0.72;
  constexpr int kSmallest = 5, kUsual = 11;
  double fits = (width - 1) / (kDigitWidth * picture.numDigits);
  int size = static_cast<int>(std::min<double>({kUsual, fits, 0.75 * height}));
  if (size < kSmallest)
    return;
  os << "<text class=\"" << (isOnDark ? 'l' : 'd') << "\" x=\""
     << Px{x + width / 2} << "\" y=\""
     << Px{y + height / 2 + kDigitHeight * size / 2} << '"';
  if (size != kUsual)
    os << " style=\"font-size:" << size << "px\"";
  os << '>';
  if (cell.isPerPath())
    os << phaseLetter(cell.getPhase());
  else
    os << picture.numberOf(cell);
  os << "</text>\n";
}

/// Writes the text that a viewer shows at the pointer.
void Page::writeSpan(const Picture &picture, int64_t begin, int64_t end) {
  if (picture.isInSlots)
    os << "slots " << begin << " to " << end;
  else
    os << formatTime(begin) << " to " << formatTime(end);
}

void Page::writeCell(const Picture &picture, const Box &box, Cell cell,
                     double top, double height) {
  int shade = picture.shade(cell);
  double x = layout.x(box.begin), width = layout.x(box.end) - x;
  double gap = std::min(0.8, width / 8); // a gap between neighbours
  os << "<rect class=\"" << phaseLetter(cell.getPhase()) << shade << "\" x=\""
     << Px{x} << "\" y=\"" << Px{top} << "\" width=\"" << Px{width - gap}
     << "\" height=\"" << Px{height} << "\"><title>" << picture.nameOf(cell);
  if (box.numMore > 0)
    os << " and " << box.numMore << " more";
  os << ": ";
  writeSpan(picture, box.begin, box.end);
  os << "</title></rect>\n";
  if (box.numMore > 0)
    return;
  writeNumber(picture, cell, x, top, width - gap, height,
              phaseColour(cell.getPhase(), shade, numShades).isDark());
}

/// Draws the cells of a pair above each other, in one black frame.
void Page::writeBox(const Picture &picture, const Box &box, double top) {
  if (!box.second)
    return writeCell(picture, box, box.cell, top, layout.rowHeight);
  double half = layout.rowHeight / 2;
  writeCell(picture, box, box.cell, top, half);
  writeCell(picture, box, *box.second, top + half, half);
  double x = layout.x(box.begin);
  os << "<rect class=\"p\" x=\"" << Px{x} << "\" y=\"" << Px{top}
     << "\" width=\"" << Px{std::max(0.0, layout.x(box.end) - x - 0.8)}
     << "\" height=\"" << Px{layout.rowHeight} << "\"/>\n";
}

/// Bars have full colour while the queue is held, and a faint colour until
/// arrival.
void Page::writeBars(const Picture &picture, int64_t worker, double top) {
  for (const Bar &bar : picture.bars[worker]) {
    double y = top + layout.laneOffset(bar.lane);
    auto write = [&](int64_t begin, int64_t end, StringRef opacity) {
      if (begin == end)
        return;
      os << "<rect class=\"" << phaseLetter(bar.cell.getPhase())
         << picture.shade(bar.cell) << "\" opacity=\"" << opacity << "\" x=\""
         << Px{layout.x(begin)} << "\" y=\"" << Px{y} << "\" width=\""
         << Px{layout.x(end) - layout.x(begin)} << "\" height=\""
         << Px{Layout::kLane - 1} << "\"><title>"
         << (bar.lane == Lane::Receive ? "receive " : "")
         << (bar.lane == Lane::Send ? "send " : "") << picture.nameOf(bar.cell);
      if (bar.numMore > 0)
        os << " and " << bar.numMore << " more";
      os << ": ";
      writeSpan(picture, begin, end);
      os << "</title></rect>\n";
    };
    write(bar.begin, bar.release, ".85");
    write(bar.release, bar.end, ".4");
  }
}

/// Copies and joins have a position in the row but no length. They are short
/// bars that start at their slot, next to each other if they share a slot;
/// joins are fainter.
void Page::writeMarks(const Picture &picture, int64_t worker, double top) {
  constexpr double kLength = 5, kApart = 7;
  double free[kNumLanes] = {};
  for (const Mark &mark : picture.marks[worker]) {
    double &next = free[static_cast<unsigned>(mark.lane())];
    double x = std::max(layout.x(mark.at), next);
    next = x + kApart;
    Phase phase = mark.lane() == Lane::Offload ? Phase::Offload : Phase::Reload;
    os << "<rect class=\"" << phaseLetter(phase) << picture.shade(mark.cell)
       << '"' << (mark.cell.isJoin() ? " opacity=\".4\"" : "") << " x=\""
       << Px{x} << "\" y=\"" << Px{top + layout.laneOffset(mark.lane())}
       << "\" width=\"" << Px{kLength} << "\" height=\""
       << Px{Layout::kLane - 1} << "\"><title>" << picture.nameOf(mark.cell)
       << ": slot " << mark.at << "</title></rect>\n";
  }
}

void Page::writeWorker(int64_t worker, double top) {
  writeText(layout.left - 12, top + layout.rowHeight / 2 + 4, "w",
            "worker " + llvm::Twine(worker));
}

void Page::writeRow(const Picture &picture, int64_t worker, double top) {
  os << "<rect class=\"i\" x=\"" << Px{layout.left} << "\" y=\"" << Px{top}
     << "\" width=\"" << Px{layout.x(picture.length) - layout.left}
     << "\" height=\"" << Px{layout.rowHeight} << "\"/>\n";
  for (const Box &box : picture.rows[worker])
    writeBox(picture, box, top);
  writeBars(picture, worker, top);
  writeMarks(picture, worker, top);
}

void Page::writeHeading(const Picture &picture, double top) {
  constexpr double kPxPerLarge = 9.6;
  double room = layout.width() - layout.left - Layout::kRight -
                Layout::kPxPerCharacter * 1.1 *
                    static_cast<double>(picture.subtitle.size());
  std::string title = shorten(
      picture.title, static_cast<size_t>(std::max(room, 240.0) / kPxPerLarge));
  os << "<text x=\"" << Px{layout.left} << "\" y=\"" << Px{top + 12} << "\">";
  if (title != picture.title) {
    os << "<title>";
    writeEscaped(os, picture.title);
    os << "</title>";
  }
  os << "<tspan class=\"t\">";
  writeEscaped(os, title);
  os << "</tspan><tspan class=\"s\" dx=\"12\">";
  writeEscaped(os, picture.subtitle);
  os << "</tspan></text>\n";
}

void Page::writePicture(const Picture &picture, double top) {
  writeHeading(picture, top);
  top += Layout::kHeading;
  writeAxis(picture, top, top + layout.rowsHeight(picture));
  for (size_t worker = 0; worker < picture.rows.size(); ++worker) {
    writeWorker(worker, top);
    writeRow(picture, worker, top);
    top += layout.rowPitch();
  }
}

/// Writes all headings, then for each worker a row of each picture, in the
/// order of the headings, and the axis of the longest picture.
void Page::writeAllTogether(double top) {
  for (const Picture &picture : pictures) {
    writeHeading(picture, top);
    top += Layout::kHeading;
  }
  const Picture &longest =
      *llvm::max_element(pictures, [](const Picture &a, const Picture &b) {
        return a.length < b.length;
      });
  size_t numWorkers = longest.rows.size();
  double pitch = layout.workerHeight(pictures.size());
  writeAxis(longest, top, top + pitch * static_cast<double>(numWorkers));
  for (size_t worker = 0; worker < numWorkers; ++worker) {
    double rowTop = top + pitch * static_cast<double>(worker);
    writeWorker(worker, rowTop);
    for (const Picture &picture : pictures) {
      writeRow(picture, worker, rowTop);
      rowTop += layout.rowPitch();
    }
  }
}

void Page::writeStart(double picturesHeight) {
  layOutLegend();
  writeHead(legendHeight() + picturesHeight);
  writeLegend();
}

void Page::writeTogether() {
  writeStart(layout.togetherHeight(pictures));
  writeAllTogether(legendHeight());
  os << "</svg>\n";
}

void Page::write() {
  double height = 0;
  for (const Picture &picture : pictures)
    height += layout.pictureHeight(picture);
  writeStart(height);
  double top = legendHeight();
  for (const Picture &picture : pictures) {
    writePicture(picture, top);
    top += layout.pictureHeight(picture);
  }
  os << "</svg>\n";
}

static llvm::Error checkSameWorkers(ArrayRef<Picture> pictures) {
  const Picture &first = pictures.front();
  for (const Picture &picture : pictures)
    if (picture.rows.size() != first.rows.size())
      return llvm::createStringError(
          "'" + picture.title + "' has " + llvm::Twine(picture.rows.size()) +
          " workers and '" + first.title + "' " +
          llvm::Twine(first.rows.size()) +
          "; rows can be below each other only if they are of the same "
          "workers");
  return llvm::Error::success();
}

llvm::Error pipesched::writeSvg(raw_ostream &os,
                                ArrayRef<const NamedEvaluation *> results,
                                SvgVariant variant) {
  if (variant == SvgVariant::Slots) {
    for (const NamedEvaluation *result : results)
      if (result->isProgram())
        return llvm::createStringError(
            "program '" + printableName(result->name) +
            "' has no slots; draw its timeline, or keep the schedule when "
            "converting it");
    return writeSlotSvg(os, llvm::to_vector_of<const NamedTable *>(results));
  }
  std::vector<Picture> pictures;
  pictures.reserve(results.size());
  for (const NamedEvaluation *result : results)
    pictures.push_back(pictureOfTimeline(*result));
  if (variant == SvgVariant::Rows && !pictures.empty()) {
    if (llvm::Error error = checkSameWorkers(pictures))
      return error;
    Page(os, std::move(pictures)).writeTogether();
    return llvm::Error::success();
  }
  Page(os, std::move(pictures)).write();
  return llvm::Error::success();
}

llvm::Error pipesched::writeSlotSvg(raw_ostream &os,
                                    ArrayRef<const NamedTable *> tables) {
  llvm::Expected<std::vector<Picture>> pictures = picturesOfSlots(tables);
  if (!pictures)
    return pictures.takeError();
  Page(os, std::move(*pictures)).write();
  return llvm::Error::success();
}
