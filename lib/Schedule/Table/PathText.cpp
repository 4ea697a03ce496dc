//===- PathText.cpp - Paths written by hand -------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A recursive-descent parser of the text, without a separate lexer.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Table/PathText.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdlib>

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// `5`, `0:4` or `0:8:2`; a single number is a range with one element.
struct Range {
  int64_t begin, end, step;

  int64_t size() const {
    int64_t span = step > 0 ? end - begin : begin - end;
    int64_t stride = std::abs(step);
    return span <= 0 ? 0 : (span - 1) / stride + 1;
  }
};

class Parser {
public:
  explicit Parser(StringRef text) : text(text), rest(text) {}

  /// Calls `parseOne` for each part between semicolons, to the end.
  template <typename ParseOne>
  Error parseAll(ParseOne parseOne) {
    do {
      if (Error error = parseOne())
        return error;
    } while (consume(';'));
    if (!atEnd())
      return expected("';' or the end");
    return Error::success();
  }

  Error parsePath(Path &path);
  Error parseCounts(std::vector<int64_t> &counts);

private:
  /// The limit of numbers, such that sums and differences of two numbers fit 64
  /// bits.
  static constexpr int64_t kMost = int64_t(1) << 61;

  bool atEnd() {
    rest = rest.ltrim();
    return rest.empty();
  }
  bool consume(char c) {
    return !atEnd() && rest.consume_front(StringRef(&c, 1));
  }

  Error expected(StringRef what) {
    rest = rest.ltrim();
    return formatError(
        "character {0}: expected {1}, found {2}", text.size() - rest.size() + 1,
        what, rest.empty() ? "the end" : "'" + rest.take_front(1).str() + "'");
  }

  Error parseNumber(StringRef what, int64_t &value);
  Error parseRange(StringRef what, Range &range);
  Error appendWorkers(Path &path);
  Error appendTakes(Path &path);
  Error appendFrozen(Path &path);
  Error appendCounts(std::vector<int64_t> &counts);
  Error parseClause(StringRef word, Path &path);

  /// Calls `parseOne` for each item between commas; brackets around the list
  /// are optional.
  template <typename ParseOne>
  Error parseList(ParseOne parseOne) {
    bool inBrackets = consume('[');
    do {
      if (Error error = parseOne())
        return error;
    } while (consume(','));
    if (inBrackets && !consume(']'))
      return expected("',' or ']'");
    return Error::success();
  }

  StringRef text, rest;
};
} // namespace

Error Parser::parseNumber(StringRef what, int64_t &value) {
  if (atEnd() || !(llvm::isDigit(rest.front()) || rest.front() == '-'))
    return expected(what);
  StringRef before = rest;
  size_t length = rest.drop_front().find_first_not_of("0123456789");
  rest = rest.drop_front(length == StringRef::npos ? rest.size() : length + 1);
  StringRef digits = before.drop_back(rest.size());
  bool isBad = digits.getAsInteger(10, value);
  if (!isBad && std::abs(value) <= kMost)
    return Error::success();
  rest = before;
  if (digits == "-")
    return expected(what);
  return formatError("character {0}: the number {1} is too large",
                     text.size() - rest.size() + 1, digits);
}

Error Parser::parseRange(StringRef what, Range &range) {
  if (Error error = parseNumber(what, range.begin))
    return error;
  range.end = range.begin + 1;
  range.step = 1;
  if (!consume(':'))
    return Error::success();
  if (Error error = parseNumber("the end of a range", range.end))
    return error;
  if (!consume(':'))
    return Error::success();
  return parseNumber("the step of a range", range.step);
}

Error Parser::appendWorkers(Path &path) {
  rest = rest.ltrim();
  int64_t position = text.size() - rest.size() + 1;
  Range range;
  if (Error error = parseRange("a worker", range))
    return error;
  if (range.step == 0 || range.size() == 0)
    return formatError(
        "character {0}: the range of workers {1}:{2}:{3} is empty", position,
        range.begin, range.end, range.step);
  if (range.size() > Cell::kMaxStages - path.getNumStages())
    return formatError("character {0}: a path may have {1} stages at most",
                       position, Cell::kMaxStages);
  int64_t last = range.begin + (range.size() - 1) * range.step;
  for (int64_t worker : {range.begin, last})
    if (worker < 0 || worker >= kMaxWorkers)
      return formatError("character {0}: worker {1} is not one of 0 to {2}",
                         position, worker, kMaxWorkers - 1);
  for (int64_t i = 0, n = range.size(); i < n; ++i)
    path.workers.push_back(range.begin + i * range.step);
  return Error::success();
}

Error Parser::appendTakes(Path &path) {
  Range range;
  if (Error error = parseRange("a microbatch", range))
    return error;
  path.takes.push_back({range.begin, range.end, range.step});
  return Error::success();
}

Error Parser::appendFrozen(Path &path) {
  rest = rest.ltrim();
  int64_t position = text.size() - rest.size() + 1;
  Range range;
  if (Error error = parseRange("a stage", range))
    return error;
  if (range.step < 1 || range.size() == 0 || range.begin < 0 ||
      range.end > path.getNumStages())
    return formatError("character {0}: the path has no stages {1}:{2}:{3}",
                       position, range.begin, range.end, range.step);
  for (int64_t i = 0, n = range.size(); i < n; ++i)
    path.backward.frozen.push_back(range.begin + i * range.step);
  return Error::success();
}

Error Parser::appendCounts(std::vector<int64_t> &counts) {
  rest = rest.ltrim();
  int64_t position = text.size() - rest.size() + 1;
  int64_t count = 0, times = 1;
  if (Error error = parseNumber("a count", count))
    return error;
  if (consume('*'))
    if (Error error = parseNumber("how many times", times))
      return error;
  if (times < 1 || times > Cell::kMaxStages - int64_t(counts.size()))
    return formatError("character {0}: {1} times {2} is not 1 to {3} counts",
                       position, times, count, Cell::kMaxStages);
  counts.insert(counts.end(), times, count);
  return Error::success();
}

Error Parser::parseCounts(std::vector<int64_t> &counts) {
  return parseList([&] { return appendCounts(counts); });
}

Error Parser::parseClause(StringRef word, Path &path) {
  if (word == "takes" && path.takes.empty())
    return parseList([&] { return appendTakes(path); });
  if (word == "blocks" && path.blocks.empty())
    return parseCounts(path.blocks);
  if (word == "weights" && path.weights.empty())
    return parseCounts(path.weights);
  if (word == "frozen" && path.backward.isFull())
    return parseList([&] { return appendFrozen(path); });
  if (word == "none" && path.backward.isFull()) {
    path.backward.isNone = true;
    return Error::success();
  }
  rest = StringRef(word.data(), word.size() + rest.size());
  return expected(
      "'takes', 'blocks', 'weights', 'frozen' or 'none', each once, "
      "or ';'");
}

Error Parser::parsePath(Path &path) {
  if (Error error = parseList([&] { return appendWorkers(path); }))
    return error;
  while (!atEnd() && rest.front() != ';') {
    StringRef word = rest.take_while(llvm::isAlpha);
    rest = rest.drop_front(word.size());
    if (Error error = parseClause(word, path))
      return error;
  }
  return Error::success();
}

Expected<std::vector<Path>> pipesched::parsePaths(StringRef text) {
  std::vector<Path> paths;
  Parser parser(text);
  auto parseOne = [&] { return parser.parsePath(paths.emplace_back()); };
  if (Error error = parser.parseAll(parseOne))
    return std::move(error);
  return paths;
}

Expected<std::vector<std::vector<int64_t>>>
pipesched::parseStageCounts(StringRef text) {
  std::vector<std::vector<int64_t>> lists;
  Parser parser(text);
  auto parseOne = [&] { return parser.parseCounts(lists.emplace_back()); };
  if (Error error = parser.parseAll(parseOne))
    return std::move(error);
  return lists;
}
