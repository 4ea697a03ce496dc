//===- TorchComms.h - Checks of what an import drops ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that the messages and parameter actions of a PyTorch schedule file
// have their partners. Only then may an import drop them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H
#define PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H

#include "TorchToken.h"

namespace pipesched {

/// The lines of a file that parses, and the line of each stage.
struct TorchFile {
  llvm::ArrayRef<llvm::StringRef> lines;
  llvm::ArrayRef<int32_t> lineOfStage;
  int64_t stagesPerPath;
};

/// Checks the messages of a file that has any. Each SEND stands after the cell
/// that produces the data, and each RECV before the cell that consumes it. Both
/// must be present, on different lines, for all data that crosses lines. A
/// WAIT_SEND comes after its SEND. The messages from one line to another are
/// received in the order in which they are sent. n log n.
llvm::Error checkTorchMessages(const TorchFile &file);

/// Checks that UNSHARD and RESHARD of a stage alternate, from an UNSHARD on,
/// with cells of the stage after each UNSHARD and none after a RESHARD. The
/// last RESHARD may be missing, as in files of older versions of PyTorch. If
/// any stage has a REDUCE_GRAD, each has one, after all weight gradients of its
/// stage. Linear.
llvm::Error checkTorchParameters(const TorchFile &file);

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H
