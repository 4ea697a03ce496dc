//===- Loopback.c - Messages and sums between threads ---------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The calls of the runtime in a world of threads.
//
//===----------------------------------------------------------------------===//

#include "Loopback.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

//===----------------------------------------------------------------------===//
// Waiting and waking
//===----------------------------------------------------------------------===//

void unlockWorld(PipeschedWorld *world, struct Woken *woken) {
  pthread_mutex_unlock(&world->mutex);
  struct Worker *next;
  for (struct Worker *worker = woken->first; worker; worker = next) {
    // read now, because it may block again as soon as it runs
    next = worker->nextWoken;
    sem_post(&worker->woken);
  }
  woken->first = NULL;
}

void wakeWorker(struct Worker *worker, struct Woken *woken) {
  worker->waiting = notWaiting;
  worker->nextWoken = woken->first;
  woken->first = worker;
  ++worker->world->numRunning;
}

void endRequest(struct Worker *worker, struct RtRequest *request,
                struct Woken *woken) {
  bool isWaitedFor =
      worker->waiting == forRequest && worker->waitsFor == request;
  atomic_store_explicit(&request->state, rtDone, memory_order_release);
  if (isWaitedFor)
    wakeWorker(worker, woken);
}

void blockWorker(struct Worker *worker, enum Waiting waiting,
                 struct RtRequest *request, struct Woken *woken) {
  worker->waiting = waiting;
  worker->waitsFor = request;
  --worker->world->numRunning;
  checkDeadlock(worker->world, woken);
  unlockWorld(worker->world, woken);
  while (sem_wait(&worker->woken)) // a signal may interrupt it
    ;
}

void failWorld(PipeschedWorld *world, int32_t status, const char *text,
               struct Woken *woken) {
  if (atomic_load(&world->status))
    return;
  world->error = strdup(text);
  atomic_store(&world->status, status);
  for (int32_t i = 0; i < world->numWorkers; ++i) {
    struct Worker *worker = &world->workers[i];
    if (worker->waiting == forRequest || worker->waiting == forStep)
      wakeWorker(worker, woken);
  }
}

int32_t rtStatus(const struct RtWorker *base) {
  const struct Worker *worker = (const struct Worker *)base;
  return atomic_load_explicit(&worker->world->status, memory_order_acquire);
}

int32_t rtSetFailure(struct RtWorker *base, int32_t status, const char *text) {
  PipeschedWorld *world = ((struct Worker *)base)->world;
  struct Woken woken = {NULL};
  lockWorld(world);
  failWorld(world, status, text, &woken);
  unlockWorld(world, &woken);
  return rtStatus(base);
}

void rtSleepUntil(struct RtWorker *worker, int64_t ns) {
  (void)worker;
  struct timespec time = {ns / 1000000000, ns % 1000000000};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL) == EINTR)
    ;
}

static void relax(void) {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

static bool isDone(struct RtRequest *request) {
  return atomic_load_explicit(&request->state, memory_order_acquire) == rtDone;
}

/// Polls a request for a short time, and returns whether it has ended.
static bool pollRequest(const PipeschedWorld *world,
                        struct RtRequest *request) {
  enum { polls = 16 }; // between two readings of the clock
  if (isDone(request) || world->spinNs == 0)
    return isDone(request);
  int64_t end = rtNow() + world->spinNs;
  do {
    for (int i = 0; i < polls; ++i) {
      if (isDone(request))
        return true;
      relax();
    }
  } while (rtNow() < end);
  return false;
}

int32_t pipesched_rt_wait(void *context, int32_t index) {
  struct Worker *worker = context;
  struct RtRequest *request = rtToWaitFor(&worker->base, index);
  if (!request)
    return rtStatus(&worker->base);
  PipeschedWorld *world = worker->world;
  if (!pollRequest(world, request)) {
    struct Woken woken = {NULL};
    lockWorld(world);
    if (atomic_load(&request->state) == rtDone || atomic_load(&world->status))
      unlockWorld(world, &woken);
    else
      blockWorker(worker, forRequest, request, &woken);
  }
  int32_t status = rtStatus(&worker->base);
  if (status)
    return status;
  if (request->until > 0)
    rtSleepUntil(&worker->base, request->until);
  atomic_store_explicit(&request->state, rtIdle, memory_order_relaxed);
  return PIPESCHED_RT_OK;
}

/// Waits, but keeps the request in use; for blocking sends.
static int32_t blockUntilDone(struct Worker *worker, struct Request *request,
                              int32_t index) {
  int32_t status = pipesched_rt_wait(worker, index);
  if (!status)
    atomic_store_explicit(&request->base.state, rtDone, memory_order_relaxed);
  return status;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

void rtCopyStarts(struct RtWorker *base) {
  PipeschedWorld *world = ((struct Worker *)base)->world;
  struct Woken woken = {NULL};
  lockWorld(world);
  ++world->numCopies;
  unlockWorld(world, &woken);
}

void rtCopyHasEnded(struct RtWorker *base, struct RtRequest *request) {
  struct Worker *worker = (struct Worker *)base;
  struct Woken woken = {NULL};
  lockWorld(worker->world);
  --worker->world->numCopies;
  endRequest(worker, request, &woken);
  checkDeadlock(worker->world, &woken);
  unlockWorld(worker->world, &woken);
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static struct Bucket *bucketOf(struct Worker *destination, int32_t source,
                               int32_t tag) {
  uint32_t hash = (uint32_t)source * 0x9e3779b1u + (uint32_t)tag;
  return &destination->buckets[hash % numBuckets];
}

/// Removes and returns the oldest post that matches a post with this source and
/// tag, or returns NULL.
static struct Post *takeMatch(struct Bucket *bucket, int32_t source,
                              int32_t tag, bool isSend) {
  for (struct Post **at = &bucket->first; *at; at = &(*at)->next) {
    struct Post *post = *at;
    if (post->source != source || post->tag != tag || post->isSend != isSend)
      continue;
    *at = post->next;
    if (!post->next)
      bucket->last = at;
    return post;
  }
  return NULL;
}

static void addPost(struct Bucket *bucket, struct Post *post) {
  post->next = NULL;
  *bucket->last = post;
  bucket->last = &post->next;
}

static int32_t reportSizes(struct Worker *worker, const struct Post *post,
                           int64_t bytes) {
  char own[rtTextBytes / 2], other[rtTextBytes / 2] = "";
  snprintf(own, sizeof(own), "%s of %" PRId64 " bytes %s worker %d with tag %d",
           post->isSend ? "recv" : "send", bytes, post->isSend ? "from" : "to",
           (int)post->owner->base.worker, (int)post->tag);
  if (post->instruction >= 0)
    snprintf(other, sizeof(other), " (instruction %d of worker %d)",
             (int)post->instruction, (int)post->owner->base.worker);
  return rtFail(&worker->base, PIPESCHED_RT_MISUSE,
                "%s, but the %s that matches has %" PRId64 " bytes%s", own,
                post->isSend ? "send" : "recv", post->bytes, other);
}

/// Messages up to this size are copied while the mutex is held, because
/// releasing and taking it again would take longer.
enum { smallBytes = 2048 };

/// Called with the mutex held. It may release the mutex, and holds it again
/// when it returns.
static void copyData(PipeschedWorld *world, void *to, const void *from,
                     int64_t bytes) {
  if (bytes <= smallBytes) {
    if (bytes > 0)
      memcpy(to, from, (size_t)bytes);
    return;
  }
  pthread_mutex_unlock(&world->mutex);
  memcpy(to, from, (size_t)bytes);
  lockWorld(world);
}

/// With the mutex held: copies the data between a waiting post and the request
/// that this worker starts (to `to` or from `from`), and ends both.
static int32_t carry(struct Worker *worker, struct RtRequest *request,
                     struct Post *post, void *to, const void *from,
                     int64_t bytes) {
  struct Woken woken = {NULL};
  PipeschedWorld *world = worker->world;
  if (post->bytes != bytes) {
    unlockWorld(world, &woken);
    int32_t status = reportSizes(worker, post, bytes);
    if (!post->request)
      free(post);
    return status;
  }
  // The data has arrived, but with a pace the receiver must not see it yet.
  if (post->isSend) {
    copyData(world, to, post->from, bytes);
    request->until = post->until;
  } else {
    copyData(world, post->to, from, bytes);
    post->request->base.until = request->until;
    if (world->options.messages == PIPESCHED_RT_BUFFERED)
      request->until = 0; // its send has ended
  }
  if (post->request)
    endRequest(post->owner, &post->request->base, &woken);
  else
    free(post); // a message that was copied
  endRequest(worker, request, &woken);
  unlockWorld(world, &woken);
  return PIPESCHED_RT_OK;
}

static void fillPost(struct Post *post, struct Worker *worker,
                     struct Request *request, int32_t source, bool isSend) {
  post->source = source;
  post->tag = request->base.tag;
  post->isSend = isSend;
  post->bytes = request->base.size;
  post->until = request->base.until;
  post->owner = worker;
  post->request = request;
  post->instruction = request->base.instruction;
}

/// Sends a copy of the data for which no receive waits yet. Only this worker
/// sends from here to this destination, so messages stay in order although the
/// mutex is released.
static int32_t sendCopy(struct Worker *worker, struct Request *request,
                        struct Bucket *bucket, const void *data) {
  PipeschedWorld *world = worker->world;
  int64_t bytes = request->base.size;
  struct Post *copy = malloc(sizeof(*copy) + (size_t)bytes);
  if (!copy)
    return rtFail(&worker->base, PIPESCHED_RT_SYSTEM,
                  "no memory for a message of %" PRId64 " bytes", bytes);
  if (bytes > 0)
    memcpy(copy + 1, data, (size_t)bytes);
  fillPost(copy, worker, request, worker->base.worker, true);
  copy->from = copy + 1;
  copy->request = NULL;
  struct Woken woken = {NULL};
  lockWorld(world);
  struct Post *recv = takeMatch(bucket, copy->source, copy->tag, false);
  if (recv) {
    free(copy);
    return carry(worker, &request->base, recv, NULL, data, bytes);
  }
  addPost(bucket, copy);
  request->base.until = 0;
  endRequest(worker, &request->base, &woken);
  unlockWorld(world, &woken);
  return PIPESCHED_RT_OK;
}

int32_t pipesched_rt_send(void *context, const void *data, int64_t bytes,
                          int32_t peer, int32_t tag, int32_t index) {
  struct Worker *worker = context;
  struct RtRequest *started =
      rtStart(&worker->base, rtSend, index, peer, tag, bytes);
  if (!started)
    return rtStatus(&worker->base);
  struct Request *request = (struct Request *)started;
  PipeschedWorld *world = worker->world;
  int32_t source = worker->base.worker;
  struct Bucket *bucket = bucketOf(&world->workers[peer], source, tag);
  lockWorld(world);
  struct Post *recv = takeMatch(bucket, source, tag, false);
  if (recv) {
    int32_t status = carry(worker, started, recv, NULL, data, bytes);
    bool isLate = !status && world->options.blocking && started->until > 0;
    return isLate ? blockUntilDone(worker, request, index) : status;
  }
  struct Woken woken = {NULL};
  if (world->options.messages == PIPESCHED_RT_BUFFERED) {
    unlockWorld(world, &woken);
    return sendCopy(worker, request, bucket, data);
  }
  fillPost(&request->post, worker, request, source, true);
  request->post.from = data;
  addPost(bucket, &request->post);
  unlockWorld(world, &woken);
  return world->options.blocking ? blockUntilDone(worker, request, index)
                                 : PIPESCHED_RT_OK;
}

int32_t pipesched_rt_recv(void *context, void *data, int64_t bytes,
                          int32_t peer, int32_t tag, int32_t index) {
  struct Worker *worker = context;
  struct RtRequest *started =
      rtStart(&worker->base, rtRecv, index, peer, tag, bytes);
  if (!started)
    return rtStatus(&worker->base);
  struct Request *request = (struct Request *)started;
  PipeschedWorld *world = worker->world;
  struct Bucket *bucket = bucketOf(worker, peer, tag);
  lockWorld(world);
  struct Post *send = takeMatch(bucket, peer, tag, true);
  if (send)
    return carry(worker, started, send, data, NULL, bytes);
  fillPost(&request->post, worker, request, peer, false);
  request->post.to = data;
  addPost(bucket, &request->post);
  struct Woken woken = {NULL};
  unlockWorld(world, &woken);
  return PIPESCHED_RT_OK;
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

/// With the mutex held: returns the group of a number, which it creates if it
/// is new, or NULL if there is no memory.
static struct Group *findGroup(PipeschedWorld *world, int32_t number,
                               const int32_t *members, int32_t numMembers) {
  for (struct Group *group = world->groups; group; group = group->next)
    if (group->number == number)
      return group;
  size_t bytes = (size_t)numMembers * sizeof(*members);
  struct Group *group = malloc(sizeof(*group) + bytes);
  if (!group)
    return NULL;
  group->number = number;
  group->numMembers = numMembers;
  group->sums = NULL;
  memcpy(group->members, members, bytes);
  group->next = world->groups;
  world->groups = group;
  return group;
}

/// With the mutex held: returns the oldest sum that this member has not
/// started, which may be a new one, or NULL if there is no memory.
static struct Sum *findSum(struct Group *group, int32_t member,
                           const struct SumOf *of) {
  struct Sum **at = &group->sums;
  while (*at && (*at)->arrivals[member].worker)
    at = &(*at)->next;
  if (*at)
    return *at;
  struct Sum *sum = calloc(1, sizeof(*sum) + (size_t)group->numMembers *
                                                 sizeof(struct Arrival));
  if (!sum)
    return NULL;
  sum->of = *of;
  return *at = sum;
}

/// Copies the data of the root to all others.
static void broadcast(const struct Group *group, const struct Sum *sum) {
  const void *from = NULL;
  for (int32_t i = 0; i < group->numMembers; ++i)
    if (group->members[i] == sum->of.root)
      from = sum->arrivals[i].data;
  for (int32_t i = 0; i < group->numMembers && sum->of.count > 0; ++i)
    if (sum->arrivals[i].data != from)
      memcpy(sum->arrivals[i].data, from, (size_t)sum->of.count);
}

/// Adds and ends all requests, because all members have arrived. This thread
/// counts as running, so the others may wait.
static int32_t finishSum(PipeschedWorld *world, struct Group *group,
                         struct Sum *sum, void **buffers) {
  for (int32_t i = 0; i < group->numMembers; ++i)
    buffers[i] = sum->arrivals[i].data;
  if (sum->of.elementType < 0)
    broadcast(group, sum);
  else if (group->numMembers > 1)
    rtSumBuffers(buffers, group->numMembers, sum->of.count,
                 sum->of.elementType);
  free(buffers);
  int64_t until = 0;
  for (int32_t i = 0; i < group->numMembers; ++i)
    if (sum->arrivals[i].request->base.until > until)
      until = sum->arrivals[i].request->base.until;
  struct Woken woken = {NULL};
  lockWorld(world);
  for (int32_t i = 0; i < group->numMembers; ++i) {
    sum->arrivals[i].request->base.until = until;
    endRequest(sum->arrivals[i].worker, &sum->arrivals[i].request->base,
               &woken);
  }
  unlockWorld(world, &woken);
  free(sum);
  return PIPESCHED_RT_OK;
}

/// Describes the collective of a member: "all_reduce of 3 elements of type 0".
static void describeSum(const struct SumOf *of, char text[rtTextBytes]) {
  if (of->elementType < 0)
    snprintf(text, rtTextBytes, "broadcast of %" PRId64 " bytes of worker %d",
             of->count, (int)of->root);
  else
    snprintf(text, rtTextBytes, "all_reduce of %" PRId64 " elements of type %d",
             of->count, (int)of->elementType);
}

static int32_t reportMembers(struct Worker *worker, const struct Group *group,
                             const struct SumOf *of) {
  return rtFail(&worker->base, PIPESCHED_RT_MISUSE,
                "%s in group %d with other members than another worker passed, "
                "or in another order",
                of->elementType < 0 ? "broadcast" : "all_reduce",
                (int)group->number);
}

/// Reports that members of a group start different operations.
static int32_t reportDifference(struct Worker *worker,
                                const struct Group *group,
                                const struct SumOf *other,
                                const struct SumOf *own) {
  char mine[rtTextBytes], theirs[rtTextBytes];
  describeSum(own, mine);
  if (other->elementType < 0 || own->elementType < 0)
    describeSum(other, theirs);
  else
    snprintf(theirs, rtTextBytes, "%" PRId64 " of type %d", other->count,
             (int)other->elementType);
  return rtFail(&worker->base, PIPESCHED_RT_MISUSE,
                "%s in group %d, but another worker passes %s", mine,
                (int)group->number, theirs);
}

static bool isEqual(const struct SumOf *a, const struct SumOf *b) {
  return a->count == b->count && a->elementType == b->elementType &&
         a->root == b->root;
}

/// With the mutex held, which it releases: adds a member to its next sum.
static int32_t joinSum(struct Worker *worker, struct Request *request,
                       struct Group *group, const struct SumOf *of) {
  PipeschedWorld *world = worker->world;
  struct Woken woken = {NULL};
  int32_t member = 0;
  while (group->members[member] != worker->base.worker)
    ++member;
  struct Sum *sum = findSum(group, member, of);
  bool isSame = sum && isEqual(&sum->of, of);
  bool isLast = isSame && sum->numArrived + 1 == group->numMembers;
  void **buffers =
      isLast ? malloc((size_t)group->numMembers * sizeof(void *)) : NULL;
  if (isSame && (!isLast || buffers)) {
    sum->arrivals[member] = (struct Arrival){worker, request, request->data};
    ++sum->numArrived;
    if (isLast) // it is the oldest: members start the sums in order
      group->sums = sum->next;
    unlockWorld(world, &woken);
    return isLast ? finishSum(world, group, sum, buffers) : PIPESCHED_RT_OK;
  }
  struct SumOf other = sum ? sum->of : *of;
  unlockWorld(world, &woken);
  if (sum && !isSame)
    return reportDifference(worker, group, &other, of);
  return rtFail(&worker->base, PIPESCHED_RT_SYSTEM, "no memory for a sum");
}

/// Finds the group of a request, and adds the worker to its next sum.
static int32_t joinGroup(struct Worker *worker, struct Request *request,
                         void *data, const struct SumOf *of,
                         const int32_t *members, int32_t numMembers) {
  request->data = data;
  PipeschedWorld *world = worker->world;
  struct Woken woken = {NULL};
  lockWorld(world);
  struct Group *group =
      findGroup(world, request->base.tag, members, numMembers);
  if (!group) {
    unlockWorld(world, &woken);
    return rtFail(&worker->base, PIPESCHED_RT_SYSTEM, "no memory for a group");
  }
  if (group->numMembers != numMembers ||
      memcmp(group->members, members, (size_t)numMembers * sizeof(*members))) {
    unlockWorld(world, &woken);
    return reportMembers(worker, group, of);
  }
  return joinSum(worker, request, group, of);
}

int32_t pipesched_rt_all_reduce(void *context, void *data, int64_t count,
                                int32_t elementType, int32_t number,
                                const int32_t *members, int32_t numMembers,
                                int32_t index) {
  struct Worker *worker = context;
  struct RtRequest *started =
      rtStart(&worker->base, rtAllReduce, index, -1, number, count);
  if (!started ||
      !rtCheckSum(&worker->base, elementType, number, members, numMembers))
    return rtStatus(&worker->base);
  struct SumOf of = {count, elementType, -1};
  return joinGroup(worker, (struct Request *)started, data, &of, members,
                   numMembers);
}

int32_t pipesched_rt_broadcast(void *context, void *data, int64_t bytes,
                               int32_t root, int32_t number,
                               const int32_t *members, int32_t numMembers,
                               int32_t index) {
  struct Worker *worker = context;
  struct RtRequest *started =
      rtStart(&worker->base, rtBroadcast, index, root, number, bytes);
  if (!started ||
      !rtCheckBroadcast(&worker->base, root, number, members, numMembers))
    return rtStatus(&worker->base);
  struct SumOf of = {bytes, -1, root};
  return joinGroup(worker, (struct Request *)started, data, &of, members,
                   numMembers);
}
