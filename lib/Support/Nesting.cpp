//===- Nesting.cpp - Limits on the nesting of texts -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Counts brackets outside of strings and comments. IR is nested in three more
// ways:
//
//   #a1 = [#a0]   #a2 = [#a1]   ...        aliases that use each other
//   affine_map<(d0) -> (- - - d0)>         signs
//   affine_map<(d0, d1) -> (d0 + d1 + ..)> a tree as deep as it has operators
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/Nesting.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

std::string pipesched::placeInFile(StringRef file, StringRef text,
                                   size_t offset) {
  StringRef before = text.take_front(offset);
  size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  return (file + ":" + Twine(before.count('\n') + 1) + ":" + Twine(column) +
          ": ")
      .str();
}

StringRef pipesched::takeString(StringRef &rest) {
  size_t end = 1;
  while (end < rest.size() && rest[end] != '"')
    end += rest[end] == '\\' ? 2 : 1;
  StringRef literal = rest.take_front(end + 1);
  rest = rest.drop_front(literal.size());
  return literal;
}

static DeepPlace makePlace(StringRef text, StringRef rest, size_t most,
                           StringRef what) {
  return {text.size() - rest.size(),
          ("more than " + Twine(most) + " " + what + " are inside each other")
              .str()};
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

std::optional<DeepPlace> pipesched::findDeepJson(StringRef text) {
  constexpr size_t kMaxDepth = 64; // no description is deeper
  size_t depth = 0;
  for (StringRef rest = text; !rest.empty();) {
    char c = rest.front();
    if (c == '"') {
      takeString(rest);
      continue;
    }
    if (c == '{' || c == '[')
      ++depth;
    if ((c == '}' || c == ']') && depth > 0)
      --depth;
    if (depth > kMaxDepth)
      return makePlace(text, rest, kMaxDepth, "values");
    rest = rest.drop_front();
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// IR
//===----------------------------------------------------------------------===//

namespace {
class IRScanner {
public:
  explicit IRScanner(StringRef text) : text(text), rest(text) {}

  std::optional<DeepPlace> run();

private:
  static constexpr size_t kMaxOperators = 4096;

  void skipComment();
  void skipString();
  void readAlias();
  void readWord();
  void readSign(char c);
  void readBracket(char c);
  void endDefinition();
  /// Records an element inside `depth` others.
  void reach(size_t depth);

  StringRef text, rest;
  llvm::SmallVector<char> open; ///< the open brackets
  size_t signs = 0;             ///< successive minus signs
  size_t deepest = 0;           ///< since the start of the definition
  llvm::StringMap<size_t> depthOf;
  StringRef defined; ///< the alias of the definition; empty outside of one
  /// The number of brackets around the affine map, and its number of operators
  /// so far.
  std::optional<size_t> affineLevel;
  size_t numOperators = 0;
};
} // namespace

static bool isWordChar(char c) {
  return llvm::isAlnum(c) || c == '_' || c == '.' || c == '$';
}

void IRScanner::reach(size_t depth) { deepest = std::max(deepest, depth); }

/// A comment between two modules starts a new text.
void IRScanner::skipComment() {
  bool isFirst = rest.data() == text.data() || rest.data()[-1] == '\n';
  if (isFirst && rest.starts_with("// -----")) {
    open.clear();
    depthOf.clear();
    defined = "";
    affineLevel.reset();
  }
  rest = rest.drop_until([](char c) { return c == '\n'; });
}

/// An unclosed string ends with its line.
void IRScanner::skipString() {
  StringRef after = rest;
  StringRef literal = takeString(after);
  size_t line = literal.find('\n');
  rest = rest.drop_front(std::min(line, literal.size()));
}

/// Reads `#name` or `!name`, or the start of a definition, `#name = `.
void IRScanner::readAlias() {
  StringRef name =
      rest.take_front(1 + rest.drop_front().take_while(isWordChar).size());
  rest = rest.drop_front(name.size());
  StringRef next = rest.ltrim(" \t\r\n");
  if (open.empty() && next.starts_with("=")) {
    endDefinition();
    defined = name;
    deepest = 0;
    rest = next.drop_front().ltrim(" \t\r\n");
    return;
  }
  auto found = depthOf.find(name);
  if (found != depthOf.end())
    reach(open.size() + found->second);
}

void IRScanner::endDefinition() {
  if (!defined.empty())
    depthOf[defined] = deepest + 1;
  defined = "";
  deepest = 0;
}

void IRScanner::readWord() {
  StringRef word = rest.take_while(isWordChar);
  rest = rest.drop_front(word.size());
  if (word == "affine_map" || word == "affine_set") {
    affineLevel = open.size();
    numOperators = 0;
  }
  numOperators += word == "mod" || word == "floordiv" || word == "ceildiv";
}

void IRScanner::readSign(char c) {
  signs = c == '-' ? signs + 1 : 0;
  ++numOperators;
  reach(open.size() + signs);
}

/// Reads a bracket. A `>` that closes no bracket is part of `>=`. Other closing
/// brackets also close the open brackets inside theirs.
void IRScanner::readBracket(char c) {
  if (StringRef("([{<").contains(c)) {
    open.push_back(c);
    reach(open.size());
    return;
  }
  char wanted = c == ')' ? '(' : c == ']' ? '[' : c == '}' ? '{' : '<';
  if (c == '>') {
    if (!open.empty() && open.back() == '<')
      open.pop_back();
  } else if (llvm::is_contained(open, wanted)) {
    while (open.pop_back_val() != wanted)
      ;
  }
  if (affineLevel && open.size() <= *affineLevel)
    affineLevel.reset();
}

std::optional<DeepPlace> IRScanner::run() {
  while (!rest.empty()) {
    StringRef before = rest;
    char c = rest.front();
    if (c != '-' && !llvm::isSpace(c))
      signs = 0;
    if (c == '\n' && open.empty())
      endDefinition();
    if (rest.starts_with("//")) {
      skipComment();
    } else if (c == '"') {
      skipString();
    } else if (c == '#' || c == '!') {
      readAlias();
    } else if (isWordChar(c)) {
      readWord();
    } else if (rest.starts_with("->")) {
      rest = rest.drop_front(2);
    } else {
      rest = rest.drop_front();
      if (c == '-' || c == '+' || c == '*')
        readSign(c);
      else if (StringRef("([{<>}])").contains(c))
        readBracket(c);
    }
    if (deepest > kMaxIRDepth)
      return makePlace(text, before, kMaxIRDepth, "brackets or values");
    if (affineLevel && numOperators > kMaxOperators)
      return DeepPlace{text.size() - before.size(),
                       ("an affine expression has more than " +
                        Twine(kMaxOperators) + " operators")
                           .str()};
  }
  return std::nullopt;
}

std::optional<DeepPlace> pipesched::findDeepIR(StringRef text) {
  return IRScanner(text).run();
}
