//===- LoopbackMain.c - Main program with a thread per worker -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// pipesched_rt_main of loopback.
//
//===----------------------------------------------------------------------===//

#include "Loopback.h"

#include <stdio.h>

enum { succeeded = 0, failed = 1, wrongUsage = 2 };

static bool readStates(PipeschedWorld *world, const char *prefix, char *text) {
  for (int32_t i = 0; prefix && i < world->numWorkers; ++i)
    if (!rtReadState(&world->workers[i].base, prefix, text))
      return false;
  return true;
}

static bool writeFiles(const PipeschedWorld *world,
                       const struct RtOptions *options, char *text) {
  for (int32_t i = 0; i < world->numWorkers; ++i) {
    const struct RtWorker *worker = &world->workers[i].base;
    if (options->log &&
        !rtWriteLog(worker, options->log, options->firstStep, text))
      return false;
    if (options->stateOut && !rtWriteState(worker, options->stateOut, text))
      return false;
  }
  return true;
}

static int64_t numLosses(const PipeschedWorld *world) {
  return world->training ? world->training->microbatches : 0;
}

/// Adds the losses of all workers to the losses of the first worker, and
/// returns these; NULL if losses are not kept.
static const double *addLosses(PipeschedWorld *world, int64_t step) {
  int64_t count = numLosses(world), begin = step * count;
  if (!world->training)
    return NULL;
  double *sums = world->workers[0].base.losses + begin;
  for (int32_t i = 1; i < world->numWorkers; ++i)
    for (int64_t m = 0; m < count; ++m)
      sums[m] += world->workers[i].base.losses[begin + m];
  return sums;
}

/// Prints the time of each step, from its first start to its last end.
static void printSteps(PipeschedWorld *world, int64_t firstStep) {
  int64_t numSteps = world->workers[0].base.log.numSteps;
  for (int64_t step = 0; step < numSteps; ++step) {
    struct RtSpan whole = world->workers[0].base.log.steps[step];
    for (int32_t i = 1; i < world->numWorkers; ++i) {
      struct RtSpan span = world->workers[i].base.log.steps[step];
      whole.begin = span.begin < whole.begin ? span.begin : whole.begin;
      whole.end = span.end > whole.end ? span.end : whole.end;
    }
    rtPrintStep(firstStep + step, whole.end - whole.begin,
                addLosses(world, step), numLosses(world));
  }
}

/// Returns the failure, or NULL.
static const char *runWorld(PipeschedWorld *world, PipeschedStepFunction step,
                            const struct RtOptions *options, char *text) {
  if (atomic_load(&world->status))
    return pipesched_rt_world_error(world);
  for (int32_t i = 0; world->training && i < world->numWorkers; ++i)
    if (!rtStartTraining(&world->workers[i].base, world->training,
                         options->steps, text))
      return text;
  if (!readStates(world, options->stateIn, text))
    return text;
  if (pipesched_rt_world_run(world, step, options->firstStep, options->steps))
    return pipesched_rt_world_error(world);
  printSteps(world, options->firstStep);
  return writeFiles(world, options, text) ? NULL : text;
}

int32_t pipesched_rt_train(int argc, char **argv, PipeschedStepFunction step,
                           PipeschedSizeFunction size,
                           PipeschedLayoutFunction layout,
                           const PipeschedTraining *training) {
  struct RtOptions options;
  char text[rtTextBytes];
  if (!rtParseOptions(argc, argv, training, &options, text)) {
    rtPrintError(text);
    return wrongUsage;
  }
  if (options.help || options.layout) {
    fputs(options.help ? rtUsage : layout(), stdout);
    return succeeded;
  }
  rtKeepFreedMemory();
  PipeschedWorldOptions kind = {options.messages == rtBuffered
                                    ? PIPESCHED_RT_BUFFERED
                                    : PIPESCHED_RT_RENDEZVOUS,
                                options.blocking, options.log != NULL};
  PipeschedWorld *world = pipesched_rt_world_create(size, &kind);
  if (world)
    world->training = training;
  const char *error = world ? runWorld(world, step, &options, text)
                            : "no memory for the workers";
  if (error)
    rtPrintError(error);
  pipesched_rt_world_destroy(world);
  return error ? failed : succeeded;
}
