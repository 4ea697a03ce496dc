//===- StandardStreams.h - Descriptors 0, 1 and 2 ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens closed standard streams. A shell closes one with `2>&-`. The next
// opened file would get its descriptor, and messages would be written to that
// file.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_STANDARDSTREAMS_H
#define PIPESCHED_SUPPORT_STANDARDSTREAMS_H

namespace pipesched {

/// Opens /dev/null in place of closed standard streams. Reading such an input
/// or writing such an output still fails with a bad file descriptor; text
/// written to such a standard error is lost. Must be called first in main,
/// before any file is opened.
void openStandardStreams();

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_STANDARDSTREAMS_H
