//===- Loopback.h - A world of threads ----------------------------*- C -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One mutex protects the state of a world. Data is copied and summed without
// it, by a worker that counts as running. So there is a deadlock exactly if no
// worker runs, no copy is in progress, and some worker waits. This is checked
// whenever a worker blocks or ends, and whenever a copy has ended.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_RT_LOOPBACK_H
#define PIPESCHED_RT_LOOPBACK_H

#include "Internal.h"

#include <semaphore.h>

/// A send without its recv, or a recv without its send.
struct Post {
  struct Post *next;
  int32_t source, tag;
  bool isSend;
  int64_t until;    // arrival of its message, if paced
  const void *from; // of a send
  void *to;         // of a recv
  int64_t bytes;
  struct Worker *owner;    // that started it
  struct Request *request; // NULL for a message that was copied
  int32_t instruction;     // the one that started it
};

/// A sum or a broadcast that not all members have started.
struct Sum {
  struct Sum *next; // of the same group
  struct SumOf {
    int64_t count;       // elements, or bytes of a broadcast
    int32_t elementType; // of a sum; -1: a broadcast
    int32_t root;        // of a broadcast
  } of;
  int32_t numArrived;
  struct Arrival {
    struct Worker *worker; // NULL until the member arrives
    struct Request *request;
    void *data;
  } arrivals[]; // one for each member, in their order
};

struct Group {
  struct Group *next;
  int32_t number;
  int32_t numMembers;
  struct Sum *sums;  // oldest first
  int32_t members[]; // workers
};

struct Request {
  struct RtRequest base;
  struct Post post; // of messages
  void *data;       // of sums and broadcasts
};

enum { numBuckets = 256, rtCacheLine = 64 };

/// The wait of a worker.
enum Waiting { notWaiting, forRequest, forStep, forNothing /* it has ended */ };

/// Fields that other threads write are on other cache lines than fields that
/// each call of the worker reads.
struct Worker {
  _Alignas(rtCacheLine) struct RtWorker base;
  PipeschedWorld *world;
  pthread_t thread;
  _Alignas(rtCacheLine) enum Waiting waiting;
  struct RtRequest *waitsFor; // if forRequest
  int64_t numEnded;           // steps of this run
  sem_t woken; // posted once for each time that the worker blocks
  struct Worker *nextWoken;
  /// Posts whose destination is this worker, by source and tag.
  struct Bucket {
    struct Post *first, **last;
  } buckets[numBuckets];
};

struct PipeschedWorld {
  pthread_mutex_t mutex;
  PipeschedWorldOptions options;
  int32_t numWorkers;
  struct Worker *workers;
  const PipeschedTraining *training; // NULL: losses are not kept
  int64_t spinNs; // time of polling a request before its wait blocks; 0: none
  atomic_int status;
  char *error; // NULL while nothing failed
  struct Group *groups;
  // The current run:
  int32_t numRunning;   // workers that neither wait nor have ended
  int32_t numInBarrier; // workers that wait for the next step
  int64_t numCopies;    // copies that have started and not ended
  PipeschedStepFunction step;
  int64_t firstStep, numSteps;
  int64_t firstLogged; // index of the first step in the logs
};

/// The workers to wake after the mutex is released.
struct Woken {
  struct Worker *first;
};

static inline void lockWorld(PipeschedWorld *world) {
  pthread_mutex_lock(&world->mutex);
}

/// Releases the mutex and wakes workers.
void unlockWorld(PipeschedWorld *world, struct Woken *woken);

/// With the mutex held: lets a waiting worker run again.
void wakeWorker(struct Worker *worker, struct Woken *woken);

/// With the mutex held: ends a request, and wakes its worker if it waits.
void endRequest(struct Worker *worker, struct RtRequest *request,
                struct Woken *woken);

/// With the mutex held: blocks until the worker is woken; releases the mutex.
/// It first checks for a deadlock.
void blockWorker(struct Worker *worker, enum Waiting waiting,
                 struct RtRequest *request, struct Woken *woken);

/// With the mutex held: fails if no worker can continue (Deadlock.c).
void checkDeadlock(PipeschedWorld *world, struct Woken *woken);

/// With the mutex held: records a failure and wakes all workers.
void failWorld(PipeschedWorld *world, int32_t status, const char *text,
               struct Woken *woken);

#endif // PIPESCHED_RT_LOOPBACK_H
