//===- LogTest.cpp - Times of steps and instructions ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The contents of the log of a world, and its clock.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <ctime>
#include <thread>
#include <vector>

using namespace runtime_test;

static int64_t now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

/// Stamps taken from two clocks agree to some ten ns; this allows for more.
constexpr int64_t blur = 100000;

TEST(Log, HoldsEveryInstructionOfEveryStep) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, false, /*log=*/true);
  struct Pair {
    int64_t begin, end;
  };
  std::vector<Pair> wanted;
  auto step = [&](const Worker &w) {
    for (int32_t i = 0; i < 3; ++i) {
      int64_t before = now();
      w.begin(i);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      w.end(i);
      if (w.index == 1)
        wanted.push_back({before, now()});
    }
    return 0;
  };
  EXPECT_EQ(world.run(step, 2), 0);
  EXPECT_EQ(world.run(step, 1, 2), 0); // a second run adds to the log
  int64_t steps = 0, instructions = 0, same = 0;
  const int64_t *log =
      pipesched_rt_world_log(world.get(), 1, &steps, &instructions);
  const int64_t *whole = pipesched_rt_world_steps(world.get(), 1, &same);
  ASSERT_EQ(steps, 3);
  ASSERT_EQ(instructions, 4);
  ASSERT_EQ(same, 3);
  for (int64_t at = 0; at < 3; ++at) {
    int64_t last = whole[2 * at];
    for (int64_t i = 0; i < 3; ++i) {
      const int64_t *span = log + 2 * (4 * at + i);
      const Pair &pair = wanted[static_cast<size_t>(3 * at + i)];
      EXPECT_NEAR(span[0], pair.begin, blur);
      EXPECT_NEAR(span[1], pair.end, blur);
      EXPECT_LE(last, span[0]);
      EXPECT_GE(span[1] - span[0], 1000000 - blur);
      last = span[1];
    }
    EXPECT_LE(last, whole[2 * at + 1]);
    // Instruction 3 did not run.
    EXPECT_EQ(log[2 * (4 * at + 3)], -1);
    EXPECT_EQ(log[2 * (4 * at + 3) + 1], -1);
  }
}

TEST(Log, IsOnOneClockForAllWorkers) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, false, /*log=*/true);
  EXPECT_EQ(world.run([](const Worker &w) {
    w.begin(0);
    w.index ? w.recv(w.arena, 8, 0, 0, 0) : w.send(w.arena, 8, 1, 0, 0);
    w.wait(0);
    w.end(0);
    return 0;
  }),
            0);
  const int64_t *first =
      pipesched_rt_world_log(world.get(), 0, nullptr, nullptr);
  const int64_t *second =
      pipesched_rt_world_log(world.get(), 1, nullptr, nullptr);
  EXPECT_LE(first[0], second[1]); // the message left before it arrived
  EXPECT_LE(second[0], first[1]); // its recv was posted before the send ended
}

TEST(Log, IsOnlyThereIfWanted) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    w.begin(0);
    w.end(0);
    return 0;
  }),
            0);
  int64_t steps = 7, instructions = 7;
  EXPECT_EQ(pipesched_rt_world_log(world.get(), 0, &steps, &instructions),
            nullptr);
  EXPECT_EQ(steps, 0);
  EXPECT_EQ(instructions, 0);
  EXPECT_NE(pipesched_rt_world_steps(world.get(), 0, &steps), nullptr);
  EXPECT_EQ(steps, 1);
  EXPECT_EQ(pipesched_rt_world_steps(world.get(), 2, &steps), nullptr);
  EXPECT_EQ(steps, 0);
}
