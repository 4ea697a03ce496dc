//===- ConfigReader.cpp - Tolerant reading of configurations --------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads fields with several names and defaults; checks types and ranges.
//
//===----------------------------------------------------------------------===//

#include "ConfigReader.h"
#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/Twine.h"

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

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

/// The name under which the file has a field, for messages.
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
