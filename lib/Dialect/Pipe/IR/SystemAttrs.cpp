//===- SystemAttrs.cpp - The hardware as attributes -----------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every attribute is a list of named fields of known kinds; one table per
// attribute drives parser, printer and verifier. Ids are those of the
// descriptions.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "SpecFields.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

static constexpr int64_t kMillion = 1000000;

namespace {
constexpr Field kEngineFields[] = {
    {"flops_per_s", FieldKind::Count, true},
    {"latency_ps", FieldKind::Latency, false},
    {"efficiency", FieldKind::Curve, false},
    {"fp8_flops_per_s", FieldKind::Count, false},
};
constexpr Field kLinkFields[] = {
    {"bytes_per_s", FieldKind::Count, true},
    {"latency_ps", FieldKind::Latency, false},
    {"efficiency", FieldKind::Curve, false},
};
constexpr Field kWorkerFields[] = {
    {"name", FieldKind::Text, true},
    {"accelerators", FieldKind::Count, true},
    {"matrix", FieldKind::Engine, true},
    {"vector", FieldKind::Engine, true},
    {"memory", FieldKind::Link, true},
    {"memory_bytes", FieldKind::Count, true},
    {"link", FieldKind::Link, false},
    {"host", FieldKind::Link, false},
    {"no_overlap", FieldKind::Flag, false},
    {"accelerators_per_node", FieldKind::Count, false},
    {"data_parallel", FieldKind::Count, false},
    {"sharding", FieldKind::Text, false},
    {"rank_order", FieldKind::Text, false},
    {"source", FieldKind::Text, false},
};
} // namespace

//===----------------------------------------------------------------------===//
// EfficiencyAttr
//===----------------------------------------------------------------------===//

/// A share as a decimal: 425400 is 0.4254.
static std::string shareText(int64_t partsPerMillion) {
  std::string decimals = std::to_string(partsPerMillion % kMillion);
  decimals.insert(0, 6 - decimals.size(), '0');
  StringRef tail = StringRef(decimals).rtrim('0');
  return (Twine(partsPerMillion / kMillion) + "." +
          (tail.empty() ? StringRef("0") : tail))
      .str();
}

/// Parts per million of a share that is not known to be one. NaN fails too.
static ParseResult toShare(AsmParser &parser, SMLoc loc, double share,
                           int64_t &partsPerMillion) {
  if (!(share > 0 && share <= 1))
    return parser.emitError(loc)
           << "expected an efficiency above 0 and at most 1, found " << share;
  double scaled = share * double(kMillion);
  partsPerMillion = std::llround(scaled);
  if (std::fabs(scaled - double(partsPerMillion)) > 1e-6)
    return parser.emitError(loc)
           << "expected an efficiency of at most six decimals";
  return success();
}

/// `0.5` or `1`.
static ParseResult parseShare(AsmParser &parser, int64_t &partsPerMillion) {
  SMLoc loc = parser.getCurrentLocation();
  int64_t integer;
  OptionalParseResult result = parser.parseOptionalInteger(integer);
  if (result.has_value())
    return failure(failed(*result) ||
                   toShare(parser, loc, double(integer), partsPerMillion));
  double share;
  return failure(parser.parseFloat(share) ||
                 toShare(parser, loc, share, partsPerMillion));
}

Attribute EfficiencyAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> points;
  SMLoc loc = parser.getCurrentLocation();
  // A leading whole number is a size where a colon follows, else a flat share.
  auto parsePoint = [&]() -> ParseResult {
    SMLoc pointLoc = parser.getCurrentLocation();
    int64_t size = 0, share = 0;
    OptionalParseResult result = parser.parseOptionalInteger(size);
    if (result.has_value() && failed(*result))
      return failure();
    bool isFlat = !result.has_value() || failed(parser.parseOptionalColon());
    if (isFlat && !points.empty())
      return parser.emitError(pointLoc, "expected 'size : efficiency'");
    ParseResult parsed = success();
    if (isFlat && result.has_value())
      parsed = toShare(parser, pointLoc, double(size), share);
    else
      parsed = parseShare(parser, share);
    points.append({isFlat ? 0 : size, share});
    return parsed;
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parsePoint))
    return {};
  return parser.getChecked<EfficiencyAttr>(loc, parser.getContext(),
                                           ArrayRef(points));
}

void EfficiencyAttr::print(AsmPrinter &printer) const {
  ArrayRef<int64_t> points = getPoints();
  printer << '<';
  if (points.size() == 2 && points[0] == 0) {
    printer << shareText(points[1]) << '>';
    return;
  }
  for (size_t i = 0; i < points.size(); i += 2)
    printer << (i ? ", " : "") << points[i] << " : "
            << shareText(points[i + 1]);
  printer << '>';
}

/// efficiency_c1, efficiency_c2.
LogicalResult
EfficiencyAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       ArrayRef<int64_t> points) {
  if (points.empty() || points.size() % 2)
    return emitError() << "expected an efficiency, or points "
                          "'size : efficiency'";
  for (size_t i = 0; i < points.size(); i += 2) {
    if (points[i] < 0)
      return emitError() << "expected a size of at least 0, found "
                         << points[i];
    if (i > 0 && points[i] <= points[i - 2])
      return emitError() << "expected sizes that ascend, found " << points[i]
                         << " after " << points[i - 2];
    if (points[i + 1] < 1 || points[i + 1] > kMillion)
      return emitError() << "expected 1 to 1000000 parts per million, found "
                         << points[i + 1];
  }
  return success();
}

EfficiencyAttr EfficiencyAttr::get(MLIRContext *context,
                                   const EfficiencyCurve &curve) {
  if (curve.points.empty())
    return {};
  SmallVector<int64_t> points;
  for (EfficiencyCurve::Point point : curve.points)
    points.append({point.size, point.partsPerMillion});
  return get(context, points);
}

EfficiencyCurve EfficiencyAttr::toFacts() const {
  EfficiencyCurve curve;
  ArrayRef<int64_t> points = getPoints();
  for (size_t i = 0; i < points.size(); i += 2)
    curve.points.push_back({points[i], points[i + 1]});
  return curve;
}

//===----------------------------------------------------------------------===//
// EngineSpecAttr and LinkSpecAttr
//===----------------------------------------------------------------------===//

/// Rate, latency and efficiency are the same three fields under two names; what
/// follows them is `more`.
template <typename SpecAttr, typename... More>
static Attribute parseRate(AsmParser &parser, SMLoc loc,
                           const FieldValues &values, More... more) {
  Attribute latency = values[1];
  return parser.getChecked<SpecAttr>(
      loc, parser.getContext(), cast<IntegerAttr>(values[0]).getInt(),
      latency ? cast<IntegerAttr>(latency).getInt() : 0,
      cast_or_null<EfficiencyAttr>(values[2]), more...);
}

using NamedValues = SmallVector<std::pair<StringRef, Attribute>>;

static NamedValues rateFields(MLIRContext *context, StringRef rateName,
                              int64_t rate, int64_t latencyPs,
                              EfficiencyAttr efficiency) {
  Builder builder(context);
  NamedValues fields = {{rateName, builder.getI64IntegerAttr(rate)}};
  if (latencyPs)
    fields.push_back({"latency_ps", builder.getI64IntegerAttr(latencyPs)});
  if (efficiency)
    fields.push_back({"efficiency", efficiency});
  return fields;
}

static LogicalResult verifyRate(function_ref<InFlightDiagnostic()> emitError,
                                StringRef rateName, int64_t rate,
                                int64_t latencyPs) {
  if (rate < 1)
    return emitError() << "expected " << rateName << " of at least 1, found "
                       << rate;
  if (latencyPs < 0)
    return emitError() << "expected latency_ps of at least 0, found "
                       << latencyPs;
  return success();
}

Attribute EngineSpecAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<FieldValues> values =
      parseFields(parser, kEngineFields, getMnemonic());
  if (failed(values))
    return {};
  Attribute fp8 = (*values)[3];
  return parseRate<EngineSpecAttr>(
      parser, loc, *values, fp8 ? cast<IntegerAttr>(fp8).getInt() : int64_t(0));
}

void EngineSpecAttr::print(AsmPrinter &printer) const {
  NamedValues fields =
      rateFields(getContext(), "flops_per_s", getFlopsPerSecond(),
                 getLatencyPs(), getEfficiency());
  if (int64_t fp8 = getFp8FlopsPerSecond())
    fields.push_back(
        {"fp8_flops_per_s", Builder(getContext()).getI64IntegerAttr(fp8)});
  printFields(printer, fields);
}

/// engine_spec_c1.
LogicalResult
EngineSpecAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       int64_t flopsPerSecond, int64_t latencyPs,
                       EfficiencyAttr, int64_t fp8FlopsPerSecond) {
  if (fp8FlopsPerSecond < 0)
    return emitError() << "expected fp8_flops_per_s of at least 1, found "
                       << fp8FlopsPerSecond;
  return verifyRate(emitError, "flops_per_s", flopsPerSecond, latencyPs);
}

EngineSpecAttr EngineSpecAttr::get(MLIRContext *context,
                                   const EngineFacts &facts) {
  return get(context, facts.flopsPerSecond, facts.latencyPs,
             EfficiencyAttr::get(context, facts.efficiency),
             facts.fp8FlopsPerSecond);
}

EngineFacts EngineSpecAttr::toFacts() const {
  return {getFlopsPerSecond(), getLatencyPs(),
          getEfficiency() ? getEfficiency().toFacts() : EfficiencyCurve(),
          getFp8FlopsPerSecond()};
}

Attribute LinkSpecAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<FieldValues> values =
      parseFields(parser, kLinkFields, getMnemonic());
  if (failed(values))
    return {};
  return parseRate<LinkSpecAttr>(parser, loc, *values);
}

void LinkSpecAttr::print(AsmPrinter &printer) const {
  printFields(printer,
              rateFields(getContext(), "bytes_per_s", getBytesPerSecond(),
                         getLatencyPs(), getEfficiency()));
}

/// link_spec_c1.
LogicalResult LinkSpecAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   int64_t bytesPerSecond, int64_t latencyPs,
                                   EfficiencyAttr) {
  return verifyRate(emitError, "bytes_per_s", bytesPerSecond, latencyPs);
}

LinkSpecAttr LinkSpecAttr::get(MLIRContext *context, const LinkFacts &facts) {
  return get(context, facts.bytesPerSecond, facts.latencyPs,
             EfficiencyAttr::get(context, facts.efficiency));
}

LinkFacts LinkSpecAttr::toFacts() const {
  return {getBytesPerSecond(), getLatencyPs(),
          getEfficiency() ? getEfficiency().toFacts() : EfficiencyCurve()};
}

//===----------------------------------------------------------------------===//
// Devices
//===----------------------------------------------------------------------===//

/// The entries of a device, in the order of its table.
static SmallVector<DataLayoutEntryInterface>
makeEntries(MLIRContext *context, ArrayRef<Field> table,
            const FieldValues &values) {
  SmallVector<DataLayoutEntryInterface> entries;
  for (auto [field, value] : llvm::zip_equal(table, values))
    if (value)
      entries.push_back(DataLayoutEntryAttr::get(
          StringAttr::get(context, field.name), value));
  return entries;
}

template <typename DeviceAttr>
static Attribute parseDevice(AsmParser &parser, ArrayRef<Field> table) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<FieldValues> values =
      parseFields(parser, table, DeviceAttr::getMnemonic());
  if (failed(values))
    return {};
  MLIRContext *context = parser.getContext();
  SmallVector<DataLayoutEntryInterface> entries =
      makeEntries(context, table, *values);
  return parser.getChecked<DeviceAttr>(loc, context, ArrayRef(entries));
}

static void printDevice(AsmPrinter &printer,
                        ArrayRef<DataLayoutEntryInterface> entries) {
  SmallVector<std::pair<StringRef, Attribute>> fields;
  for (DataLayoutEntryInterface entry : entries)
    fields.push_back(
        {cast<StringAttr>(entry.getKey()).getValue(), entry.getValue()});
  printFields(printer, fields);
}

/// Attributes need not come from the parser: bytecode and builders meet the
/// same rules here.
static LogicalResult verifyDevice(function_ref<InFlightDiagnostic()> emitError,
                                  ArrayRef<Field> table, StringRef what,
                                  ArrayRef<DataLayoutEntryInterface> entries) {
  llvm::SmallVector<bool, 10> isGiven(table.size());
  for (DataLayoutEntryInterface entry : entries) {
    auto key = dyn_cast<StringAttr>(entry.getKey());
    if (!key)
      return emitError() << what << " has a type as a field";
    const Field *field = findField(table, key);
    if (!field)
      return emitError() << unknownField(table, what, key);
    if (std::exchange(isGiven[field - table.begin()], true))
      return emitError() << "field '" << field->name << "' of " << what
                         << " is given twice";
    if (!hasKind(entry.getValue(), field->kind))
      return emitError() << "field '" << field->name << "' of " << what
                         << " has the wrong value " << entry.getValue();
  }
  for (auto [field, given] : llvm::zip_equal(table, isGiven))
    if (field.isRequired && !given)
      return emitError() << what << " needs the field '" << field.name << "'";
  return success();
}

/// The value of a field, null where it is not given.
template <typename DeviceAttr>
static Attribute lookUp(DeviceAttr device, StringRef name) {
  auto key = StringAttr::get(device.getContext(), name);
  FailureOr<Attribute> value = device.query(key);
  return succeeded(value) ? *value : Attribute();
}

template <typename DeviceAttr>
static FailureOr<Attribute> queryField(DeviceAttr device,
                                       DataLayoutEntryKey key) {
  return cast<TargetDeviceSpecInterface>(device).queryHelper(key);
}

static int64_t integerOr(Attribute value, int64_t otherwise) {
  return value ? cast<IntegerAttr>(value).getInt() : otherwise;
}

static std::string textOf(Attribute value) {
  return value ? cast<StringAttr>(value).str() : std::string();
}

static LinkFacts linkOf(Attribute value) {
  return value ? cast<LinkSpecAttr>(value).toFacts() : LinkFacts();
}

//===----------------------------------------------------------------------===//
// WorkerSpecAttr
//===----------------------------------------------------------------------===//

Attribute WorkerSpecAttr::parse(AsmParser &parser, Type) {
  return parseDevice<WorkerSpecAttr>(parser, kWorkerFields);
}

void WorkerSpecAttr::print(AsmPrinter &printer) const {
  printDevice(printer, getFields());
}

/// The place of a text among the words that it may be, or an error.
static FailureOr<unsigned> wordOf(function_ref<InFlightDiagnostic()> emitError,
                                  StringRef name, ArrayRef<StringLiteral> words,
                                  Attribute value) {
  if (!value)
    return 0;
  StringRef text = cast<StringAttr>(value);
  const StringLiteral *found = llvm::find(words, text);
  if (found != words.end())
    return found - words.begin();
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "expected " << name << " to be ";
  llvm::interleave(
      words, [&](StringRef word) { diagnostic << '"' << word << '"'; },
      [&] { diagnostic << " or "; });
  diagnostic << ", found \"" << text << '"';
  return failure();
}

/// worker_spec_c1 to worker_spec_c4.
LogicalResult
WorkerSpecAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       ArrayRef<DataLayoutEntryInterface> fields) {
  if (failed(verifyDevice(emitError, kWorkerFields, getMnemonic(), fields)))
    return failure();
  auto find = [&](StringRef name) -> Attribute {
    for (DataLayoutEntryInterface entry : fields)
      if (cast<StringAttr>(entry.getKey()) == name)
        return entry.getValue();
    return {};
  };
  int64_t accelerators = integerOr(find("accelerators"), 1);
  int64_t perNode = integerOr(find("accelerators_per_node"), 0);
  int64_t dataParallel = integerOr(find("data_parallel"), 1);
  if (accelerators > 1 && !find("link"))
    return emitError() << "worker_spec has " << accelerators
                       << " accelerators and no 'link' among them";
  if (perNode > 0 && !find("link"))
    return emitError() << "worker_spec has nodes of " << perNode
                       << " accelerators and no 'link' among them";
  if (perNode > kMaxAcceleratorsPerNode)
    return emitError() << "expected accelerators_per_node of at most "
                       << kMaxAcceleratorsPerNode << ", found " << perNode;
  if (dataParallel > kMaxDataParallel)
    return emitError() << "expected data_parallel of at most "
                       << kMaxDataParallel << ", found " << dataParallel;
  return failure(
      failed(wordOf(emitError, "sharding", kShardingNames, find("sharding"))) ||
      failed(wordOf(emitError, "rank_order", kRankOrderNames,
                    find("rank_order"))));
}

DataLayoutEntryListRef WorkerSpecAttr::getEntries() const {
  return getFields();
}

FailureOr<Attribute> WorkerSpecAttr::query(DataLayoutEntryKey key) const {
  return queryField(*this, key);
}

WorkerSpecAttr WorkerSpecAttr::get(MLIRContext *context,
                                   const SystemFacts &facts) {
  Builder builder(context);
  auto link = [&](const LinkFacts &link) -> Attribute {
    return link.bytesPerSecond ? LinkSpecAttr::get(context, link)
                               : LinkSpecAttr();
  };
  auto number = [&](int64_t value, int64_t unsaid) {
    return value == unsaid ? IntegerAttr() : builder.getI64IntegerAttr(value);
  };
  auto word = [&](ArrayRef<StringLiteral> words, unsigned index) {
    return index == 0 ? StringAttr() : builder.getStringAttr(words[index]);
  };
  FieldValues values = {
      builder.getStringAttr(facts.name),
      builder.getI64IntegerAttr(facts.accelerators),
      EngineSpecAttr::get(context, facts.matrix),
      EngineSpecAttr::get(context, facts.vector),
      LinkSpecAttr::get(context, facts.memory),
      builder.getI64IntegerAttr(facts.memoryBytes),
      link(facts.link),
      link(facts.host),
      facts.overlapsMemory ? BoolAttr() : builder.getBoolAttr(true),
      number(facts.acceleratorsPerNode, 0),
      number(facts.dataParallel, 1),
      word(kShardingNames, unsigned(facts.sharding)),
      word(kRankOrderNames, unsigned(facts.rankOrder)),
      facts.source.empty() ? StringAttr() : builder.getStringAttr(facts.source),
  };
  return get(context, makeEntries(context, kWorkerFields, values));
}

SystemFacts WorkerSpecAttr::toFacts() const {
  SystemFacts facts;
  facts.name = textOf(lookUp(*this, "name"));
  facts.source = textOf(lookUp(*this, "source"));
  facts.accelerators = integerOr(lookUp(*this, "accelerators"), 1);
  facts.matrix = cast<EngineSpecAttr>(lookUp(*this, "matrix")).toFacts();
  facts.vector = cast<EngineSpecAttr>(lookUp(*this, "vector")).toFacts();
  facts.memory = linkOf(lookUp(*this, "memory"));
  facts.memoryBytes = integerOr(lookUp(*this, "memory_bytes"), 0);
  facts.link = linkOf(lookUp(*this, "link"));
  facts.host = linkOf(lookUp(*this, "host"));
  auto noOverlap = cast_or_null<BoolAttr>(lookUp(*this, "no_overlap"));
  facts.overlapsMemory = !noOverlap || !noOverlap.getValue();
  facts.acceleratorsPerNode =
      integerOr(lookUp(*this, "accelerators_per_node"), 0);
  facts.dataParallel = integerOr(lookUp(*this, "data_parallel"), 1);
  auto word = [&](ArrayRef<StringLiteral> words, StringRef name) -> unsigned {
    Attribute value = lookUp(*this, name);
    return value ? llvm::find(words, textOf(value)) - words.begin() : 0;
  };
  facts.sharding = Sharding(word(kShardingNames, "sharding"));
  facts.rankOrder = RankOrder(word(kRankOrderNames, "rank_order"));
  return facts;
}

//===----------------------------------------------------------------------===//
// NetworkSpecAttr
//===----------------------------------------------------------------------===//

Attribute NetworkSpecAttr::parse(AsmParser &parser, Type) {
  return parseDevice<NetworkSpecAttr>(parser, kLinkFields);
}

void NetworkSpecAttr::print(AsmPrinter &printer) const {
  printDevice(printer, getFields());
}

/// network_spec_c1, network_spec_c2.
LogicalResult
NetworkSpecAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        ArrayRef<DataLayoutEntryInterface> fields) {
  return verifyDevice(emitError, kLinkFields, getMnemonic(), fields);
}

DataLayoutEntryListRef NetworkSpecAttr::getEntries() const {
  return getFields();
}

FailureOr<Attribute> NetworkSpecAttr::query(DataLayoutEntryKey key) const {
  return queryField(*this, key);
}

NetworkSpecAttr NetworkSpecAttr::get(MLIRContext *context,
                                     const LinkFacts &facts) {
  Builder builder(context);
  FieldValues values = {
      builder.getI64IntegerAttr(facts.bytesPerSecond),
      facts.latencyPs ? builder.getI64IntegerAttr(facts.latencyPs)
                      : IntegerAttr(),
      EfficiencyAttr::get(context, facts.efficiency),
  };
  return get(context, makeEntries(context, kLinkFields, values));
}

LinkFacts NetworkSpecAttr::toFacts() const {
  LinkFacts facts;
  facts.bytesPerSecond = integerOr(lookUp(*this, "bytes_per_s"), 0);
  facts.latencyPs = integerOr(lookUp(*this, "latency_ps"), 0);
  if (auto curve = lookUp(*this, "efficiency"))
    facts.efficiency = cast<EfficiencyAttr>(curve).toFacts();
  return facts;
}

//===----------------------------------------------------------------------===//
// Systems
//===----------------------------------------------------------------------===//

TargetSystemSpecInterface pipe::systemToAttribute(MLIRContext *context,
                                                  const SystemFacts &facts) {
  auto entry = [&](StringRef key, Attribute value) -> DataLayoutEntryInterface {
    return DataLayoutEntryAttr::get(StringAttr::get(context, key), value);
  };
  return TargetSystemSpecAttr::get(
      context,
      {entry("worker", WorkerSpecAttr::get(context, facts)),
       entry("network", NetworkSpecAttr::get(context, facts.network))});
}

FailureOr<SystemFacts>
pipe::systemFromAttribute(TargetSystemSpecInterface target,
                          function_ref<InFlightDiagnostic()> emitError) {
  WorkerSpecAttr worker;
  NetworkSpecAttr network;
  for (DataLayoutEntryInterface entry : target.getEntries()) {
    auto key = dyn_cast<StringAttr>(entry.getKey());
    if (key && key == "worker")
      worker = dyn_cast<WorkerSpecAttr>(entry.getValue());
    if (key && key == "network")
      network = dyn_cast<NetworkSpecAttr>(entry.getValue());
  }
  if (!worker)
    return emitError()
           << "target system has no \"worker\" = #pipe.worker_spec<...>";
  if (!network)
    return emitError()
           << "target system has no \"network\" = #pipe.network_spec<...>";
  SystemFacts facts = worker.toFacts();
  facts.network = network.toFacts();
  return facts;
}
