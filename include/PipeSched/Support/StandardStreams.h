//===- StandardStreams.h - Descriptors 0, 1 and 2 ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A shell closes a standard stream by `2>&-`. The next file that is opened
// then gets its number, and messages go into that file.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SUPPORT_STANDARDSTREAMS_H
#define PIPESCHED_SUPPORT_STANDARDSTREAMS_H

namespace pipesched {

/// Opens /dev/null in the place of standard streams that are closed. Reading
/// such an input and writing such an output still fails, as a bad file
/// descriptor; text that is written to such a standard error is lost. Must come
/// first in main, before anything opens a file.
void openStandardStreams();

} // namespace pipesched

#endif // PIPESCHED_SUPPORT_STANDARDSTREAMS_H
