//===- World.c - Threads that run steps -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creates loopback worlds and runs steps in them.
//
//===----------------------------------------------------------------------===//

#define _GNU_SOURCE // sched_getaffinity

#include "Loopback.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

static void failWith(PipeschedWorld *world, const char *text) {
  struct Woken woken = {NULL};
  lockWorld(world);
  failWorld(world, PIPESCHED_RT_SYSTEM, text, &woken);
  unlockWorld(world, &woken);
}

static void initWorkers(PipeschedWorld *world, PipeschedSizeFunction size) {
  char text[rtTextBytes] = "no memory for workers";
  int32_t numWorkers = rtNumWorkers(size, text);
  size_t bytes = (size_t)numWorkers * sizeof(*world->workers);
  if (numWorkers > 0)
    world->workers = aligned_alloc(rtCacheLine, bytes);
  if (!world->workers) {
    failWith(world, text);
    return;
  }
  memset(world->workers, 0, bytes);
  world->numWorkers = numWorkers;
  bool isSound = true;
  for (int32_t i = 0; i < numWorkers; ++i) {
    struct Worker *worker = &world->workers[i];
    worker->world = world;
    worker->waiting = forNothing;
    sem_init(&worker->woken, 0, 0);
    for (int bucket = 0; bucket < numBuckets; ++bucket)
      worker->buckets[bucket].last = &worker->buckets[bucket].first;
    isSound = isSound && rtInitWorker(&worker->base, size, i, numWorkers,
                                      sizeof(struct Request), text);
  }
  if (!isSound)
    failWith(world, text);
}

/// The cores that this process may use.
static long numCores(void) {
#ifdef CPU_COUNT
  cpu_set_t cores;
  if (!sched_getaffinity(0, sizeof(cores), &cores))
    return CPU_COUNT(&cores);
#endif
  return sysconf(_SC_NPROCESSORS_ONLN);
}

PipeschedWorld *
pipesched_rt_world_create(PipeschedSizeFunction size,
                          const PipeschedWorldOptions *options) {
  PipeschedWorld *world = calloc(1, sizeof(*world));
  if (!world)
    return NULL;
  rtStartClock();
  pthread_mutex_init(&world->mutex, NULL);
  if (options)
    world->options = *options;
  initWorkers(world, size);
  const char *error = pipesched_rt_load_blas();
  if (error)
    failWith(world, error);
  // If there is a core for each worker, polling slows down no other worker.
  // Stopping a thread and waking it again takes about this time, so a wait
  // takes at most twice as long as with the better choice.
  enum { shortNs = 5 * 1000 };
  if (world->numWorkers <= numCores())
    world->spinNs = shortNs;
  return world;
}

static void freePosts(struct Worker *worker) {
  for (int i = 0; i < numBuckets; ++i) {
    struct Post *next;
    for (struct Post *post = worker->buckets[i].first; post; post = next) {
      next = post->next;
      if (!post->request)
        free(post);
    }
  }
}

static void freeGroups(struct Group *group) {
  while (group) {
    struct Group *nextGroup = group->next;
    while (group->sums) {
      struct Sum *sum = group->sums;
      group->sums = sum->next;
      free(sum);
    }
    free(group);
    group = nextGroup;
  }
}

void pipesched_rt_world_destroy(PipeschedWorld *world) {
  if (!world)
    return;
  // Posts are part of the requests of any worker.
  for (int32_t i = 0; i < world->numWorkers; ++i)
    freePosts(&world->workers[i]);
  for (int32_t i = 0; i < world->numWorkers; ++i) {
    sem_destroy(&world->workers[i].woken);
    rtFreeWorker(&world->workers[i].base);
  }
  freeGroups(world->groups);
  pthread_mutex_destroy(&world->mutex);
  free(world->workers);
  free(world->error);
  free(world);
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

static const struct RtWorker *findWorker(const PipeschedWorld *world,
                                         int32_t worker) {
  return worker >= 0 && worker < world->numWorkers
             ? &world->workers[worker].base
             : NULL;
}

int32_t pipesched_rt_world_workers(const PipeschedWorld *world) {
  return world->numWorkers;
}

const char *pipesched_rt_world_error(const PipeschedWorld *world) {
  if (!atomic_load(&world->status))
    return "";
  return world->error ? world->error : "no memory for the text of a failure";
}

int32_t pipesched_rt_world_pace(PipeschedWorld *world, int32_t index,
                                const int64_t *ns) {
  if (!findWorker(world, index))
    return PIPESCHED_RT_MISUSE;
  return rtSetPace(&world->workers[index].base, ns) ? PIPESCHED_RT_OK
                                                    : PIPESCHED_RT_SYSTEM;
}

void *pipesched_rt_world_block(PipeschedWorld *world, int32_t index,
                               int32_t what) {
  const struct RtWorker *worker = findWorker(world, index);
  if (!worker)
    return NULL;
  switch (what) {
  case PIPESCHED_RT_PERSISTENT:
    return worker->persistent;
  case PIPESCHED_RT_ARENA:
    return worker->arena;
  case PIPESCHED_RT_HOST:
    return worker->host;
  default:
    return NULL;
  }
}

const int64_t *pipesched_rt_world_log(const PipeschedWorld *world,
                                      int32_t index, int64_t *steps,
                                      int64_t *instructions) {
  const struct RtWorker *worker = findWorker(world, index);
  bool isLogged = worker && worker->log.instructions;
  if (steps)
    *steps = isLogged ? worker->log.numSteps : 0;
  if (instructions)
    *instructions = isLogged ? worker->numInstructions : 0;
  return isLogged ? &worker->log.instructions->begin : NULL;
}

const int64_t *pipesched_rt_world_steps(const PipeschedWorld *world,
                                        int32_t index, int64_t *steps) {
  const struct RtWorker *worker = findWorker(world, index);
  if (steps)
    *steps = worker ? worker->log.numSteps : 0;
  return worker && worker->log.steps ? &worker->log.steps->begin : NULL;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

/// Waits until all workers want to start their next step.
static void startTogether(struct Worker *worker) {
  PipeschedWorld *world = worker->world;
  struct Woken woken = {NULL};
  lockWorld(world);
  if (atomic_load(&world->status)) {
    unlockWorld(world, &woken);
  } else if (++world->numInBarrier < world->numWorkers) {
    blockWorker(worker, forStep, NULL, &woken);
  } else {
    world->numInBarrier = 0;
    for (int32_t i = 0; i < world->numWorkers; ++i)
      if (&world->workers[i] != worker)
        wakeWorker(&world->workers[i], &woken);
    unlockWorld(world, &woken);
  }
}

static void *runWorker(void *argument) {
  struct Worker *worker = argument;
  PipeschedWorld *world = worker->world;
  int32_t status = PIPESCHED_RT_OK;
  for (int64_t i = 0; !status && i < world->numSteps; ++i) {
    startTogether(worker);
    status = rtStatus(&worker->base);
    if (status)
      break;
    rtSelectStep(&worker->base, world->firstLogged + i);
    status = rtRunStep(&worker->base, world->step, world->firstStep + i);
    if (!status && world->training)
      rtKeepLosses(&worker->base, world->training, i);
    worker->numEnded = i + 1;
  }
  struct Woken woken = {NULL};
  lockWorld(world);
  worker->waiting = forNothing;
  --world->numRunning;
  checkDeadlock(world, &woken);
  unlockWorld(world, &woken);
  return NULL;
}

/// Starts the threads of all workers, and waits until they have ended.
static void runThreads(PipeschedWorld *world) {
  for (int32_t i = 0; i < world->numWorkers; ++i) {
    world->workers[i].waiting = notWaiting;
    world->workers[i].numEnded = 0;
  }
  world->numRunning = world->numWorkers;
  world->numInBarrier = 0;
  int32_t numStarted = 0;
  while (numStarted < world->numWorkers) {
    struct Worker *worker = &world->workers[numStarted];
    if (pthread_create(&worker->thread, NULL, runWorker, worker))
      break;
    ++numStarted;
  }
  if (numStarted < world->numWorkers)
    failWith(world, "cannot start a thread for each worker");
  for (int32_t i = 0; i < numStarted; ++i)
    pthread_join(world->workers[i].thread, NULL);
  for (int32_t i = 0; i < world->numWorkers; ++i)
    rtJoinCopies(&world->workers[i].base);
}

void pipesched_rt_world_stop(PipeschedWorld *world, const char *why) {
  struct Woken woken = {NULL};
  char text[rtTextBytes];
  lockWorld(world);
  size_t used = (size_t)snprintf(text, sizeof(text) / 2, "%s", why);
  if (used >= sizeof(text) / 2)
    used = sizeof(text) / 2 - 1;
  const char *separator = "; still computing: worker ";
  for (int32_t i = 0; i < world->numWorkers && used + 48 < sizeof(text); ++i) {
    if (world->workers[i].waiting != notWaiting)
      continue;
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%d",
                             separator, (int)i);
    separator = ", ";
  }
  failWorld(world, PIPESCHED_RT_SYSTEM, text, &woken);
  unlockWorld(world, &woken);
}

int32_t pipesched_rt_world_run(PipeschedWorld *world,
                               PipeschedStepFunction step, int64_t firstStep,
                               int64_t steps) {
  if (atomic_load(&world->status))
    return atomic_load(&world->status);
  if (steps <= 0)
    return PIPESCHED_RT_OK;
  world->step = step;
  world->firstStep = firstStep;
  world->numSteps = steps;
  world->firstLogged = world->workers[0].base.log.numSteps;
  for (int32_t i = 0; i < world->numWorkers; ++i) {
    if (!rtExtendLog(&world->workers[i].base, steps, world->options.log)) {
      failWith(world, "no memory for the log of the steps");
      return PIPESCHED_RT_SYSTEM;
    }
  }
  struct RtAnchor anchors[2];
  const int64_t sameClock[2] = {0, 0};
  anchors[0] = rtAnchor();
  runThreads(world);
  anchors[1] = rtAnchor();
  for (int32_t i = 0; i < world->numWorkers; ++i)
    rtFinishLog(&world->workers[i].base, world->firstLogged, anchors,
                sameClock);
  return atomic_load(&world->status);
}
