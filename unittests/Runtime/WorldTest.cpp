//===- WorldTest.cpp - Memory and runs of worlds --------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Allocations of a world, its state between runs, and its refusals.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <sstream>
#include <thread>

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

/// The flags of the mapping that has an address, as the kernel of Linux names
/// them in /proc/self/smaps; empty if there is no such file.
static std::string flagsOf(const void *address) {
  std::ifstream maps("/proc/self/smaps");
  bool isInside = false;
  for (std::string line; std::getline(maps, line);) {
    std::istringstream words(line);
    unsigned long long begin, end;
    char dash;
    if (words >> std::hex >> begin >> dash >> end && dash == '-')
      isInside = reinterpret_cast<uintptr_t>(address) >= begin &&
                 reinterpret_cast<uintptr_t>(address) < end;
    else if (isInside && line.rfind("VmFlags:", 0) == 0)
      return line + " ";
  }
  return "";
}

TEST(World, AsksForHugePages) {
  if (!std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"))
    GTEST_SKIP() << "the kernel has no transparent huge pages";
  Sizes sizes;
  sizes.persistent = 16 << 20;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  auto *block = static_cast<char *>(
      pipesched_rt_world_block(world.get(), 0, PIPESCHED_RT_PERSISTENT));
  ASSERT_NE(block, nullptr);
  EXPECT_NE(flagsOf(block + (8 << 20)).find(" hg "), std::string::npos);
}

TEST(World, StopsARunAndNamesWhoComputes) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  std::atomic<int> numThere = 0;
  std::atomic<bool> mayEnd = false;
  std::thread watchdog([&] {
    while (numThere < 2)
      std::this_thread::yield();
    pipesched_rt_world_stop(world.get(), "too late");
    mayEnd = true;
  });
  int32_t status = world.run([&](const Worker &) {
    ++numThere;
    while (!mayEnd)
      std::this_thread::yield();
    return 0;
  });
  watchdog.join();
  EXPECT_EQ(status, PIPESCHED_RT_SYSTEM);
  EXPECT_STREQ(pipesched_rt_world_error(world.get()),
               "too late; still computing: worker 0, 1");
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

/// Only the lower bound: the delay until a machine wakes a thread is not ours.
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

/// A world of two workers, whose instruction 0 is paced to 20 ms on worker 0
/// and to 5 ms on worker 1, and the clock of the test.
struct PacedWorld {
  World world;
  static constexpr int64_t kMs = 1000000;

  explicit PacedWorld(PipeschedMessages messages, bool blocking = false)
      : world(Sizes(), messages, blocking) {
    const int64_t slow[] = {20 * kMs, 0, 0, 0}, fast[] = {5 * kMs, 0, 0, 0};
    EXPECT_EQ(pipesched_rt_world_pace(world.get(), 0, slow), PIPESCHED_RT_OK);
    EXPECT_EQ(pipesched_rt_world_pace(world.get(), 1, fast), PIPESCHED_RT_OK);
  }
  static double msSince(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - begin)
        .count();
  }
};

using PacedMessages = BothMessages;
INSTANTIATE_TEST_SUITE_P(World, PacedMessages,
                         testing::Values(PIPESCHED_RT_RENDEZVOUS,
                                         PIPESCHED_RT_BUFFERED),
                         nameOfMessages);

/// Either side may come first; the message takes the time of its send. Each is
/// seen by its wait, while both workers do other things.
TEST_P(PacedMessages, ArriveInTheirTime) {
  for (bool isRecvFirst : {false, true}) {
    PacedWorld paced(GetParam());
    std::atomic<std::chrono::steady_clock::time_point> sent;
    EXPECT_EQ(paced.world.run([&](const Worker &w) {
      int32_t number = w.index == 0 ? 7 : 0;
      bool isSender = w.index == 0;
      if (isSender == isRecvFirst)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (isSender)
        sent = std::chrono::steady_clock::now();
      w.begin(0);
      isSender ? w.send(&number, 4, 1, 0, 0) : w.recv(&number, 4, 0, 0, 0);
      w.end(0);
      w.wait(0);
      if (!isSender || GetParam() == PIPESCHED_RT_RENDEZVOUS)
        EXPECT_GE(PacedWorld::msSince(sent), 20);
      return number == 7 ? 0 : 1;
    }),
              0)
        << paced.world.error();
  }
}

TEST(World, PacesSendsThatBlock) {
  for (bool isRecvFirst : {false, true}) {
    PacedWorld paced(PIPESCHED_RT_RENDEZVOUS, /*blocking=*/true);
    EXPECT_EQ(paced.world.run([&](const Worker &w) {
      if ((w.index == 0) == isRecvFirst)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      auto begin = std::chrono::steady_clock::now();
      w.begin(0);
      if (w.index == 0) {
        w.send(w.arena, 8, 1, 0, 0);
        EXPECT_GE(PacedWorld::msSince(begin), 20);
      } else {
        w.recv(w.arena, 8, 0, 0, 0);
      }
      w.end(0);
      return 0;
    }),
              0)
        << paced.world.error();
  }
}

/// Copies of one instruction take its time together, copies of two one after
/// the other; a sum lasts as long as its slowest member says.
TEST(World, PacesCopiesAndSums) {
  PacedWorld paced(PIPESCHED_RT_RENDEZVOUS);
  std::atomic<std::chrono::steady_clock::time_point> slowest;
  EXPECT_EQ(paced.world.run([&](const Worker &w) {
    auto begin = std::chrono::steady_clock::now();
    for (int32_t i : {0, 1}) {
      w.begin(0);
      pipesched_rt_offload(w.context, w.host, w.arena, 8, 2 * i);
      pipesched_rt_offload(w.context, w.host, w.arena, 8, 2 * i + 1);
      w.end(0);
    }
    w.wait(1);
    EXPECT_GE(PacedWorld::msSince(begin), w.index == 0 ? 20 : 5);
    w.wait(3);
    EXPECT_GE(PacedWorld::msSince(begin), w.index == 0 ? 40 : 10);
    const int32_t both[] = {0, 1};
    if (w.index == 0)
      slowest = std::chrono::steady_clock::now();
    w.begin(0);
    pipesched_rt_all_reduce(w.context, w.arena, 2, PIPESCHED_RT_I32, 0, both, 2,
                            4);
    w.end(0);
    w.wait(4);
    EXPECT_GE(PacedWorld::msSince(slowest), 20);
    return 0;
  }),
            0)
      << paced.world.error();
}

//===----------------------------------------------------------------------===//
// Trainings
//===----------------------------------------------------------------------===//

/// Runs a training of two workers and two microbatches. A step doubles the
/// number that its block starts with, and leaves it as a loss.
static std::string train(const PipeschedTraining &training, int32_t &status) {
  program.sizes = Sizes();
  program.step = [](const Worker &w) {
    auto *block = reinterpret_cast<float *>(w.persistent);
    block[0] *= 2;
    block[16 + w.index] = block[0];
    return 0;
  };
  char name[] = "program";
  char *argv[] = {name, nullptr};
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  status =
      pipesched_rt_train(1, argv, stepOf, sizeOf, [] { return ""; }, &training);
  return testing::internal::GetCapturedStdout() +
         testing::internal::GetCapturedStderr();
}

TEST(Training, BeginsWithItsPiecesAndPrintsLosses) {
  const float one = 1, three = 3;
  const PipeschedPiece pieces[] = {{0, 0, 4, &one}, {1, 0, 4, &three}};
  const int64_t losses[] = {64, 64};
  PipeschedTraining training = {2,      2,      pieces, 2, PIPESCHED_RT_F32,
                                losses, nullptr};
  int32_t status = 1;
  std::string text = train(training, status);
  EXPECT_EQ(status, 0);
  EXPECT_NE(text.find("step 0: loss 8, "), std::string::npos) << text;
  EXPECT_NE(text.find("step 1: loss 16, "), std::string::npos) << text;
}

TEST(Training, IsRefusedWhereItDoesNotFit) {
  const PipeschedPiece outside[] = {{1, 4092, 8, nullptr}};
  const int64_t losses[] = {-1, 64}, beyond[] = {-1, 4090};
  int32_t status = 0;
  PipeschedTraining training = {1,      1,      outside, 2, PIPESCHED_RT_F32,
                                losses, nullptr};
  EXPECT_EQ(train(training, status),
            "error: worker 1: the training has 8 bytes at offset 4092 of a "
            "block of 4096 bytes\n");
  EXPECT_EQ(status, 1);
  training.num_pieces = 0;
  training.losses = beyond;
  EXPECT_EQ(train(training, status),
            "error: worker 1: the training has losses that its block of 4096 "
            "bytes cannot hold\n");
  training.losses = losses;
  training.loss_type = PIPESCHED_RT_I32;
  EXPECT_NE(train(training, status).find("cannot hold"), std::string::npos);
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
