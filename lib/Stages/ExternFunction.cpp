//===- ExternFunction.cpp - Functions compiled elsewhere ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads the fields of pipe.extern one by one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Stages/ExternFunction.h"
#include "PipeSched/Support/ClosestName.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace pipesched;

bool pipesched::isExtern(func::FuncOp function) {
  return function->hasAttr(kExternName);
}

namespace {
class ExternReader {
public:
  explicit ExternReader(func::FuncOp function) : function(function) {}

  FailureOr<ExternFunction> run();

private:
  InFlightDiagnostic emitError() {
    return function->emitError("'@") << function.getName() << "' ";
  }
  LogicalResult verifyTypes();
  LogicalResult verifyFields(DictionaryAttr fields, ArrayRef<StringRef> known,
                             StringRef where);
  LogicalResult readText(DictionaryAttr fields, StringRef name,
                         std::string &text);
  LogicalResult verifySymbol();
  LogicalResult readInPlace(DictionaryAttr fields);
  LogicalResult verifyPlace(unsigned result, int64_t argument);
  LogicalResult readWork(DictionaryAttr fields);
  FailureOr<EngineWork> readRun(Attribute entry);
  FailureOr<int64_t> readCount(DictionaryAttr fields, StringRef name);

  func::FuncOp function;
  ExternFunction result;
};
} // namespace

/// Whether C passes a number of this type by value in the same way as LLVM.
static bool isNumberOfC(Type type) {
  return type.isInteger(32) || type.isInteger(64) || type.isF32() ||
         type.isF64();
}

static bool isTensorInMemory(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && !tensor.getEncoding() &&
         tensor.getElementType().isIntOrFloat() &&
         llvm::is_contained({8, 16, 32, 64}, tensor.getElementTypeBitWidth());
}

LogicalResult ExternReader::verifyTypes() {
  constexpr StringLiteral kTensor =
      "a tensor whose sizes are all known, of numbers of 8, 16, 32 or 64 bits";
  for (auto [index, type] : llvm::enumerate(function.getArgumentTypes()))
    if (!isTensorInMemory(type) && !isNumberOfC(type))
      return emitError() << "is extern, and its argument " << index
                         << " has type " << type << "; expected " << kTensor
                         << ", or i32, i64, f32 or f64";
  for (auto [index, type] : llvm::enumerate(function.getResultTypes()))
    if (!isTensorInMemory(type))
      return emitError() << "is extern, and its result " << index
                         << " has type " << type << "; expected " << kTensor;
  return success();
}

LogicalResult ExternReader::verifyFields(DictionaryAttr fields,
                                         ArrayRef<StringRef> known,
                                         StringRef where) {
  for (NamedAttribute field : fields)
    if (!llvm::is_contained(known, field.getName().strref()))
      return emitError() << "has '" << field.getName().strref() << "' in "
                         << where << ", which is not one of its fields"
                         << nameHint(field.getName().strref(), known);
  return success();
}

LogicalResult ExternReader::readText(DictionaryAttr fields, StringRef name,
                                     std::string &text) {
  Attribute found = fields.get(name);
  if (!found)
    return success();
  auto string = dyn_cast<StringAttr>(found);
  if (!string || string.empty())
    return emitError() << "has " << name << " = " << found << " in "
                       << kExternName << ", expected a text in quotes";
  text = string.str();
  return success();
}

LogicalResult ExternReader::verifySymbol() {
  StringRef symbol = result.symbol;
  if (symbol.empty())
    return emitError()
           << "has no symbol in " << kExternName
           << "; expected symbol = \"..\", the name of a C function";
  auto isLetter = [](char c) { return llvm::isAlnum(c) || c == '_'; };
  if (!llvm::all_of(symbol, isLetter) || llvm::isDigit(symbol.front()))
    return emitError() << "has the symbol \"" << symbol << "\" in "
                       << kExternName << ", expected the name of a C function";
  if (symbol.starts_with("pipesched_"))
    return emitError() << "has the symbol \"" << symbol << "\" in "
                       << kExternName
                       << "; names of the runtime begin with 'pipesched_'";
  return success();
}

LogicalResult ExternReader::verifyPlace(unsigned index, int64_t argument) {
  int64_t numArguments = function.getNumArguments();
  if (argument < -1 || argument >= numArguments)
    return emitError() << "has " << argument << " in in_place of "
                       << kExternName << ", expected -1 or an argument, 0 to "
                       << numArguments - 1;
  if (argument < 0)
    return success();
  Type wanted = function.getArgumentTypes()[argument];
  Type found = function.getResultTypes()[index];
  if (wanted != found)
    return emitError() << "puts its result " << index << " of type " << found
                       << " in the place of argument " << argument
                       << ", which is " << wanted;
  if (llvm::is_contained(ArrayRef(result.inPlace).take_front(index), argument))
    return emitError() << "puts two results in the place of argument "
                       << argument;
  return success();
}

LogicalResult ExternReader::readInPlace(DictionaryAttr fields) {
  size_t numResults = function.getNumResults();
  result.inPlace.assign(numResults, -1);
  Attribute found = fields.get("in_place");
  if (!found)
    return success();
  auto places = dyn_cast<DenseI64ArrayAttr>(found);
  if (!places || places.size() != static_cast<int64_t>(numResults))
    return emitError() << "has in_place = " << found << " in " << kExternName
                       << ", expected array<i64: ..> with " << numResults
                       << " numbers, one for each result";
  result.inPlace.assign(places.asArrayRef().begin(), places.asArrayRef().end());
  for (auto [index, argument] : llvm::enumerate(result.inPlace))
    if (failed(verifyPlace(index, argument)))
      return failure();
  return success();
}

FailureOr<int64_t> ExternReader::readCount(DictionaryAttr fields,
                                           StringRef name) {
  Attribute found = fields.get(name);
  if (!found)
    return 0;
  auto number = dyn_cast<IntegerAttr>(found);
  if (!number || !number.getType().isSignlessInteger(64) || number.getInt() < 0)
    return emitError() << "has " << name << " = " << found << " in work of "
                       << kExternName << ", expected a number from 0";
  return number.getInt();
}

FailureOr<EngineWork> ExternReader::readRun(Attribute entry) {
  auto fields = dyn_cast<DictionaryAttr>(entry);
  if (!fields)
    return emitError() << "has " << entry << " in work of " << kExternName
                       << ", expected {engine = \"matrix\", flops = .., bytes "
                          "= ..}";
  if (failed(verifyFields(fields, {"bytes", "engine", "flops"}, "work")))
    return failure();
  std::string engine;
  if (failed(readText(fields, "engine", engine)))
    return failure();
  if (engine != "matrix" && engine != "vector")
    return emitError() << "has the engine \"" << engine << "\" in work of "
                       << kExternName << ", expected matrix or vector";
  FailureOr<int64_t> flops = readCount(fields, "flops"),
                     bytes = readCount(fields, "bytes");
  if (failed(flops) || failed(bytes))
    return failure();
  return EngineWork{engine == "matrix" ? Engine::Matrix : Engine::Vector,
                    {*flops, *bytes}};
}

LogicalResult ExternReader::readWork(DictionaryAttr fields) {
  Attribute found = fields.get("work");
  if (!found)
    return success();
  auto list = dyn_cast<ArrayAttr>(found);
  if (!list)
    return emitError() << "has work = " << found << " in " << kExternName
                       << ", expected a list in brackets";
  result.work.emplace();
  for (Attribute entry : list) {
    FailureOr<EngineWork> run = readRun(entry);
    if (failed(run))
      return failure();
    result.work->push_back(*run);
  }
  return success();
}

FailureOr<ExternFunction> ExternReader::run() {
  Attribute attribute = function->getAttr(kExternName);
  auto fields = dyn_cast<DictionaryAttr>(attribute);
  if (!fields)
    return emitError() << "has " << kExternName << " = " << attribute
                       << ", expected {symbol = \"..\", library = \"..\"}";
  if (!function.isExternal())
    return emitError() << "has a body and " << kExternName
                       << "; expected one of them";
  if (failed(verifyFields(fields, {"in_place", "library", "symbol", "work"},
                          kExternName)) ||
      failed(readText(fields, "symbol", result.symbol)) ||
      failed(readText(fields, "library", result.library)) ||
      failed(verifySymbol()) || failed(verifyTypes()) ||
      failed(readInPlace(fields)) || failed(readWork(fields)))
    return failure();
  return std::move(result);
}

FailureOr<ExternFunction> pipesched::readExtern(func::FuncOp function) {
  return ExternReader(function).run();
}
