//===- Log.c - Time stamps of instructions --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A time stamp is stored in ticks, in memory that is allocated before the run.
// After a run, ticks are converted to ns with two anchors, one from before and
// one from after it.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

bool rtTicksAreTsc = false;

static pthread_once_t clockOnce = PTHREAD_ONCE_INIT;

static void decideTicks(void) {
#if defined(__x86_64__)
  // Intel SDM 17.17.1, AMD APM 3 appendix E: bit 8 of EDX states that the
  // counter is invariant.
  unsigned eax, ebx, ecx, edx;
  if (__get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx))
    rtTicksAreTsc = (edx >> 8) & 1;
#endif
}

void rtStartClock(void) { pthread_once(&clockOnce, decideTicks); }

int64_t rtNow(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

struct RtAnchor rtAnchor(void) {
  struct RtAnchor anchor = {0, 0};
  uint64_t shortest = UINT64_MAX;
  // The pair whose two ticks are closest was not interrupted.
  for (int i = 0; i < 20; ++i) {
    uint64_t before = rtTicks();
    int64_t ns = rtNow();
    uint64_t after = rtTicks();
    if (after - before < shortest) {
      shortest = after - before;
      anchor.ticks = before + (after - before) / 2;
      anchor.ns = ns;
    }
  }
  return anchor;
}

//===----------------------------------------------------------------------===//
// The two calls of every instruction
//===----------------------------------------------------------------------===//

static bool isInstruction(struct RtWorker *worker, int32_t instruction,
                          const char *call) {
  if ((uint32_t)instruction < (uint32_t)worker->numInstructions)
    return true;
  rtFail(worker, PIPESCHED_RT_MISUSE,
         "%s of instruction %d, but the program has %d instructions", call,
         (int)instruction, (int)worker->numInstructions);
  return false;
}

void pipesched_rt_begin(void *context, int32_t instruction) {
  struct RtWorker *worker = context;
  if (!isInstruction(worker, instruction, "begin"))
    return;
  worker->instruction = instruction;
  if (worker->pace) {
    worker->paceBegin = rtNow();
    worker->hasStarted = false;
  }
  if (worker->spans)
    worker->spans[instruction].begin = (int64_t)rtTicks();
}

void pipesched_rt_end(void *context, int32_t instruction) {
  struct RtWorker *worker = context;
  if (!isInstruction(worker, instruction, "end"))
    return;
  if (worker->pace && worker->pace[instruction] > 0 && !worker->hasStarted)
    rtSleepUntil(worker, worker->paceBegin + worker->pace[instruction]);
  if (worker->spans)
    worker->spans[instruction].end = (int64_t)rtTicks();
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Allocates memory for `count` spans.
static bool reserve(struct RtSpan **spans, int64_t count) {
  size_t bytes;
  if (__builtin_mul_overflow((size_t)count, sizeof(struct RtSpan), &bytes))
    return false;
  struct RtSpan *longer = realloc(*spans, bytes ? bytes : 1);
  if (!longer)
    return false;
  *spans = longer;
  return true;
}

/// Empties spans, so that no page is touched for the first time during a run.
static void clear(struct RtSpan *spans, int64_t first, int64_t count) {
  if (count > first)
    memset(spans + first, 0, (size_t)(count - first) * sizeof(*spans));
}

/// Allocates memory for `steps` steps. If there was memory for some before,
/// allocates at least half as much more, because runs of one step each would
/// otherwise copy the log every time.
static bool reserveSteps(struct RtWorker *worker, int64_t steps,
                         bool instructions) {
  struct RtLog *log = &worker->log;
  if (steps <= log->capacity)
    return true;
  int64_t capacity = steps, spans;
  if (log->capacity > 0 && __builtin_add_overflow(steps, steps / 2, &capacity))
    return false;
  if (!reserve(&log->steps, capacity))
    return false;
  if (instructions &&
      (__builtin_mul_overflow(capacity, (int64_t)worker->numInstructions,
                              &spans) ||
       !reserve(&log->instructions, spans)))
    return false;
  log->capacity = capacity;
  return true;
}

bool rtExtendLog(struct RtWorker *worker, int64_t steps, bool instructions) {
  struct RtLog *log = &worker->log;
  int64_t total, width = worker->numInstructions;
  if (__builtin_add_overflow(log->numSteps, steps, &total) ||
      !reserveSteps(worker, total, instructions))
    return false;
  clear(log->steps, log->numSteps, total);
  if (instructions)
    clear(log->instructions, log->numSteps * width, total * width);
  log->numSteps = total;
  return true;
}

void rtSelectStep(struct RtWorker *worker, int64_t index) {
  const struct RtLog *log = &worker->log;
  worker->stepSpan = log->steps + index;
  worker->spans = log->instructions
                      ? log->instructions + index * worker->numInstructions
                      : NULL;
}

//===----------------------------------------------------------------------===//
// Ticks to ns
//===----------------------------------------------------------------------===//

struct Line {
  struct RtAnchor from;
  double nsPerTick;
  double offsetPerTick; // of the other clock
};

static int64_t toNs(const struct Line *line, int64_t ticks) {
  if (ticks == 0)
    return -1;
  // The differences are small enough for a double to hold their ns.
  double after = (double)(int64_t)((uint64_t)ticks - line->from.ticks);
  return line->from.ns +
         (int64_t)(after * (line->nsPerTick + line->offsetPerTick));
}

void rtFinishLog(struct RtWorker *worker, int64_t first,
                 const struct RtAnchor anchor[2], const int64_t offset[2]) {
  double ticks = (double)(anchor[1].ticks - anchor[0].ticks);
  if (ticks < 1)
    ticks = 1;
  // The offset of another host's clock may be large, so keep it as an integer.
  struct Line line = {anchor[0], (double)(anchor[1].ns - anchor[0].ns) / ticks,
                      (double)(offset[1] - offset[0]) / ticks};
  line.from.ns += offset[0];
  struct RtLog *log = &worker->log;
  for (int64_t step = first; step < log->numSteps; ++step) {
    rtSelectStep(worker, step);
    for (int64_t i = -1; i < worker->numInstructions; ++i) {
      struct RtSpan *span = i < 0 ? worker->stepSpan : worker->spans + i;
      span->begin = toNs(&line, span->begin);
      span->end = toNs(&line, span->end);
      if (!worker->spans)
        break;
    }
  }
  worker->spans = NULL;
  worker->stepSpan = NULL;
}
