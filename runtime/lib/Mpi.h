//===- Mpi.h - A process per worker -------------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rank of a process is the number of its worker. Only the thread of the
// worker calls MPI. After a failure the job is aborted, so that no function
// here returns a failure.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_MPI_H
#define PIPESCHED_RT_MPI_H

#include "Internal.h"

#include <limits.h>
#include <mpi.h>

/// Limit on the elements of one call of MPI. Tests set it lower, to test larger
/// calls.
#ifndef PIPESCHED_RT_MPI_COUNT
#define PIPESCHED_RT_MPI_COUNT INT_MAX
#endif

/// A group of sums and broadcasts. MpiGroups.c explains how it gets its
/// communicator.
struct MpiGroup {
  struct MpiGroup *next;
  int32_t number;
  int32_t numMembers;
  int32_t *announcement; // number, numMembers, members
  bool isCreated;
  MPI_Comm comm; // after its creation
  struct MpiRequest *firstQueued, **lastQueued;
  // Used on rank 0:
  int32_t numAnnounced, numCreated;
};

struct MpiRequest {
  struct RtRequest base;
  MPI_Request *parts; // at least one; more for sums beyond an int
  int numParts;
  MPI_Request onlyPart; // `parts` points to it unless there are several
  // For recvs and sums, if paced: their arrival on the clock of rank 0.
  int64_t arrival;
  MPI_Request arrivalPart;
  // For sums and broadcasts:
  bool isQueued; // until its group has a communicator
  struct MpiRequest *nextQueued;
  void *data;
  int32_t elementType;
  int root; // of a broadcast, among the members
};

/// The copy of a message, until MPI has sent it.
struct MpiCopy {
  struct MpiCopy *next;
  MPI_Request request;
  char data[];
};

struct MpiWorker {
  struct RtWorker base;
  MPI_Comm messages; // of the program
  MPI_Comm control;  // of MpiGroups.c
  MPI_Comm parent;   // of the communicators of groups
  MPI_Comm paces;    // for the arrivals of messages, if paced
  bool isPaced;      // on all ranks or on none
  int64_t toRank0;   // offset from this clock to rank 0's, if paced
  int tagLimit;
  struct RtOptions options;
  const PipeschedTraining *training; // or NULL
  struct MpiCopy *firstCopy, **lastCopy;
  struct MpiGroup *groups;    // of this worker
  int numPendingGroups;       // without a communicator yet
  struct MpiGroup *announced; // on rank 0: groups of all workers
  // on rank 0: the group of `announced` that is being created
  struct MpiGroup *creating;
  MPI_Op sums[2];                   // of f16 and bf16
  const struct RtRequest *waitsFor; // or NULL: for all ranks
  bool *hasAnswered; // by rank, while this rank asks which ranks are alive
};

/// Ends all processes of the job after the output of this one has been passed
/// on.
_Noreturn void mpiAbort(int status);

/// Aborts the job unless `code` is MPI_SUCCESS; `what` names the operation.
void mpiCheck(struct MpiWorker *worker, int code, const char *what);

/// Waits for a request of MPI, during which groups can be created. Yields the
/// core sometimes, because there may be more processes than cores. Returns the
/// code of MPI.
int mpiWait(struct MpiWorker *worker, MPI_Request *request, MPI_Status *status);

/// Called repeatedly by a wait, whose time starts when `*end` is 0. Lets groups
/// be created, answers other ranks, and yields the core. After the time limit
/// it ends the job and reports the ranks that do not answer.
void mpiLinger(struct MpiWorker *worker, int64_t *end);

/// Limits the time of a call of MPI that returns only when all other ranks call
/// it, until mpiEndLimit. After the time limit the process ends with this text.
void mpiLimit(int rank, const struct RtOptions *options, const char *call);
void mpiEndLimit(void);

/// Asks all other ranks for an answer.
void mpiAskAll(struct MpiWorker *worker);

/// Starts a sum or a broadcast of a group, whose communicator exists.
void mpiStartSum(struct MpiWorker *worker, struct MpiGroup *group,
                 struct MpiRequest *request);

/// Returns the group of a number; announces it if it is new.
struct MpiGroup *mpiFindGroup(struct MpiWorker *worker, int32_t number,
                              const int32_t *members, int32_t numMembers);

/// Handles all messages about groups that have arrived.
void mpiProgressGroups(struct MpiWorker *worker);

/// Frees the communicators of groups. All sums must have ended on all workers.
void mpiFreeGroups(struct MpiWorker *worker);

/// Sets up communicators and operations; the next function frees them.
/// `isPaced` must be set.
void mpiOpen(struct MpiWorker *worker);
void mpiClose(struct MpiWorker *worker);

/// Waits until all workers have called it.
void mpiBarrier(struct MpiWorker *worker);

/// Returns memory, or aborts the job.
void *mpiAllocate(struct MpiWorker *worker, size_t bytes);

#endif // PIPESCHED_RT_MPI_H
