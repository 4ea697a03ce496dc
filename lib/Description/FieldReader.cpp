//===- FieldReader.cpp - Strict reading of JSON objects -------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks of types and ranges; keys that occur twice are found in the text,
// because llvm::json keeps the last one only.
//
//===----------------------------------------------------------------------===//

#include "FieldReader.h"
#include "PipeSched/Schedule/ClosestName.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// The string literal at the start of `rest`, quotes included, is taken off.
static StringRef takeString(StringRef &rest) {
  size_t end = 1;
  while (rest[end] != '"')
    end += rest[end] == '\\' ? 2 : 1;
  StringRef literal = rest.take_front(end + 1);
  rest = rest.drop_front(end + 1);
  return literal;
}

/// A key that one object has twice, or nothing; `rest` is known to be JSON.
static std::optional<StringRef> findDuplicateKey(StringRef rest) {
  llvm::SmallVector<llvm::StringSet<>> objects;
  while (!rest.empty()) {
    char c = rest.front();
    if (c == '"') {
      StringRef literal = takeString(rest);
      bool isKey = rest.ltrim().starts_with(":");
      if (isKey && !objects.back().insert(literal).second)
        return literal;
      continue;
    }
    if (c == '{')
      objects.emplace_back();
    if (c == '}')
      objects.pop_back();
    rest = rest.drop_front();
  }
  return std::nullopt;
}

llvm::Expected<json::Value> pipesched::parseJson(StringRef text,
                                                 StringRef file) {
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   file + ": " +
                                       llvm::toString(value.takeError()));
  if (std::optional<StringRef> key = findDuplicateKey(text))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   file + ": field " + *key +
                                       " is given twice");
  return value;
}

void FileErrors::report(const Twine &path, const Twine &message) {
  if (!first.empty())
    return;
  std::string where = path.str();
  first = (Twine(file) + ": " + where + (where.empty() ? "" : ": ") + message)
              .str();
}

llvm::Error FileErrors::take() const {
  if (first.empty())
    return llvm::Error::success();
  return llvm::createStringError(llvm::inconvertibleErrorCode(), first);
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

static std::string textOf(const json::Value &value) {
  return llvm::formatv("{0}", value).str();
}

FieldReader::FieldReader(const json::Value *value, std::string path,
                         FileErrors &errors)
    : path(std::move(path)), errors(errors) {
  if (!value)
    return;
  object = value->getAsObject();
  if (!object)
    errors.report(this->path, "expected an object, found " + textOf(*value));
}

std::string FieldReader::pathOf(StringRef name) const {
  return path.empty() ? name.str() : (path + "." + name).str();
}

const json::Value *FieldReader::find(StringRef name) {
  known.push_back(name);
  return object ? object->get(name) : nullptr;
}

const json::Value *FieldReader::require(StringRef name) {
  const json::Value *value = find(name);
  if (object && !value && missing.empty())
    missing = name;
  return value;
}

void FieldReader::reportType(StringRef name, StringRef wanted,
                             const json::Value &found) {
  errors.report(pathOf(name),
                "expected " + wanted + ", found " + textOf(found));
}

std::string FieldReader::text(StringRef name) {
  const json::Value *value = require(name);
  if (!value)
    return {};
  if (std::optional<StringRef> text = value->getAsString())
    return text->str();
  reportType(name, "a text", *value);
  return {};
}

bool FieldReader::flag(StringRef name, bool otherwise) {
  const json::Value *value = find(name);
  if (!value)
    return otherwise;
  if (std::optional<bool> flag = value->getAsBoolean())
    return *flag;
  reportType(name, "true or false", *value);
  return otherwise;
}

int64_t FieldReader::integer(StringRef name, int64_t least,
                             std::optional<int64_t> otherwise) {
  const json::Value *value = otherwise ? find(name) : require(name);
  if (!value)
    return otherwise.value_or(least);
  std::optional<int64_t> number = value->getAsInteger();
  if (number && *number >= least)
    return *number;
  reportType(name,
             ("a whole number from " + Twine(least) + " to 2^63 - 1").str(),
             *value);
  return least;
}

int64_t pipesched::scaleNumber(const json::Value &value, double scale,
                               bool isZeroAllowed, const Twine &path,
                               FileErrors &errors) {
  std::optional<double> number = value.getAsNumber();
  bool isInRange = number && (isZeroAllowed ? *number >= 0 : *number > 0);
  if (!isInRange) {
    errors.report(path, Twine("expected a number ") +
                            (isZeroAllowed ? "of at least 0" : "above 0") +
                            ", found " + textOf(value));
    return 1;
  }
  constexpr double limit = 9223372036854775808.0;
  double result = std::nearbyint(*number * scale);
  if (result < limit && (result >= 1 || *number == 0))
    return static_cast<int64_t>(result);
  errors.report(path, Twine("expected a number that is not too ") +
                          (result < 1 ? "small" : "large") + ", found " +
                          textOf(value));
  return 1;
}

int64_t FieldReader::scaled(StringRef name, double scale,
                            std::optional<int64_t> otherwise) {
  const json::Value *value = otherwise ? find(name) : require(name);
  if (!value)
    return otherwise.value_or(1);
  return scaleNumber(*value, scale, /*isZeroAllowed=*/otherwise == 0,
                     pathOf(name), errors);
}

unsigned FieldReader::choice(StringRef name, llvm::ArrayRef<StringRef> words,
                             std::optional<unsigned> otherwise) {
  const json::Value *value = otherwise ? find(name) : require(name);
  if (!value)
    return otherwise.value_or(0);
  std::optional<StringRef> word = value->getAsString();
  const StringRef *found = llvm::find(words, word.value_or(""));
  if (found != words.end())
    return found - words.begin();
  reportType(name, "one of " + llvm::join(words, ", "), *value);
  return 0;
}

void FieldReader::finish() {
  if (!object)
    return;
  // Objects are hash tables: the first unknown field by name is the one
  // reported.
  StringRef unknown;
  for (const auto &field : *object) {
    StringRef name = field.first;
    if (llvm::is_contained(known, name))
      continue;
    if (unknown.empty() || name < unknown)
      unknown = name;
  }
  if (!unknown.empty())
    errors.report(path, "unknown field '" + unknown + "', the closest is '" +
                            closestName(unknown, known) + "'");
  if (!missing.empty())
    errors.report(path, "needs the field '" + missing + "'");
}
