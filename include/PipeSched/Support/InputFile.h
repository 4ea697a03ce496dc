//===- InputFile.h - Reading of whole files ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads inputs. Waiting for the writer of a terminal or a FIFO may never end,
// so Ctrl-C must end it.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_INPUTFILE_H
#define PIPESCHED_SUPPORT_INPUTFILE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <atomic>
#include <memory>

namespace pipesched {

/// Limits on the bytes read from a file (or pipe) and from a device. A device
/// such as /dev/zero has no end.
inline constexpr uint64_t kMostFileBytes = uint64_t(1) << 31;
inline constexpr uint64_t kMostDeviceBytes = uint64_t(1) << 26;

/// Returns the contents of a file, or of standard input for "-". While it waits
/// for a terminal, a FIFO or another device, SIGINT ends the wait within a
/// tenth of a second (see InterruptWatch); so does `interrupted`, which the
/// caller's own handler may set. Errors: a file that cannot be read, such as a
/// folder; a file over these limits; an interrupt.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readWholeFile(llvm::StringRef path,
              const std::atomic<bool> *interrupted = nullptr);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_INPUTFILE_H
