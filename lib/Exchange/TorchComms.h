//===- TorchComms.h - Checks of what an import drops ------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Messages and parameter actions of a PyTorch schedule file must have their
// partners before an import can drop them.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H
#define PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H

#include "TorchToken.h"

namespace pipesched {

/// The lines of a file that parses, and which stage is on which.
struct TorchFile {
  llvm::ArrayRef<llvm::StringRef> lines;
  llvm::ArrayRef<int32_t> lineOfStage;
  int64_t stagesPerPath;
};

/// For a file with any message: each SEND stands after the cell that makes what
/// it sends and each RECV before the cell that needs it; both are there, on
/// different lines, wherever a cell needs what another line makes. n log n.
llvm::Error checkTorchMessages(const TorchFile &file);

/// UNSHARD and RESHARD of a stage alternate, beginning with the one and ending
/// with the other; REDUCE_GRAD comes once, after all weight gradients of its
/// stage. Linear.
llvm::Error checkTorchParameters(const TorchFile &file);

} // namespace pipesched

#endif // PIPESCHED_LIB_EXCHANGE_TORCHCOMMS_H
