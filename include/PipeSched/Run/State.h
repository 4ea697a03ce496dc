//===- State.h - State of a training between steps --------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parameters, states, gradients and losses, in one block for the whole model or
// in one block per worker.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RUN_STATE_H
#define PIPESCHED_RUN_STATE_H

#include "PipeSched/Stages/PersistentLayout.h"
#include "llvm/Support/Error.h"
#include <cstdlib>
#include <memory>

namespace pipesched::run {

/// Memory that starts at a multiple of 64 and is zero at first.
class Memory {
public:
  explicit Memory(int64_t bytes);
  char *data() const { return bytes.get(); }
  int64_t size() const { return numBytes; }
  /// Returns the bytes of a tensor in this block, by its layout.
  llvm::MutableArrayRef<char> bytesOf(const PersistentTensor &tensor) const {
    return {data() + tensor.offset, static_cast<size_t>(tensor.bytes)};
  }

private:
  struct Free {
    void operator()(char *bytes) const { std::free(bytes); }
  };
  std::unique_ptr<char, Free> bytes;
  int64_t numBytes;
};

/// Returns "stage 1 parameter w" or "the losses".
std::string describe(const PersistentTensor &tensor);

/// Calls `handle` with each element as a double; integers are converted.
void forEachNumber(const PersistentTensor &tensor, const Memory &block,
                   llvm::function_ref<void(double)> handle);

/// Copies tensors of these kinds from the block of the model to the blocks of
/// all workers that hold them.
void scatter(const PersistentLayout &model, const Memory &from,
             llvm::ArrayRef<PersistentLayout> layouts,
             llvm::ArrayRef<Memory> workers,
             llvm::ArrayRef<PersistentKind> kinds);

/// Fills a parameter of floats with random numbers uniform between -1 /
/// sqrt(rows) and 1 / sqrt(rows). They depend only on the seed, the stage and
/// the name. Integers stay 0.
void fillRandom(const PersistentTensor &tensor, const Memory &block,
                uint64_t seed);

/// Reads all parameters from `folder`/stage<S>.<name>.npy. Errors name the
/// file: it is missing, or has another shape or type.
llvm::Error readParameters(llvm::StringRef folder,
                           const PersistentLayout &model, const Memory &block);

/// Reports early the errors that writeParameters would report after the
/// training: a file in place of the folder, or a folder without permission to
/// write. An empty name has no errors.
llvm::Error checkParameterFolder(llvm::StringRef folder);

/// Writes parameters for readParameters, and creates the folder if needed. bf16
/// is written as the two bytes of each element (uint16), because NumPy has no
/// type for it.
llvm::Error writeParameters(llvm::StringRef folder,
                            const PersistentLayout &model, const Memory &block);

} // namespace pipesched::run

#endif // PIPESCHED_RUN_STATE_H
