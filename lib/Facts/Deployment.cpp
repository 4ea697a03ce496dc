//===- Deployment.cpp - Distribution of a training ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of Deployment.def as a table, and values of options from numbers and
// texts.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Facts/Deployment.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include <cmath>

using namespace pipesched;
using llvm::Error;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

template <typename Enum>
static llvm::ArrayRef<StringRef> valuesOf() {
  static const llvm::SmallVector<StringRef> names = listEnumNames<Enum>();
  return names;
}

template <auto member>
static int64_t getMember(const Deployment &from) {
  return static_cast<int64_t>(from.*member);
}

template <auto member>
static void putMember(Deployment &to, int64_t value) {
  to.*member = static_cast<std::decay_t<decltype(to.*member)>>(value);
}

/// Sets an option that sizes can replace.
template <auto member, auto sizes>
static void putValue(Deployment &to, int64_t value) {
  putMember<member>(to, value);
  (to.*sizes).clear();
}

template <auto sizes>
static llvm::ArrayRef<int64_t> getSizesOf(const Deployment &from) {
  return from.*sizes;
}

template <auto member, auto sizes>
static void putSizesOf(Deployment &to, llvm::ArrayRef<int64_t> given) {
  to.*member = Deployment().*member;
  to.*sizes = given.vec();
}

/// Returns the stored value of one unit.
static int64_t unitOf(const DeploymentOption &option) {
  return option.kind == DeploymentKind::Ratio ? kOnePpm : 1;
}

static std::vector<DeploymentOption> makeTable() {
  using Kind = DeploymentKind;
  auto row = [](auto... columns) { return DeploymentOption{columns...}; };
  std::vector<DeploymentOption> table = {
#define DEPLOYMENT_MEMBER(member)                                              \
  getMember<&Deployment::member>, putMember<&Deployment::member>
#define DEPLOYMENT_COUNT(member, name, unsaid, most, wanted, unit, title,      \
                         matters, summary)                                     \
  row(DEPLOYMENT_MEMBER(member), Kind::Count, name, int64_t(unsaid),           \
      int64_t(1), int64_t(most), matters, summary, wanted, unit, title),
#define DEPLOYMENT_RATIO(member, name, unsaid, most, wanted, matters, summary) \
  row(DEPLOYMENT_MEMBER(member##Ppm), Kind::Ratio, name, (unsaid) * kOnePpm,   \
      kOnePpm, (most) * kOnePpm, matters, summary, wanted, "ratio", ""),
#define DEPLOYMENT_CHOICE(Enum, member, name, unsaid, matters, summary)        \
  row(DEPLOYMENT_MEMBER(member), Kind::Choice, name, int64_t(Enum::unsaid),    \
      int64_t(0), int64_t(kNumEnumValues<Enum> - 1), matters, summary, "", "", \
      "", valuesOf<Enum>()),
#define DEPLOYMENT_SIZES(Enum, member, name, unsaid, wanted, unit, matters,    \
                         summary)                                              \
  row(getMember<&Deployment::member>,                                          \
      putValue<&Deployment::member, &Deployment::member##Sizes>, Kind::Sizes,  \
      name, int64_t(Enum::unsaid), int64_t(0),                                 \
      int64_t(kNumEnumValues<Enum> - 1), matters, summary, wanted, unit, "",   \
      valuesOf<Enum>(), std::string(), std::string(),                          \
      getSizesOf<&Deployment::member##Sizes>,                                  \
      putSizesOf<&Deployment::member, &Deployment::member##Sizes>),
#include "PipeSched/Facts/Deployment.def"
  };
  for (DeploymentOption &option : table) {
    option.attribute = option.name;
    llvm::replace(option.attribute, '-', '_');
    if (option.kind == Kind::Ratio)
      option.attribute += "_ppm";
    option.unsaidText = option.isChoice()
                            ? option.values[option.unsaid].str()
                            : std::to_string(option.unsaid / unitOf(option));
  }
  return table;
}

llvm::ArrayRef<DeploymentOption> pipesched::deploymentOptions() {
  static const std::vector<DeploymentOption> table = makeTable();
  return table;
}

bool pipesched::operator==(const Deployment &a, const Deployment &b) {
  return llvm::all_of(deploymentOptions(), [&](const DeploymentOption &option) {
    return option.get(a) == option.get(b) &&
           option.sizesOf(a) == option.sizesOf(b);
  });
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Returns "none, optimizer or full".
static std::string describe(llvm::ArrayRef<StringRef> names, StringRef last) {
  if (names.size() < 2)
    return llvm::join(names, "");
  return (llvm::join(names.drop_back(), ", ") + " " + last + " " + names.back())
      .str();
}

static llvm::SmallVector<StringRef> listNames() {
  llvm::SmallVector<StringRef> names;
  for (const DeploymentOption &option : deploymentOptions())
    names.push_back(option.name);
  return names;
}

llvm::Expected<const DeploymentOption *>
pipesched::findDeploymentOption(StringRef name) {
  for (const DeploymentOption &option : deploymentOptions())
    if (option.name == name)
      return &option;
  return formatError("no training has an option '{0}'{1}", name,
                     nameHint(name, listNames()));
}

std::string pipesched::listDeploymentOptions() {
  return describe(listNames(), "and");
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

static Error makeRangeError(const DeploymentOption &option, StringRef found) {
  int64_t unit = unitOf(option);
  std::string wanted = llvm::formatv(option.wanted.data(), option.least / unit,
                                     option.most / unit);
  return formatError("expected {0}, found {1}", wanted, found);
}

Error pipesched::checkRanges(const Deployment &deployment) {
  Deployment same;
  for (const DeploymentOption &option : deploymentOptions()) {
    if (Error error = setOption(same, option, option.get(deployment)))
      return error;
    llvm::ArrayRef<int64_t> sizes = option.sizesOf(deployment);
    if (sizes.empty())
      continue;
    if (Error error = setSizes(same, option, sizes))
      return error;
  }
  return Error::success();
}

Error pipesched::setOption(Deployment &deployment,
                           const DeploymentOption &option, int64_t value) {
  if (value < option.least || value > option.most)
    return makeRangeError(option, std::to_string(value));
  option.put(deployment, value);
  return Error::success();
}

Error pipesched::setOption(Deployment &deployment,
                           const DeploymentOption &option, double ratio) {
  double one = double(kOnePpm);
  if (!(ratio >= double(option.least) / one &&
        ratio <= double(option.most) / one))
    return makeRangeError(option, std::to_string(ratio));
  option.put(deployment, std::llround(ratio * one));
  return Error::success();
}

Error pipesched::setSizes(Deployment &deployment,
                          const DeploymentOption &option,
                          llvm::ArrayRef<int64_t> sizes) {
  assert(option.putSizes && "expected an option that takes sizes");
  if (sizes.empty())
    return formatError("expected {0} of at least one size, found none",
                       option.name);
  for (auto [index, size] : llvm::enumerate(sizes))
    if (size < 1)
      return formatError("expected {0} to give each slice at least 1 of the "
                         "{1}, found {2} for slice {3} of {4}",
                         option.name, option.unit, size, index, sizes.size());
  option.putSizes(deployment, sizes);
  return Error::success();
}

/// Reads "4930,4238"; nothing if it is not a list of integers.
static std::optional<std::vector<int64_t>> readSizes(StringRef text) {
  llvm::SmallVector<StringRef> parts;
  text.split(parts, ',');
  std::vector<int64_t> sizes(parts.size());
  for (auto [part, size] : llvm::zip_equal(parts, sizes))
    if (part.trim().getAsInteger(10, size))
      return std::nullopt;
  return sizes;
}

/// Sets a choice by its name, or the sizes instead.
static Error setChoice(Deployment &deployment, const DeploymentOption &option,
                       StringRef value) {
  llvm::ArrayRef<StringRef> values = option.values;
  if (const StringRef *found = llvm::find(values, value); found != values.end())
    return setOption(deployment, option, int64_t(found - values.begin()));
  if (option.putSizes)
    if (std::optional<std::vector<int64_t>> sizes = readSizes(value))
      return setSizes(deployment, option, *sizes);
  llvm::SmallVector<StringRef> wanted(values);
  if (option.putSizes)
    wanted.push_back(option.wanted);
  return formatError("expected {0} to be {1}, found '{2}'", option.name,
                     describe(wanted, "or"), value);
}

Error pipesched::setOption(Deployment &deployment,
                           const DeploymentOption &option, StringRef value) {
  int64_t count;
  double ratio;
  switch (option.kind) {
  case DeploymentKind::Count:
    if (value.getAsInteger(10, count))
      return makeRangeError(option, "'" + value.str() + "'");
    return setOption(deployment, option, count);
  case DeploymentKind::Ratio:
    if (value.getAsDouble(ratio))
      return makeRangeError(option, "'" + value.str() + "'");
    return setOption(deployment, option, ratio);
  case DeploymentKind::Choice:
  case DeploymentKind::Sizes:
    return setChoice(deployment, option, value);
  }
  llvm_unreachable("all kinds of options are handled");
}

Error pipesched::setOption(Deployment &deployment, StringRef name,
                           StringRef value) {
  llvm::Expected<const DeploymentOption *> option = findDeploymentOption(name);
  if (!option)
    return option.takeError();
  return setOption(deployment, **option, value);
}
