//===- RowText.cpp - Rows in the text of a file ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scans words, comments and strings, because MLIR's parser stops at incomplete
// text.
//
//===----------------------------------------------------------------------===//

#include "RowText.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

static bool isWordChar(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
}

namespace {
/// Goes through a text word by word; other characters count one by one.
class Scanner {
public:
  explicit Scanner(StringRef text) : text(text) {}

  /// Returns the next word or character; empty at the end. Skips spaces and
  /// comments; a string is one word.
  TextSpan next() {
    skipSpace();
    size_t begin = at;
    if (at == text.size())
      return {begin, begin};
    if (text[at] == '"')
      at = std::min(text.find_first_of("\"\n", at + 1), text.size() - 1) + 1;
    else if (isWordChar(text[at]))
      while (at < text.size() && isWordChar(text[at]))
        ++at;
    else
      ++at;
    return {begin, at};
  }

  void goTo(size_t offset) { at = offset; }

private:
  void skipSpace() {
    while (at < text.size() &&
           (llvm::isSpace(text[at]) || text.substr(at).starts_with("//")))
      at =
          text[at] == '/' ? std::min(text.find('\n', at), text.size()) : at + 1;
  }

  StringRef text;
  size_t at = 0;
};
} // namespace

static bool isNumber(StringRef word) {
  return !word.empty() && llvm::all_of(word, llvm::isDigit);
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

/// Reads the words of a row after its bracket. If the row is not closed, it
/// ends at text that cannot start a cell.
static void readWords(RowText &row, Scanner &scanner) {
  StringRef chunk = row.chunk;
  while (true) {
    TextSpan span = scanner.next();
    StringRef word = row.textOf(span);
    row.isClosed = word == "]";
    bool isCell = !word.empty() && (llvm::isDigit(word[0]) || word[0] == '_');
    if (!isCell && word != "+") {
      row.end = span.begin;
      break;
    }
    if (isCell)
      row.words.push_back(span);
  }
  if (!row.isClosed) // after the last word, and before the next line
    row.end = chunk.take_front(row.end).rtrim().size();
}

static void setPlace(RowText &row, size_t place) {
  row.place = place;
  for (auto [i, span] : llvm::enumerate(row.words)) {
    if (span.begin <= place && place <= span.end)
      row.word = i;
    row.numBefore += span.end < place;
  }
}

/// Returns the part of a file around an offset that MLIR's server reads as one
/// module.
static TextSpan chunkAround(StringRef file, size_t offset) {
  constexpr StringRef kMark = "\n// -----";
  TextSpan chunk = {0, file.size()};
  size_t at = 0;
  while ((at = file.find(kMark, at)) != StringRef::npos) {
    size_t line = std::min(file.find('\n', at + 1), file.size() - 1) + 1;
    if (line > offset) {
      chunk.end = std::max(at, chunk.begin);
      break;
    }
    chunk.begin = at = line;
  }
  return chunk;
}

/// Reads the next `worker 0 runs [` and its words. Returns the spans of the
/// op's first word and of the bracket; empty spans at the end of the text.
static std::pair<TextSpan, TextSpan> readRow(RowText &row, Scanner &scanner) {
  while (true) {
    TextSpan op = scanner.next();
    if (op.begin == op.end)
      return {op, op};
    StringRef word = row.textOf(op);
    if (word != "worker" && word != "pipe.worker")
      continue;
    bool isRow = isNumber(row.textOf(scanner.next())) &&
                 row.textOf(scanner.next()) == "runs";
    TextSpan bracket = isRow ? scanner.next() : TextSpan();
    if (!isRow || row.textOf(bracket) != "[") {
      scanner.goTo(op.end);
      continue;
    }
    row.words.clear();
    readWords(row, scanner);
    return {op, bracket};
  }
}

std::optional<RowText> pipesched::findRow(StringRef file, size_t offset) {
  TextSpan span = chunkAround(file, offset);
  RowText row;
  row.chunk = file.slice(span.begin, span.end).str();
  row.chunkBegin = span.begin;
  size_t place = offset - span.begin;
  Scanner scanner(row.chunk);
  while (true) {
    auto [op, bracket] = readRow(row, scanner);
    if (op.begin == op.end || op.begin > place)
      return std::nullopt;
    bool isBehind = row.isClosed ? place > row.end : place > row.end + 1;
    if (place < bracket.end || isBehind)
      continue;
    StringRef before = StringRef(row.chunk).take_front(op.begin);
    row.line = before.count('\n') + 1;
    row.column = op.begin - (before.rfind('\n') + 1) + 1;
    setPlace(row, place);
    return row;
  }
}

/// Whether a word can be a cell: `_`, `_12`, `2F0`, `2F0.1`.
static bool isCellText(StringRef word) {
  auto dropDigits = [&] {
    size_t size = word.size();
    word = word.drop_while(llvm::isDigit);
    return word.size() < size;
  };
  if (word.consume_front("_"))
    return word.empty() || (dropDigits() && word.empty());
  if (!dropDigits() || word.empty() || !llvm::isAlpha(word[0]))
    return false;
  word = word.drop_front();
  return dropDigits() && (word.empty() || (word.consume_front(".") &&
                                           dropDigits() && word.empty()));
}

/// Overwrites a word with spaces, including the plus sign that connects it with
/// another cell.
static void blank(std::string &text, TextSpan span) {
  std::fill(text.begin() + span.begin, text.begin() + span.end, ' ');
  size_t before = StringRef(text).take_front(span.begin).rtrim().size();
  if (before > 0 && text[before - 1] == '+')
    text[before - 1] = ' ';
}

std::string RowText::repaired(bool dropsWord) const {
  std::string text = chunk;
  if (dropsWord && word)
    blank(text, words[*word]);
  RowText row;
  row.chunk = chunk;
  Scanner scanner(row.chunk);
  std::vector<size_t> ends;
  while (true) {
    auto [op, bracket] = readRow(row, scanner);
    if (op.begin == op.end)
      break;
    for (TextSpan span : row.words)
      if (!isCellText(row.textOf(span)))
        blank(text, span);
    if (!row.isClosed)
      ends.push_back(row.end);
  }
  for (size_t end : llvm::reverse(ends))
    text.insert(end, "]");
  return text;
}

std::optional<TextSpan> pipesched::findFamily(StringRef file, size_t offset) {
  size_t line = file.take_front(offset).rfind('\n') + 1;
  StringRef before = file.slice(line, offset);
  size_t quote = before.rfind('"');
  if (quote == StringRef::npos ||
      !before.take_front(quote).rtrim().ends_with(" family"))
    return std::nullopt;
  size_t end = std::min(file.find_first_of("\"\n", offset), file.size());
  return TextSpan{line + quote + 1, end};
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

/// Returns the UTF-16 units of the character that starts with a byte: none for
/// continuation bytes, two for characters of four bytes.
static int64_t unitsOf(char byte) {
  auto bits = static_cast<unsigned char>(byte);
  return (bits & 0xc0) == 0x80 ? 0 : bits >= 0xf0 ? 2 : 1;
}

size_t pipesched::offsetOf(StringRef file, int64_t line, int64_t character) {
  size_t at = 0;
  for (; line > 0; --line) {
    size_t end = file.find('\n', at);
    if (end == StringRef::npos)
      return file.size();
    at = end + 1;
  }
  int64_t units = 0;
  while (at < file.size() && file[at] != '\n' &&
         units + unitsOf(file[at]) <= character)
    units += unitsOf(file[at++]);
  return at;
}

std::pair<int64_t, int64_t> pipesched::placeOf(StringRef file, size_t offset) {
  StringRef before = file.take_front(offset);
  int64_t units = 0;
  for (char byte : before.drop_front(before.rfind('\n') + 1))
    units += unitsOf(byte);
  return {int64_t(before.count('\n')), units};
}
