//===- MegatronLayout.cpp - Megatron-Core's pipeline layouts --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recursive-descent parser, which parses a group again for each repetition,
// and the writer.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Exchange/MegatronLayout.h"
#include "PipeSched/Schedule/Kinds/Cell.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CheckedArithmetic.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// layout   := item*
/// item     := (E | t | L | '|' | '(' item* ')') ('*' number)? | ','
class LayoutParser {
public:
  explicit LayoutParser(StringRef text) : text(text) {}

  Error parse() {
    if (Error error = parseItems(/*depth=*/0))
      return error;
    if (position < text.size()) // parseItems stopped at a ')'
      return fail("')' closes nothing");
    if (!hasLoss)
      return fail("the layout has no loss 'L', which its last stage ends with");
    return Error::success();
  }

  std::vector<int64_t> layers = {0};

private:
  static constexpr int64_t kMostItems = Cell::kMaxStages;
  static constexpr unsigned kMostDepth = 64;

  template <typename... Values>
  Error fail(const char *format, Values &&...values) const {
    return llvm::createStringError(
        llvm::formatv("character {0}: {1}", position + 1,
                      llvm::formatv(format, std::forward<Values>(values)...))
            .str());
  }

  bool isAt(char c) const {
    return position < text.size() && text[position] == c;
  }

  /// Limits the time that repetitions take.
  Error countItem() {
    if (++numItems <= kMostItems)
      return Error::success();
    return fail("the layout has more than {0} items, repeated ones counted",
                kMostItems);
  }

  Error parseItems(unsigned depth);
  Error parseGroup(unsigned depth);
  Error parseItem(char symbol, int64_t times);
  Error add(char symbol, int64_t times);
  Expected<int64_t> parseTimes();

  StringRef text;
  size_t position = 0;
  int64_t numItems = 0; ///< items so far, with repetitions
  bool hasEmbedding = false, hasLoss = false;
};
} // namespace

/// Reads `*3`, or returns 1 if there is no factor.
Expected<int64_t> LayoutParser::parseTimes() {
  if (!isAt('*'))
    return 1;
  ++position;
  StringRef digits = text.substr(position).take_while(llvm::isDigit);
  int64_t times = 0;
  if (digits.empty())
    return fail("expected a number after '*'");
  if (digits.getAsInteger(10, times) || times < 1)
    return fail("{0} is not 1 to 2^63 - 1 times", digits);
  position += digits.size();
  return times;
}

/// `position` must be that of the symbol, for errors.
Error LayoutParser::parseItem(char symbol, int64_t times) {
  StringRef name(&symbol, 1);
  if (symbol == 'm')
    return fail("blocks are decoder layers 't'; an MTP layer 'm' cannot be "
                "said with them");
  if (!StringRef("EtL|").contains(symbol))
    return fail("expected 'E', 't', 'L', '|' or a group, found '{0}'", name);
  if (symbol == 'E' && hasEmbedding)
    return fail("a second embedding 'E': the first stage holds the only one");
  if (symbol != 'E' && !hasEmbedding)
    return fail("'{0}' is before the embedding 'E', but the first stage must "
                "begin with it",
                name);
  if (hasLoss)
    return fail("'{0}' comes after the loss 'L', which the last stage ends "
                "with",
                name);
  return add(symbol, times);
}

Error LayoutParser::add(char symbol, int64_t times) {
  if (symbol == 't') {
    std::optional<int64_t> sum = llvm::checkedAdd(layers.back(), times);
    if (!sum)
      return fail("the stage has more than 2^63 - 1 layers");
    layers.back() = *sum;
    return Error::success();
  }
  if (symbol == '|') {
    if (times > kMostItems - int64_t(layers.size()))
      return fail("there may be {0} stages at most", kMostItems);
    layers.resize(layers.size() + times, 0);
    return Error::success();
  }
  if (times != 1)
    return fail("'{0}' must occur once, found {1} times", StringRef(&symbol, 1),
                times);
  (symbol == 'E' ? hasEmbedding : hasLoss) = true;
  return Error::success();
}

/// Reads `(...)*n` from its opening parenthesis on.
Error LayoutParser::parseGroup(unsigned depth) {
  size_t begin = position;
  if (depth == kMostDepth)
    return fail("groups may be nested {0} deep at most", kMostDepth);
  int64_t times = 1;
  for (int64_t run = 0; run < times; ++run) {
    position = begin + 1;
    if (Error error = countItem())
      return error;
    if (Error error = parseItems(depth + 1))
      return error;
    if (!isAt(')')) {
      position = begin;
      return fail("'(' is not closed");
    }
    ++position;
    Expected<int64_t> parsed = parseTimes();
    if (!parsed)
      return parsed.takeError();
    times = *parsed;
  }
  return Error::success();
}

/// Reads up to the end or a closing parenthesis.
Error LayoutParser::parseItems(unsigned depth) {
  while (position < text.size() && text[position] != ')') {
    if (Error error = countItem())
      return error;
    if (isAt('(')) {
      if (Error error = parseGroup(depth))
        return error;
      continue;
    }
    size_t begin = position++;
    if (text[begin] == ',')
      continue;
    Expected<int64_t> times = parseTimes();
    if (!times)
      return times.takeError();
    size_t end = std::exchange(position, begin);
    if (Error error = parseItem(text[begin], *times))
      return error;
    position = end;
  }
  return Error::success();
}

Expected<std::vector<int64_t>>
pipesched::parseMegatronLayout(StringRef layout) {
  LayoutParser parser(layout);
  if (Error error = parser.parse())
    return std::move(error);
  return std::move(parser.layers);
}

/// Appends nothing, `t` or `t*3`.
static void appendLayers(std::string &layout, int64_t layers) {
  if (layers > 0)
    layout += 't';
  if (layers > 1)
    layout += "*" + std::to_string(layers);
}

std::string
pipesched::writeMegatronLayout(llvm::ArrayRef<int64_t> layersOfStages) {
  std::string layout = "E";
  assert(!layersOfStages.empty() && "a layout has at least one stage");
  size_t last = layersOfStages.size() - 1;
  for (size_t stage = 0; stage < last;) {
    size_t end = stage + 1;
    while (stage > 0 && end < last &&
           layersOfStages[end] == layersOfStages[stage])
      ++end;
    bool isGroup = end - stage > 1;
    layout += isGroup ? "(" : "";
    appendLayers(layout, layersOfStages[stage]);
    layout += '|';
    if (isGroup)
      layout += ")*" + std::to_string(end - stage) + ",";
    stage = end;
  }
  appendLayers(layout, layersOfStages[last]);
  return layout + 'L';
}
