//===- Mpi.c - Messages and sums between processes ------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Implements the calls of the runtime with MPI 3.
//
//===----------------------------------------------------------------------===//

#include "Mpi.h"

#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

_Noreturn void mpiAbort(int status) {
  // The launcher reads the standard error of its processes through pipes, and
  // stops reading them when it ends the job. A message that it has not read by
  // then is lost, so give it a moment to read.
  const struct timespec moment = {0, 20 * 1000 * 1000};
  int unread = 0;
  fflush(stderr);
  for (int i = 0; i < 100; ++i) {
    int found = ioctl(STDERR_FILENO, FIONREAD, &unread);
    nanosleep(&moment, NULL);
    if (found != 0 || unread == 0)
      break;
  }
  MPI_Abort(MPI_COMM_WORLD, status);
  _Exit(status); // only if MPI_Abort has returned, which it should not
}

int32_t rtStatus(const struct RtWorker *worker) {
  (void)worker;
  return PIPESCHED_RT_OK; // after a failure no other rank answers
}

int32_t rtSetFailure(struct RtWorker *worker, int32_t status,
                     const char *text) {
  char line[3 * rtTextBytes];
  snprintf(line, sizeof(line), "rank %d: %s", (int)worker->worker, text);
  rtPrintError(line);
  mpiAbort(1);
  return status;
}

void mpiCheck(struct MpiWorker *worker, int code, const char *what) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0, kind = 0;
  MPI_Error_string(code, text, &length);
  MPI_Error_class(code, &kind);
  if (kind == MPI_ERR_TRUNCATE)
    rtFail(&worker->base, PIPESCHED_RT_MISUSE,
           "%s: the send that matches is longer", what);
  rtFail(&worker->base, PIPESCHED_RT_SYSTEM, "%s: %s", what, text);
}

void *mpiAllocate(struct MpiWorker *worker, size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (!memory)
    rtFail(&worker->base, PIPESCHED_RT_SYSTEM, "no memory for %zu bytes",
           bytes);
  return memory;
}

//===----------------------------------------------------------------------===//
// Start and end
//===----------------------------------------------------------------------===//

static void addF16(void *from, void *to, int *count, MPI_Datatype *type) {
  (void)type;
  rtAdd(to, from, *count, PIPESCHED_RT_F16);
}

static void addBf16(void *from, void *to, int *count, MPI_Datatype *type) {
  (void)type;
  rtAdd(to, from, *count, PIPESCHED_RT_BF16);
}

static void duplicate(struct MpiWorker *worker, MPI_Comm *comm) {
  mpiLimit(worker->base.worker, &worker->options, "MPI_Comm_dup");
  mpiCheck(worker, MPI_Comm_dup(MPI_COMM_WORLD, comm), "MPI_Comm_dup");
  mpiEndLimit();
  MPI_Comm_set_errhandler(*comm, MPI_ERRORS_RETURN);
}

void mpiOpen(struct MpiWorker *worker) {
  duplicate(worker, &worker->messages);
  duplicate(worker, &worker->control);
  duplicate(worker, &worker->parent);
  if (worker->isPaced)
    duplicate(worker, &worker->paces);
  int *limit = NULL, isSet = 0;
  MPI_Comm_get_attr(worker->messages, MPI_TAG_UB, &limit, &isSet);
  worker->tagLimit = isSet ? *limit : 32767; // the limit of the standard
  mpiCheck(worker, MPI_Op_create(addF16, 1, &worker->sums[0]), "MPI_Op_create");
  mpiCheck(worker, MPI_Op_create(addBf16, 1, &worker->sums[1]),
           "MPI_Op_create");
  worker->lastCopy = &worker->firstCopy;
}

/// Frees the copies that MPI has sent; with `all`, first waits for all.
static void freeCopies(struct MpiWorker *worker, bool all) {
  while (worker->firstCopy) {
    struct MpiCopy *copy = worker->firstCopy;
    int hasEnded = 1;
    if (all)
      mpiCheck(worker, mpiWait(worker, &copy->request, MPI_STATUS_IGNORE),
               "MPI_Isend");
    else
      mpiCheck(worker, MPI_Test(&copy->request, &hasEnded, MPI_STATUS_IGNORE),
               "MPI_Isend");
    if (!hasEnded)
      return;
    worker->firstCopy = copy->next;
    if (!copy->next)
      worker->lastCopy = &worker->firstCopy;
    free(copy);
  }
}

void mpiClose(struct MpiWorker *worker) {
  freeCopies(worker, true);
  mpiBarrier(worker);
  while (worker->creating) // the last members must still report that it is done
    mpiProgressGroups(worker);
  mpiFreeGroups(worker);
  MPI_Op_free(&worker->sums[0]);
  MPI_Op_free(&worker->sums[1]);
  MPI_Comm_free(&worker->messages);
  MPI_Comm_free(&worker->control);
  MPI_Comm_free(&worker->parent);
  if (worker->isPaced)
    MPI_Comm_free(&worker->paces);
}

//===----------------------------------------------------------------------===//
// Waiting
//===----------------------------------------------------------------------===//

/// Ends the job because this rank has waited too long. Other waiting ranks
/// answer; stopped ranks do not.
_Noreturn static void timeOut(struct MpiWorker *worker) {
  enum { patience = 3 };
  int32_t numRanks = worker->base.numWorkers;
  worker->hasAnswered = mpiAllocate(worker, (size_t)numRanks);
  memset(worker->hasAnswered, 0, (size_t)numRanks);
  worker->hasAnswered[worker->base.worker] = true;
  mpiAskAll(worker);
  for (int64_t end = rtNow() + patience * INT64_C(1000000000); rtNow() < end;
       sched_yield())
    mpiProgressGroups(worker);
  char what[rtTextBytes] = "all ranks", silent[rtTextBytes / 2] = "";
  if (worker->waitsFor)
    rtDescribe(worker->waitsFor, what);
  size_t used = 0;
  for (int32_t rank = 0; rank < numRanks && used + 16 < sizeof(silent); ++rank)
    if (!worker->hasAnswered[rank])
      used += (size_t)snprintf(silent + used, sizeof(silent) - used, "%s%d",
                               used ? ", " : "", (int)rank);
  if (used)
    rtFail(&worker->base, PIPESCHED_RT_SYSTEM,
           "waited %d s for %s; no answer from rank %s, which is stopped or "
           "computes for longer than --timeout",
           (int)worker->options.timeout, what, silent);
  rtFail(&worker->base, PIPESCHED_RT_SYSTEM,
         "waited %d s for %s; all ranks answer, so that they wait for each "
         "other, or a message takes longer than --timeout",
         (int)worker->options.timeout, what);
  mpiAbort(1);
}

void mpiLinger(struct MpiWorker *worker, int64_t *end) {
  mpiProgressGroups(worker);
  int64_t now = rtNow();
  if (*end == 0)
    *end = now + worker->options.timeout * 1000000000;
  else if (worker->options.timeout > 0 && now > *end)
    timeOut(worker);
  sched_yield();
}

int mpiWait(struct MpiWorker *worker, MPI_Request *request,
            MPI_Status *status) {
  enum { patience = 100, lookEach = 64 };
  int hasEnded = 0;
  int64_t end = 0;
  for (int64_t tries = 0;; ++tries) {
    int code = MPI_Test(request, &hasEnded, status);
    if (hasEnded || code != MPI_SUCCESS)
      return code;
    if (worker->numPendingGroups > 0 || worker->base.worker == 0)
      mpiProgressGroups(worker);
    if (tries > patience && tries % lookEach == 0)
      mpiLinger(worker, &end);
    else if (tries > patience)
      sched_yield();
  }
}

/// The text for a wait inside MPI that took too long, with its length.
static char lateText[rtTextBytes];

static void endLate(int signal) {
  (void)signal;
  ssize_t written = write(STDERR_FILENO, lateText, strlen(lateText));
  _exit(written < 0 ? 2 : 1);
}

void mpiLimit(int rank, const struct RtOptions *options, const char *call) {
  snprintf(lateText, sizeof(lateText),
           "error: rank %d: waited %d s in %s for another rank, which is "
           "stopped or gone\n",
           rank, (int)options->timeout, call);
  signal(SIGALRM, endLate);
  alarm((unsigned)options->timeout); // none if it is 0
}

void mpiEndLimit(void) { alarm(0); }

void rtSleepUntil(struct RtWorker *base, int64_t ns) {
  struct MpiWorker *worker = (struct MpiWorker *)base;
  enum { nap = 100 * 1000 };
  // MPI moves messages only while it is called; probing for groups does this.
  for (int64_t left; (left = ns - rtNow()) > 0;) {
    mpiProgressGroups(worker);
    const struct timespec time = {0, left < nap ? left : nap};
    nanosleep(&time, NULL);
  }
}

void mpiBarrier(struct MpiWorker *worker) {
  MPI_Request request;
  mpiCheck(worker, MPI_Ibarrier(worker->messages, &request), "MPI_Ibarrier");
  mpiCheck(worker, mpiWait(worker, &request, MPI_STATUS_IGNORE),
           "MPI_Ibarrier");
}

/// Checks that a message had the size of its recv.
static void checkReceived(struct MpiWorker *worker,
                          const struct RtRequest *request,
                          const MPI_Status *status) {
  MPI_Count bytes = 0;
  mpiCheck(worker, MPI_Get_elements_x(status, MPI_BYTE, &bytes),
           "MPI_Get_elements_x");
  if (bytes == request->size)
    return;
  char text[rtTextBytes];
  rtDescribe(request, text);
  rtFail(&worker->base, PIPESCHED_RT_MISUSE,
         "%s, but the send that matches has %lld bytes", text,
         (long long)bytes);
}

/// Gets from the sender the time at which a request of a paced run may end.
static void waitForArrival(struct MpiWorker *worker,
                           struct MpiRequest *request) {
  enum RtKind kind = request->base.kind;
  bool isTold = kind == rtRecv || kind == rtAllReduce || kind == rtBroadcast;
  if (!worker->isPaced || !isTold)
    return;
  mpiCheck(worker, mpiWait(worker, &request->arrivalPart, MPI_STATUS_IGNORE),
           "waiting for the time of an arrival");
  request->base.until =
      request->arrival == 0 ? 0 : request->arrival - worker->toRank0;
}

static void waitForParts(struct MpiWorker *worker, struct MpiRequest *request) {
  worker->waitsFor = &request->base;
  for (int64_t end = 0; request->isQueued;)
    mpiLinger(worker, &end);
  MPI_Status status;
  for (int i = 0; i < request->numParts; ++i) {
    int code = mpiWait(worker, &request->parts[i], &status);
    if (code != MPI_SUCCESS) {
      char text[rtTextBytes];
      rtDescribe(&request->base, text);
      mpiCheck(worker, code, text);
    }
  }
  if (request->base.kind == rtRecv)
    checkReceived(worker, &request->base, &status);
  if (request->parts != &request->onlyPart)
    free(request->parts);
  waitForArrival(worker, request);
  worker->waitsFor = NULL;
}

int32_t pipesched_rt_wait(void *context, int32_t index) {
  struct MpiWorker *worker = context;
  struct RtRequest *request = rtToWaitFor(&worker->base, index);
  if (!request)
    return PIPESCHED_RT_OK;
  bool isCopy = request->kind == rtOffload || request->kind == rtReload;
  if (isCopy)
    rtWaitForCopy(&worker->base, request);
  else if (atomic_load_explicit(&request->state, memory_order_relaxed) ==
           rtPending)
    waitForParts(worker, (struct MpiRequest *)request);
  if (request->until > 0)
    rtSleepUntil(&worker->base, request->until);
  atomic_store_explicit(&request->state, rtIdle, memory_order_relaxed);
  return PIPESCHED_RT_OK;
}

void rtCopyStarts(struct RtWorker *worker) { (void)worker; }

void rtCopyHasEnded(struct RtWorker *worker, struct RtRequest *request) {
  (void)worker;
  atomic_store(&request->state, rtDone); // rtWaitForCopy reads it afterwards
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

/// A number of bytes in MPI's form: `count` of `type`.
struct Bytes {
  int count;
  MPI_Datatype type;
  bool isOwn; // whether the type must be freed
};

/// If an int is too small for its bytes, the message is one element of a
/// separate type: full chunks, and the rest after them.
static struct Bytes describeBytes(struct MpiWorker *worker, int64_t bytes) {
  if (bytes <= PIPESCHED_RT_MPI_COUNT)
    return (struct Bytes){(int)bytes, MPI_BYTE, false};
  const int64_t chunk = PIPESCHED_RT_MPI_COUNT;
  MPI_Datatype full, chunks;
  MPI_Type_contiguous((int)chunk, MPI_BYTE, &full);
  MPI_Type_contiguous((int)(bytes / chunk), full, &chunks);
  int lengths[] = {1, (int)(bytes % chunk)};
  MPI_Aint starts[] = {0, (MPI_Aint)(bytes / chunk * chunk)};
  MPI_Datatype types[] = {chunks, MPI_BYTE};
  struct Bytes result = {1, MPI_DATATYPE_NULL, true};
  MPI_Type_create_struct(2, lengths, starts, types, &result.type);
  mpiCheck(worker, MPI_Type_commit(&result.type), "MPI_Type_commit");
  MPI_Type_free(&full);
  MPI_Type_free(&chunks);
  return result;
}

static struct MpiRequest *startMessage(struct MpiWorker *worker,
                                       enum RtKind kind, int32_t index,
                                       int32_t peer, int32_t tag,
                                       int64_t bytes) {
  struct MpiRequest *request = (struct MpiRequest *)rtStart(
      &worker->base, kind, index, peer, tag, bytes);
  if (tag > worker->tagLimit)
    rtFail(&worker->base, PIPESCHED_RT_MISUSE,
           "tag %d, but this MPI has tags up to %d", (int)tag,
           worker->tagLimit);
  request->parts = &request->onlyPart;
  request->numParts = 1;
  request->isQueued = false;
  return request;
}

/// Sends a copy of the data, so that the program may continue.
static void sendCopy(struct MpiWorker *worker, const struct RtRequest *request,
                     const void *data, size_t size, struct Bytes bytes,
                     MPI_Comm comm) {
  freeCopies(worker, false);
  struct MpiCopy *copy = mpiAllocate(worker, sizeof(*copy) + size);
  if (size > 0)
    memcpy(copy->data, data, size);
  copy->next = NULL;
  *worker->lastCopy = copy;
  worker->lastCopy = &copy->next;
  mpiCheck(worker,
           MPI_Isend(copy->data, bytes.count, bytes.type, request->peer,
                     request->tag, comm, &copy->request),
           "MPI_Isend");
}

/// Returns when a request may end, on the clock of rank 0; 0: at any time.
static int64_t arrivalOf(const struct MpiWorker *worker,
                         const struct RtRequest *request) {
  return request->until == 0 ? 0 : request->until + worker->toRank0;
}

/// Sends the arrival time of a message to the receiver. It is a separate
/// message, because the data is sent from buffer to buffer.
static void sendArrival(struct MpiWorker *worker,
                        const struct RtRequest *request) {
  int64_t arrival = arrivalOf(worker, request);
  sendCopy(worker, request, &arrival, sizeof(arrival),
           (struct Bytes){1, MPI_INT64_T, false}, worker->paces);
}

int32_t pipesched_rt_send(void *context, const void *data, int64_t bytes,
                          int32_t peer, int32_t tag, int32_t index) {
  struct MpiWorker *worker = context;
  struct MpiRequest *request =
      startMessage(worker, rtSend, index, peer, tag, bytes);
  struct Bytes what = describeBytes(worker, bytes);
  if (worker->isPaced)
    sendArrival(worker, &request->base);
  switch (worker->options.messages) {
  case rtBuffered:
    sendCopy(worker, &request->base, data, (size_t)bytes, what,
             worker->messages);
    atomic_store(&request->base.state, rtDone);
    request->base.until = 0;
    break;
  case rtRendezvous:
    mpiCheck(worker,
             MPI_Issend(data, what.count, what.type, peer, tag,
                        worker->messages, request->parts),
             "MPI_Issend");
    break;
  case rtByDefault:
    mpiCheck(worker,
             MPI_Isend(data, what.count, what.type, peer, tag, worker->messages,
                       request->parts),
             "MPI_Isend");
  }
  if (what.isOwn)
    MPI_Type_free(&what.type);
  if (worker->options.blocking && worker->options.messages != rtBuffered) {
    waitForParts(worker, request);
    atomic_store(&request->base.state, rtDone);
    if (request->base.until > 0)
      rtSleepUntil(&worker->base, request->base.until);
  }
  return PIPESCHED_RT_OK;
}

int32_t pipesched_rt_recv(void *context, void *data, int64_t bytes,
                          int32_t peer, int32_t tag, int32_t index) {
  struct MpiWorker *worker = context;
  struct MpiRequest *request =
      startMessage(worker, rtRecv, index, peer, tag, bytes);
  struct Bytes what = describeBytes(worker, bytes);
  mpiCheck(worker,
           MPI_Irecv(data, what.count, what.type, peer, tag, worker->messages,
                     request->parts),
           "MPI_Irecv");
  if (worker->isPaced)
    mpiCheck(worker,
             MPI_Irecv(&request->arrival, 1, MPI_INT64_T, peer, tag,
                       worker->paces, &request->arrivalPart),
             "MPI_Irecv");
  if (what.isOwn)
    MPI_Type_free(&what.type);
  return PIPESCHED_RT_OK;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// Starts one part of a sum or of a broadcast: `size` elements at `data`.
static void startPart(struct MpiWorker *worker, struct MpiGroup *group,
                      struct MpiRequest *request, char *data, int size,
                      MPI_Request *part) {
  // Unsigned integers wrap.
  const MPI_Datatype types[] = {MPI_FLOAT,    MPI_DOUBLE,   MPI_UINT16_T,
                                MPI_UINT16_T, MPI_UINT32_T, MPI_UINT64_T};
  int32_t kind = request->elementType;
  if (request->base.kind == rtBroadcast) {
    mpiCheck(worker,
             MPI_Ibcast(data, size, MPI_BYTE, request->root, group->comm, part),
             "MPI_Ibcast");
    return;
  }
  MPI_Op sum = MPI_SUM;
  if (kind == PIPESCHED_RT_F16 || kind == PIPESCHED_RT_BF16)
    sum = worker->sums[kind == PIPESCHED_RT_BF16];
  mpiCheck(worker,
           MPI_Iallreduce(MPI_IN_PLACE, data, size, types[kind], sum,
                          group->comm, part),
           "MPI_Iallreduce");
}

void mpiStartSum(struct MpiWorker *worker, struct MpiGroup *group,
                 struct MpiRequest *request) {
  bool isBroadcast = request->base.kind == rtBroadcast;
  int64_t bytes = isBroadcast ? 1 : rtElementBytes(request->elementType);
  const int64_t chunk = PIPESCHED_RT_MPI_COUNT;
  int64_t count = request->base.size;
  request->numParts = (int)((count + chunk - 1) / chunk);
  request->parts = &request->onlyPart;
  if (request->numParts > 1)
    request->parts = mpiAllocate(worker, (size_t)request->numParts *
                                             sizeof(*request->parts));
  char *data = request->data;
  for (int i = 0; i < request->numParts; ++i) {
    int64_t size = count < chunk ? count : chunk;
    startPart(worker, group, request, data, (int)size, &request->parts[i]);
    data += size * bytes;
    count -= size;
  }
  request->arrival = arrivalOf(worker, &request->base);
  if (worker->isPaced)
    mpiCheck(worker,
             MPI_Iallreduce(MPI_IN_PLACE, &request->arrival, 1, MPI_INT64_T,
                            MPI_MAX, group->comm, &request->arrivalPart),
             "MPI_Iallreduce");
  request->isQueued = false;
}

/// Starts the operation of a request, at once or when its group has a
/// communicator.
static int32_t joinGroup(struct MpiWorker *worker, struct MpiRequest *request,
                         void *data, const int32_t *members,
                         int32_t numMembers) {
  request->data = data;
  if (numMembers == 1) {
    atomic_store(&request->base.state, rtDone);
    return PIPESCHED_RT_OK;
  }
  struct MpiGroup *group =
      mpiFindGroup(worker, request->base.tag, members, numMembers);
  if (group->isCreated) {
    mpiStartSum(worker, group, request);
    return PIPESCHED_RT_OK;
  }
  request->isQueued = true;
  request->nextQueued = NULL;
  *group->lastQueued = request;
  group->lastQueued = &request->nextQueued;
  return PIPESCHED_RT_OK;
}

int32_t pipesched_rt_all_reduce(void *context, void *data, int64_t count,
                                int32_t elementType, int32_t number,
                                const int32_t *members, int32_t numMembers,
                                int32_t index) {
  struct MpiWorker *worker = context;
  struct MpiRequest *request = (struct MpiRequest *)rtStart(
      &worker->base, rtAllReduce, index, -1, number, count);
  rtCheckSum(&worker->base, elementType, number, members, numMembers);
  request->elementType = elementType;
  return joinGroup(worker, request, data, members, numMembers);
}

int32_t pipesched_rt_broadcast(void *context, void *data, int64_t bytes,
                               int32_t root, int32_t number,
                               const int32_t *members, int32_t numMembers,
                               int32_t index) {
  struct MpiWorker *worker = context;
  struct MpiRequest *request = (struct MpiRequest *)rtStart(
      &worker->base, rtBroadcast, index, root, number, bytes);
  rtCheckBroadcast(&worker->base, root, number, members, numMembers);
  request->root = 0;
  while (members[request->root] != root)
    ++request->root;
  return joinGroup(worker, request, data, members, numMembers);
}
