//===- SystemAttrs.cpp - The hardware as attributes -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Workers, the network between them, and the system that consists of both. One
// table of fields per attribute drives parser, printer and verifier. Ids such
// as worker_spec_c1 refer to the constraints in the descriptions.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/System.h"
#include "SpecFields.h"
#include "mlir/Dialect/DLTI/DLTI.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/SmallSet.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
constexpr Field kHardwareFields[] = {
    {"name", FieldKind::Text, true},
    {"accelerators", FieldKind::Count, true},
    {"matrix", FieldKind::Engine, true},
    {"vector", FieldKind::Engine, true},
    {"memory", FieldKind::Link, true},
    {"memory_bytes", FieldKind::Count, true},
    {"attention", FieldKind::Rates, false},
    {"link", FieldKind::Link, false},
    {"host", FieldKind::Link, false},
    {"no_overlap", FieldKind::Flag, false},
    {"accelerators_per_node", FieldKind::Count, false},
    {"accelerators_per_pod", FieldKind::Count, false},
    {"launch_ps", FieldKind::Count, false},
    {"operation_ps", FieldKind::Count, false},
    {"synchronize_ps", FieldKind::Count, false},
    {"peak_share_ppm", FieldKind::Count, false},
};
constexpr Field kSourceField = {"source", FieldKind::Text, false};
/// One million: the largest number of parts per million.
constexpr int64_t kWhole = 1000000;
} // namespace

static FieldKind fieldKindOf(DeploymentKind kind) {
  switch (kind) {
  case DeploymentKind::Count:
  case DeploymentKind::Ratio:
    return FieldKind::Count;
  case DeploymentKind::Choice:
    return FieldKind::Text;
  case DeploymentKind::Sizes:
    return FieldKind::Sizes;
  }
  llvm_unreachable("all kinds of options are handled");
}

/// Fields for the hardware, for how a training is distributed over it, and for
/// the source of both.
static ArrayRef<Field> workerFields() {
  static const SmallVector<Field> fields = [] {
    SmallVector<Field> made(ArrayRef<Field>{kHardwareFields});
    for (const DeploymentOption &option : deploymentOptions())
      made.push_back({option.attribute, fieldKindOf(option.kind), false});
    made.push_back(kSourceField);
    return made;
  }();
  return fields;
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

/// Repeats the checks of the parser, because bytecode and builders also make
/// attributes.
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

/// Returns the value of a field; null if absent.
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
  return parseDevice<WorkerSpecAttr>(parser, workerFields());
}

void WorkerSpecAttr::print(AsmPrinter &printer) const {
  printDevice(printer, getFields());
}

/// worker_spec_c2, worker_spec_c4, worker_spec_c5: reads the value of an option
/// if it is present.
static LogicalResult readOption(function_ref<InFlightDiagnostic()> emitError,
                                const DeploymentOption &option, Attribute value,
                                Deployment &deployment) {
  if (!value)
    return success();
  if (auto text = dyn_cast<StringAttr>(value)) {
    ArrayRef<StringRef> words = option.values;
    const StringRef *found = llvm::find(words, text.getValue());
    if (found == words.end())
      return emitError() << "expected " << option.attribute << " to be \""
                         << llvm::join(words, "\" or \"") << "\", found \""
                         << text.getValue() << '"';
    option.put(deployment, found - words.begin());
    return success();
  }
  if (auto sizes = dyn_cast<DenseI64ArrayAttr>(value)) {
    if (llvm::Error error = setSizes(deployment, option, sizes))
      return emitError() << llvm::toString(std::move(error));
    return success();
  }
  int64_t number = cast<IntegerAttr>(value).getInt();
  option.put(deployment, number);
  if (number >= option.least && number <= option.most)
    return success();
  InFlightDiagnostic diagnostic = emitError();
  diagnostic << "expected " << option.attribute;
  if (option.least > 1) // otherwise the kind of the field bounds it
    diagnostic << " from " << option.least << " to " << option.most;
  else
    diagnostic << " of at most " << option.most;
  return diagnostic << ", found " << number;
}

/// worker_spec_c5: degrees must divide their totals.
static LogicalResult
verifyDeployment(function_ref<InFlightDiagnostic()> emitError,
                 function_ref<Attribute(StringRef)> find) {
  SystemFacts facts;
  facts.name = textOf(find("name"));
  facts.accelerators = integerOr(find("accelerators"), 1);
  for (const DeploymentOption &option : deploymentOptions())
    if (failed(readOption(emitError, option, find(option.attribute), facts)))
      return failure();
  if (llvm::Error error = checkSplit(facts))
    return emitError() << llvm::toString(std::move(error));
  return success();
}

/// worker_spec_c6.
static LogicalResult
verifyAttention(function_ref<InFlightDiagnostic()> emitError, Attribute value) {
  llvm::SmallSet<std::pair<StringRef, int64_t>, 8> seen;
  if (!value)
    return success();
  for (auto rates : cast<ArrayAttr>(value).getAsRange<AttentionRatesAttr>())
    if (!seen.insert({rates.getKernel(), rates.getHeadSize()}).second)
      return emitError() << "worker_spec has the rates of " << rates.getKernel()
                         << " with heads of " << rates.getHeadSize()
                         << " twice";
  return success();
}

/// worker_spec_c1 to worker_spec_c6.
LogicalResult
WorkerSpecAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                       ArrayRef<DataLayoutEntryInterface> fields) {
  if (failed(verifyDevice(emitError, workerFields(), getMnemonic(), fields)))
    return failure();
  auto find = [&](StringRef name) -> Attribute {
    for (DataLayoutEntryInterface entry : fields)
      if (cast<StringAttr>(entry.getKey()) == name)
        return entry.getValue();
    return {};
  };
  int64_t accelerators = integerOr(find("accelerators"), 1);
  int64_t perNode = integerOr(find("accelerators_per_node"), 0);
  int64_t perPod = integerOr(find("accelerators_per_pod"), 0);
  if (accelerators > 1 && !find("link"))
    return emitError() << "worker_spec has " << accelerators
                       << " accelerators and no 'link' among them";
  if (perNode > 0 && !find("link"))
    return emitError() << "worker_spec has nodes of " << perNode
                       << " accelerators and no 'link' among them";
  if (perNode > kMaxAcceleratorsPerNode)
    return emitError() << "expected accelerators_per_node of at most "
                       << kMaxAcceleratorsPerNode << ", found " << perNode;
  if (perPod > kMaxAcceleratorsPerPod)
    return emitError() << "expected accelerators_per_pod of at most "
                       << kMaxAcceleratorsPerPod << ", found " << perPod;
  if (perNode > 0 && perPod % perNode != 0)
    return emitError() << "expected accelerators_per_pod to be a multiple of "
                          "accelerators_per_node, "
                       << perNode << ", found " << perPod;
  if (int64_t share = integerOr(find("peak_share_ppm"), kWhole); share > kWhole)
    return emitError() << "expected peak_share_ppm of at most " << kWhole
                       << ", found " << share;
  if (failed(verifyAttention(emitError, find("attention"))))
    return failure();
  return verifyDeployment(emitError, find);
}

DataLayoutEntryListRef WorkerSpecAttr::getEntries() const {
  return getFields();
}

FailureOr<Attribute> WorkerSpecAttr::query(DataLayoutEntryKey key) const {
  return queryField(*this, key);
}

/// Returns null if there are no rates.
static ArrayAttr attentionRates(MLIRContext *context,
                                ArrayRef<AttentionRates> rates) {
  SmallVector<Attribute> attributes;
  for (const AttentionRates &each : rates)
    attributes.push_back(AttentionRatesAttr::get(context, each));
  return rates.empty() ? ArrayAttr() : ArrayAttr::get(context, attributes);
}

/// Returns null for the default, which is not written.
static Attribute optionValue(Builder &builder, const DeploymentOption &option,
                             const Deployment &deployment) {
  if (!option.isGiven(deployment))
    return {};
  if (ArrayRef<int64_t> sizes = option.sizesOf(deployment); !sizes.empty())
    return builder.getDenseI64ArrayAttr(sizes);
  int64_t value = option.get(deployment);
  if (option.isChoice())
    return builder.getStringAttr(option.values[value]);
  return builder.getI64IntegerAttr(value);
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
  FieldValues values = {
      builder.getStringAttr(facts.name),
      builder.getI64IntegerAttr(facts.accelerators),
      EngineSpecAttr::get(context, facts.matrix),
      EngineSpecAttr::get(context, facts.vector),
      LinkSpecAttr::get(context, facts.memory),
      builder.getI64IntegerAttr(facts.memoryBytes),
      attentionRates(context, facts.attention),
      link(facts.link),
      link(facts.host),
      facts.overlapsMemory ? BoolAttr() : builder.getBoolAttr(true),
      number(facts.acceleratorsPerNode, 0),
      number(facts.acceleratorsPerPod, 0),
      number(facts.launchPs, 0),
      number(facts.operationPs, facts.launchPs),
      number(facts.synchronizePs, 0),
      number(facts.peakSharePpm, kWhole),
  };
  for (const DeploymentOption &option : deploymentOptions())
    values.push_back(optionValue(builder, option, facts));
  values.push_back(facts.source.empty() ? StringAttr()
                                        : builder.getStringAttr(facts.source));
  return get(context, makeEntries(context, workerFields(), values));
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
  if (Attribute rates = lookUp(*this, "attention"))
    for (auto each : cast<ArrayAttr>(rates).getAsRange<AttentionRatesAttr>())
      facts.attention.push_back(each.toFacts());
  facts.link = linkOf(lookUp(*this, "link"));
  facts.host = linkOf(lookUp(*this, "host"));
  auto noOverlap = cast_or_null<BoolAttr>(lookUp(*this, "no_overlap"));
  facts.overlapsMemory = !noOverlap || !noOverlap.getValue();
  facts.acceleratorsPerNode =
      integerOr(lookUp(*this, "accelerators_per_node"), 0);
  facts.acceleratorsPerPod =
      integerOr(lookUp(*this, "accelerators_per_pod"), 0);
  facts.launchPs = integerOr(lookUp(*this, "launch_ps"), 0);
  facts.operationPs = integerOr(lookUp(*this, "operation_ps"), facts.launchPs);
  facts.synchronizePs = integerOr(lookUp(*this, "synchronize_ps"), 0);
  facts.peakSharePpm = integerOr(lookUp(*this, "peak_share_ppm"), kWhole);
  for (const DeploymentOption &option : deploymentOptions())
    (void)readOption(nullptr, option, lookUp(*this, option.attribute), facts);
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
  SmallVector<DataLayoutEntryInterface> devices = {
      entry("worker", WorkerSpecAttr::get(context, facts)),
      entry("network", NetworkSpecAttr::get(context, facts.network))};
  if (facts.spine.bytesPerSecond)
    devices.push_back(
        entry("spine", NetworkSpecAttr::get(context, facts.spine)));
  return TargetSystemSpecAttr::get(context, devices);
}

static bool isOurs(DataLayoutEntryInterface entry) {
  return isa<WorkerSpecAttr, NetworkSpecAttr>(entry.getValue());
}

bool pipe::describesWorkers(TargetSystemSpecInterface target) {
  return llvm::any_of(target.getEntries(), isOurs);
}

FailureOr<TargetSystemSpecInterface>
pipe::addSystem(TargetSystemSpecInterface target, MLIRContext *context,
                const SystemFacts &facts,
                function_ref<InFlightDiagnostic()> emitError) {
  TargetSystemSpecInterface system = systemToAttribute(context, facts);
  if (!target)
    return system;
  SmallVector<DataLayoutEntryInterface> entries;
  for (DataLayoutEntryInterface entry : target.getEntries()) {
    if (isOurs(entry))
      continue;
    for (DataLayoutEntryInterface added : system.getEntries())
      if (added.getKey() == entry.getKey())
        return emitError() << "target system has " << entry.getValue()
                           << " where the system belongs, under the key "
                           << cast<StringAttr>(entry.getKey());
    entries.push_back(entry);
  }
  llvm::append_range(entries, system.getEntries());
  return TargetSystemSpecInterface(TargetSystemSpecAttr::get(context, entries));
}

FailureOr<SystemFacts>
pipe::systemFromAttribute(TargetSystemSpecInterface target,
                          function_ref<InFlightDiagnostic()> emitError) {
  WorkerSpecAttr worker;
  NetworkSpecAttr network, spine;
  Attribute spineEntry;
  for (DataLayoutEntryInterface entry : target.getEntries()) {
    auto key = dyn_cast<StringAttr>(entry.getKey());
    if (key && key == "worker")
      worker = dyn_cast<WorkerSpecAttr>(entry.getValue());
    if (key && key == "network")
      network = dyn_cast<NetworkSpecAttr>(entry.getValue());
    if (key && key == "spine")
      spine = dyn_cast<NetworkSpecAttr>(spineEntry = entry.getValue());
  }
  if (!worker)
    return emitError()
           << "target system has no \"worker\" = #pipe.worker_spec<...>";
  if (!network)
    return emitError()
           << "target system has no \"network\" = #pipe.network_spec<...>";
  if (spineEntry && !spine)
    return emitError() << "expected \"spine\" of the target system to be "
                          "#pipe.network_spec<...>, found "
                       << spineEntry;
  SystemFacts facts = worker.toFacts();
  facts.network = network.toFacts();
  if (spine)
    facts.spine = spine.toFacts();
  if (std::optional<std::string> mistake = mistakeInLevels(facts))
    return emitError() << "target system: " << *mistake;
  return facts;
}
