//===- FieldReader.cpp - Strict reading of JSON objects -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks types and ranges. Repeated keys are detected in the text, because
// llvm::json keeps only the last one.
//
//===----------------------------------------------------------------------===//

#include "FieldReader.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/Nesting.h"
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

/// Returns the value of a string literal, which must be valid.
static std::string valueOf(StringRef literal) {
  if (!literal.contains('\\'))
    return literal.drop_front().drop_back().str();
  return llvm::cantFail(json::parse(literal)).getAsString()->str();
}

/// Checks, after parsing, that no object has a key twice.
static llvm::Error checkKeys(StringRef text, StringRef file) {
  llvm::SmallVector<llvm::StringSet<>> objects;
  for (StringRef rest = text; !rest.empty();) {
    char c = rest.front();
    if (c == '"') {
      StringRef literal = takeString(rest);
      bool isKey = rest.ltrim().starts_with(":");
      if (isKey && !objects.back().insert(valueOf(literal)).second)
        return makeError(placeInFile(file, text, literal.data() - text.data()) +
                         "field " + literal + " is given twice");
      continue;
    }
    if (c == '{')
      objects.emplace_back();
    if (c == '}')
      objects.pop_back();
    rest = rest.drop_front();
  }
  return llvm::Error::success();
}

/// Converts an error of llvm::json, "[line:column, byte=n]: message", where n
/// bytes have been read. Usually the last of these is the wrong one.
static llvm::Error parseError(StringRef text, StringRef file,
                              llvm::Error error) {
  std::string what = llvm::toString(std::move(error));
  auto [place, message] = StringRef(what).split("]: ");
  size_t taken = 0;
  if (place.rsplit('=').second.getAsInteger(10, taken) || message.empty() ||
      taken > text.size())
    return makeError(file + ": " + what);
  bool isAhead = message.starts_with("Text after") ||
                 message.starts_with("Invalid UTF-8") ||
                 message.starts_with("Unexpected EOF");
  if (taken > 0 && !isAhead)
    --taken;
  return makeError(placeInFile(file, text, taken) + message);
}

llvm::Expected<json::Value> pipesched::parseJson(StringRef text,
                                                 StringRef file) {
  text.consume_front("\xEF\xBB\xBF"); // a byte order mark
  if (std::optional<DeepPlace> deep = findDeepJson(text))
    return makeError(placeInFile(file, text, deep->offset) + deep->message);
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return parseError(text, file, value.takeError());
  if (llvm::Error error = checkKeys(text, file))
    return std::move(error);
  return value;
}

std::string pipesched::textOf(const json::Value &value) {
  constexpr size_t longest = 80;
  std::string text = llvm::formatv("{0}", value).str();
  if (text.size() <= longest)
    return text;
  size_t end = longest;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end; // within a multi-byte character
  return text.substr(0, end) + "...";
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
  return makeError(first);
}

//===----------------------------------------------------------------------===//
// Fields
//===----------------------------------------------------------------------===//

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
  errors.asked.push_back(pathOf(name));
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

std::string FieldReader::text(StringRef name,
                              std::optional<StringRef> otherwise) {
  const json::Value *value = otherwise ? find(name) : require(name);
  if (!value)
    return otherwise.value_or("").str();
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
  // Objects are hash tables, so report the alphabetically first unknown field
  // to be deterministic.
  StringRef unknown;
  for (const auto &field : *object) {
    StringRef name = field.first;
    if (llvm::is_contained(known, name))
      continue;
    if (unknown.empty() || name < unknown)
      unknown = name;
  }
  if (!unknown.empty())
    errors.report(path,
                  "unknown field '" + unknown + "'" + nameHint(unknown, known));
  finishWithNotes();
}

void FieldReader::finishWithNotes() {
  if (!missing.empty())
    errors.report(path, "needs the field '" + missing + "'");
}

//===----------------------------------------------------------------------===//
// Files of other tools
//===----------------------------------------------------------------------===//

void ConfigReader::setDefault(StringRef name, json::Value value) {
  defaults.try_emplace(json::ObjectKey(name), std::move(value));
}

/// The first value that is present and not null.
static const json::Value *findIn(const json::Object &object,
                                 const FieldNames &names) {
  for (StringRef name : names) {
    const json::Value *value = object.get(name);
    if (value && value->kind() != json::Value::Null)
      return value;
  }
  return nullptr;
}

const json::Value *ConfigReader::find(const FieldNames &names) {
  llvm::append_range(known, names);
  const json::Value *value = findIn(object, names);
  return value ? value : findIn(defaults, names);
}

bool ConfigReader::has(const FieldNames &names) {
  llvm::append_range(known, names);
  return findIn(object, names);
}

std::string ConfigReader::pathOf(StringRef name) const {
  return path.empty() ? name.str() : (path + "." + name).str();
}

void ConfigReader::report(StringRef name, const Twine &message) {
  errors.report(pathOf(name), message);
}

/// Returns the name that the file uses for a field, for messages.
static StringRef nameIn(const json::Object &object, const FieldNames &names) {
  for (StringRef name : names)
    if (object.get(name))
      return name;
  return names.front();
}

std::optional<int64_t> ConfigReader::integer(const FieldNames &names,
                                             int64_t least) {
  const json::Value *value = find(names);
  if (!value)
    return std::nullopt;
  std::optional<int64_t> number = value->getAsInteger();
  if (number && *number >= least)
    return number;
  report(nameIn(object, names), "expected a whole number from " + Twine(least) +
                                    " to 2^63 - 1, found " + textOf(*value));
  return std::nullopt;
}

int64_t ConfigReader::require(const FieldNames &names, int64_t least) {
  if (!find(names)) {
    missing.push_back(names.front());
    return least;
  }
  return integer(names, least).value_or(least);
}

bool ConfigReader::flag(const FieldNames &names, bool otherwise) {
  const json::Value *value = find(names);
  if (!value)
    return otherwise;
  if (std::optional<bool> flag = value->getAsBoolean())
    return *flag;
  report(nameIn(object, names),
         "expected true or false, found " + textOf(*value));
  return otherwise;
}

StringRef ConfigReader::text(const FieldNames &names, StringRef otherwise) {
  const json::Value *value = find(names);
  if (!value)
    return otherwise;
  if (std::optional<StringRef> text = value->getAsString())
    return *text;
  report(nameIn(object, names), "expected a text, found " + textOf(*value));
  return otherwise;
}

double ConfigReader::number(const FieldNames &names) {
  const json::Value *value = find(names);
  return value ? value->getAsNumber().value_or(0) : 0;
}

std::optional<std::vector<int64_t>>
ConfigReader::integers(const FieldNames &names) {
  const json::Value *value = find(names);
  const json::Array *list = value ? value->getAsArray() : nullptr;
  if (value && !list)
    report(nameIn(object, names), "expected a list, found " + textOf(*value));
  if (!list)
    return std::nullopt;
  std::vector<int64_t> result;
  for (const json::Value &entry : *list) {
    std::optional<int64_t> number = entry.getAsInteger();
    if (!number || *number < 0)
      report(nameIn(object, names),
             "expected whole numbers of at least 0, found " + textOf(entry));
    result.push_back(number.value_or(0));
  }
  return result;
}

const json::Object *ConfigReader::child(const FieldNames &names) {
  const json::Value *value = find(names);
  if (!value)
    return nullptr;
  const json::Object *object = value->getAsObject();
  if (!object)
    report(nameIn(this->object, names),
           "expected an object, found " + textOf(*value));
  return object;
}

std::vector<std::string> ConfigReader::unusedNames() const {
  std::vector<std::string> names;
  for (const auto &field : object)
    if (field.second.kind() != json::Value::Null &&
        !llvm::is_contained(known, StringRef(field.first)))
      names.push_back(field.first.str());
  llvm::sort(names);
  return names;
}

void ConfigReader::finish() {
  if (missing.empty())
    return;
  constexpr unsigned farthest = 3; // edits within one word
  std::vector<std::string> unused = unusedNames();
  llvm::SmallVector<StringRef> candidates(unused.begin(), unused.end());
  StringRef closest = closeName(missing.front(), candidates);
  std::string message =
      missing.size() > 1 ? "needs the fields '" : "needs the field '";
  message += llvm::join(missing, "', '") + "'";
  if (!closest.empty() &&
      missing.front().edit_distance_insensitive(closest) <= farthest)
    message += ", the closest is '" + closest.str() + "'";
  errors.report(path, message);
}
