//===- Costs.cpp - C API for the costs of schedules -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reads models, systems and profiles from names, files and texts.
//
//===----------------------------------------------------------------------===//

#include "Enums.h"
#include "PipeSched/Description/Description.h"
#include "PipeSched/Facts/ProfileText.h"
#include "PipeSched/Support/FormatError.h"
#include "PipeSched/Target/ModelSummaryJson.h"
#include "Wrap.h"

using namespace pipesched;

static constexpr llvm::StringLiteral kJsonName = "<json>";

namespace {
/// The options that are enums, converted to the enums of C++.
struct CostChoices {
  Recompute recompute = Recompute::None;
  AttentionKernels attention = AttentionKernels::AsDescribed;
  Precision precision = Precision::BF16;
  Deployment deployment;
};
} // namespace

/// Checks every enum in the options, including the kinds of their sources.
/// Errors: a number that no value of its enum has.
static llvm::Expected<CostChoices>
readChoices(const PipeschedCostOptions &options) {
  CostChoices choices;
  EnumReader reader;
  PipeschedSourceKind kind = PipeschedSourceNone;
  reader.read("the kind of the model's source", options.model.kind, kind);
  reader.read("the kind of the system's source", options.system.kind, kind);
  reader.read("the kind of the profile's source", options.profile.kind, kind);
  reader.read("recompute", options.recompute, choices.recompute);
  reader.read("attention", options.attention, choices.attention);
  reader.read("precision", options.precision, choices.precision);
  Deployment &deployment = choices.deployment;
  reader.read("sharding", options.sharding, deployment.sharding);
  reader.read("rank-order", options.rankOrder, deployment.rankOrder);
  reader.read("context-exchange", options.contextExchange,
              deployment.contextExchange);
  reader.read("expert-dispatch", options.expertDispatch,
              deployment.expertDispatch);
  if (llvm::Error error = reader.take())
    return std::move(error);
  return choices;
}

/// The error for a source of a kind that `what` cannot be read from.
static llvm::Error makeKindError(llvm::StringRef what,
                                 const PipeschedSource &source) {
  return formatError("a {0} is not read from a source of the kind '{1}'", what,
                     enumName(source.kind));
}

static llvm::Expected<Architecture>
readArchitecture(const PipeschedSource &source, int64_t sequence) {
  llvm::StringRef text = readText(source.text);
  switch (source.kind) {
  case PipeschedSourceName:
    return findArchitecture(text, sequence);
  case PipeschedSourceFile:
    return readArchitecture(text, sequence);
  case PipeschedSourceJson:
    return architectureFromJson(text, kJsonName, SourceRule::Optional,
                                sequence);
  default:
    return makeKindError("model", source);
  }
}

static llvm::Expected<HardwareFacts>
readDescribedSystem(const PipeschedSource &source) {
  llvm::StringRef text = readText(source.text);
  switch (source.kind) {
  case PipeschedSourceName:
    return findSystem(text);
  case PipeschedSourceFile:
    return readSystem(text);
  case PipeschedSourceJson:
    return systemFromJson(text, kJsonName, SourceRule::Optional);
  default:
    return makeKindError("system", source);
  }
}

/// Reads the numbers of a deployment, whose choices are read before, and then
/// the options that are given by name.
static llvm::Expected<Deployment>
readDeployment(const PipeschedCostOptions &options, Deployment deployment) {
  auto orOne = [](auto value) { return value == 0 ? 1 : value; };
  deployment.dataParallel = orOne(options.dataParallel);
  deployment.contextParallel = orOne(options.contextParallel);
  deployment.expertParallel = orOne(options.expertParallel);
  const DeploymentOption *balance =
      llvm::cantFail(findDeploymentOption("expert-balance"));
  if (llvm::Error error =
          setOption(deployment, *balance, orOne(options.expertBalance)))
    return std::move(error);
  auto named = readArray("options of a deployment", options.deploymentOptions,
                         options.numDeploymentOptions);
  if (!named)
    return named.takeError();
  for (const PipeschedOption &option : *named)
    if (llvm::Error error = setOption(deployment, readText(option.name),
                                      readText(option.value)))
      return std::move(error);
  return deployment;
}

static llvm::Expected<SystemFacts>
readSystem(const PipeschedCostOptions &options, const CostChoices &choices) {
  llvm::Expected<HardwareFacts> hardware = readDescribedSystem(options.system);
  if (!hardware)
    return hardware.takeError();
  if (options.accelerators != 0)
    if (llvm::Error error = setAccelerators(*hardware, options.accelerators))
      return std::move(error);
  auto deployment = readDeployment(options, choices.deployment);
  if (!deployment)
    return errorOfSystem(hardware->name, deployment.takeError());
  return deploy(std::move(*hardware), *deployment);
}

static llvm::Expected<Profile> readProfile(const PipeschedSource &source) {
  llvm::StringRef text = readText(source.text);
  switch (source.kind) {
  case PipeschedSourceFile:
    return readProfile(text);
  case PipeschedSourceJson:
    return profileFromJson(text, kJsonName);
  case PipeschedSourceTimes:
    return parseProfile(text);
  default:
    return makeKindError("profile", source);
  }
}

/// Stores the result of a read, or returns its error.
template <typename T>
static llvm::Error store(std::optional<T> &facts, llvm::Expected<T> read) {
  if (!read)
    return read.takeError();
  facts = std::move(*read);
  return llvm::Error::success();
}

/// Options that change a system are an error without a system.
static llvm::Error checkSystemOptions(const PipeschedCostOptions &options,
                                      const CostChoices &choices) {
  if (options.system.kind != PipeschedSourceNone)
    return llvm::Error::success();
  if (options.accelerators != 0)
    return llvm::createStringError(
        "accelerators are those of a system; none is given");
  auto deployment = readDeployment(options, choices.deployment);
  if (!deployment)
    return deployment.takeError();
  if (*deployment == Deployment())
    return llvm::Error::success();
  return llvm::createStringError(listDeploymentOptions() +
                                 " are about a system; none is given");
}

/// Options that expand a model are an error without a model or out of range.
static llvm::Error checkExpansion(const PipeschedCostOptions &options,
                                  const CostChoices &choices) {
  if (options.microbatchSize < 0 || options.globalBatch < 0 ||
      options.sequence < 0 || options.boundaryBytes < -1)
    return llvm::createStringError("microbatch-size, global-batch, sequence "
                                   "and boundary-bytes are at least 0");
  if (options.microbatchSize != 0 && options.globalBatch != 0)
    return llvm::createStringError(
        "give one of microbatch-size and global-batch, not both");
  bool isGiven =
      options.microbatchSize != 0 || options.globalBatch != 0 ||
      options.sequence != 0 || options.boundaryBytes >= 0 ||
      options.parameterBytes || choices.recompute != Recompute::None ||
      choices.attention != AttentionKernels::AsDescribed ||
      choices.precision != Precision::BF16 || options.withoutSequenceParallel;
  if (isGiven && options.model.kind == PipeschedSourceNone)
    return llvm::createStringError(
        "microbatch-size, global-batch, sequence, boundary-bytes, "
        "parameter-bytes, recompute, attention, precision and "
        "sequence-parallel are about a model; none is given");
  return checkSystemOptions(options, choices);
}

static llvm::Error readExpansion(CostSources &costs,
                                 const PipeschedCostOptions &options,
                                 const CostChoices &choices) {
  if (options.microbatchSize != 0)
    costs.microbatchSize = options.microbatchSize;
  costs.expansion.recompute = choices.recompute;
  costs.expansion.precision = choices.precision;
  costs.expansion.sequenceParallel = !options.withoutSequenceParallel;
  if (options.boundaryBytes >= 0)
    costs.expansion.boundaryBytes = options.boundaryBytes;
  costs.globalBatch = options.globalBatch;
  costs.architecture->attention =
      chooseAttention(choices.attention, costs.architecture->attention);
  if (!options.parameterBytes)
    return llvm::Error::success();
  return setParameterBytes(*costs.architecture, {options.parameterBytes, 3});
}

static llvm::Error readFacts(CostSources &costs,
                             const PipeschedCostOptions &options,
                             const CostChoices &choices) {
  if (options.model.kind != PipeschedSourceNone)
    if (llvm::Error error =
            store(costs.architecture,
                  readArchitecture(options.model, options.sequence)))
      return error;
  if (options.system.kind != PipeschedSourceNone)
    if (llvm::Error error = store(costs.system, readSystem(options, choices)))
      return error;
  if (options.profile.kind != PipeschedSourceNone)
    return store(costs.profile, readProfile(options.profile));
  return llvm::Error::success();
}

static llvm::Expected<CostSources>
readCosts(const PipeschedCostOptions &options) {
  llvm::Expected<CostChoices> choices = readChoices(options);
  if (!choices)
    return choices.takeError();
  CostSources costs;
  if (llvm::Error error = checkExpansion(options, *choices))
    return std::move(error);
  if (llvm::Error error = readFacts(costs, options, *choices))
    return std::move(error);
  if (costs.architecture)
    if (llvm::Error error = readExpansion(costs, options, *choices))
      return std::move(error);
  return costs;
}

PipeschedCosts pipeschedCostsCreate(PipeschedCostOptions options,
                                    MlirStringCallback onError,
                                    void *userData) {
  llvm::Expected<CostSources> costs = readCosts(options);
  if (costs)
    return wrap(new CostSources(std::move(*costs)));
  passError(onError, userData, costs.takeError());
  return {nullptr};
}

void pipeschedCostsDestroy(PipeschedCosts costs) { delete unwrap(costs); }

double pipeschedCostsGetPeakFlops(PipeschedCosts costs) {
  if (!costs.ptr || !unwrap(costs)->system)
    return 0;
  return peakFlopsPerSecond(*unwrap(costs)->system,
                            unwrap(costs)->expansion.precision ==
                                Precision::FP8);
}

static llvm::Expected<ModelSummary> summarizeModel(const CostSources *costs) {
  if (!costs || !costs->architecture)
    return llvm::createStringError("expected a model, found none");
  ExpansionOptions options = costs->expansion;
  options.microbatchSize = costs->microbatchSize.value_or(1);
  llvm::Expected<ModelFacts> facts =
      expandArchitecture(*costs->architecture, options);
  if (!facts)
    return facts.takeError();
  return summarize(*facts);
}

MlirLogicalResult pipeschedCostsWriteModel(PipeschedCosts costs,
                                           MlirStringCallback callback,
                                           void *userData,
                                           MlirStringCallback onError,
                                           void *errorData) {
  llvm::Expected<ModelSummary> summary = summarizeModel(unwrap(costs));
  if (!summary) {
    passError(onError, errorData, summary.takeError());
    return mlirLogicalResultFailure();
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::json::OStream json(os, /*IndentSize=*/2);
  const Architecture &model = *unwrap(costs)->architecture;
  writeModelSummary(json, *summary, model.notes, model.attention);
  json.flush();
  passText(callback, userData, text);
  return mlirLogicalResultSuccess();
}
