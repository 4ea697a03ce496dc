//===- mpi-ops.c - The process of a worker --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs steps of a program of convert-exec-to-mpi in each process.
//
// Usage: PROGRAM IN OUT STEPS: reads the persistent block of worker W from IN.W
// and writes it to OUT.W after the last step.
//
//===----------------------------------------------------------------------===//

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int32_t p_begin(void);
int32_t p_step(int32_t worker, void *persistent, void *arena, int64_t step);
void p_end(void);
int64_t p_size(int32_t worker, int32_t what);

static FILE *openFile(const char *prefix, int32_t rank, const char *mode) {
  char name[4096];
  snprintf(name, sizeof name, "%s.%d", prefix, rank);
  return fopen(name, mode);
}

static void *allocate(size_t bytes) {
  return aligned_alloc(64, (bytes / 64 + 1) * 64);
}

int main(int argc, char **argv) {
  (void)argc;
  int32_t rank = p_begin();
  size_t bytes = p_size(rank, 1);
  void *persistent = allocate(bytes), *arena = allocate(p_size(rank, 2));
  FILE *file = openFile(argv[1], rank, "rb");
  if (!file || fread(persistent, 1, bytes, file) != bytes || fclose(file))
    return 1;
  for (int64_t step = 0; step < atoi(argv[3]); ++step)
    if (p_step(rank, persistent, arena, step))
      return 1;
  file = openFile(argv[2], rank, "wb");
  if (!file || fwrite(persistent, 1, bytes, file) != bytes || fclose(file))
    return 1;
  p_end();
  return 0;
}
