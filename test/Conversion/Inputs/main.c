/*===- main.c - Runs a compiled program -----------------------------------===*\
|*
|* Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
|* See LICENSE for license information.
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
|*
\*===----------------------------------------------------------------------===*/
/* `program layout` prints the layout, else runs with the runtime's options. The
   program is compiled with malloc and free replaced by the functions below,
   which count the blocks that kernels have not freed. */

#include "PipeSched-rt/Runtime.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define JOIN(a, b) a##_##b
#define NAME(program, part) JOIN(program, part)

int32_t NAME(PROGRAM, step)(int32_t, void *, void *, void *, void *, int64_t);
int64_t NAME(PROGRAM, size)(int32_t, int32_t);
const char *NAME(PROGRAM, layout)(void);

static atomic_long numAllocated, numFreed;

void *counted_malloc(size_t bytes) {
  ++numAllocated;
  return malloc(bytes);
}

void counted_free(void *block) {
  numFreed += block != NULL;
  free(block);
}

int main(int argc, char **argv) {
  if (argc == 2 && argv[1][0] == 'l') {
    puts(NAME(PROGRAM, layout)());
    return 0;
  }
  int status = pipesched_rt_main(argc, argv, NAME(PROGRAM, step),
                                 NAME(PROGRAM, size), NAME(PROGRAM, layout));
  printf("temporaries: %s, not freed: %ld\n", numAllocated ? "some" : "none",
         numAllocated - numFreed);
  return status;
}
