//===- Files.c - Files of states and logs ---------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file is written under a temporary name and renamed when it is complete, so
// that no reader sees a part of it, and an older file stays unchanged after a
// failure.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/// Bytes in memory.
struct Part {
  const void *data;
  size_t bytes;
};

/// Returns PREFIX.<worker><suffix>, which the caller frees, or NULL.
static char *makeName(const char *prefix, int32_t worker, const char *suffix) {
  size_t bytes = strlen(prefix) + strlen(suffix) + 16;
  char *name = malloc(bytes);
  if (name)
    snprintf(name, bytes, "%s.%d%s", prefix, (int)worker, suffix);
  return name;
}

static bool explain(char *text, const char *what, const char *name) {
  int number = errno;
  snprintf(text, rtTextBytes, "cannot %s '%s': %s", what,
           name ? name : "a file", strerror(number));
  return false;
}

static bool writeParts(const char *name, const struct Part *parts, int count) {
  FILE *file = fopen(name, "wb");
  if (!file)
    return false;
  bool isWritten = true;
  for (int i = 0; i < count; ++i)
    isWritten =
        isWritten && (parts[i].bytes == 0 ||
                      fwrite(parts[i].data, parts[i].bytes, 1, file) == 1);
  isWritten = isWritten && fflush(file) == 0 && fsync(fileno(file)) == 0;
  int number = errno;
  isWritten = fclose(file) == 0 && isWritten;
  if (number)
    errno = number;
  return isWritten;
}

static bool writeFile(const char *prefix, int32_t worker,
                      const struct Part *parts, int count, char *text) {
  char suffix[32];
  snprintf(suffix, sizeof(suffix), ".%ld.tmp", (long)getpid());
  char *name = makeName(prefix, worker, "");
  char *partial = makeName(prefix, worker, suffix);
  errno = 0;
  bool isWritten = name && partial && writeParts(partial, parts, count) &&
                   rename(partial, name) == 0;
  if (!isWritten) {
    explain(text, "write", name);
    if (partial)
      remove(partial);
  }
  free(name);
  free(partial);
  return isWritten;
}

static bool readBlock(FILE *file, const char *name, struct RtWorker *worker,
                      char *text) {
  if (fseeko(file, 0, SEEK_END))
    return explain(text, "read", name);
  long long found = ftello(file);
  long long wanted = worker->persistentBytes;
  if (found != wanted) {
    snprintf(text, rtTextBytes,
             "'%s' has %lld bytes, but the state of worker %d has %lld; "
             "it is the state of another program",
             name, found, (int)worker->worker, wanted);
    return false;
  }
  if (fseeko(file, 0, SEEK_SET) ||
      (wanted > 0 && fread(worker->persistent, (size_t)wanted, 1, file) != 1))
    return explain(text, "read", name);
  return true;
}

bool rtReadState(struct RtWorker *worker, const char *prefix,
                 char text[rtTextBytes]) {
  char *name = makeName(prefix, worker->worker, "");
  FILE *file = name ? fopen(name, "rb") : NULL;
  bool isRead =
      file ? readBlock(file, name, worker, text) : explain(text, "open", name);
  if (file)
    fclose(file);
  free(name);
  return isRead;
}

bool rtWriteState(const struct RtWorker *worker, const char *prefix,
                  char text[rtTextBytes]) {
  struct Part state = {worker->persistent, (size_t)worker->persistentBytes};
  return writeFile(prefix, worker->worker, &state, 1, text);
}

bool rtWriteLog(const struct RtWorker *worker, const char *prefix,
                int64_t firstStep, char text[rtTextBytes]) {
  struct Header {
    char magic[8];
    int32_t worker, numWorkers;
    int64_t firstStep, numSteps, numInstructions;
  } header = {{'P', 'S', 'R', 'T', 'L', 'O', 'G', '1'},
              worker->worker,
              worker->numWorkers,
              firstStep,
              worker->log.numSteps,
              worker->numInstructions};
  _Static_assert(sizeof(header) == 40, "the format has no padding");
  size_t steps = (size_t)worker->log.numSteps;
  size_t spans = steps * (size_t)worker->numInstructions;
  struct Part parts[] = {
      {&header, sizeof(header)},
      {worker->log.instructions, spans * sizeof(struct RtSpan)},
      {worker->log.steps, steps * sizeof(struct RtSpan)}};
  return writeFile(prefix, worker->worker, parts, 3, text);
}
