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

/// Reads the times of a list, which must not be empty.
static void readList(const json::Array &list, const llvm::Twine &path,
                     std::vector<int64_t> &times, FileErrors &errors) {
  if (list.empty())
    errors.report(path, "expected at least one time");
  for (auto [index, time] : llvm::enumerate(list))
    readTime(time, path + "[" + llvm::Twine(index) + "]", times, errors);
}

/// Reads a list of times by microbatch, or a list of such lists.
static void readLists(const json::Value &value, const llvm::Twine &path,
                      MicrobatchTimes &lists, FileErrors &errors) {
  const json::Array *outer = value.getAsArray();
  if (!outer || outer->empty()) {
    errors.report(path, "expected a list of times, one for each microbatch, "
                        "found " +
                            llvm::formatv("{0}", value).str());
    return;
  }
  if (!outer->front().getAsArray())
    return readList(*outer, path, lists.emplace_back(), errors);
  for (auto [index, list] : llvm::enumerate(*outer)) {
    std::string at = (path + "[" + llvm::Twine(index) + "]").str();
    if (const json::Array *inner = list.getAsArray())
      readList(*inner, at, lists.emplace_back(), errors);
    else
      errors.report(at, "expected a list of times, one for each microbatch");
  }
}

static void readMicrobatches(const json::Value &value, Profile &profile,
                             FileErrors &errors) {
  FieldReader reader(&value, "microbatches", errors);
  for (StringRef name : microbatchNames())
    if (const json::Value *entry = reader.find(name))
      readLists(*entry, "microbatches." + name,
                *findTimes(profile.microbatches, name), errors);
  reader.finish();
  if (llvm::Error error = checkNames(profile))
    errors.report("microbatches", llvm::toString(std::move(error)));
}

Profile pipesched::readTimesFields(const json::Value &file,
                                   FileErrors &errors) {
  FieldReader reader(&file, "", errors);
  reader.text("$schema", "");
  Profile profile;
  for (StringRef name : profileNames()) {
    const json::Value *entry = reader.find(name);
    if (!entry)
      continue;
    std::vector<int64_t> &times = *findTimes(profile, name);
    if (const json::Array *list = entry->getAsArray())
      readList(*list, name, times, errors);
    else
      readTime(*entry, name, times, errors);
  }
  if (const json::Value *entry = reader.find("microbatches"))
    readMicrobatches(*entry, profile, errors);
  reader.finish();
  if (profile == Profile() && !errors.any())
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
