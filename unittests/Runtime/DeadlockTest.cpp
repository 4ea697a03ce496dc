//===- DeadlockTest.cpp - Deadlocks are found and explained ---------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each text names the wait of every worker; no program that continues is called
// a deadlock.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <random>
#include <vector>

using namespace runtime_test;

TEST(Deadlock, OfTwoReceives) {
  World world({}, PIPESCHED_RT_BUFFERED);
  EXPECT_EQ(world.run([](const Worker &w) {
    int32_t data;
    w.begin(0);
    w.recv(&data, 4, 1 - w.index, 3, 0);
    w.end(0);
    if (w.index == 1)
      w.begin(2);
    return w.wait(0);
  }),
            PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(),
            "deadlock: no worker can go on\n"
            "worker 0, instruction 0: waits for its recv of 4 bytes from "
            "worker 1 with tag 3 (started by instruction 0)\n"
            "worker 1, instruction 2: waits for its recv of 4 bytes from "
            "worker 0 with tag 3 (started by instruction 0)");
}

TEST(Deadlock, OfAWorkerThatEnded) {
  Sizes sizes;
  sizes.workers = 3;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    int32_t data;
    if (w.index != 1)
      return 0;
    w.recv(&data, 4, 0, 1, 0);
    return w.wait(0);
  }),
            PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(), "deadlock: no worker can go on\n"
                           "worker 0 has ended\n"
                           "worker 1: waits for its recv of 4 bytes from "
                           "worker 0 with tag 1\n"
                           "worker 2 has ended");
}

TEST(Deadlock, OfAWorkerThatWantsTheNextStep) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run(
                [](const Worker &w) {
                  int32_t data;
                  if (w.index == 0 || w.step == 5)
                    return 0;
                  w.recv(&data, 4, 0, 1, 0);
                  return w.wait(0);
                },
                3, 5),
            PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(), "deadlock: no worker can go on\n"
                           "worker 0 waits for the others to start step 7\n"
                           "worker 1: waits for its recv of 4 bytes from "
                           "worker 0 with tag 1");
}

TEST(Deadlock, OfAnEndOfStep) {
  // The runtime waits for requests that the program did not wait for.
  Sizes sizes;
  sizes.workers = 1;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(
      world.run([](const Worker &w) { return w.send(w.arena, 16, 0, 2, 4); }),
      PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(), "deadlock: no worker can go on\n"
                           "worker 0: waits for its send of 16 bytes to "
                           "worker 0 with tag 2");
}

TEST(Deadlock, OfASumNamesWhoIsMissing) {
  Sizes sizes;
  sizes.workers = 4;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    const int32_t all[] = {0, 1, 2, 3};
    const int32_t two[] = {1, 2};
    float *data = reinterpret_cast<float *>(w.arena);
    w.begin(w.index);
    if (w.index == 0)
      pipesched_rt_all_reduce(w.context, data, 10, PIPESCHED_RT_F32, 5, all, 4,
                              0);
    if (w.index == 1 || w.index == 2)
      pipesched_rt_all_reduce(w.context, data, 2, PIPESCHED_RT_F32, 6, two, 2,
                              1);
    w.wait(1);
    if (w.index == 2)
      pipesched_rt_all_reduce(w.context, data, 10, PIPESCHED_RT_F32, 5, all, 4,
                              0);
    return w.wait(0);
  }),
            PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(),
            "deadlock: no worker can go on\n"
            "worker 0, instruction 0: waits for its all_reduce of 10 elements "
            "in group 5 (started by instruction 0); missing: worker 1, 3\n"
            "worker 1 has ended\n"
            "worker 2, instruction 2: waits for its all_reduce of 10 elements "
            "in group 5 (started by instruction 2); missing: worker 1, 3\n"
            "worker 3 has ended");
}

TEST(Deadlock, OfABroadcastNamesWhoIsMissing) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    const int32_t both[] = {0, 1};
    if (w.index == 1)
      return 0;
    pipesched_rt_broadcast(w.context, w.arena, 8, 1, 3, both, 2, 0);
    return w.wait(0);
  }),
            PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(world.error(),
            "deadlock: no worker can go on\n"
            "worker 0: waits for its broadcast of 8 bytes of worker 1 in group "
            "3; missing: worker 1\n"
            "worker 1 has ended");
}

TEST(Deadlock, IsNotWhereACopyIsUnderWay) {
  Sizes sizes;
  sizes.arena = sizes.host = 8 << 20;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run(
                [](const Worker &w) {
                  // Worker 1 waits for worker 0, which waits for its copy.
                  if (w.index == 0) {
                    pipesched_rt_offload(w.context, w.host, w.arena, 8 << 20,
                                         0);
                    w.wait(0);
                    w.send(w.arena, 8, 1, 0, 1);
                    return w.wait(1);
                  }
                  w.recv(w.arena, 8, 0, 0, 0);
                  return w.wait(0);
                },
                20),
            0);
  EXPECT_EQ(world.error(), "");
}

TEST(Deadlock, IsFoundAfterTheLastCopy) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    w.recv(w.arena, 8, 1 - w.index, 0, 0);
    pipesched_rt_offload(w.context, w.host, w.arena + 64, 1024, 1);
    return w.wait(0);
  }),
            PIPESCHED_RT_DEADLOCK);
}

/// Sends and receives along random edges in the same order everywhere, which
/// always ends; with `isCyclic`, worker 0 lacks one message at the end.
static int32_t runRandom(World &world, unsigned seed, bool isCyclic) {
  return world.run([=](const Worker &w) {
    std::mt19937 random(seed);
    for (int32_t i = 0; i < 60; ++i) {
      int32_t from = static_cast<int32_t>(random() % 4);
      int32_t to = static_cast<int32_t>(random() % 4);
      if (from == to)
        continue;
      int32_t status = 0;
      if (w.index == from)
        status = w.send(w.arena, 64, to, i, 0) + w.wait(0);
      if (w.index == to)
        status = w.recv(w.arena + 64, 64, from, i, 0) + w.wait(0);
      if (status)
        return status;
    }
    if (isCyclic && w.index == 0)
      return w.recv(w.arena, 64, 1, 0, 0) + w.wait(0);
    return 0;
  });
}

TEST(Deadlock, IsFoundExactlyWhereItIs) {
  Sizes sizes;
  sizes.workers = 4;
  for (unsigned seed = 0; seed < 100; ++seed) {
    World sound(sizes, PIPESCHED_RT_RENDEZVOUS);
    EXPECT_EQ(runRandom(sound, seed, false), 0) << sound.error();
    World cyclic(sizes, PIPESCHED_RT_RENDEZVOUS);
    EXPECT_EQ(runRandom(cyclic, seed, true), PIPESCHED_RT_DEADLOCK);
  }
}
