//===- Sources.cpp - Sources in description files -------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A source without its number is an error. In shipped files, so is a number
// without its source.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

std::vector<std::string> pipesched::readAliases(FieldReader &reader) {
  std::vector<std::string> aliases;
  const json::Value *value = reader.find("aliases");
  if (!value)
    return aliases;
  const json::Array *array = value->getAsArray();
  if (!array) {
    reader.getErrors().report(reader.pathOf("aliases"),
                              "expected a list of names");
    return aliases;
  }
  for (const json::Value &alias : *array) {
    if (std::optional<StringRef> name = alias.getAsString())
      aliases.push_back(name->str());
    else
      reader.getErrors().report(reader.pathOf("aliases"),
                                "expected names, found " +
                                    llvm::formatv("{0}", alias).str());
  }
  return aliases;
}

/// Returns the value at a dotted path, or null.
static const json::Value *findPath(const json::Value &file, StringRef path) {
  const json::Value *value = &file;
  while (value && !path.empty()) {
    auto [name, rest] = path.split('.');
    const json::Object *object = value->getAsObject();
    value = object ? object->get(name) : nullptr;
    path = rest;
  }
  return value;
}

static bool hasSource(const json::Object &sources, StringRef path) {
  while (!path.empty()) {
    if (sources.get(path))
      return true;
    path = path.rsplit('.').first == path ? "" : path.rsplit('.').first;
  }
  return false;
}

/// Reports the first number (by name) within `value` that has no source.
static void checkNumbers(const json::Object &sources, const json::Value &value,
                         const std::string &path, FileErrors &errors) {
  if (const json::Object *object = value.getAsObject()) {
    llvm::SmallVector<StringRef> names;
    for (const auto &field : *object)
      names.push_back(field.first);
    llvm::sort(names);
    for (StringRef name : names)
      checkNumbers(sources, *object->get(name),
                   path.empty() ? name.str() : (path + "." + name).str(),
                   errors);
    return;
  }
  bool isNumber =
      value.kind() == json::Value::Number || value.kind() == json::Value::Array;
  if (isNumber && path != "aliases" && !hasSource(sources, path))
    errors.report(path, "has no source in 'sources'");
}

void pipesched::finishWithSources(FieldReader &reader, const json::Value &file,
                                  SourceRule rule) {
  bool isRequired = rule == SourceRule::Required;
  const json::Value *value =
      isRequired ? reader.require("sources") : reader.find("sources");
  reader.finish();
  if (!value)
    return;
  FileErrors &errors = reader.getErrors();
  const json::Object *sources = value->getAsObject();
  if (!sources) {
    errors.report("sources", "expected an object of texts");
    return;
  }
  llvm::SmallVector<StringRef> paths;
  for (const auto &source : *sources)
    paths.push_back(source.first);
  llvm::sort(paths);
  for (StringRef path : paths) {
    if (!sources->get(path)->getAsString())
      errors.report("sources", "expected a text for '" + path + "'");
    if (!findPath(file, path))
      errors.report("sources", "'" + path + "' is no field of this file");
  }
  if (isRequired)
    checkNumbers(*sources, file, "", errors);
}
