//===- MessagesTest.cpp - Sends and receives between threads --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The data that arrives, its order, and when a send ends.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

using namespace runtime_test;

INSTANTIATE_TEST_SUITE_P(, BothMessages,
                         testing::Values(PIPESCHED_RT_BUFFERED,
                                         PIPESCHED_RT_RENDEZVOUS),
                         nameOfMessages);

static std::vector<char> pattern(int64_t bytes, int seed) {
  std::vector<char> data(static_cast<size_t>(bytes));
  std::iota(data.begin(), data.end(), static_cast<char>(seed));
  return data;
}

TEST_P(BothMessages, CarryAllSizesAroundARing) {
  Sizes sizes;
  sizes.workers = 5;
  World world(sizes, GetParam());
  std::atomic<int> numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  for (int64_t bytes : {0, 1, 100, 2048, 2049, 1000000}) {
                    auto sent = pattern(bytes, w.index);
                    std::vector<char> received(sent.size());
                    int32_t next = (w.index + 1) % 5, last = (w.index + 4) % 5;
                    w.recv(received.data(), bytes, last, 7, 0);
                    w.send(sent.data(), bytes, next, 7, 1);
                    w.wait(0);
                    numWrong += received != pattern(bytes, last);
                    w.wait(1);
                  }
                  return 0;
                },
                3),
            0);
  EXPECT_EQ(world.error(), "");
  EXPECT_EQ(numWrong, 0);
}

TEST_P(BothMessages, MatchByTagInAnyOrder) {
  World world({}, GetParam());
  int32_t received[3] = {};
  EXPECT_EQ(world.run([&](const Worker &w) {
    if (w.index == 0) {
      const int32_t sent[] = {10, 11, 12};
      for (int32_t tag : {0, 1, 2})
        w.send(&sent[tag], 4, 1, tag, tag);
      for (int32_t tag : {0, 1, 2})
        w.wait(tag);
    } else {
      for (int32_t tag : {2, 0, 1}) {
        w.recv(&received[tag], 4, 0, tag, 0);
        w.wait(0);
      }
    }
    return 0;
  }),
            0);
  EXPECT_EQ(received[0], 10);
  EXPECT_EQ(received[1], 11);
  EXPECT_EQ(received[2], 12);
}

TEST_P(BothMessages, OfOneTagArriveInTheOrderOfTheirSends) {
  World world({}, GetParam());
  int32_t received[4] = {};
  EXPECT_EQ(world.run([&](const Worker &w) {
    const int32_t sent[] = {10, 11, 12, 13};
    for (int32_t i = 0; i < 4; ++i)
      w.index == 0 ? w.send(&sent[i], 4, 1, 5, i)
                   : w.recv(&received[i], 4, 0, 5, i);
    for (int32_t i = 0; i < 4; ++i)
      w.wait(i);
    return 0;
  }),
            0);
  for (int32_t i = 0; i < 4; ++i)
    EXPECT_EQ(received[i], 10 + i);
}

TEST_P(BothMessages, OfTwoSourcesDoNotMix) {
  Sizes sizes;
  sizes.workers = 3;
  World world(sizes, GetParam());
  int32_t received[3] = {};
  EXPECT_EQ(world.run([&](const Worker &w) {
    if (w.index < 2) {
      w.send(&w.index, 4, 2, 0, 0);
      return w.wait(0);
    }
    w.recv(&received[1], 4, 1, 0, 0);
    w.recv(&received[0], 4, 0, 0, 1);
    return w.wait(0) + w.wait(1);
  }),
            0);
  EXPECT_EQ(received[0], 0);
  EXPECT_EQ(received[1], 1);
}

TEST_P(BothMessages, ReachTheWorkerItself) {
  Sizes sizes;
  sizes.workers = 1;
  World world(sizes, GetParam());
  int32_t sent = 5, received = 0;
  EXPECT_EQ(world.run([&](const Worker &w) {
    w.send(&sent, 4, 0, 3, 0);
    w.recv(&received, 4, 0, 3, 1);
    return w.wait(0) + w.wait(1);
  }),
            0);
  EXPECT_EQ(received, 5);
}

/// Sends bytes and overwrites them, before it waits for the send and before the
/// other worker posts the receive.
static int32_t receiveOverwritten(PipeschedMessages messages) {
  World world({}, messages);
  int32_t received = 0;
  EXPECT_EQ(world.run([&](const Worker &w) {
    int32_t data = 1, nothing = 0;
    if (w.index == 0) {
      w.send(&data, 4, 1, 0, 0);
      data = 2;
      w.send(&nothing, 4, 1, 1, 1);
    } else {
      w.recv(&nothing, 4, 0, 1, 0);
      w.wait(0);
      w.recv(&received, 4, 0, 0, 1);
    }
    return w.wait(0) + w.wait(1);
  }),
            0);
  return received;
}

TEST(Messages, AreReadWhenTheyMatch) {
  EXPECT_EQ(receiveOverwritten(PIPESCHED_RT_RENDEZVOUS), 2);
  EXPECT_EQ(receiveOverwritten(PIPESCHED_RT_BUFFERED), 1);
}

/// Both workers send first and receive then, with sends that block.
static int32_t exchange(World &world) {
  return world.run([](const Worker &w) {
    int32_t sent = 1, received = 0;
    w.begin(1);
    if (int32_t status = w.send(&sent, 4, 1 - w.index, 0, 0))
      return status;
    w.begin(2);
    w.recv(&received, 4, 1 - w.index, 0, 1);
    return w.wait(0) + w.wait(1);
  });
}

TEST(Messages, SendsThatBlockEndAtOnceIfBuffered) {
  World buffered({}, PIPESCHED_RT_BUFFERED, /*blocking=*/true);
  EXPECT_EQ(exchange(buffered), 0);
  World rendezvous({}, PIPESCHED_RT_RENDEZVOUS, /*blocking=*/false);
  EXPECT_EQ(exchange(rendezvous), 0);
  World both({}, PIPESCHED_RT_RENDEZVOUS, /*blocking=*/true);
  EXPECT_EQ(exchange(both), PIPESCHED_RT_DEADLOCK);
  EXPECT_EQ(both.error(),
            "deadlock: no worker can go on\n"
            "worker 0, instruction 1: waits for its send of 4 bytes to worker "
            "1 with tag 0 (started by instruction 1)\n"
            "worker 1, instruction 1: waits for its send of 4 bytes to worker "
            "0 with tag 0 (started by instruction 1)");
}

TEST(Messages, SendThatBlocksReturnsWhenItsRecvIsPosted) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, /*blocking=*/true);
  std::atomic<bool> isPosted = false;
  bool wasPosted = false;
  EXPECT_EQ(world.run([&](const Worker &w) {
    int32_t data = 0;
    if (w.index == 0) {
      w.send(&data, 4, 1, 0, 0);
      wasPosted = isPosted;
      return w.wait(0);
    }
    isPosted = true;
    w.recv(&data, 4, 0, 0, 0);
    return w.wait(0);
  }),
            0);
  EXPECT_TRUE(wasPosted);
}

TEST_P(BothMessages, ManyAtOnceFromAllToAll) {
  Sizes sizes;
  sizes.workers = 6;
  sizes.requests = 2 * 6 * 50;
  World world(sizes, GetParam());
  std::atomic<int> numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  std::vector<int64_t> sent(6 * 50), received(6 * 50);
                  for (int32_t i = 0; i < 6 * 50; ++i) {
                    sent[i] = (w.step * 6 + w.index) * 1000 + i;
                    w.send(&sent[i], 8, i % 6, i / 6, i);
                  }
                  for (int32_t i = 6 * 50 - 1; i >= 0; --i)
                    w.recv(&received[i], 8, i % 6, i / 6, 6 * 50 + i);
                  for (int32_t i = 0; i < 2 * 6 * 50; ++i)
                    if (int32_t status = w.wait(i))
                      return status;
                  for (int32_t i = 0; i < 6 * 50; ++i)
                    numWrong += received[i] != (w.step * 6 + i % 6) * 1000 +
                                                   i / 6 * 6 + w.index;
                  return 0;
                },
                20),
            0);
  EXPECT_EQ(numWrong, 0);
}
