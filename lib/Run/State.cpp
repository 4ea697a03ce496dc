//===- State.cpp - State of a training between steps ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes elements as the bits of their types.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/State.h"
#include "PipeSched/Support/InputFile.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableText.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::run;

Memory::Memory(int64_t size)
    : bytes(static_cast<char *>(std::aligned_alloc(
          kSlotAlignment, std::max(alignToSlot(size), kSlotAlignment)))),
      numBytes(size) {
  if (!bytes)
    llvm::report_bad_alloc_error("no memory for the parameters");
  std::memset(bytes.get(), 0, size);
}

std::string run::describe(const PersistentTensor &tensor) {
  if (tensor.kind == PersistentKind::Loss)
    return "the losses";
  StringRef kind = tensor.kind == PersistentKind::Param ? "parameter"
                                                        : enumName(tensor.kind);
  return llvm::formatv("stage {0} {1} {2}", tensor.stage, kind,
                       printableText(tensor.name));
}

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

static size_t elementBytes(const PersistentTensor &tensor) {
  return (tensor.type.getElementTypeBitWidth() + 7) / 8;
}

static double numberOf(Type type, uint64_t bits) {
  unsigned width = type.getIntOrFloatBitWidth();
  if (auto real = dyn_cast<FloatType>(type)) {
    llvm::APFloat value(real.getFloatSemantics(), llvm::APInt(width, bits));
    bool losesInfo;
    value.convert(llvm::APFloat::IEEEdouble(),
                  llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  }
  return static_cast<double>(llvm::APInt(width, bits).getSExtValue());
}

static uint64_t bitsOf(FloatType type, double number) {
  llvm::APFloat value(number);
  bool losesInfo;
  value.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                &losesInfo);
  return value.bitcastToAPInt().getZExtValue();
}

void run::forEachNumber(const PersistentTensor &tensor, const Memory &block,
                        llvm::function_ref<void(double)> handle) {
  Type type = tensor.type.getElementType();
  size_t bytes = elementBytes(tensor);
  const char *data = block.bytesOf(tensor).data();
  for (int64_t i = 0; i < tensor.type.getNumElements(); ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, data + i * bytes, bytes);
    handle(numberOf(type, bits));
  }
}

void run::scatter(const PersistentLayout &model, const Memory &from,
                  ArrayRef<PersistentLayout> layouts, ArrayRef<Memory> workers,
                  ArrayRef<PersistentKind> kinds) {
  for (auto [layout, worker] : llvm::zip(layouts, workers))
    for (const PersistentTensor &tensor : layout.tensors)
      if (llvm::is_contained(kinds, tensor.kind))
        if (const PersistentTensor *source =
                model.find(tensor.kind, tensor.stage, tensor.index))
          llvm::copy(from.bytesOf(*source), worker.bytesOf(tensor).begin());
}

/// Returns a number that looks random (Vigna's splitmix64).
static uint64_t mix(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

void run::fillRandom(const PersistentTensor &tensor, const Memory &block,
                     uint64_t seed) {
  auto type = dyn_cast<FloatType>(tensor.type.getElementType());
  if (!type)
    return;
  ArrayRef<int64_t> shape = tensor.type.getShape();
  double limit =
      1 /
      std::sqrt(shape.empty() ? 1.0 : double(std::max<int64_t>(1, shape[0])));
  uint64_t first =
      mix(mix(seed) ^ mix(tensor.stage) ^ llvm::xxh3_64bits(tensor.name));
  size_t bytes = elementBytes(tensor);
  char *data = block.bytesOf(tensor).data();
  for (int64_t i = 0; i < tensor.type.getNumElements(); ++i) {
    double unit = double(mix(first + i) >> 11) * 0x1p-53;
    uint64_t bits = bitsOf(type, (2 * unit - 1) * limit);
    std::memcpy(data + i * bytes, &bits, bytes);
  }
}

//===----------------------------------------------------------------------===//
// Files of NumPy
//===----------------------------------------------------------------------===//

static constexpr StringLiteral kMagic = "\x93NUMPY";

/// Returns the NumPy type with the same bytes, such as `<f4`.
static std::string descriptionOf(Type type) {
  size_t bytes = (type.getIntOrFloatBitWidth() + 7) / 8;
  StringRef kind = type.isBF16() ? "u" : isa<FloatType>(type) ? "f" : "i";
  return llvm::formatv("{0}{1}{2}", bytes == 1 ? "|" : "<", kind, bytes);
}

/// Returns the dictionary of a file, without the padding.
static std::string headerOf(const PersistentTensor &tensor) {
  std::string shape;
  for (int64_t size : tensor.type.getShape())
    shape += std::to_string(size) + ", ";
  if (tensor.type.getRank() > 1)
    shape.resize(shape.size() - 2);
  else if (tensor.type.getRank() == 1)
    shape.pop_back();
  return llvm::formatv(
      "{{'descr': '{0}', 'fortran_order': False, 'shape': ({1}), }",
      descriptionOf(tensor.type.getElementType()), shape);
}

/// Returns a name as a part of a file name: without path separators, blanks and
/// control characters. Different names have different texts.
static std::string escape(StringRef name) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (char c : name)
    if (llvm::isAlnum(c) || StringRef("._-").contains(c))
      os << c;
    else
      os << '%' << llvm::format_hex_no_prefix(uint8_t(c), 2, /*Upper=*/true);
  return text;
}

static std::string fileOf(StringRef folder, const PersistentTensor &tensor) {
  llvm::SmallString<128> path(folder);
  std::string name = escape(tensor.name);
  llvm::sys::path::append(
      path, llvm::formatv("stage{0}.{1}.npy", tensor.stage, name).str());
  return path.str().str();
}

static std::string withoutBlanks(StringRef text) {
  std::string result;
  llvm::copy_if(text, std::back_inserter(result),
                [](char c) { return c != ' ' && c != '\n'; });
  return result;
}

/// Copies the elements of a file, after checking its header.
static llvm::Error readTensor(StringRef file, const PersistentTensor &tensor,
                              const Memory &block) {
  auto buffer = readWholeFile(file);
  if (!buffer)
    return makeError("--parameters: " + llvm::toString(buffer.takeError()) +
                     ", which gives " + describe(tensor));
  StringRef text = (*buffer)->getBuffer();
  auto fail = [&](const Twine &why) {
    return makeError("--parameters: '" + file + "': " + why);
  };
  if (!text.consume_front(kMagic) || text.size() < 6)
    return fail("is not a NumPy file (.npy)");
  size_t lengthBytes = text[0] == 1 ? 2 : 4;
  uint32_t length = lengthBytes == 2
                        ? llvm::support::endian::read16le(text.data() + 2)
                        : llvm::support::endian::read32le(text.data() + 2);
  text = text.drop_front(2 + lengthBytes);
  StringRef header = text.take_front(length).rtrim();
  std::string wanted = headerOf(tensor);
  if (withoutBlanks(header) != withoutBlanks(wanted))
    return fail("has " + header + "; " + describe(tensor) + " needs " + wanted);
  StringRef data = text.drop_front(std::min<size_t>(length, text.size()));
  if (data.size() != static_cast<size_t>(tensor.bytes))
    return fail("has " + Twine(data.size()) + " bytes of elements, wanted " +
                Twine(tensor.bytes));
  llvm::copy(data, block.bytesOf(tensor).begin());
  return llvm::Error::success();
}

static llvm::Error writeTensor(StringRef file, const PersistentTensor &tensor,
                               const Memory &block) {
  std::string header = headerOf(tensor);
  // The elements start at a multiple of 64.
  size_t before = kMagic.size() + 4;
  header.resize(alignToSlot(before + header.size() + 1) - before - 1, ' ');
  header += '\n';
  char sizes[4] = {1, 0};
  llvm::support::endian::write16le(sizes + 2, header.size());
  llvm::MutableArrayRef<char> data = block.bytesOf(tensor);
  return writeWholeFile(file, (kMagic + StringRef(sizes, 4) + header +
                               StringRef(data.data(), data.size()))
                                  .str());
}

llvm::Error run::readParameters(StringRef folder, const PersistentLayout &model,
                                const Memory &block) {
  if (!llvm::sys::fs::is_directory(folder))
    return makeError("--parameters: '" + folder + "' is not a folder");
  for (const PersistentTensor &tensor : model.tensors)
    if (tensor.kind == PersistentKind::Param)
      if (llvm::Error error = readTensor(fileOf(folder, tensor), tensor, block))
        return error;
  return llvm::Error::success();
}

llvm::Error run::checkParameterFolder(StringRef folder) {
  if (folder.empty())
    return llvm::Error::success();
  llvm::SmallString<128> there = folder;
  std::error_code code = llvm::sys::fs::make_absolute(there);
  while (!code && !llvm::sys::fs::exists(there))
    llvm::sys::path::remove_filename(there);
  if (!code)
    code = llvm::sys::fs::is_directory(there)
               ? llvm::sys::fs::access(there, llvm::sys::fs::AccessMode::Write)
               : std::make_error_code(std::errc::not_a_directory);
  if (code)
    return makeError("--save-parameters: cannot write in the folder '" +
                     folder + "': " + code.message());
  return llvm::Error::success();
}

llvm::Error run::writeParameters(StringRef folder,
                                 const PersistentLayout &model,
                                 const Memory &block) {
  if (std::error_code code = llvm::sys::fs::create_directories(folder))
    return makeError("--save-parameters: cannot make the folder '" + folder +
                     "': " + code.message());
  for (const PersistentTensor &tensor : model.tensors)
    if (tensor.kind == PersistentKind::Param)
      if (llvm::Error error =
              writeTensor(fileOf(folder, tensor), tensor, block))
        return error;
  return llvm::Error::success();
}
