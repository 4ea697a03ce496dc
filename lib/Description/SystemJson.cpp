//===- SystemJson.cpp - Systems as JSON -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The fields of systems/*.json. Their names contain units; decimals are
// converted to whole FLOP/s, bytes and picoseconds here.
//
//===----------------------------------------------------------------------===//

#include "Formats.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include <cmath>
#include <numeric>

using namespace pipesched;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

static constexpr double kPsPerUs = 1e6;

/// Limit on the accelerators of a group of nodes.
static constexpr int64_t kMaxInGroup = 1 << 20;

int64_t pipesched::readShare(const json::Value &value, const Twine &path,
                             FileErrors &errors) {
  std::optional<double> share = value.getAsNumber();
  if (share && *share > 1) {
    errors.report(path, "expected an efficiency of at most 1, found " +
                            textOf(value));
    return 1;
  }
  return scaleNumber(value, kMega, /*isZeroAllowed=*/false, path, errors);
}

namespace {
/// The names of the fields of a point of a curve: "size", "efficiency".
struct PointNames {
  StringRef size, value;
};
} // namespace

/// Reads `[[size, value], ...]` with ascending sizes; `readValue` reads a
/// value.
static EfficiencyCurve readPoints(
    const json::Value &value, double scale, PointNames names,
    const std::string &path, FileErrors &errors,
    llvm::function_ref<int64_t(const json::Value &, const Twine &)> readValue) {
  EfficiencyCurve curve;
  const json::Array *points = value.getAsArray();
  std::string wanted = ("[" + names.size + ", " + names.value + "]").str();
  if (!points || points->empty()) {
    errors.report(path, "expected points [" + wanted + ", ...]");
    return curve;
  }
  for (auto [index, value] : llvm::enumerate(*points)) {
    std::string pointPath = (path + "[" + Twine(index) + "]").str();
    const json::Array *point = value.getAsArray();
    if (!point || point->size() != 2) {
      errors.report(pointPath, "expected a point " + wanted);
      return curve;
    }
    int64_t size = scaleNumber((*point)[0], scale, /*isZeroAllowed=*/true,
                               pointPath, errors);
    int64_t number = readValue((*point)[1], pointPath);
    if (!curve.points.empty() && size <= curve.points.back().size)
      errors.report(pointPath, "expected " + names.size +
                                   (names.size.ends_with("s") ? "" : "s") +
                                   " that ascend");
    curve.points.push_back({size, number});
  }
  return curve;
}

/// Reads a constant share, or a curve, or neither.
static std::optional<EfficiencyCurve> readEfficiency(FieldReader &reader,
                                                     StringRef flatName,
                                                     StringRef curveName,
                                                     double scale) {
  const json::Value *flat = reader.find(flatName);
  const json::Value *curve = reader.find(curveName);
  FileErrors &errors = reader.getErrors();
  if (flat && curve)
    errors.report(reader.pathOf(flatName),
                  "expected either this or " + curveName);
  if (curve)
    return readPoints(*curve, scale, {"size", "efficiency"},
                      reader.pathOf(curveName), errors,
                      [&](const json::Value &value, const Twine &path) {
                        return readShare(value, path, errors);
                      });
  if (!flat)
    return std::nullopt;
  return EfficiencyCurve{
      {{0, readShare(*flat, reader.pathOf(flatName), errors)}}};
}

static EngineFacts readEngine(FieldReader &parent, StringRef name,
                              bool hasNarrowRates) {
  FieldReader reader(parent.require(name), parent.pathOf(name),
                     parent.getErrors());
  EngineFacts facts;
  facts.flopsPerSecond = reader.scaled("tflops", kTera);
  facts.latencyPs = reader.scaled("latency_us", kPsPerUs, 0);
  facts.efficiency =
      readEfficiency(reader, "efficiency", "efficiency_by_gflop", kGiga)
          .value_or(EfficiencyCurve());
  if (hasNarrowRates) {
    facts.fp8FlopsPerSecond = reader.scaled("fp8_tflops", kTera, 0);
    facts.fp4FlopsPerSecond = reader.scaled("fp4_tflops", kTera, 0);
    facts.fp8Efficiency = readEfficiency(reader, "fp8_efficiency",
                                         "fp8_efficiency_by_gflop", kGiga);
    if (facts.fp8Efficiency && facts.fp8FlopsPerSecond == 0)
      reader.getErrors().report(reader.pathOf("fp8_tflops"),
                                "an efficiency in FP8 needs this rate");
  }
  reader.finish();
  return facts;
}

/// One million parts per million: 100 % of a peak.
static constexpr int64_t kWhole = 1000000;

/// Reads `[[tokens, TFLOP/s], ...]` with ascending tokens; the points have
/// FLOP/s instead of shares.
static EfficiencyCurve readRatesByTokens(FieldReader &reader, StringRef name) {
  FileErrors &errors = reader.getErrors();
  const json::Value *value = reader.require(name);
  if (!value)
    return {};
  return readPoints(*value, 1, {"tokens", "TFLOP/s"}, reader.pathOf(name),
                    errors, [&](const json::Value &rate, const Twine &path) {
                      return scaleNumber(rate, kTera, /*isZeroAllowed=*/false,
                                         path, errors);
                    });
}

/// Turns rates into shares of the highest rate.
static void relate(AttentionRates &rates) {
  for (const EfficiencyCurve *curve : {&rates.forward, &rates.backward})
    for (EfficiencyCurve::Point point : curve->points)
      rates.flopsPerSecond =
          std::max(rates.flopsPerSecond, point.partsPerMillion);
  for (EfficiencyCurve *curve : {&rates.forward, &rates.backward})
    for (EfficiencyCurve::Point &point : curve->points)
      point.partsPerMillion = std::max<int64_t>(
          std::llround(double(point.partsPerMillion) /
                       double(rates.flopsPerSecond) * double(kWhole)),
          1);
}

/// Reads `attention`: the rates of attention kernels, each by its head size.
static void readAttention(FieldReader &parent, HardwareFacts &facts) {
  const json::Value *value = parent.find("attention");
  const json::Array *kernels = value ? value->getAsArray() : nullptr;
  FileErrors &errors = parent.getErrors();
  if (value && !kernels)
    errors.report("attention", "expected a list of kernels with their rates");
  for (auto [index, entry] :
       llvm::enumerate(kernels ? *kernels : json::Array())) {
    std::string path = ("attention[" + Twine(index) + "]").str();
    FieldReader reader(&entry, path, errors);
    AttentionRates rates;
    rates.kernel = reader.choice<FlashKernel>("kernel");
    rates.headSize = reader.integer("head_size", 1);
    rates.forward = readRatesByTokens(reader, "forward_tflops_by_tokens");
    rates.backward = readRatesByTokens(reader, "backward_tflops_by_tokens");
    reader.finish();
    if (errors.any())
      return;
    if (findAttentionRates(facts, rates.kernel, rates.headSize))
      errors.report(path, enumName(rates.kernel) + " with heads of " +
                              Twine(rates.headSize) + " is given twice");
    relate(rates);
    facts.attention.push_back(std::move(rates));
  }
}

/// Multiplies the rates of matrix products and attention by a share; the peak
/// of the data sheet stays unchanged.
static void takeShare(HardwareFacts &facts, double share) {
  for (int64_t *rate :
       {&facts.matrix.flopsPerSecond, &facts.matrix.fp8FlopsPerSecond,
        &facts.matrix.fp4FlopsPerSecond, &facts.peakSharePpm})
    *rate = std::llround(double(*rate) * share);
  facts.peakSharePpm = std::max<int64_t>(facts.peakSharePpm, 1);
  for (AttentionRates &rates : facts.attention)
    rates.flopsPerSecond = std::llround(double(rates.flopsPerSecond) * share);
}

/// Reads `multiprocessors`, of which an accelerator may reserve some for
/// kernels that communicate (arXiv 2412.19437, section 3.2.2). The rates of the
/// engines are reduced to the remaining ones.
static void readMultiprocessors(FieldReader &parent, HardwareFacts &facts) {
  const json::Value *value = parent.find("multiprocessors");
  if (!value)
    return;
  FieldReader reader(value, "multiprocessors", parent.getErrors());
  int64_t count = reader.integer("count", 1);
  int64_t communication = reader.integer("communication", 0, 0);
  reader.finish();
  if (communication >= count) {
    parent.getErrors().report("multiprocessors.communication",
                              "expected fewer than the " + Twine(count) +
                                  " multiprocessors, found " +
                                  Twine(communication));
    return;
  }
  double share = double(count - communication) / double(count);
  takeShare(facts, share);
  int64_t &vector = facts.vector.flopsPerSecond;
  vector = std::llround(double(vector) * share);
}

/// Reads `host_time`: the time of the host for an operation, for each
/// additional kernel of it, and for continuing after it has waited for one.
static void readHostTime(FieldReader &parent, HardwareFacts &facts) {
  const json::Value *value = parent.find("host_time");
  if (!value)
    return;
  FieldReader reader(value, "host_time", parent.getErrors());
  facts.launchPs = reader.scaled("launch_us", kPsPerUs);
  facts.operationPs = reader.scaled("operation_us", kPsPerUs, facts.launchPs);
  facts.synchronizePs = reader.scaled("synchronize_us", kPsPerUs, 0);
  reader.finish();
}

/// Reads `sustained`, the share of their peaks that matrix engine and attention
/// reach under a lasting load, when power limits their clocks.
static void readSustained(FieldReader &parent, HardwareFacts &facts) {
  const json::Value *value = parent.find("sustained");
  if (!value)
    return;
  takeShare(facts,
            double(readShare(*value, "sustained", parent.getErrors())) / kMega);
}

/// Checks `power`, which affects no time: plans use it for money and energy.
static void checkPower(FieldReader &parent) {
  const json::Value *value = parent.find("power");
  if (!value)
    return;
  FieldReader reader(value, "power", parent.getErrors());
  reader.scaled("watts", kMega);
  for (StringRef name : {"busy_share", "idle_share"})
    if (const json::Value *share = reader.require(name))
      readShare(*share, reader.pathOf(name), reader.getErrors());
  reader.finish();
}

/// Reads the fields that memories and links share.
static LinkFacts readRate(FieldReader &reader) {
  LinkFacts facts;
  facts.bytesPerSecond = reader.scaled("bandwidth_gb_per_s", kGiga);
  facts.latencyPs = reader.scaled("latency_us", kPsPerUs, 0);
  facts.efficiency =
      readEfficiency(reader, "efficiency", "efficiency_by_mb", kMega)
          .value_or(EfficiencyCurve());
  return facts;
}

static LinkFacts readLink(FieldReader &parent, StringRef name,
                          const json::Value *value) {
  if (!value)
    return {};
  FieldReader reader(value, parent.pathOf(name), parent.getErrors());
  LinkFacts facts = readRate(reader);
  reader.finish();
  return facts;
}

static void readMemory(FieldReader &parent, HardwareFacts &facts) {
  FieldReader reader(parent.require("memory"), parent.pathOf("memory"),
                     parent.getErrors());
  facts.memoryBytes = reader.scaled("capacity_gb", kGiga);
  facts.memory = readRate(reader);
  reader.finish();
}

/// Reads the accelerators of a node or a pod; 0 if absent.
static int64_t readBlock(FieldReader &reader, StringRef name, int64_t most) {
  if (!reader.find(name))
    return 0;
  int64_t number = reader.integer(name, 1);
  if (number > most)
    reader.getErrors().report(reader.pathOf(name),
                              "expected a whole number of at most " +
                                  Twine(most) + ", found " + Twine(number));
  return number;
}

/// Whether a load may change a field. Peaks and bandwidths do not change.
static bool changesUnderLoad(StringRef part, StringRef name) {
  return part == "host_time" || name.contains("efficiency");
}

/// Replaces fields of `fields` by the fields of `load`, and adds missing ones;
/// merges objects field by field.
static void putOver(json::Object &fields, const json::Object &load,
                    FileErrors &errors) {
  for (const auto &[key, value] : load) {
    StringRef name = key;
    json::Object *old = fields.getObject(name);
    const json::Object *inner = value.getAsObject();
    if (name == "sustained" || (name == "host_time" && !old)) {
      fields[name] = value;
      continue;
    }
    bool isPart =
        llvm::is_contained({"host_time", "matrix", "link", "network"}, name);
    if (!old || !inner || !isPart) {
      errors.report("load." + name,
                    "expected 'sustained', 'host_time', or efficiencies in "
                    "'matrix', 'link' or 'network', which the system has");
      continue;
    }
    for (const auto &[field, number] : *inner)
      if (changesUnderLoad(name, field))
        (*old)[field] = number;
      else
        errors.report("load." + name + "." + StringRef(field),
                      "expected an efficiency");
  }
}

/// Returns the fields of a system with these rates: the fields of its object
/// `load` replace the others, or are ignored.
static json::Value takeRates(const json::Value &file, Rates rates,
                             FileErrors &errors) {
  const json::Object *object = file.getAsObject();
  const json::Value *load = object ? object->get("load") : nullptr;
  if (!load) {
    if (object && rates == Rates::Load)
      errors.report("load",
                    "this system has no rates under load; ask for those "
                    "of the data sheet, or add them to its file");
    return file;
  }
  json::Object fields = *object;
  fields.erase("load");
  if (!load->getAsObject())
    errors.report("load", "expected an object of fields");
  else if (rates != Rates::DataSheet)
    putOver(fields, *load->getAsObject(), errors);
  return fields;
}

/// Returns the hardware of a group: a shipped system, or one with fields in the
/// file.
static llvm::Expected<HardwareFacts>
readSystemOfGroup(const json::Value &value, Rates rates,
                  const std::string &path) {
  if (std::optional<StringRef> name = value.getAsString())
    return findSystem(*name, rates);
  FileErrors errors(path);
  HardwareFacts facts =
      readSystemFields(value, rates, SourceRule::Optional, errors);
  if (errors.any())
    return errors.take();
  return facts;
}

/// Refuses nodes on which no training can run together with the nodes of the
/// previous group.
static void checkGroup(const HardwareFacts &facts, const HardwareFacts &before,
                       const std::string &path, FileErrors &errors) {
  if (!facts.groups.empty() || facts.acceleratorsPerPod != 0)
    errors.report(path, "expected equal nodes on one network, found '" +
                            facts.name + "', which has groups or pods");
  if (facts.acceleratorsPerNode != before.acceleratorsPerNode ||
      facts.accelerators != before.accelerators)
    errors.report(
        path, "expected nodes of " + Twine(before.acceleratorsPerNode) +
                  " accelerators and workers of " + Twine(before.accelerators) +
                  ", as in the group before, found " +
                  Twine(facts.acceleratorsPerNode) + " and " +
                  Twine(facts.accelerators));
  if (facts.matrix.flopsPerSecond > before.matrix.flopsPerSecond)
    errors.report(path, "expected the fastest group first, found '" +
                            facts.name + "' behind '" + before.name + "'");
}

static void readGroup(const json::Value &value, Rates rates, FileErrors &errors,
                      std::vector<HardwareFacts> &found,
                      std::vector<int64_t> &ends) {
  std::string path = ("groups[" + Twine(found.size()) + "]").str();
  FieldReader reader(&value, path, errors);
  const json::Value *system = reader.require("system");
  int64_t accelerators = reader.integer("accelerators", 1);
  reader.finish();
  if (errors.any())
    return;
  llvm::Expected<HardwareFacts> facts =
      readSystemOfGroup(*system, rates, path + ".system");
  if (!facts) {
    bool isNamed = system->getAsString().has_value();
    errors.report(isNamed ? path + ".system" : "",
                  llvm::toString(facts.takeError()));
    return;
  }
  checkGroup(*facts, found.empty() ? *facts : found.back(), path + ".system",
             errors);
  int64_t perNode = std::max<int64_t>(facts->acceleratorsPerNode, 1);
  int64_t before = ends.empty() ? 0 : ends.back();
  if (accelerators % perNode != 0 || accelerators > kMaxInGroup)
    errors.report(path + ".accelerators",
                  "expected whole nodes of " + Twine(perNode) +
                      " accelerators, at most " + Twine(kMaxInGroup) +
                      " in all, found " + Twine(accelerators));
  ends.push_back(before + accelerators);
  found.push_back(std::move(*facts));
}

/// Returns the system that consists of these groups, connected by `spine`.
static HardwareFacts joinGroups(std::vector<HardwareFacts> groups,
                                const std::vector<int64_t> &ends,
                                const LinkFacts &spine) {
  int64_t perPod = 0, begin = 0;
  for (int64_t end : ends) {
    perPod = std::gcd(perPod, end - begin);
    begin = end;
  }
  int64_t memory = groups.front().memoryBytes;
  for (HardwareFacts &group : groups) {
    group.spine = spine;
    group.acceleratorsPerPod = perPod;
    group.groupEnds = ends;
    memory = std::min(memory, group.memoryBytes);
  }
  HardwareFacts facts = groups.front();
  facts.memoryBytes = memory;
  facts.groups = std::move(groups);
  return facts;
}

/// Reads a system whose file has groups of nodes.
static HardwareFacts readGroups(const json::Value &file, Rates rates,
                                SourceRule rule, FileErrors &errors) {
  FieldReader reader(&file, "", errors);
  reader.text("$schema", "");
  std::string name = reader.text("name");
  std::string source = reader.text("description");
  LinkFacts spine = readLink(reader, "spine", reader.require("spine"));
  const json::Array *list = reader.find("groups")->getAsArray();
  if (!list || list->size() < 2)
    errors.report("groups", "expected a list of at least two groups of nodes");
  std::vector<HardwareFacts> groups;
  std::vector<int64_t> ends;
  for (size_t i = 0; list && i < list->size() && !errors.any(); ++i)
    readGroup((*list)[i], rates, errors, groups, ends);
  readAliases(reader);
  finishWithSources(reader, file, rule);
  if (errors.any())
    return {};
  HardwareFacts facts = joinGroups(std::move(groups), ends, spine);
  facts.name = std::move(name);
  facts.source = std::move(source);
  return facts;
}

HardwareFacts pipesched::readSystemFields(const json::Value &file, Rates rates,
                                          SourceRule rule, FileErrors &errors) {
  const json::Object *object = file.getAsObject();
  if (object && object->get("groups"))
    return readGroups(file, rates, rule, errors);
  json::Value fields = takeRates(file, rates, errors);
  FieldReader reader(&fields, "", errors);
  HardwareFacts facts;
  reader.text("$schema", "");
  facts.name = reader.text("name");
  facts.source = reader.text("description");
  facts.accelerators = reader.integer("accelerators", 1, 1);
  facts.acceleratorsPerNode =
      readBlock(reader, "accelerators_per_node", kMaxAcceleratorsPerNode);
  facts.acceleratorsPerPod =
      readBlock(reader, "accelerators_per_pod", kMaxAcceleratorsPerPod);
  facts.matrix = readEngine(reader, "matrix", /*hasNarrowRates=*/true);
  facts.vector = readEngine(reader, "vector", /*hasNarrowRates=*/false);
  readAttention(reader, facts);
  readMultiprocessors(reader, facts);
  readSustained(reader, facts);
  readHostTime(reader, facts);
  checkPower(reader);
  readMemory(reader, facts);
  facts.link = readLink(reader, "link", reader.find("link"));
  facts.network = readLink(reader, "network", reader.require("network"));
  facts.spine = readLink(reader, "spine", reader.find("spine"));
  facts.host = readLink(reader, "host", reader.find("host"));
  facts.overlapsMemory =
      reader.choice("processing", {"roofline", "no_overlap"}, 0) == 0;
  if (facts.accelerators > 1 && facts.link.bytesPerSecond == 0)
    errors.report("", "several accelerators need the field 'link'");
  if (std::optional<std::string> mistake = mistakeInLevels(facts))
    errors.report("", *mistake);
  readAliases(reader);
  finishWithSources(reader, file, rule);
  return facts;
}

llvm::Expected<HardwareFacts> pipesched::systemFromJson(StringRef text,
                                                        StringRef file,
                                                        SourceRule rule,
                                                        Rates rates) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  const json::Object *object = value->getAsObject();
  HardwareFacts facts = object && isCalculonSystem(*object)
                            ? readCalculonSystem(*value, file, errors)
                            : readSystemFields(*value, rates, rule, errors);
  if (errors.any())
    return errors.take();
  return facts;
}
