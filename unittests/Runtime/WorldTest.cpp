//===- WorldTest.cpp - Memory and runs of worlds --------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a world allocates, what it keeps between runs, and what it refuses.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <cstring>

using namespace runtime_test;

TEST(World, HasZeroBlocksThatAreAligned) {
  Sizes sizes;
  sizes.persistent = 100;
  sizes.arena = 1;
  sizes.host = 0;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(pipesched_rt_world_workers(world.get()), 2);
  for (int32_t worker : {0, 1}) {
    auto *block = static_cast<char *>(
        pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_PERSISTENT));
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % 64, 0u);
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(block[i], 0);
    EXPECT_NE(pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_ARENA),
              nullptr);
    EXPECT_EQ(pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_HOST),
              nullptr);
    EXPECT_EQ(
        pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_REQUESTS),
        nullptr);
  }
  EXPECT_EQ(pipesched_rt_world_block(world.get(), 2, PIPESCHED_RT_ARENA),
            nullptr);
}

TEST(World, KeepsWhatIsPersistent) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  auto step = [](const Worker &w) {
    int64_t sum;
    std::memcpy(&sum, w.persistent, 8);
    sum += w.step * (w.index + 1);
    std::memcpy(w.persistent, &sum, 8);
    return 0;
  };
  EXPECT_EQ(world.run(step, 3), 0);
  EXPECT_EQ(world.run(step, 2, 3), 0);
  EXPECT_EQ(world.run(step, 0, 5), 0);
  for (int32_t worker : {0, 1}) {
    int64_t sum;
    std::memcpy(
        &sum,
        pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_PERSISTENT),
        8);
    EXPECT_EQ(sum, (0 + 1 + 2 + 3 + 4) * (worker + 1));
  }
}

static std::string errorOf(const Sizes &sizes) {
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &) { return 0; }), PIPESCHED_RT_SYSTEM);
  return world.error();
}

TEST(World, RefusesSizesThatCannotBe) {
  Sizes sizes;
  sizes.workers = 0;
  EXPECT_EQ(errorOf(sizes), "the program has 0 workers, not 1 to 2147483647");
  sizes.workers = 2;
  sizes.arena = -5;
  EXPECT_EQ(errorOf(sizes),
            "worker 0: the program has -5 arena bytes, not 0 to "
            "4611686018427387903");
  sizes.arena = 0;
  sizes.requests = int64_t(1) << 31;
  EXPECT_EQ(errorOf(sizes), "worker 0: the program has 2147483648 requests, "
                            "not 0 to 2147483647");
}

// Sanitizers end the process instead.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
TEST(World, RefusesBlocksWithoutMemory) {
  Sizes sizes;
  sizes.host = int64_t(1) << 60;
  EXPECT_EQ(errorOf(sizes), "worker 0: no memory for a block of "
                            "1152921504606846976 bytes");
}
#endif

TEST(World, StartsWithoutOptions) {
  program.sizes = {};
  program.step = [](const Worker &) { return 0; };
  PipeschedWorld *world = pipesched_rt_world_create(sizeOf, nullptr);
  EXPECT_EQ(pipesched_rt_world_run(world, stepOf, 0, 1), 0);
  EXPECT_STREQ(pipesched_rt_world_error(world), "");
  pipesched_rt_world_destroy(world);
  pipesched_rt_world_destroy(nullptr);
}

/// Only the lower bound: how late a machine wakes a thread is its own matter.
TEST(World, PacesInstructions) {
  Sizes sizes;
  sizes.workers = 2;
  sizes.instructions = 2;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS, /*blocking=*/false, /*log=*/true);
  const int64_t ns[] = {2000000, 0};
  EXPECT_EQ(pipesched_rt_world_pace(world.get(), 1, ns), PIPESCHED_RT_OK);
  EXPECT_EQ(pipesched_rt_world_pace(world.get(), 2, ns), PIPESCHED_RT_MISUSE);
  EXPECT_EQ(world.run([](const Worker &w) {
    for (int32_t i : {0, 1}) {
      w.begin(i);
      w.end(i);
    }
    return 0;
  }),
            0)
      << world.error();
  const int64_t *log = pipesched_rt_world_log(world.get(), 1, nullptr, nullptr);
  ASSERT_NE(log, nullptr);
  EXPECT_GE(log[1] - log[0], 1990000); // the clock of the log is calibrated
  EXPECT_LT(log[3] - log[2], log[1] - log[0]);
}

TEST(World, RunsMoreWorkersThanCores) {
  Sizes sizes;
  sizes.workers = 100;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run(
                [](const Worker &w) {
                  int32_t next = (w.index + 1) % 100;
                  int32_t last = (w.index + 99) % 100;
                  w.recv(w.arena, 64, last, 0, 0);
                  w.send(w.arena + 64, 64, next, 0, 1);
                  return w.wait(0) + w.wait(1);
                },
                20),
            0)
      << world.error();
}
