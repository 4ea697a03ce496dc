//===- RateAttrs.cpp - Engines, links and their curves as attributes ------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes for the speed at which hardware computes and moves bytes:
// efficiency curves, engines and links. The devices of SystemAttrs.cpp consist
// of them. One table of fields per attribute drives parser, printer and
// verifier.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "SpecFields.h"
#include "mlir/IR/DialectImplementation.h"
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
    {"fp8_efficiency", FieldKind::Curve, false},
    {"fp4_flops_per_s", FieldKind::Count, false},
};
constexpr Field kAttentionFields[] = {
    {"kernel", FieldKind::Text, true},
    {"head_size", FieldKind::Count, true},
    {"flops_per_s", FieldKind::Count, true},
    {"forward", FieldKind::Curve, true},
    {"backward", FieldKind::Curve, true},
};
} // namespace

//===----------------------------------------------------------------------===//
// EfficiencyAttr
//===----------------------------------------------------------------------===//

/// Prints a share as a decimal: 425400 is 0.4254.
static std::string shareText(int64_t partsPerMillion) {
  std::string decimals = std::to_string(partsPerMillion % kMillion);
  decimals.insert(0, 6 - decimals.size(), '0');
  StringRef tail = StringRef(decimals).rtrim('0');
  return (Twine(partsPerMillion / kMillion) + "." +
          (tail.empty() ? StringRef("0") : tail))
      .str();
}

/// Checks a share and converts it to parts per million. NaN is an error too.
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

/// Parses `0.5` or `1`.
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
  // A whole number followed by a colon is a size; otherwise it is a constant
  // share.
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

/// Makes an engine or a link from its first three fields: rate, latency and
/// efficiency. `more` are the other parameters.
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
  auto rateOr0 = [&](size_t field) {
    Attribute rate = (*values)[field];
    return rate ? cast<IntegerAttr>(rate).getInt() : int64_t(0);
  };
  return parseRate<EngineSpecAttr>(parser, loc, *values, rateOr0(3),
                                   cast_or_null<EfficiencyAttr>((*values)[4]),
                                   rateOr0(5));
}

void EngineSpecAttr::print(AsmPrinter &printer) const {
  NamedValues fields =
      rateFields(getContext(), "flops_per_s", getFlopsPerSecond(),
                 getLatencyPs(), getEfficiency());
  if (int64_t fp8 = getFp8FlopsPerSecond())
    fields.push_back(
        {"fp8_flops_per_s", Builder(getContext()).getI64IntegerAttr(fp8)});
  if (EfficiencyAttr efficiency = getFp8Efficiency())
    fields.push_back({"fp8_efficiency", efficiency});
  if (int64_t fp4 = getFp4FlopsPerSecond())
    fields.push_back(
        {"fp4_flops_per_s", Builder(getContext()).getI64IntegerAttr(fp4)});
  printFields(printer, fields);
}

/// engine_spec_c1, engine_spec_c3.
LogicalResult EngineSpecAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, int64_t flopsPerSecond,
    int64_t latencyPs, EfficiencyAttr, int64_t fp8FlopsPerSecond,
    EfficiencyAttr fp8Efficiency, int64_t fp4FlopsPerSecond) {
  for (auto [name, rate] : {std::pair("fp8", fp8FlopsPerSecond),
                            std::pair("fp4", fp4FlopsPerSecond)})
    if (rate < 0)
      return emitError() << "expected " << name
                         << "_flops_per_s of at least 1, found " << rate;
  if (fp8Efficiency && fp8FlopsPerSecond == 0)
    return emitError() << "fp8_efficiency needs fp8_flops_per_s";
  return verifyRate(emitError, "flops_per_s", flopsPerSecond, latencyPs);
}

EngineSpecAttr EngineSpecAttr::get(MLIRContext *context,
                                   const EngineFacts &facts) {
  return get(
      context, facts.flopsPerSecond, facts.latencyPs,
      EfficiencyAttr::get(context, facts.efficiency), facts.fp8FlopsPerSecond,
      facts.fp8Efficiency ? EfficiencyAttr::get(context, *facts.fp8Efficiency)
                          : EfficiencyAttr(),
      facts.fp4FlopsPerSecond);
}

EngineFacts EngineSpecAttr::toFacts() const {
  EngineFacts facts;
  facts.flopsPerSecond = getFlopsPerSecond();
  facts.latencyPs = getLatencyPs();
  if (EfficiencyAttr efficiency = getEfficiency())
    facts.efficiency = efficiency.toFacts();
  facts.fp8FlopsPerSecond = getFp8FlopsPerSecond();
  if (EfficiencyAttr efficiency = getFp8Efficiency())
    facts.fp8Efficiency = efficiency.toFacts();
  facts.fp4FlopsPerSecond = getFp4FlopsPerSecond();
  return facts;
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
// AttentionRatesAttr
//===----------------------------------------------------------------------===//

Attribute AttentionRatesAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  FailureOr<FieldValues> values =
      parseFields(parser, kAttentionFields, getMnemonic());
  if (failed(values))
    return {};
  return parser.getChecked<AttentionRatesAttr>(
      loc, parser.getContext(), cast<StringAttr>((*values)[0]),
      cast<IntegerAttr>((*values)[1]).getInt(),
      cast<IntegerAttr>((*values)[2]).getInt(),
      cast<EfficiencyAttr>((*values)[3]), cast<EfficiencyAttr>((*values)[4]));
}

void AttentionRatesAttr::print(AsmPrinter &printer) const {
  Builder builder(getContext());
  printFields(printer,
              {{"kernel", getKernel()},
               {"head_size", builder.getI64IntegerAttr(getHeadSize())},
               {"flops_per_s", builder.getI64IntegerAttr(getFlopsPerSecond())},
               {"forward", getForward()},
               {"backward", getBackward()}});
}

/// attention_rates_c1, attention_rates_c2.
LogicalResult AttentionRatesAttr::verify(
    function_ref<InFlightDiagnostic()> emitError, StringAttr kernel,
    int64_t headSize, int64_t flopsPerSecond, EfficiencyAttr, EfficiencyAttr) {
  if (!enumFromName<FlashKernel>(kernel))
    return emitError() << "expected kernel to be "
                       << quoteEnumNames<FlashKernel>() << ", found " << kernel;
  if (headSize < 1)
    return emitError() << "expected head_size of at least 1, found "
                       << headSize;
  return verifyRate(emitError, "flops_per_s", flopsPerSecond, /*latencyPs=*/0);
}

AttentionRatesAttr AttentionRatesAttr::get(MLIRContext *context,
                                           const AttentionRates &rates) {
  auto curve = [&](const EfficiencyCurve &curve) {
    return curve.points.empty()
               ? EfficiencyAttr::get(context, ArrayRef<int64_t>{0, kMillion})
               : EfficiencyAttr::get(context, curve);
  };
  return get(context, StringAttr::get(context, enumName(rates.kernel)),
             rates.headSize, rates.flopsPerSecond, curve(rates.forward),
             curve(rates.backward));
}

AttentionRates AttentionRatesAttr::toFacts() const {
  return {*enumFromName<FlashKernel>(getKernel().getValue()), getHeadSize(),
          getFlopsPerSecond(), getForward().toFacts(), getBackward().toFacts()};
}
