//===- InputFile.h - Files that are read whole ------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads inputs. Waiting for the writer of a terminal or a FIFO may never end by
// itself, so it has to end at Ctrl-C.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_INPUTFILE_H
#define PIPESCHED_SUPPORT_INPUTFILE_H

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"
#include <atomic>
#include <memory>

namespace pipesched {

/// The sizes up to which a file (or pipe) and a device are read: a device such
/// as /dev/zero has no end.
inline constexpr uint64_t kMostFileBytes = uint64_t(1) << 31;
inline constexpr uint64_t kMostDeviceBytes = uint64_t(1) << 26;

/// The contents of a file, or of standard input for "-". Until everything is
/// there, SIGINT ends the wait for a terminal, a FIFO or another device within
/// a tenth of a second, as InterruptWatch describes; so does `interrupted`,
/// which the caller's own handler may set. Errors: a file that cannot be read,
/// such as a folder; one of more bytes than the above; an interrupt.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
readWholeFile(llvm::StringRef path,
              const std::atomic<bool> *interrupted = nullptr);

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_INPUTFILE_H
