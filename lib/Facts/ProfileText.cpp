//===- ProfileText.cpp - Profiles as text ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decimals are read digit by digit into picoseconds, so that there is no
// rounding.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

/// The start of the names of times by microbatch.
static constexpr llvm::StringLiteral kMicrobatches = "microbatches.";

namespace {
/// A unit is 10^exponent picoseconds.
struct TimeUnit {
  StringRef name;
  unsigned exponent;
};
constexpr TimeUnit kUnits[] = {
    {"s", 12}, {"ms", 9}, {"us", 6}, {"ns", 3}, {"ps", 0}};
} // namespace

/// Sets `value` to value * 10 + digit; returns false on overflow.
static bool appendDigit(int64_t &value, char digit) {
  return !llvm::MulOverflow(value, int64_t(10), value) &&
         !llvm::AddOverflow(value, int64_t(digit - '0'), value);
}

/// Reads digits with at most one point, in units of 10^exponent ps.
static llvm::Expected<int64_t> parseDecimal(StringRef text, StringRef digits,
                                            unsigned exponent) {
  auto [whole, fraction] = digits.split('.');
  StringRef tail = fraction.rtrim('0');
  if (tail.size() > exponent)
    return makeError("'" + text + "' is finer than a picosecond");
  std::string scaled = (whole + tail).str();
  scaled.append(exponent - tail.size(), '0');
  int64_t value = 0;
  for (char digit : scaled)
    if (!appendDigit(value, digit))
      return makeError("'" + text + "' is over 2^63 - 1 ps");
  return value;
}

llvm::Expected<int64_t> pipesched::parseTime(StringRef text) {
  StringRef digits =
      text.take_while([](char c) { return llvm::isDigit(c) || c == '.'; });
  StringRef rest = text.drop_front(digits.size());
  if (text.starts_with("-"))
    return makeError("expected a time of at least 0, found '" + text + "'");
  bool isNumber = !digits.empty() && llvm::isDigit(digits.front()) &&
                  llvm::isDigit(digits.back()) && digits.count('.') <= 1;
  if (!isNumber)
    return makeError("expected a time such as 1.5ms, found '" + text + "'");
  for (TimeUnit unit : kUnits)
    if (rest.ltrim() == unit.name)
      return parseDecimal(text, digits, unit.exponent);
  return makeError("expected a unit (ps, ns, us, ms or s) after '" + digits +
                   "', found '" + rest.trim() + "'");
}

std::string pipesched::printTime(int64_t ps) {
  for (TimeUnit unit : kUnits) {
    int64_t size = 1;
    for (unsigned power = 0; power < unit.exponent; ++power)
      size *= 10;
    if (ps < size)
      continue;
    std::string fraction = std::to_string(ps % size);
    fraction.insert(
        0, unit.exponent - std::min<size_t>(unit.exponent, fraction.size()),
        '0');
    StringRef tail = StringRef(fraction).rtrim('0');
    return (Twine(ps / size) + (tail.empty() ? "" : ".") + tail + unit.name)
        .str();
  }
  return "0ps";
}

//===----------------------------------------------------------------------===//
// Profiles
//===----------------------------------------------------------------------===//

llvm::ArrayRef<StringRef> pipesched::profileNames() {
  static const std::vector<StringRef> names = [] {
    std::vector<StringRef> names;
    kCostedPhases.forEach(
        [&](Phase phase) { names.push_back(enumName(phase)); });
    names.insert(names.end(), {"FB", "comm", "send"});
    return names;
  }();
  return names;
}

llvm::ArrayRef<StringRef> pipesched::microbatchNames() {
  static const std::vector<StringRef> names = [] {
    std::vector<StringRef> names;
    (kCostedPhases - kPerPathPhases).forEach([&](Phase phase) {
      names.push_back(enumName(phase));
    });
    names.insert(names.end(), {"comm", "send"});
    return names;
  }();
  return names;
}

llvm::Error pipesched::checkNames(const Profile &profile) {
  for (StringRef name : microbatchNames())
    if (!findTimes(profile, name)->empty() &&
        !findTimes(profile.microbatches, name)->empty())
      return makeError("'" + name + "' is given twice: " + kMicrobatches +
                       name + " has its times by microbatch");
  return llvm::Error::success();
}

namespace {
/// Reads entries `name = value` up to the end of the text.
class ProfileParser {
public:
  explicit ProfileParser(StringRef text) : rest(text.trim()) {}

  llvm::Expected<Profile> run() {
    if (rest.empty())
      return makeError("expected times such as F=1ms, found nothing");
    Profile profile;
    while (true) {
      if (auto error = parseEntry(profile))
        return std::move(error);
      if (rest.empty()) {
        if (auto error = checkNames(profile))
          return std::move(error);
        return profile;
      }
      if (!consume(','))
        return expected("',' between times");
    }
  }

private:
  llvm::Error parseEntry(Profile &profile);
  template <typename Times>
  llvm::Error parseNamed(NamedTimes<Times> &all, StringRef name,
                         llvm::ArrayRef<StringRef> names, StringRef prefix);
  llvm::Error parseEither(std::vector<int64_t> &times) {
    return consume('[') ? parseList(times) : parseValue(times);
  }
  llvm::Error parseEither(MicrobatchTimes &lists);
  llvm::Error parseList(std::vector<int64_t> &times);
  llvm::Error parseValue(std::vector<int64_t> &times);

  bool consume(char c) {
    rest = rest.ltrim();
    if (!rest.consume_front(StringRef(&c, 1)))
      return false;
    rest = rest.ltrim();
    return true;
  }
  llvm::Error expected(StringRef what) {
    StringRef found = rest.take_front(20);
    return makeError(
        "expected " + what +
        (found.empty() ? Twine(", found the end") : ", found '" + found + "'"));
  }

  StringRef rest;
};
} // namespace

llvm::Error ProfileParser::parseEntry(Profile &profile) {
  StringRef name = rest.take_while(llvm::isAlnum);
  if (name.empty())
    return expected("a name such as F");
  if (!rest.consume_front(kMicrobatches))
    return parseNamed(profile, name, profileNames(), "");
  return parseNamed(profile.microbatches, rest.take_while(llvm::isAlnum),
                    microbatchNames(), kMicrobatches);
}

/// Reads one entry of named times; messages name it with a prefix.
template <typename Times>
llvm::Error ProfileParser::parseNamed(NamedTimes<Times> &all, StringRef name,
                                      llvm::ArrayRef<StringRef> names,
                                      StringRef prefix) {
  std::string whole = (prefix + name).str();
  Times *times =
      llvm::is_contained(names, name) ? findTimes(all, name) : nullptr;
  if (!times)
    return makeError("unknown name '" + whole + "'" + nameHint(name, names));
  if (!times->empty())
    return makeError("'" + whole + "' is given twice");
  rest = rest.drop_front(name.size());
  if (!consume('='))
    return expected("'=' after '" + whole + "'");
  if (llvm::Error error = parseEither(*times))
    return makeError(whole + ": " + llvm::toString(std::move(error)));
  rest = rest.ltrim();
  return llvm::Error::success();
}

/// Reads a list of times, or a list of such lists.
llvm::Error ProfileParser::parseEither(MicrobatchTimes &lists) {
  if (!consume('['))
    return expected("a list of times, one for each microbatch");
  if (!rest.starts_with("["))
    return parseList(lists.emplace_back());
  do {
    if (!consume('['))
      return expected("a list of times, one for each microbatch");
    if (auto error = parseList(lists.emplace_back()))
      return error;
  } while (consume(','));
  return consume(']') ? llvm::Error::success() : expected("']'");
}

llvm::Error ProfileParser::parseList(std::vector<int64_t> &times) {
  do {
    if (auto error = parseValue(times))
      return error;
  } while (consume(','));
  return consume(']') ? llvm::Error::success() : expected("']'");
}

llvm::Error ProfileParser::parseValue(std::vector<int64_t> &times) {
  StringRef text =
      rest.take_until([](char c) { return c == ',' || c == ']' || c == '['; });
  llvm::Expected<int64_t> ps = parseTime(text.trim());
  if (!ps)
    return ps.takeError();
  times.push_back(*ps);
  rest = rest.drop_front(text.size());
  return llvm::Error::success();
}

llvm::Expected<Profile> pipesched::parseProfile(StringRef text) {
  return ProfileParser(text).run();
}

static void printList(llvm::ArrayRef<int64_t> times, llvm::raw_ostream &os) {
  os << '[';
  llvm::interleave(times, os, [&](int64_t ps) { os << printTime(ps); }, ",");
  os << ']';
}

static void printTimes(llvm::ArrayRef<int64_t> times, llvm::raw_ostream &os) {
  if (times.size() == 1)
    os << printTime(times.front());
  else
    printList(times, os);
}

static void printTimes(const MicrobatchTimes &lists, llvm::raw_ostream &os) {
  if (lists.size() == 1)
    return printList(lists.front(), os);
  os << '[';
  llvm::interleave(
      lists, os, [&](const auto &list) { printList(list, os); }, ",");
  os << ']';
}

std::string pipesched::printProfile(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  auto print = [&](StringRef prefix, StringRef name, const auto &times) {
    if (times.empty())
      return;
    os << (text.empty() ? "" : ",") << prefix << name << '=';
    printTimes(times, os);
  };
  for (StringRef name : profileNames())
    print("", name, *findTimes(profile, name));
  for (StringRef name : microbatchNames())
    print(kMicrobatches, name, *findTimes(profile.microbatches, name));
  return text;
}
