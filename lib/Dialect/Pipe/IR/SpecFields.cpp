//===- SpecFields.cpp - Attributes of named fields ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The parser, the printer and the checks of fields, all driven by tables.
//
//===----------------------------------------------------------------------===//

#include "SpecFields.h"
#include "PipeSched/Support/ClosestName.h"

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

const Field *pipe::findField(ArrayRef<Field> table, StringRef name) {
  const Field *field = llvm::find_if(
      table, [&](const Field &field) { return field.name == name; });
  return field == table.end() ? nullptr : field;
}

std::string pipe::unknownField(ArrayRef<Field> table, StringRef what,
                               StringRef name) {
  SmallVector<StringRef> names;
  for (const Field &field : table)
    names.push_back(field.name);
  return ("unknown field '" + name + "' in " + what + nameHint(name, names))
      .str();
}

static ParseResult parseInteger(AsmParser &parser, const Field &field,
                                Attribute &value) {
  int64_t least = field.kind == FieldKind::Count ? 1 : 0;
  SMLoc loc = parser.getCurrentLocation();
  int64_t integer;
  OptionalParseResult result = parser.parseOptionalInteger(integer);
  if (!result.has_value())
    return parser.emitError(loc)
           << "expected " << field.name << " to be a whole number of at least "
           << least;
  if (failed(*result))
    return failure();
  if (integer < least)
    return parser.emitError(loc) << "expected " << field.name << " of at least "
                                 << least << ", found " << integer;
  value = parser.getBuilder().getI64IntegerAttr(integer);
  return success();
}

/// Parses `[<kernel = ...>, ...]`.
static ParseResult parseRates(AsmParser &parser, Attribute &value) {
  SmallVector<Attribute> rates;
  auto parseOne = [&]() -> ParseResult {
    rates.push_back(AttentionRatesAttr::parse(parser, Type()));
    return success(bool(rates.back()));
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  value = parser.getBuilder().getArrayAttr(rates);
  return success();
}

/// Parses a text or `[4930, 4238]`.
static ParseResult parseSizes(AsmParser &parser, Attribute &value) {
  StringAttr text;
  OptionalParseResult result = parser.parseOptionalAttribute(text);
  if (result.has_value()) {
    value = text;
    return *result;
  }
  SmallVector<int64_t> sizes;
  auto parseOne = [&] { return parser.parseInteger(sizes.emplace_back()); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseOne))
    return failure();
  value = parser.getBuilder().getDenseI64ArrayAttr(sizes);
  return success();
}

static ParseResult parseValue(AsmParser &parser, const Field &field,
                              Attribute &value) {
  switch (field.kind) {
  case FieldKind::Text: {
    StringAttr text;
    ParseResult result = parser.parseAttribute(text);
    value = text;
    return result;
  }
  case FieldKind::Flag: {
    BoolAttr flag;
    ParseResult result = parser.parseAttribute(flag);
    value = flag;
    return result;
  }
  case FieldKind::Count:
  case FieldKind::Latency:
    return parseInteger(parser, field, value);
  case FieldKind::Curve:
    value = EfficiencyAttr::parse(parser, Type());
    return success(bool(value));
  case FieldKind::Engine:
    value = EngineSpecAttr::parse(parser, Type());
    return success(bool(value));
  case FieldKind::Link:
    value = LinkSpecAttr::parse(parser, Type());
    return success(bool(value));
  case FieldKind::Rates:
    return parseRates(parser, value);
  case FieldKind::Sizes:
    return parseSizes(parser, value);
  }
  llvm_unreachable("all kinds of fields are handled");
}

static ParseResult parseField(AsmParser &parser, ArrayRef<Field> table,
                              StringRef what, FieldValues &values) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef name;
  if (parser.parseKeyword(&name))
    return failure();
  const Field *field = findField(table, name);
  if (!field)
    return parser.emitError(loc) << unknownField(table, what, name);
  Attribute &value = values[field - table.begin()];
  if (value)
    return parser.emitError(loc)
           << "field '" << name << "' of " << what << " is given twice";
  if (parser.parseEqual())
    return failure();
  return parseValue(parser, *field, value);
}

FailureOr<FieldValues>
pipe::parseFields(AsmParser &parser, ArrayRef<Field> table, StringRef what) {
  FieldValues values(table.size());
  SMLoc loc = parser.getCurrentLocation();
  auto parseOne = [&] { return parseField(parser, table, what, values); };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseOne))
    return failure();
  for (auto [field, value] : llvm::zip_equal(table, values))
    if (field.isRequired && !value)
      return parser.emitError(loc)
             << what << " needs the field '" << field.name << "'";
  return values;
}

static void printValue(AsmPrinter &printer, Attribute value) {
  if (auto flag = dyn_cast<BoolAttr>(value))
    printer << (flag.getValue() ? "true" : "false");
  else if (auto integer = dyn_cast<IntegerAttr>(value))
    printer << integer.getInt();
  else if (auto curve = dyn_cast<EfficiencyAttr>(value))
    curve.print(printer);
  else if (auto engine = dyn_cast<EngineSpecAttr>(value))
    engine.print(printer);
  else if (auto link = dyn_cast<LinkSpecAttr>(value))
    link.print(printer);
  else if (auto rates = dyn_cast<ArrayAttr>(value)) {
    printer << '[';
    llvm::interleaveComma(
        rates.getAsRange<AttentionRatesAttr>(), printer,
        [&](AttentionRatesAttr each) { each.print(printer); });
    printer << ']';
  } else if (auto sizes = dyn_cast<DenseI64ArrayAttr>(value)) {
    printer << '[';
    llvm::interleaveComma(sizes.asArrayRef(), printer);
    printer << ']';
  } else
    printer << value;
}

void pipe::printFields(AsmPrinter &printer,
                       ArrayRef<std::pair<StringRef, Attribute>> fields) {
  printer << '<';
  llvm::interleaveComma(fields, printer, [&](const auto &field) {
    printer << field.first << " = ";
    printValue(printer, field.second);
  });
  printer << '>';
}

bool pipe::hasKind(Attribute value, FieldKind kind) {
  switch (kind) {
  case FieldKind::Text:
    return isa<StringAttr>(value);
  case FieldKind::Flag:
    return isa<BoolAttr>(value);
  case FieldKind::Count:
  case FieldKind::Latency: {
    auto integer = dyn_cast<IntegerAttr>(value);
    return integer && integer.getType().isInteger(64) &&
           integer.getInt() >= (kind == FieldKind::Count ? 1 : 0);
  }
  case FieldKind::Curve:
    return isa<EfficiencyAttr>(value);
  case FieldKind::Engine:
    return isa<EngineSpecAttr>(value);
  case FieldKind::Link:
    return isa<LinkSpecAttr>(value);
  case FieldKind::Rates: {
    auto rates = dyn_cast<ArrayAttr>(value);
    return rates && !rates.empty() &&
           llvm::all_of(rates, llvm::IsaPred<AttentionRatesAttr>);
  }
  case FieldKind::Sizes:
    return isa<StringAttr, DenseI64ArrayAttr>(value);
  }
  llvm_unreachable("all kinds of fields are handled");
}
