//===- PrintableText.cpp - Printable text for terminals -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Processes code points: control characters beyond ASCII have two bytes,
// direction marks two or three.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/PrintableText.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"
#include <utility>

using namespace pipesched;

static bool isControl(unsigned point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0);
}

/// Marks, embeddings, overrides and isolates of Unicode's bidirectional
/// algorithm.
static bool isDirection(unsigned point) {
  return point == 0x61c || point == 0x200e || point == 0x200f ||
         (point >= 0x202a && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

/// Whether a code point is never a character; XML refuses U+FFFE and U+FFFF.
static bool isNoncharacter(unsigned point) {
  return (point & 0xfffe) == 0xfffe || (point >= 0xfdd0 && point <= 0xfdef);
}

static bool isUnprintable(unsigned point) {
  return isControl(point) || isDirection(point) || isNoncharacter(point);
}

/// Returns the code point at the start of valid UTF-8, and its number of bytes.
static std::pair<unsigned, size_t> firstPoint(llvm::StringRef text) {
  size_t count =
      llvm::getNumBytesForUTF8(static_cast<llvm::UTF8>(text.front()));
  unsigned point = static_cast<unsigned char>(text.front());
  if (count > 1)
    point &= 0x7fu >> count;
  for (char byte : text.substr(1, count - 1))
    point = point << 6 | (static_cast<unsigned char>(byte) & 0x3f);
  return {point, count};
}

static std::string printable(llvm::StringRef text, llvm::StringRef kept) {
  std::string valid = llvm::json::fixUTF8(text), shown;
  llvm::raw_string_ostream os(shown);
  for (llvm::StringRef rest = valid; !rest.empty();) {
    auto [point, count] = firstPoint(rest);
    if (kept.contains(rest.front()))
      os << rest.front();
    else if (isControl(point))
      os << llvm::format("\\x%02x", point);
    else if (isUnprintable(point))
      os << llvm::format("\\u%04x", point);
    else
      os << rest.take_front(count);
    rest = rest.drop_front(count);
  }
  return shown;
}

std::string pipesched::printableText(llvm::StringRef text) {
  return printable(text, /*kept=*/"");
}

std::string pipesched::printableLines(llvm::StringRef text) {
  return printable(text, /*kept=*/"\n\t");
}

//===----------------------------------------------------------------------===//
// IR
//===----------------------------------------------------------------------===//

/// Returns the bytes of the first character of a non-empty text, and whether
/// the character is hidden. Invalid UTF-8 counts as one byte.
static std::pair<size_t, bool> firstCharacter(llvm::StringRef text) {
  auto *begin = reinterpret_cast<const llvm::UTF8 *>(text.data());
  size_t count = llvm::getNumBytesForUTF8(*begin);
  if (count > text.size() || !llvm::isLegalUTF8Sequence(begin, begin + count))
    return {1, true};
  unsigned point = firstPoint(text).first;
  return {count, isUnprintable(point)};
}

std::string pipesched::escapeHidden(llvm::StringRef ir) {
  std::string escaped;
  llvm::raw_string_ostream os(escaped);
  bool isString = false, isComment = false;
  for (llvm::StringRef rest = ir; !rest.empty();) {
    auto [count, isHidden] = firstCharacter(rest);
    llvm::StringRef character = rest.take_front(count);
    bool isEscape = isString && character == "\\" && rest.size() > 1;
    rest = rest.drop_front(count);
    if (character == "\r" && (!isString || rest.starts_with("\n")))
      character = rest.starts_with("\n") ? "\r" : "\n";
    else if (isHidden && character != "\n" && character != "\t")
      for (unsigned char byte : std::exchange(character, ""))
        os << llvm::format("\\%02X", byte);
    os << character;
    if (isEscape && (rest.front() == '"' || rest.front() == '\\')) {
      os << rest.front();
      rest = rest.drop_front();
    } else if (character == "\n") {
      isString = isComment = false; // strings end with their lines
    } else if (character == "\"" && !isComment) {
      isString = !isString;
    } else if (character == "/" && !isString && rest.starts_with("/")) {
      isComment = true;
    }
  }
  return escaped;
}
