//===- MpiGroups.c - Communicators of groups ------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A group gets a communicator when its first sum starts. MPI_Comm_create_group
// blocks until all members call it, but an all_reduce must not block, because a
// member may first have to send a message for which another member waits. Also,
// the members of two groups must create them in the same order. So rank 0
// decides when:
//
//   member                          rank 0
//     first sum: announce  ------->   counts members
//                          <-------   create, when all have announced
//     MPI_Comm_create_group
//     created              ------->   counts members; then the next group
//
// Members check for messages during all waits, at the latest at the end of a
// step, and are then never creating another group. So all of them call
// MPI_Comm_create_group. Sums wait in a queue until then.
//
//===----------------------------------------------------------------------===//

#include "Mpi.h"

#include <stdlib.h>
#include <string.h>

enum { tagAnnounce, tagCreate, tagCreated, tagAsk, tagAnswer };

/// Sends numbers that stay in memory until the end. These sends need no wait,
/// because the answer proves that they have arrived.
static void sendNumbers(struct MpiWorker *worker, const int32_t *numbers,
                        int count, int peer, int tag) {
  MPI_Request request;
  mpiCheck(worker,
           MPI_Isend(numbers, count, MPI_INT32_T, peer, tag, worker->control,
                     &request),
           "MPI_Isend");
  MPI_Request_free(&request);
}

void mpiAskAll(struct MpiWorker *worker) {
  static const int32_t nothing = 0;
  for (int32_t rank = 0; rank < worker->base.numWorkers; ++rank)
    if (rank != worker->base.worker)
      sendNumbers(worker, &nothing, 1, rank, tagAsk);
}

/// Returns the place of a group in a list, or the end of the list.
static struct MpiGroup **placeOf(struct MpiGroup **list, int32_t number) {
  while (*list && (*list)->number != number)
    list = &(*list)->next;
  return list;
}

/// Returns a group of the list; a new one takes a copy of the announcement.
static struct MpiGroup *findOrAdd(struct MpiWorker *worker,
                                  struct MpiGroup **list,
                                  const int32_t *announcement) {
  size_t bytes = ((size_t)announcement[1] + 2) * sizeof(*announcement);
  struct MpiGroup **place = placeOf(list, announcement[0]);
  if (*place) {
    if ((*place)->numMembers != announcement[1] ||
        memcmp((*place)->announcement, announcement, bytes))
      rtFail(&worker->base, PIPESCHED_RT_MISUSE,
             "all_reduce in group %d with other members than another worker "
             "passed, or in another order",
             (int)announcement[0]);
    return *place;
  }
  struct MpiGroup *group = mpiAllocate(worker, sizeof(*group));
  memset(group, 0, sizeof(*group));
  group->number = announcement[0];
  group->numMembers = announcement[1];
  group->announcement = mpiAllocate(worker, bytes);
  memcpy(group->announcement, announcement, bytes);
  group->lastQueued = &group->firstQueued;
  return *place = group;
}

struct MpiGroup *mpiFindGroup(struct MpiWorker *worker, int32_t number,
                              const int32_t *members, int32_t numMembers) {
  struct MpiGroup *group = *placeOf(&worker->groups, number);
  if (group && group->numMembers == numMembers &&
      !memcmp(group->announcement + 2, members,
              (size_t)numMembers * sizeof(*members)))
    return group;
  bool isNew = !group;
  int32_t *announcement =
      mpiAllocate(worker, ((size_t)numMembers + 2) * sizeof(*announcement));
  announcement[0] = number;
  announcement[1] = numMembers;
  memcpy(announcement + 2, members, (size_t)numMembers * sizeof(*members));
  group = findOrAdd(worker, &worker->groups, announcement);
  free(announcement);
  if (isNew) {
    ++worker->numPendingGroups;
    sendNumbers(worker, group->announcement, numMembers + 2, 0, tagAnnounce);
  }
  return group;
}

/// Creates a group as a member. All other members create it at the same time.
static void create(struct MpiWorker *worker, struct MpiGroup *group) {
  MPI_Group all, members;
  MPI_Comm_group(worker->parent, &all);
  _Static_assert(sizeof(int) == sizeof(int32_t),
                 "ranks are passed as they are");
  mpiCheck(
      worker,
      MPI_Group_incl(all, group->numMembers, group->announcement + 2, &members),
      "MPI_Group_incl");
  mpiLimit(worker->base.worker, &worker->options, "MPI_Comm_create_group");
  mpiCheck(worker,
           MPI_Comm_create_group(worker->parent, members, 0, &group->comm),
           "MPI_Comm_create_group");
  mpiEndLimit();
  MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
  MPI_Group_free(&all);
  MPI_Group_free(&members);
  group->isCreated = true;
  --worker->numPendingGroups;
  struct MpiRequest *next;
  for (struct MpiRequest *at = group->firstQueued; at; at = next) {
    next = at->nextQueued;
    mpiStartSum(worker, group, at);
  }
  sendNumbers(worker, group->announcement, 1, 0, tagCreated);
}

/// On rank 0: lets the members create the next group, unless another one is
/// being created.
static void createNext(struct MpiWorker *worker) {
  if (worker->creating)
    return;
  for (struct MpiGroup *group = worker->announced; group; group = group->next) {
    if (group->numAnnounced < group->numMembers || group->numCreated > 0)
      continue;
    worker->creating = group;
    for (int32_t i = 0; i < group->numMembers; ++i)
      sendNumbers(worker, group->announcement, 1, group->announcement[2 + i],
                  tagCreate);
    return;
  }
}

static void handle(struct MpiWorker *worker, int source, int tag,
                   const int32_t *numbers) {
  static const int32_t nothing = 0;
  switch (tag) {
  case tagAnnounce:
    ++findOrAdd(worker, &worker->announced, numbers)->numAnnounced;
    createNext(worker);
    break;
  case tagCreate:
    create(worker, *placeOf(&worker->groups, numbers[0]));
    break;
  case tagCreated:
    if (++worker->creating->numCreated == worker->creating->numMembers) {
      worker->creating = NULL;
      createNext(worker);
    }
    break;
  case tagAsk:
    sendNumbers(worker, &nothing, 1, source, tagAnswer);
    break;
  case tagAnswer:
    worker->hasAnswered[source] = true;
  }
}

void mpiProgressGroups(struct MpiWorker *worker) {
  while (true) {
    int hasArrived = 0, count = 0;
    MPI_Status status;
    mpiCheck(worker,
             MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, worker->control,
                        &hasArrived, &status),
             "MPI_Iprobe");
    if (!hasArrived)
      return;
    MPI_Get_count(&status, MPI_INT32_T, &count);
    int32_t *numbers = mpiAllocate(worker, (size_t)count * sizeof(*numbers));
    mpiCheck(worker,
             MPI_Recv(numbers, count, MPI_INT32_T, status.MPI_SOURCE,
                      status.MPI_TAG, worker->control, MPI_STATUS_IGNORE),
             "MPI_Recv");
    handle(worker, status.MPI_SOURCE, status.MPI_TAG, numbers);
    free(numbers);
  }
}

void mpiFreeGroups(struct MpiWorker *worker) {
  struct MpiGroup *lists[] = {worker->groups, worker->announced};
  for (int i = 0; i < 2; ++i) {
    struct MpiGroup *next;
    for (struct MpiGroup *group = lists[i]; group; group = next) {
      next = group->next;
      if (group->isCreated)
        MPI_Comm_free(&group->comm);
      free(group->announcement);
      free(group);
    }
  }
}
