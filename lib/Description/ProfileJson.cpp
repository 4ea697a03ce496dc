//===- ProfileJson.cpp - Profiles as JSON ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Times are texts with units, so that decimals stay exact
// (docs/schemas/times.schema.json).
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "PipeSched/Facts/ProfileText.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::StringRef;
namespace json = llvm::json;

static void readTime(const json::Value &value, const llvm::Twine &path,
                     std::vector<int64_t> &times, FileErrors &errors) {
  std::optional<StringRef> text = value.getAsString();
  if (!text) {
    errors.report(path, "expected a time in quotes such as \"1.5ms\", found " +
                            llvm::formatv("{0}", value).str());
    return;
  }
  llvm::Expected<int64_t> ps = parseTime(text->trim());
  if (ps)
    times.push_back(*ps);
  else
    errors.report(path, llvm::toString(ps.takeError()));
}

Profile pipesched::readTimesFields(const json::Value &file,
                                   FileErrors &errors) {
  FieldReader reader(&file, "", errors);
  reader.text("$schema", "");
  Profile profile;
  bool isEmpty = true;
  for (StringRef name : profileNames()) {
    const json::Value *entry = reader.find(name);
    if (!entry)
      continue;
    isEmpty = false;
    std::vector<int64_t> &times = *findTimes(profile, name);
    const json::Array *list = entry->getAsArray();
    if (!list) {
      readTime(*entry, name, times, errors);
      continue;
    }
    if (list->empty())
      errors.report(name, "expected at least one time");
    for (auto [index, time] : llvm::enumerate(*list))
      readTime(time, name + "[" + llvm::Twine(index) + "]", times, errors);
  }
  reader.finish();
  if (isEmpty)
    errors.report("", "expected times such as {\"F\": \"1ms\"}, found none");
  return profile;
}

llvm::Expected<Profile> pipesched::profileFromJson(StringRef text,
                                                   StringRef file) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  Profile profile = readTimesFields(*value, errors);
  if (errors.any())
    return errors.take();
  return profile;
}
