//===- Deployment.cpp - How a training is divided -------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
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

/// What one is held as.
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
#include "PipeSched/Facts/Deployment.def"
  };
  for (DeploymentOption &option : table) {
    option.attribute = option.name;
    llvm::replace(option.attribute, '-', '_');
    if (option.kind == Kind::Ratio)
      option.attribute += "_ppm";
    option.unsaidText = option.kind == Kind::Choice
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
    return option.get(a) == option.get(b);
  });
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// "none, optimizer or full".
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

/// The error for a value that is out of the range of its option.
static Error makeRangeError(const DeploymentOption &option, StringRef found) {
  int64_t unit = unitOf(option);
  std::string wanted = llvm::formatv(option.wanted.data(), option.least / unit,
                                     option.most / unit);
  return formatError("expected {0}, found {1}", wanted, found);
}

Error pipesched::checkRanges(const Deployment &deployment) {
  Deployment same;
  for (const DeploymentOption &option : deploymentOptions())
    if (Error error = setOption(same, option, option.get(deployment)))
      return error;
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

Error pipesched::setOption(Deployment &deployment, StringRef name,
                           StringRef value) {
  llvm::Expected<const DeploymentOption *> option = findDeploymentOption(name);
  if (!option)
    return option.takeError();
  int64_t count;
  double ratio;
  switch ((*option)->kind) {
  case DeploymentKind::Count:
    if (value.getAsInteger(10, count))
      return makeRangeError(**option, "'" + value.str() + "'");
    return setOption(deployment, **option, count);
  case DeploymentKind::Ratio:
    if (value.getAsDouble(ratio))
      return makeRangeError(**option, "'" + value.str() + "'");
    return setOption(deployment, **option, ratio);
  case DeploymentKind::Choice:
    llvm::ArrayRef<StringRef> values = (*option)->values;
    if (const StringRef *found = llvm::find(values, value);
        found != values.end())
      return setOption(deployment, **option, int64_t(found - values.begin()));
    return formatError("expected {0} to be {1}, found '{2}'", name,
                       describe(values, "or"), value);
  }
  llvm_unreachable("all kinds of options are handled");
}
