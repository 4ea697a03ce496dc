//===- MpiMain.c - Main program with a process per worker -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// pipesched_rt_main of MPI.
//
//===----------------------------------------------------------------------===//

#include "Mpi.h"

#include <stdio.h>
#include <stdlib.h>

enum { succeeded = 0, failed = 1, wrongUsage = 2 };

//===----------------------------------------------------------------------===//
// Clocks
//===----------------------------------------------------------------------===//

/// Sends or receives a time, or nothing if `count` is 0.
static void exchange(struct MpiWorker *worker, bool isSend, int64_t *time,
                     int count, int peer) {
  MPI_Request request;
  MPI_Comm comm = worker->parent; // a communicator without other messages
  mpiCheck(worker,
           isSend
               ? MPI_Isend(time, count, MPI_INT64_T, peer, 0, comm, &request)
               : MPI_Irecv(time, count, MPI_INT64_T, peer, 0, comm, &request),
           "measuring clocks");
  mpiCheck(worker, mpiWait(worker, &request, MPI_STATUS_IGNORE),
           "measuring clocks");
}

enum { roundTrips = 30 };

/// Asks a rank for its time. Returns the offset from its clock to this one,
/// assuming that it answered in the middle of the shortest round trip
/// (Cristian, Probabilistic clock synchronization, 1989).
static int64_t askForOffset(struct MpiWorker *worker, int rank) {
  int64_t offset = 0, time = 0, shortest = INT64_MAX;
  for (int i = 0; i < roundTrips; ++i) {
    int64_t before = rtNow();
    exchange(worker, true, &time, 0, rank);
    exchange(worker, false, &time, 1, rank);
    int64_t after = rtNow();
    if (after - before < shortest) {
      shortest = after - before;
      offset = before + (after - before) / 2 - time;
    }
  }
  return offset;
}

/// Returns the offset from the clock of this rank to the clock of rank 0. All
/// ranks call it together.
static int64_t measureOffset(struct MpiWorker *worker) {
  int64_t offset = 0, time = 0;
  if (worker->base.worker == 0) {
    for (int rank = 1; rank < worker->base.numWorkers; ++rank) {
      offset = askForOffset(worker, rank);
      exchange(worker, true, &offset, 1, rank);
    }
    return 0;
  }
  for (int i = 0; i < roundTrips; ++i) {
    exchange(worker, false, &time, 0, 0);
    time = rtNow();
    exchange(worker, true, &time, 1, 0);
  }
  exchange(worker, false, &offset, 1, 0);
  return offset;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static void failWith(struct MpiWorker *worker, const char *text) {
  rtSetFailure(&worker->base, PIPESCHED_RT_SYSTEM, text);
}

static void runSteps(struct MpiWorker *worker, PipeschedStepFunction step) {
  const struct RtOptions *options = &worker->options;
  if (!rtExtendLog(&worker->base, options->steps, options->log != NULL))
    failWith(worker, "no memory for the log of the steps");
  struct RtAnchor anchors[2];
  int64_t offsets[2];
  worker->toRank0 = offsets[0] = measureOffset(worker);
  anchors[0] = rtAnchor();
  for (int64_t i = 0; i < options->steps; ++i) {
    mpiBarrier(worker);
    rtSelectStep(&worker->base, i);
    rtRunStep(&worker->base, step, options->firstStep + i);
    if (worker->training)
      rtKeepLosses(&worker->base, worker->training, i);
  }
  mpiBarrier(worker); // groups may still be created
  anchors[1] = rtAnchor();
  offsets[1] = measureOffset(worker);
  rtJoinCopies(&worker->base);
  rtFinishLog(&worker->base, 0, anchors, offsets);
}

/// Replaces numbers by the first, the last or the sum over all workers, on rank
/// 0.
static void reduce(struct MpiWorker *worker, void *numbers, int64_t count,
                   MPI_Datatype type, MPI_Op which) {
  MPI_Request request;
  const void *from = worker->base.worker == 0 ? MPI_IN_PLACE : numbers;
  mpiCheck(worker,
           MPI_Ireduce(from, numbers, (int)count, type, which, 0,
                       worker->messages, &request),
           "MPI_Ireduce");
  mpiCheck(worker, mpiWait(worker, &request, MPI_STATUS_IGNORE), "MPI_Ireduce");
}

/// On rank 0, prints the time of each step, from its first start to its last
/// end, and its loss if known. Each loss comes from one worker and is 0 on all
/// others, so the order of these sums does not matter.
static void printSteps(struct MpiWorker *worker) {
  const struct RtLog *log = &worker->base.log;
  int64_t count = worker->training ? worker->training->microbatches : 0;
  for (int64_t step = 0; step < log->numSteps; ++step) {
    struct RtSpan span = log->steps[step];
    double *losses =
        worker->training ? worker->base.losses + step * count : NULL;
    reduce(worker, &span.begin, 1, MPI_INT64_T, MPI_MIN);
    reduce(worker, &span.end, 1, MPI_INT64_T, MPI_MAX);
    if (losses)
      reduce(worker, losses, count, MPI_DOUBLE, MPI_SUM);
    if (worker->base.worker == 0)
      rtPrintStep(worker->options.firstStep + step, span.end - span.begin,
                  losses, count);
  }
}

static void runWorker(struct MpiWorker *worker, PipeschedStepFunction step) {
  const struct RtOptions *options = &worker->options;
  char text[rtTextBytes];
  worker->isPaced = worker->training && worker->training->paces;
  mpiOpen(worker);
  if (worker->training &&
      !rtStartTraining(&worker->base, worker->training, options->steps, text))
    failWith(worker, text);
  if (options->stateIn && !rtReadState(&worker->base, options->stateIn, text))
    failWith(worker, text);
  runSteps(worker, step);
  printSteps(worker);
  if (options->log &&
      !rtWriteLog(&worker->base, options->log, options->firstStep, text))
    failWith(worker, text);
  if (options->stateOut &&
      !rtWriteState(&worker->base, options->stateOut, text))
    failWith(worker, text);
  mpiClose(worker);
}

/// Sets up the worker of this process, and runs it. If the number of processes
/// is wrong, all ranks detect it.
static int32_t runProgram(const struct RtOptions *options,
                          PipeschedStepFunction step,
                          PipeschedSizeFunction size,
                          const PipeschedTraining *training) {
  char text[rtTextBytes] = "no memory for the worker";
  int rank, numRanks;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &numRanks);
  int32_t numWorkers = rtNumWorkers(size, text);
  if (numWorkers > 0 && numWorkers != numRanks)
    snprintf(text, sizeof(text),
             "the program has %d workers: start it with %d processes, not %d",
             (int)numWorkers, (int)numWorkers, numRanks);
  rtWarnsOfBlas = rank == 0;
  const char *error = numWorkers == numRanks ? pipesched_rt_load_blas() : text;
  if (error) {
    if (rank == 0)
      rtPrintError(error);
    return wrongUsage;
  }
  rtStartClock();
  struct MpiWorker *worker = calloc(1, sizeof(*worker));
  if (!worker || !rtInitWorker(&worker->base, size, rank, numWorkers,
                               sizeof(struct MpiRequest), text)) {
    rtPrintError(text);
    mpiAbort(failed);
  }
  worker->options = *options;
  worker->training = training;
  runWorker(worker, step);
  rtFreeWorker(&worker->base);
  free(worker);
  return succeeded;
}

int32_t pipesched_rt_train(int argc, char **argv, PipeschedStepFunction step,
                           PipeschedSizeFunction size,
                           PipeschedLayoutFunction layout,
                           const PipeschedTraining *training) {
  int isInitialized = 0, rank = 0;
  MPI_Initialized(&isInitialized);
  if (!isInitialized)
    MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  struct RtOptions options;
  char text[rtTextBytes];
  int32_t result = succeeded;
  if (!rtParseOptions(argc, argv, training, &options, text)) {
    result = wrongUsage;
    if (rank == 0)
      rtPrintError(text);
  } else if (options.help || options.layout) {
    if (rank == 0)
      fputs(options.help ? rtUsage : layout(), stdout);
  } else {
    rtKeepFreedMemory();
    result = runProgram(&options, step, size, training);
  }
  if (!isInitialized) {
    mpiLimit(rank, &options, "MPI_Finalize");
    MPI_Finalize();
    mpiEndLimit();
  }
  return result;
}
