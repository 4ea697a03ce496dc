//===- TorchToken.h - One cell of a PyTorch schedule file -------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tokens of torch.distributed.pipelining: 2F0, 2SEND_F0, 2UNSHARD,
// (2F0;5B1)OVERLAP_F_B.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_TORCHTOKEN_H
#define PIPESCHED_LIB_EXCHANGE_TORCHTOKEN_H

#include "PipeSched/Schedule/Kinds/Cell.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// One field of a line.
struct TorchToken {
  enum Kind : uint8_t {
    Empty,
    Compute,    ///< F, B, I, W
    Overlapped, ///< `cell` and `second`
    Send,       ///< `cell` has the sender's stage and F or B
    Receive,    ///< `cell` has the receiver's stage and F or B
    WaitSend,   ///< for the end of the Send with this `cell`
    Unshard,    ///< this and the next two have only a stage
    Reshard,
    ReduceGrad
  };

  Kind kind = Empty;
  Cell cell, second;

  bool isMessage() const { return kind >= Send && kind <= WaitSend; }
  /// The number of cells that compute: one, two or none.
  unsigned getNumCells() const {
    return kind == Compute ? 1 : kind == Overlapped ? 2 : 0;
  }
};

/// Reads a field and ignores blanks around it and its parts. Errors have no
/// position; they quote the found and the expected text.
llvm::Expected<TorchToken> parseTorchToken(llvm::StringRef field);

/// Prints `2SEND_F0`, `2RECV_F0` or `2WAIT_SEND_F0` for `cell` 2F0.
void printMessage(llvm::raw_ostream &os, TorchToken::Kind kind, Cell cell);
std::string nameOfMessage(TorchToken::Kind kind, Cell cell);

/// Returns `UNSHARD`, `RESHARD` or `REDUCE_GRAD`; in a token the name follows
/// the stage.
llvm::StringRef nameOfParameterAction(TorchToken::Kind kind);

/// Calls `visit(StringRef field, int64_t number)`, which returns an Error, for
/// each field of a line until one fails.
template <typename Visit>
llvm::Error forEachTorchField(llvm::StringRef line, Visit &&visit) {
  for (int64_t number = 0;; ++number) {
    size_t comma = line.find(',');
    if (llvm::Error error = visit(line.take_front(comma), number))
      return error;
    if (comma == llvm::StringRef::npos)
      return llvm::Error::success();
    line = line.drop_front(comma + 1);
  }
}

/// A position: line and field, both counted from 0.
struct TorchFieldRef {
  uint32_t line = 0, field = 0;
};

/// The column of the first character of a field; counts from 1.
int64_t columnOfField(llvm::ArrayRef<llvm::StringRef> lines, TorchFieldRef at);

/// An error at the first character of a field.
llvm::Error errorAtField(llvm::ArrayRef<llvm::StringRef> lines,
                         TorchFieldRef at, std::string text,
                         std::vector<std::string> notes = {});

/// The lines of a file that parses, and the line of each stage.
struct TorchFile {
  llvm::ArrayRef<llvm::StringRef> lines;
  llvm::ArrayRef<int32_t> lineOfStage;
  int64_t stagesPerPath;
};

/// Checks the messages of a file that has some. Each SEND must come after the
/// cell that produces the data, and each RECV before the cell that consumes it.
/// Both must be present, on different lines, for all data that crosses lines. A
/// WAIT_SEND must come after its SEND. The messages from one line to another
/// must be received in the order in which they are sent. O(n log n).
llvm::Error checkTorchMessages(const TorchFile &file);

/// Checks that UNSHARD and RESHARD of a stage alternate, starting with UNSHARD,
/// and that cells of the stage come only between an UNSHARD and its RESHARD.
/// The last RESHARD may be missing, as in files of older versions of PyTorch.
/// If any stage has a REDUCE_GRAD, each must have one, after all weight
/// gradients of its stage. Linear.
llvm::Error checkTorchParameters(const TorchFile &file);

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_TORCHTOKEN_H
