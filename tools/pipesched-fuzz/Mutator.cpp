//===- Mutator.cpp - Mutations of text, token by token --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If a single byte of text changes, MLIR's parser mostly refuses the text
// before our parser reads it. Text often stays valid if tokens are moved,
// removed or repeated, or if numbers change:
//
//   worker 0 runs [0F0 0F1 0B0 0B1]      worker 0 runs [0F0 0B1 0F1 0B0 0B1]
//
//===----------------------------------------------------------------------===//

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <random>
#include <string>

using llvm::StringRef;

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {
class TokenMutator {
public:
  TokenMutator(StringRef text, unsigned seed) : random(seed) { split(text); }

  void mutate();
  std::string join() const { return llvm::join(tokens, ""); }

private:
  /// Splits a text into words, numbers and single other characters, each with
  /// the blanks that follow.
  void split(StringRef text);
  size_t pick(size_t end) { return random() % end; }
  std::string otherNumber(StringRef token);

  std::minstd_rand random;
  llvm::SmallVector<std::string> tokens;
};
} // namespace

void TokenMutator::split(StringRef text) {
  auto isSame = [](char previous, char next) {
    if (llvm::isSpace(next))
      return true;
    return (llvm::isDigit(previous) && llvm::isDigit(next)) ||
           (llvm::isAlpha(previous) && llvm::isAlpha(next));
  };
  for (size_t i = 0; i < text.size(); ++i)
    if (i > 0 && isSame(text[i - 1], text[i]))
      tokens.back() += text[i];
    else
      tokens.push_back(std::string(1, text[i]));
}

/// Returns a number close to the token's or to a limit, with the token's
/// blanks.
std::string TokenMutator::otherNumber(StringRef token) {
  static constexpr const char *kBorders[] = {
      "0", "1", "65536", "16777216", "2147483647", "9223372036854775807"};
  StringRef digits = token.rtrim();
  StringRef blanks = token.drop_front(digits.size());
  uint64_t value = 0;
  if (pick(4) == 0 || digits.getAsInteger(10, value))
    return (kBorders[pick(std::size(kBorders))] + blanks).str();
  return std::to_string(value + pick(3) - (value > 0)) + blanks.str();
}

void TokenMutator::mutate() {
  if (tokens.empty())
    return;
  size_t here = pick(tokens.size()), other = pick(tokens.size());
  switch (pick(5)) {
  case 0:
    tokens.erase(tokens.begin() + here);
    return;
  case 1:
    std::swap(tokens[here], tokens[other]);
    return;
  case 2:
    tokens[here] = tokens[other];
    return;
  case 3: { // repeats a few tokens elsewhere: a cell has three
    size_t count = std::min(1 + pick(6), tokens.size() - other);
    llvm::SmallVector<std::string> copied(tokens.begin() + other,
                                          tokens.begin() + other + count);
    tokens.insert(tokens.begin() + here, copied.begin(), copied.end());
    return;
  }
  default:
    for (size_t tries = 0; tries < tokens.size(); ++tries, ++here)
      if (std::string &token = tokens[here % tokens.size()];
          llvm::isDigit(token.front())) {
        token = otherNumber(token);
        return;
      }
  }
}

static bool isBytecode(StringRef input) { return input.starts_with("ML\xefR"); }

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  StringRef input(reinterpret_cast<const char *>(data), size);
  if (isBytecode(input) || seed % 8 == 0)
    return LLVMFuzzerMutate(data, size, maxSize);
  TokenMutator mutator(input, seed);
  for (unsigned count = 1 + seed / 8 % 4; count > 0; --count)
    mutator.mutate();
  std::string text = mutator.join();
  if (text.empty() || text.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}
