//===- Training.cpp - What linked programs start from ---------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// LLVM writes the bytes, so that no assembler or compiler reads a text in which
// there are names or parameters of the user.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Run/Training.h"
#include "PipeSched-rt/Runtime.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"

using namespace pipesched;
using namespace pipesched::run;
using llvm::Constant;

/// Losses are floats, and no others are compiled.
static int32_t lossTypeOf(mlir::Type type) {
  return llvm::TypeSwitch<mlir::Type, int32_t>(type)
      .Case([](mlir::Float16Type) { return PIPESCHED_RT_F16; })
      .Case([](mlir::BFloat16Type) { return PIPESCHED_RT_BF16; })
      .Case([](mlir::Float32Type) { return PIPESCHED_RT_F32; })
      .Case([](mlir::Float64Type) { return PIPESCHED_RT_F64; });
}

namespace {

class TrainingWriter {
public:
  explicit TrainingWriter(llvm::Module &module)
      : module(module), i64(llvm::Type::getInt64Ty(module.getContext())),
        pointer(llvm::PointerType::getUnqual(module.getContext())) {}

  Constant *number(int64_t value) {
    return llvm::ConstantInt::getSigned(i64, value);
  }
  Constant *structOf(llvm::ArrayRef<Constant *> fields) {
    return llvm::ConstantStruct::getAnon(fields);
  }
  llvm::GlobalVariable *add(Constant *value, const llvm::Twine &name = "",
                            bool isPublic = false);
  /// An array behind a pointer; null if it is empty.
  Constant *arrayOf(llvm::Type *type, llvm::ArrayRef<Constant *> elements);
  Constant *numbers(llvm::ArrayRef<int64_t> values);
  Constant *pieces(const Training &training, int64_t &count);
  Constant *paces(const Training &training);

private:
  Constant *bytes(llvm::ArrayRef<char> data);

  llvm::Module &module;
  llvm::Type *i64, *pointer;
  llvm::DenseMap<const char *, Constant *> known; ///< by where the bytes are
};

} // namespace

llvm::GlobalVariable *
TrainingWriter::add(Constant *value, const llvm::Twine &name, bool isPublic) {
  return new llvm::GlobalVariable(module, value->getType(), /*isConstant=*/true,
                                  isPublic ? llvm::GlobalValue::ExternalLinkage
                                           : llvm::GlobalValue::PrivateLinkage,
                                  value, name);
}

Constant *TrainingWriter::arrayOf(llvm::Type *type,
                                  llvm::ArrayRef<Constant *> elements) {
  if (elements.empty())
    return llvm::Constant::getNullValue(pointer);
  return add(llvm::ConstantArray::get(
      llvm::ArrayType::get(type, elements.size()), elements));
}

Constant *TrainingWriter::numbers(llvm::ArrayRef<int64_t> values) {
  std::vector<Constant *> elements;
  for (int64_t value : values)
    elements.push_back(number(value));
  return arrayOf(i64, elements);
}

/// Parameters may be larger than what code can address nearby. Only pointers of
/// 64 bits lead to them, so they may be anywhere.
Constant *TrainingWriter::bytes(llvm::ArrayRef<char> data) {
  Constant *&found = known[data.data()];
  if (!found) {
    llvm::GlobalVariable *global = add(llvm::ConstantDataArray::getRaw(
        llvm::StringRef(data.data(), data.size()), data.size(),
        llvm::Type::getInt8Ty(module.getContext())));
    global->setCodeModel(llvm::CodeModel::Large);
    found = global;
  }
  return found;
}

/// PipeschedPiece for each parameter of each worker.
Constant *TrainingWriter::pieces(const Training &training, int64_t &count) {
  std::vector<Constant *> all;
  for (auto [worker, layout] : llvm::enumerate(training.layouts))
    for (const PersistentTensor &tensor : layout.tensors) {
      if (tensor.kind != PersistentKind::Param)
        continue;
      llvm::ArrayRef<char> data = training.start.bytesOf(
          *training.model.find(tensor.kind, tensor.stage, tensor.index));
      if (llvm::any_of(data, [](char byte) { return byte != 0; }))
        all.push_back(structOf({number(worker), number(tensor.offset),
                                number(tensor.bytes), bytes(data)}));
    }
  count = all.size();
  return arrayOf(all.empty() ? i64 : all.front()->getType(), all);
}

Constant *TrainingWriter::paces(const Training &training) {
  std::vector<Constant *> workers;
  for (const std::vector<int64_t> &worker : training.paces)
    workers.push_back(numbers(worker));
  return arrayOf(pointer, workers);
}

void run::addTraining(llvm::Module &module, const Training &training,
                      llvm::StringRef name) {
  TrainingWriter writer(module);
  std::vector<int64_t> offsets;
  mlir::RankedTensorType losses;
  for (const PersistentLayout &layout : training.layouts) {
    offsets.push_back(-1);
    for (const PersistentTensor &tensor : layout.tensors)
      if (tensor.kind == PersistentKind::Loss) {
        offsets.back() = tensor.offset;
        losses = tensor.type;
      }
  }
  int64_t count = 0;
  Constant *pieces = writer.pieces(training, count);
  writer.add(
      writer.structOf({writer.number(training.steps), writer.number(count),
                       pieces, writer.number(losses.getNumElements()),
                       writer.number(lossTypeOf(losses.getElementType())),
                       writer.numbers(offsets), writer.paces(training)}),
      name, /*isPublic=*/true);
}
