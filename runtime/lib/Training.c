//===- Training.c - Starts and losses of trainings ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The additions of pipesched_rt_train to pipesched_rt_main. Losses are copied
// at the end of each step, because the next step overwrites them, and are
// summed and printed after the last step.
//
//===----------------------------------------------------------------------===//

#include "Internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool isInside(const struct RtWorker *worker, int64_t offset,
                     int64_t bytes) {
  return offset >= 0 && bytes >= 0 && bytes <= worker->persistentBytes &&
         offset <= worker->persistentBytes - bytes;
}

/// Copies the pieces of a worker into its block.
static bool fillBlock(struct RtWorker *worker,
                      const PipeschedTraining *training, char *text) {
  for (int64_t i = 0; i < training->num_pieces; ++i) {
    const PipeschedPiece *piece = &training->pieces[i];
    if (piece->worker != worker->worker || piece->bytes == 0)
      continue;
    if (!isInside(worker, piece->offset, piece->bytes)) {
      snprintf(text, rtTextBytes,
               "worker %d: the training has %" PRId64
               " bytes at offset %" PRId64 " of a block of %" PRId64 " bytes",
               (int)worker->worker, piece->bytes, piece->offset,
               worker->persistentBytes);
      return false;
    }
    memcpy((char *)worker->persistent + piece->offset, piece->data,
           (size_t)piece->bytes);
  }
  return true;
}

/// Allocates memory for the losses of all steps.
static bool reserveLosses(struct RtWorker *worker,
                          const PipeschedTraining *training, int64_t steps,
                          char *text) {
  int64_t type = training->loss_type, bytes, numbers;
  bool isNumber = type >= PIPESCHED_RT_F32 && type <= PIPESCHED_RT_BF16;
  int64_t offset = training->losses[worker->worker];
  if (!isNumber || training->microbatches < 0 ||
      __builtin_mul_overflow(training->microbatches,
                             rtElementBytes((int32_t)type), &bytes) ||
      (offset != -1 && !isInside(worker, offset, bytes))) {
    snprintf(text, rtTextBytes,
             "worker %d: the training has losses that its block of %" PRId64
             " bytes cannot hold",
             (int)worker->worker, worker->persistentBytes);
    return false;
  }
  worker->losses = NULL;
  if (!__builtin_mul_overflow(training->microbatches, steps, &numbers))
    worker->losses = calloc((size_t)numbers + 1, sizeof(*worker->losses));
  if (!worker->losses)
    snprintf(text, rtTextBytes, "worker %d: no memory for the losses",
             (int)worker->worker);
  return worker->losses != NULL;
}

bool rtStartTraining(struct RtWorker *worker, const PipeschedTraining *training,
                     int64_t steps, char text[rtTextBytes]) {
  if (!fillBlock(worker, training, text) ||
      !reserveLosses(worker, training, steps, text))
    return false;
  if (!training->paces || rtSetPace(worker, training->paces[worker->worker]))
    return true;
  snprintf(text, rtTextBytes, "worker %d: no memory for the paces",
           (int)worker->worker);
  return false;
}

void rtKeepLosses(struct RtWorker *worker, const PipeschedTraining *training,
                  int64_t index) {
  int64_t offset = training->losses[worker->worker];
  if (offset >= 0)
    rtReadNumbers(worker->losses + index * training->microbatches,
                  (const char *)worker->persistent + offset,
                  training->microbatches, (int32_t)training->loss_type);
}

int32_t pipesched_rt_main(int argc, char **argv, PipeschedStepFunction step,
                          PipeschedSizeFunction size,
                          PipeschedLayoutFunction layout) {
  return pipesched_rt_train(argc, argv, step, size, layout, NULL);
}

void rtPrintStep(int64_t step, int64_t ns, const double *losses,
                 int64_t count) {
  if (!losses) {
    printf("step %" PRId64 ": %" PRId64 " ns\n", step, ns);
    return;
  }
  double loss = 0;
  for (int64_t i = 0; i < count; ++i)
    loss += losses[i];
  printf("step %" PRId64 ": loss %.6g, %.3f ms\n", step, loss,
         (double)ns / 1e6);
}
