//===- Cells.cpp - Cells in text, attributes and bytecode -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every large schedule is read and printed here. Therefore cells are read from
// the source text itself, without an allocation per cell.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Cells.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/APInt.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/Endian.h"
#include <array>
#include <cstring>
#include <list>

using namespace mlir;

namespace pipesched::pipe {

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Reads the digits at the front of `text` and removes them. A number above
/// `limit` stops growing, so that it cannot overflow.
static int64_t takeNumber(StringRef &text, int64_t limit) {
  int64_t value = 0;
  size_t length = 0;
  for (; length < text.size() && llvm::isDigit(text[length]); ++length)
    if (value <= limit)
      value = value * 10 + (text[length] - '0');
  text = text.drop_front(length);
  return value;
}

/// Parses `_` or `_12`.
static ParseResult parseIdle(AsmParser &parser, SMLoc loc, StringRef word,
                             Cell &cell) {
  StringRef digits = word.drop_front();
  bool isOne = digits.empty();
  int64_t slots = isOne ? 1 : takeNumber(digits, Cell::kMaxMicrobatches);
  if (!digits.empty())
    return parser.emitError(loc) << "unknown cell '" << word << "'";
  if (slots < 1 || slots > Cell::kMaxMicrobatches)
    return parser.emitError(loc)
           << "idle slots of '" << word << "' are not from 1 to "
           << Cell::kMaxMicrobatches;
  cell = Cell::idle(slots);
  return success();
}

static thread_local int64_t slicesInText = 1;

SlicesInText::SlicesInText(int64_t numSlices) : outer(slicesInText) {
  slicesInText = numSlices;
}

SlicesInText::~SlicesInText() { slicesInText = outer; }

/// Emits an error at the slice in `text`, the text of a cell, or at its
/// microbatch; `rest` is the text after the microbatch.
static ParseResult emitSliceError(AsmParser &parser, SMLoc loc, StringRef text,
                                  StringRef rest, bool isPerPath) {
  int64_t numSlices = slicesInText;
  if (isPerPath)
    return parser.emitError(loc) << "'" << text << "' names a slice, but "
                                 << describePhases(kPerPathPhases, " and ")
                                 << " are of a whole stage";
  if (numSlices == 1)
    return parser.emitError(loc)
           << "'" << text << "' names a slice, but its schedule has no slices";
  if (rest.empty())
    return parser.emitError(loc)
           << "'" << text << "' names no slice; wanted a cell as 2F0.1, with a "
           << "slice from 0 to " << numSlices - 1;
  StringRef digits = rest.drop_front();
  if (takeNumber(digits, numSlices) >= numSlices)
    return parser.emitError(loc)
           << "slice of '" << text << "' is out of range: there are "
           << numSlices << " (0 to " << numSlices - 1 << ")";
  return parser.emitError(loc) << "microbatch of '" << text << "' is above "
                               << Cell::kMaxMicrobatches / numSlices - 1;
}

/// Emits the reason why `number` + `word` is not a cell.
static ParseResult emitCellError(AsmParser &parser, SMLoc loc, StringRef number,
                                 StringRef word) {
  std::string text = (number + word).str();
  if (std::optional<Phase> phase = phaseFromLetter(word.front());
      !phase || *phase == Phase::Idle)
    return parser.emitError(loc)
           << "unknown phase '" << word.front() << "' in '" << text
           << "'; wanted one of "
           << describePhases(kAllPhases - Phase::Idle, ", ");
  StringRef rest = word.drop_front();
  if (rest.empty())
    return parser.emitError(loc)
           << "no microbatch after '" << text << "'; wanted a cell as 2F0";
  takeNumber(rest, Cell::kMaxMicrobatches);
  if (StringRef digits = rest; !rest.empty()) {
    bool isSlice = digits.consume_front(".") && !digits.empty();
    takeNumber(digits, Cell::kMaxMicrobatches);
    if (!isSlice || !digits.empty())
      return parser.emitError(loc)
             << "unknown cell '" << text << "'; wanted a cell as 2F0";
  }
  int64_t stage = takeNumber(number, Cell::kMaxStages);
  if (stage >= Cell::kMaxStages)
    return parser.emitError(loc)
           << "stage of '" << text << "' is above " << Cell::kMaxStages - 1;
  bool isPerPath = kPerPathPhases.contains(*phaseFromLetter(word.front()));
  if (!rest.empty() || (slicesInText > 1 && !isPerPath))
    return emitSliceError(parser, loc, text, rest, isPerPath);
  return parser.emitError(loc) << "microbatch of '" << text << "' is above "
                               << Cell::kMaxMicrobatches;
}

/// Parses tokens that are not a cell, and emits the reason.
static ParseResult parseNoCell(AsmParser &parser, SMLoc loc) {
  const char *begin = loc.getPointer(), *end = begin;
  while (llvm::isDigit(*end))
    ++end;
  StringRef number(begin, end - begin), word;
  APInt unused;
  OptionalParseResult consumed = parser.parseOptionalDecimalInteger(unused);
  if (!consumed.has_value() || number.empty())
    return parser.emitError(loc) << "expected a cell as 2F0, or _ for idle";
  if (failed(*consumed))
    return failure();
  if (parser.getCurrentLocation().getPointer() != end ||
      failed(parser.parseOptionalKeyword(&word)))
    return parser.emitError(loc) << "expected a phase letter right after stage "
                                 << number << ", as in " << number << "F0";
  return emitCellError(parser, loc, number, word);
}

/// Reads the digits at `text` and advances after them. The source text ends
/// with a zero, so the first character that is not a digit can always be read.
static int64_t scanNumber(const char *&text, int64_t limit) {
  int64_t value = 0;
  for (; llvm::isDigit(*text); ++text)
    if (value <= limit)
      value = value * 10 + (*text - '0');
  return value;
}

/// Reads `.1` after a microbatch, advances after it and returns the unit; -1 if
/// there is no such slice.
static int64_t scanSlice(const char *&text, int64_t microbatch,
                         int64_t numSlices) {
  if (*text != '.' || !llvm::isDigit(text[1]))
    return -1;
  int64_t slice = scanNumber(++text, numSlices);
  if (slice >= numSlices ||
      microbatch > (Cell::kMaxMicrobatches - slice) / numSlices)
    return -1;
  return microbatch * numSlices + slice;
}

/// Whether the lexer would read a character as a part of the preceding word.
static bool continuesWord(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
}

namespace {
/// The phases by their letters; Idle for all other characters.
struct PhasesByLetter {
  PhasesByLetter() {
    for (unsigned letter = 0; letter < phases.size(); ++letter)
      phases[letter] = phaseFromLetter(letter).value_or(Phase::Idle);
  }
  Phase operator[](char letter) const {
    return phases[static_cast<unsigned char>(letter)];
  }

private:
  std::array<Phase, 256> phases;
};
} // namespace

static const PhasesByLetter &phasesByLetter() {
  static const PhasesByLetter phases;
  return phases;
}

/// Reads a cell at `text`; returns the text after it, or null if there is no
/// cell.
static const char *scanCell(const char *text, const PhasesByLetter &phases,
                            int64_t numSlices, Cell &cell) {
  const char *stageBegin = text;
  int64_t stage = scanNumber(text, Cell::kMaxStages);
  if (text == stageBegin)
    return nullptr;
  Phase phase = phases[*text];
  if (phase == Phase::Idle)
    return nullptr;
  const char *microbatchBegin = ++text;
  int64_t number = scanNumber(text, Cell::kMaxMicrobatches);
  if (text == microbatchBegin || number > Cell::kMaxMicrobatches)
    return nullptr;
  if (numSlices > 1 && !kPerPathPhases.contains(phase))
    number = scanSlice(text, number, numSlices);
  if (number < 0 || continuesWord(*text) || stage >= Cell::kMaxStages)
    return nullptr;
  cell = Cell(stage, phase, number);
  return text;
}

/// Advances the parser over a cell that has been read from the text. MLIR's
/// lexer makes two tokens of it, an integer and a word. The integer is parsed
/// as a list of dimensions, which avoids an APInt that would take longer than
/// all other work.
static ParseResult skipCell(AsmParser &parser) {
  SmallVector<int64_t, 1> stage;
  StringRef word;
  return failure(parser.parseDimensionList(stage, /*allowDynamic=*/false,
                                           /*withTrailingX=*/false) ||
                 failed(parser.parseOptionalKeyword(&word)));
}

ParseResult parseCell(AsmParser &parser, Cell &cell) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (*loc.getPointer() == '_' && succeeded(parser.parseOptionalKeyword(&word)))
    return parseIdle(parser, loc, word, cell);
  if (scanCell(loc.getPointer(), phasesByLetter(), slicesInText, cell))
    return skipCell(parser);
  return parseNoCell(parser, loc);
}

/// Parses cells as long as each is followed by exactly one space. The cells are
/// read from the text only, so the parser is just advanced over them.
static ParseResult parseSpacedCells(AsmParser &parser,
                                    std::vector<Cell> &cells) {
  const char *text = parser.getCurrentLocation().getPointer();
  const PhasesByLetter &phases = phasesByLetter();
  int64_t numSlices = slicesInText;
  Cell cell;
  while ((text = scanCell(text, phases, numSlices, cell))) {
    if (skipCell(parser))
      return failure();
    cells.push_back(cell);
    if (*text != ' ' || !llvm::isDigit(*++text))
      break;
  }
  return success();
}

/// Guesses the number of cells of a row from their separators. A cell and its
/// separator have three characters or more, except for `_`.
static size_t guessCells(const char *text) {
  const char *end = std::strchr(text, ']');
  if (!end)
    return 0;
  size_t separators =
      std::count(text, end, ' ') + std::count(text, end, '+') + 1;
  return std::min<size_t>(separators, (end - text) / 3 + 1);
}

ParseResult parseCells(AsmParser &parser, std::vector<Cell> &cells) {
  if (parser.parseLSquare())
    return failure();
  cells.clear();
  cells.reserve(guessCells(parser.getCurrentLocation().getPointer()));
  bool overlaps = false;
  while (overlaps || failed(parser.parseOptionalRSquare())) {
    size_t size = cells.size();
    if (parseSpacedCells(parser, cells) ||
        (cells.size() == size && parseCell(parser, cells.emplace_back())))
      return failure();
    overlaps = succeeded(parser.parseOptionalPlus());
    cells.back() = cells.back().withOverlap(overlaps);
  }
  cells.shrink_to_fit();
  return success();
}

/// The longest printed cell, including its separator.
static constexpr size_t kMaxCellText = 32;

static char *writeNumber(char *out, uint64_t value) {
  char digits[20];
  unsigned count = 0;
  do
    digits[count++] = '0' + value % 10;
  while (value /= 10);
  while (count)
    *out++ = digits[--count];
  return out;
}

static char *writeCellText(char *out, CellName name) {
  Cell cell = name.cell;
  if (!cell.isIdle())
    out = writeNumber(out, cell.getStage());
  *out++ = phaseLetter(cell.getPhase());
  if (cell.isIdle() && cell.getIdleSlots() == 1)
    return out;
  if (!name.hasSlice())
    return writeNumber(out, cell.getNumber());
  out = writeNumber(out, cell.getUnit() / name.numSlices);
  *out++ = '.';
  return writeNumber(out, cell.getUnit() % name.numSlices);
}

void printCell(AsmPrinter &printer, CellName name) {
  char text[kMaxCellText];
  printer.getStream() << StringRef(text, writeCellText(text, name) - text);
}

void printCell(AsmPrinter &printer, Operation *op, Cell cell) {
  printCell(printer, nameCell(op, cell));
}

void printCells(AsmPrinter &printer, ArrayRef<Cell> cells, int64_t numSlices) {
  constexpr size_t kBufferSize = 4096;
  char buffer[kBufferSize];
  char *out = buffer;
  raw_ostream &os = printer.getStream();
  *out++ = '[';
  for (size_t i = 0; i < cells.size(); ++i) {
    if (out > buffer + kBufferSize - kMaxCellText) {
      os << StringRef(buffer, out - buffer);
      out = buffer;
    }
    out = writeCellText(out, {cells[i], numSlices});
    if (i + 1 < cells.size())
      *out++ = cells[i].overlapsNext() ? '+' : ' ';
  }
  os << StringRef(buffer, out - buffer) << ']';
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

Attribute cellToAttribute(MLIRContext *context, Cell cell) {
  return IntegerAttr::get(IntegerType::get(context, 64), toStored(cell));
}

LogicalResult cellFromAttribute(Cell &cell, Attribute attribute,
                                EmitErrorFn emitError) {
  auto integer = llvm::dyn_cast_or_null<IntegerAttr>(attribute);
  std::optional<Cell> stored;
  if (integer && integer.getType().isInteger(64))
    stored = fromStored(integer.getValue().getZExtValue());
  if (!stored)
    return emitError() << "expected the bits of a cell as i64, got "
                       << attribute;
  cell = *stored;
  return success();
}

Attribute cellsToAttribute(MLIRContext *context, ArrayRef<Cell> cells) {
  SmallVector<int64_t> bits;
  bits.reserve(cells.size());
  for (Cell cell : cells)
    bits.push_back(toStored(cell));
  return DenseI64ArrayAttr::get(context, bits);
}

/// Whether the last cell overlaps a next one. No row may end this way.
static bool endsOpen(ArrayRef<Cell> cells) {
  return !cells.empty() && cells.back().overlapsNext();
}

LogicalResult cellsFromAttribute(std::vector<Cell> &cells, Attribute attribute,
                                 EmitErrorFn emitError) {
  auto array = llvm::dyn_cast_or_null<DenseI64ArrayAttr>(attribute);
  if (!array)
    return emitError() << "expected cells as an i64 array, got " << attribute;
  cells.clear();
  cells.reserve(array.size());
  for (int64_t bits : array.asArrayRef()) {
    std::optional<Cell> cell = fromStored(bits);
    if (!cell)
      return emitError() << "entry " << cells.size() << " (" << bits
                         << ") is not the bits of a cell";
    cells.push_back(*cell);
  }
  if (endsOpen(cells))
    return emitError() << "the last cell overlaps a next one";
  return success();
}

llvm::hash_code hashCells(ArrayRef<Cell> cells) {
  ArrayRef<char> bytes(reinterpret_cast<const char *>(cells.data()),
                       cells.size() * sizeof(Cell));
  return llvm::hash_combine_range(bytes.begin(), bytes.end());
}

//===----------------------------------------------------------------------===//
// Bytecode
//===----------------------------------------------------------------------===//

void writeCell(DialectBytecodeWriter &writer, Cell cell) {
  writer.writeVarInt(toStored(cell));
}

LogicalResult readCell(DialectBytecodeReader &reader, Cell &cell) {
  uint64_t bits;
  if (failed(reader.readVarInt(bits)))
    return failure();
  std::optional<Cell> stored = fromStored(bits);
  if (!stored)
    return reader.emitError() << bits << " is not the bits of a cell";
  cell = *stored;
  return success();
}

/// The blobs of the file that this thread writes.
static std::list<std::vector<char>> &writtenCells() {
  static thread_local std::list<std::vector<char>> blobs;
  return blobs;
}

void dropWrittenCells() { writtenCells().clear(); }

void writeCells(DialectBytecodeWriter &writer, ArrayRef<Cell> cells) {
  if constexpr (kCodesAreNumbers &&
                llvm::endianness::native == llvm::endianness::little)
    return writer.writeOwnedBlob(
        ArrayRef(reinterpret_cast<const char *>(cells.data()),
                 cells.size() * sizeof(Cell)));
  std::vector<char> &bytes =
      writtenCells().emplace_back(cells.size() * sizeof(uint64_t));
  for (auto [i, cell] : llvm::enumerate(cells))
    llvm::support::endian::write64le(bytes.data() + i * sizeof(uint64_t),
                                     toStored(cell));
  writer.writeOwnedBlob(bytes);
}

static uint64_t storedBits(ArrayRef<char> blob, size_t i) {
  return llvm::support::endian::read64le(blob.data() + i * sizeof(uint64_t));
}

/// Whether all stored cells have the same bits in memory as in the file, and
/// none is an idle entry, which needs more checks. The loop has no early exit,
/// so it is vectorized.
static bool areAsInMemory(ArrayRef<char> blob) {
  if constexpr (!kCodesAreNumbers ||
                llvm::endianness::native != llvm::endianness::little)
    return false;
  bool areAll = true;
  for (size_t i = 0, e = blob.size() / sizeof(uint64_t); i != e; ++i) {
    uint64_t code = storedBits(blob, i) >> 56;
    areAll &=
        (code < kNumPhases) & (code != static_cast<uint64_t>(Phase::Idle));
  }
  return areAll;
}

LogicalResult readCells(DialectBytecodeReader &reader,
                        std::vector<Cell> &cells) {
  ArrayRef<char> blob;
  if (failed(reader.readBlob(blob)))
    return failure();
  if (blob.size() % sizeof(uint64_t) != 0)
    return reader.emitError() << "a row of " << blob.size()
                              << " bytes is not a whole number of cells";
  cells.resize(blob.size() / sizeof(uint64_t));
  bool areAll = areAsInMemory(blob);
  if (areAll && !blob.empty())
    std::memcpy(static_cast<void *>(cells.data()), blob.data(), blob.size());
  for (size_t i = 0; !areAll && i < cells.size(); ++i) {
    uint64_t bits = storedBits(blob, i);
    std::optional<Cell> cell = fromStored(bits);
    if (!cell)
      return reader.emitError()
             << "entry " << i << " (" << bits << ") is not the bits of a cell";
    cells[i] = *cell;
  }
  if (endsOpen(cells))
    return reader.emitError() << "the last cell overlaps a next one";
  return success();
}

} // namespace pipesched::pipe
