//===- Syntax.cpp - Syntax that pipe and exec share -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Syntax of the gradient rule and of the family clause, and readers of numbers
// that bytecode has only from some version on.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Syntax.h"
#include "PipeSched/Dialect/Pipe/IR/BytecodeVersion.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace pipesched::pipe {

//===----------------------------------------------------------------------===//
// Numbers that only newer bytecode has
//===----------------------------------------------------------------------===//

LogicalResult readSlices(DialectBytecodeReader &reader, int64_t &slices) {
  return readSince<PipeDialect>(reader, BytecodeVersion::kSlices, 1, slices);
}

LogicalResult readSeen(DialectBytecodeReader &reader, int64_t &seen) {
  return readSince<PipeDialect>(reader, BytecodeVersion::kSeen, 0, seen);
}

LogicalResult readVocabulary(DialectBytecodeReader &reader,
                             int64_t &vocabulary) {
  return readSince<PipeDialect>(reader, BytecodeVersion::kVocabulary, 0,
                                vocabulary);
}

//===----------------------------------------------------------------------===//
// Stages that do not train
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kNone = "none", kFrozen = "frozen";

OptionalParseResult parseOptionalPathBackward(AsmParser &parser,
                                              PathBackward &backward) {
  if (succeeded(parser.parseOptionalKeyword(kNone))) {
    backward.isNone = true;
    return ParseResult(success());
  }
  if (failed(parser.parseOptionalKeyword(kFrozen)))
    return std::nullopt;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parser.parseInteger(backward.frozen.emplace_back());
      }))
    return ParseResult(failure());
  if (backward.frozen.empty())
    return ParseResult(parser.emitError(loc, "freezes no stage"));
  return ParseResult(success());
}

ParseResult parsePathBackward(AsmParser &parser, PathBackward &backward) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult result = parseOptionalPathBackward(parser, backward);
  if (result.has_value())
    return *result;
  return parser.emitError(loc) << "expected 'none' or 'frozen'";
}

void printPathBackward(AsmPrinter &printer, const PathBackward &backward) {
  if (backward.isNone) {
    printer << kNone;
    return;
  }
  printer << kFrozen << " [";
  llvm::interleaveComma(backward.frozen, printer);
  printer << ']';
}

Attribute pathBackwardToAttribute(MLIRContext *context,
                                  const PathBackward &backward) {
  if (backward.isNone)
    return StringAttr::get(context, kNone);
  return DenseI64ArrayAttr::get(context, backward.frozen);
}

LogicalResult pathBackwardFromAttribute(PathBackward &backward,
                                        Attribute attribute,
                                        EmitErrorFn emitError) {
  backward = {};
  if (auto word = dyn_cast_if_present<StringAttr>(attribute);
      word && word.getValue() == kNone) {
    backward.isNone = true;
    return success();
  }
  auto stages = dyn_cast_if_present<DenseI64ArrayAttr>(attribute);
  if (!stages)
    return emitError() << "expected \"none\" or an array of i64, the frozen "
                          "stages of the path";
  backward.frozen = stages.asArrayRef();
  return success();
}

llvm::hash_code hashPathBackward(const PathBackward &backward) {
  return llvm::hash_combine(
      backward.isNone,
      llvm::hash_combine_range(backward.frozen.begin(), backward.frozen.end()));
}

/// Writes the number of frozen stages and the stages; -1 if no stage has a
/// backward.
void writePathBackward(DialectBytecodeWriter &writer,
                       const PathBackward &backward) {
  writer.writeSignedVarInt(backward.isNone ? -1
                                           : int64_t(backward.frozen.size()));
  for (int64_t stage : backward.frozen)
    writer.writeSignedVarInt(stage);
}

LogicalResult readPathBackward(DialectBytecodeReader &reader,
                               PathBackward &backward) {
  backward = {};
  int64_t count = 0;
  if (failed(readSince<PipeDialect>(reader, BytecodeVersion::kPathBackward, 0,
                                    count)))
    return failure();
  backward.isNone = count < 0;
  if (count < -1 || count > Cell::kMaxStages)
    return reader.emitError() << "a path freezes " << count << " stages";
  for (int64_t i = 0; i < count; ++i)
    if (failed(reader.readSignedVarInt(backward.frozen.emplace_back())))
      return failure();
  return success();
}

//===----------------------------------------------------------------------===//
// Shards
//===----------------------------------------------------------------------===//

template <typename T>
static auto numbersOf(T &value) {
  if constexpr (std::is_same_v<std::remove_const_t<T>, Work>)
    return std::array{&value.flops, &value.bytes};
  else
    return std::array{&value.kept, &value.broadcast, &value.combined,
                      &value.reduced};
}

OptionalParseResult parseOptionalShard(AsmParser &parser, Work &work) {
  if (failed(parser.parseOptionalLess()))
    return std::nullopt;
  return ParseResult(
      failure(parser.parseInteger(work.flops) || parser.parseKeyword("flops") ||
              parser.parseComma() || parser.parseInteger(work.bytes) ||
              parser.parseKeyword("bytes") || parser.parseGreater()));
}

void printShard(AsmPrinter &printer, const Work &work) {
  printer << '<' << work.flops << " flops, " << work.bytes << " bytes>";
}

OptionalParseResult parseOptionalShard(AsmParser &parser, ShardBytes &bytes) {
  if (failed(parser.parseOptionalLSquare()))
    return std::nullopt;
  return ParseResult(
      failure(parser.parseInteger(bytes.kept) || parser.parseComma() ||
              parser.parseInteger(bytes.broadcast) || parser.parseComma() ||
              parser.parseInteger(bytes.combined) || parser.parseComma() ||
              parser.parseInteger(bytes.reduced) || parser.parseRSquare()));
}

template <typename T>
static ParseResult parseWhole(AsmParser &parser, T &value, StringRef wanted) {
  SMLoc loc = parser.getCurrentLocation();
  OptionalParseResult result = parseOptionalShard(parser, value);
  if (result.has_value())
    return *result;
  return parser.emitError(loc) << "expected " << wanted;
}

ParseResult parseShard(AsmParser &parser, Work &work) {
  return parseWhole(parser, work, "the work of a shard, <n flops, n bytes>");
}
ParseResult parseShard(AsmParser &parser, ShardBytes &bytes) {
  return parseWhole(parser, bytes, "the bytes of a shard, [n, n, n, n]");
}

void printShard(AsmPrinter &printer, const ShardBytes &bytes) {
  printer << '[' << bytes.kept << ", " << bytes.broadcast << ", "
          << bytes.combined << ", " << bytes.reduced << ']';
}

template <typename T>
static Attribute toArray(MLIRContext *context, const T &value) {
  SmallVector<int64_t> numbers;
  for (const int64_t *number : numbersOf(value))
    numbers.push_back(*number);
  return DenseI64ArrayAttr::get(context, numbers);
}

Attribute shardToAttribute(MLIRContext *context, const Work &work) {
  return toArray(context, work);
}
Attribute shardToAttribute(MLIRContext *context, const ShardBytes &bytes) {
  return toArray(context, bytes);
}

template <typename T>
static LogicalResult fromArray(T &value, Attribute attribute,
                               EmitErrorFn emitError) {
  auto numbers = numbersOf(value);
  auto array = dyn_cast_if_present<DenseI64ArrayAttr>(attribute);
  if (!array || array.size() != int64_t(numbers.size()))
    return emitError() << "expected an array of " << numbers.size()
                       << " i64 for the numbers of a shard";
  for (auto [number, found] : llvm::zip_equal(numbers, array.asArrayRef()))
    *number = found;
  return success();
}

LogicalResult shardFromAttribute(Work &work, Attribute attribute,
                                 EmitErrorFn emitError) {
  return fromArray(work, attribute, emitError);
}
LogicalResult shardFromAttribute(ShardBytes &bytes, Attribute attribute,
                                 EmitErrorFn emitError) {
  return fromArray(bytes, attribute, emitError);
}

llvm::hash_code hashShard(const Work &work) {
  return llvm::hash_combine(work.flops, work.bytes);
}
llvm::hash_code hashShard(const ShardBytes &bytes) {
  return llvm::hash_combine(bytes.kept, bytes.broadcast, bytes.combined,
                            bytes.reduced);
}

void writeShard(DialectBytecodeWriter &writer, const Work &work) {
  for (const int64_t *number : numbersOf(work))
    writer.writeSignedVarInt(*number);
}
void writeShard(DialectBytecodeWriter &writer, const ShardBytes &bytes) {
  for (const int64_t *number : numbersOf(bytes))
    writer.writeSignedVarInt(*number);
}

template <typename T>
static LogicalResult readNumbers(DialectBytecodeReader &reader, T &value) {
  for (int64_t *number : numbersOf(value))
    if (failed(readSince<PipeDialect>(reader, BytecodeVersion::kShards, 0,
                                      *number)))
      return failure();
  return success();
}

LogicalResult readShard(DialectBytecodeReader &reader, Work &work) {
  return readNumbers(reader, work);
}
LogicalResult readShard(DialectBytecodeReader &reader, ShardBytes &bytes) {
  return readNumbers(reader, bytes);
}

//===----------------------------------------------------------------------===//
// Cells of slices
//===----------------------------------------------------------------------===//

ParseResult parseSlicedRegion(OpAsmParser &parser, StringRef opName,
                              Region &region, int64_t slices) {
  if (slices < 1) // schedule_c10, program_c17
    return parser.emitError(parser.getNameLoc())
           << "'" << opName << "' op has " << slices
           << " slices a microbatch: there must be 1 or more";
  SlicesInText scope(slices);
  if (parser.parseRegion(region))
    return failure();
  if (region.empty())
    region.emplaceBlock();
  return success();
}

//===----------------------------------------------------------------------===//
// Gradient rule
//===----------------------------------------------------------------------===//

OptionalParseResult parseOptionalGradientAfter(AsmParser &parser,
                                               GradientAfter &gradientAfter) {
  StringRef letter;
  if (failed(
          parser.parseOptionalKeyword(&letter, listEnumNames<GradientAfter>())))
    return std::nullopt;
  gradientAfter = *enumFromName<GradientAfter>(letter);
  return success();
}

ParseResult parseGradientAfter(AsmParser &parser,
                               GradientAfter &gradientAfter) {
  SMLoc loc = parser.getCurrentLocation();
  if (!parseOptionalGradientAfter(parser, gradientAfter).has_value())
    return parser.emitError(loc)
           << "expected " << describeEnumNames<GradientAfter>()
           << ", the phase that sends the gradient upstream";
  return success();
}

void printGradientAfter(AsmPrinter &printer, GradientAfter gradientAfter) {
  printer << enumName(gradientAfter);
}

Attribute gradientAfterToAttribute(MLIRContext *context,
                                   GradientAfter gradientAfter) {
  return StringAttr::get(context, enumName(gradientAfter));
}

LogicalResult gradientAfterFromAttribute(GradientAfter &gradientAfter,
                                         Attribute attribute,
                                         EmitErrorFn emitError) {
  auto letter = llvm::dyn_cast_or_null<StringAttr>(attribute);
  std::optional<GradientAfter> named;
  if (letter)
    named = enumFromName<GradientAfter>(letter.getValue());
  if (!named)
    return emitError() << "expected gradientAfter "
                       << quoteEnumNames<GradientAfter>() << ", got "
                       << attribute;
  gradientAfter = *named;
  return success();
}

void writeGradientAfter(DialectBytecodeWriter &writer,
                        GradientAfter gradientAfter) {
  writer.writeVarInt(static_cast<uint64_t>(gradientAfter));
}

LogicalResult readGradientAfter(DialectBytecodeReader &reader,
                                GradientAfter &gradientAfter) {
  uint64_t value;
  if (failed(reader.readVarInt(value)))
    return failure();
  if (value > static_cast<uint64_t>(GradientAfter::WeightGrad))
    return reader.emitError() << value << " is not a gradient rule";
  gradientAfter = static_cast<GradientAfter>(value);
  return success();
}

//===----------------------------------------------------------------------===//
// Family
//===----------------------------------------------------------------------===//

static const char *skipSpace(const char *text) {
  while (llvm::isSpace(*text) || (text[0] == '/' && text[1] == '/'))
    if (*text == '/')
      while (*text && *text != '\n')
        ++text;
    else
      ++text;
  return text;
}

/// Whether the brace at `text` opens a dictionary: a key and one of `=`, `,`,
/// `}` follow. The source ends with a zero byte.
static bool opensDictionary(const char *text) {
  if (*text != '{')
    return false;
  const char *key = skipSpace(text + 1);
  const char *end = key;
  if (*key == '"') {
    for (++end; *end && *end != '"' && *end != '\n'; ++end)
      ;
    end += *end == '"';
  } else {
    while (llvm::isAlnum(*end) || *end == '_' || *end == '$' || *end == '.')
      ++end;
  }
  if (end == key)
    return false;
  char next = *skipSpace(end);
  return next == '=' || next == ',' || next == '}';
}

OptionalParseResult parseFamily(OpAsmParser &parser, StringAttr &family,
                                DictionaryAttr &options) {
  if (failed(parser.parseOptionalKeyword("family")))
    return std::nullopt;
  if (parser.parseAttribute(family))
    return failure();
  if (opensDictionary(parser.getCurrentLocation().getPointer()))
    return parser.parseAttribute(options);
  return success();
}

void printFamily(OpAsmPrinter &printer, Operation *, StringAttr family,
                 DictionaryAttr options) {
  printer << "family " << family;
  if (options)
    printer << ' ' << options;
}

/// schedule_c6, program_c8. Empty options after a family are refused, because
/// `{}` would open the body.
LogicalResult verifyFamilyClause(Operation *op, StringAttr family,
                                 DictionaryAttr options) {
  if (!options)
    return success();
  if (!family)
    return emitTableError(op) << "has family options but no family";
  if (options.empty())
    return emitTableError(op) << "has family options that are empty";
  return success();
}

} // namespace pipesched::pipe
