//===- StandardStreams.cpp - Descriptors 0, 1 and 2 -----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Opens closed standard streams; otherwise the next opened file would get the
// descriptor of one.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Support/StandardStreams.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

/// Input is opened only for writing, and output only for reading, so that using
/// them is an error instead of an empty file or a lost result.
void pipesched::openStandardStreams() {
  constexpr int kModes[] = {O_WRONLY, O_RDONLY, O_WRONLY};
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (fcntl(stream, F_GETFD) < 0 && errno == EBADF &&
        open("/dev/null", kModes[stream]) != stream)
      _exit(EXIT_FAILURE); // no other file may get its descriptor
}
