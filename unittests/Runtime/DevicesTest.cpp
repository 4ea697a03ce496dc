//===- DevicesTest.cpp - Workers with a device ----------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The device of the runtime, whose streams are threads. Its memory is the
// host's, so that steps can look at it behind pipesched_rt_enter.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <cstring>

using namespace runtime_test;

namespace {
/// Code of the processor begins here.
int32_t enter(const Worker &w) {
  return pipesched_rt_enter(w.context, PIPESCHED_RT_COMPUTES, "F of stage 0");
}

int64_t countOthers(const char *data, int64_t bytes, char wanted) {
  int64_t count = 0;
  for (int64_t i = 0; i < bytes; ++i)
    count += data[i] != wanted;
  return count;
}

Sizes large() {
  Sizes sizes;
  sizes.arena = sizes.host = 3 << 20;
  return sizes;
}
} // namespace

class Devices : public BothMessages {};

TEST_P(Devices, CarryMessages) {
  World world(large(), GetParam(), false, false, "cpu");
  int64_t numWrong[2] = {0, 0};
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  char own = static_cast<char>('a' + w.index + w.step);
                  int32_t peer = 1 - w.index;
                  std::memset(w.arena, own, 1 << 20);
                  w.recv(w.arena + (1 << 20), 1 << 20, peer, 0, 0);
                  w.send(w.arena, 1 << 20, peer, 0, 1);
                  if (int32_t status = w.wait(0))
                    return status;
                  if (int32_t status = enter(w))
                    return status;
                  numWrong[w.index] +=
                      countOthers(w.arena + (1 << 20), 1 << 20,
                                  static_cast<char>('a' + peer + w.step));
                  w.recv(nullptr, 0, peer, 1, 2);
                  w.send(nullptr, 0, peer, 1, 3);
                  return w.wait(2);
                },
                20),
            0);
  EXPECT_EQ(numWrong[0] + numWrong[1], 0);
  EXPECT_EQ(pipesched_rt_world_close(world.get()), 0);
}

INSTANTIATE_TEST_SUITE_P(All, Devices,
                         testing::Values(PIPESCHED_RT_RENDEZVOUS,
                                         PIPESCHED_RT_BUFFERED),
                         nameOfMessages);

TEST(CpuDevice, OffloadsAndReloads) {
  World world(large(), PIPESCHED_RT_RENDEZVOUS, false, false, "cpu");
  int64_t numWrong[2] = {0, 0};
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  std::memset(w.arena, 'a' + w.index, 1 << 20);
                  pipesched_rt_offload(w.context, w.host, w.arena, 1 << 20, 0);
                  w.wait(0);
                  // On the compute stream, behind the offload.
                  pipesched_rt_clear(w.context, w.arena, 1 << 20);
                  pipesched_rt_reload(w.context, w.arena + (1 << 20), w.host,
                                      1 << 20, 1);
                  w.wait(1);
                  pipesched_rt_copy(w.context, w.arena + (2 << 20),
                                    w.arena + (1 << 20), 1 << 20);
                  if (int32_t status = enter(w))
                    return status;
                  numWrong[w.index] +=
                      countOthers(w.arena, 1 << 20, 0) +
                      countOthers(w.arena + (1 << 20), 2 << 20,
                                  static_cast<char>('a' + w.index));
                  return 0;
                },
                20),
            0);
  EXPECT_EQ(numWrong[0] + numWrong[1], 0);
}

TEST(CpuDevice, SumsAndKeepsThePersistentBlock) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, false, false, "cpu");
  for (int32_t worker : {0, 1})
    static_cast<float *>(pipesched_rt_world_block(
        world.get(), worker, PIPESCHED_RT_PERSISTENT))[0] = worker + 1;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  const int32_t members[] = {0, 1};
                  auto *sums = reinterpret_cast<float *>(w.persistent);
                  pipesched_rt_all_reduce(w.context, sums, 1, PIPESCHED_RT_F32,
                                          0, members, 2, 0);
                  w.wait(0);
                  return pipesched_rt_add(w.context, sums + 1, sums, 1,
                                          PIPESCHED_RT_F32);
                },
                3),
            0);
  // 3, 6, 12, and their sum.
  for (int32_t worker : {0, 1}) {
    auto *sums = static_cast<float *>(
        pipesched_rt_world_block(world.get(), worker, PIPESCHED_RT_PERSISTENT));
    EXPECT_EQ(sums[0], 12);
    EXPECT_EQ(sums[1], 21);
  }
}

TEST(CpuDevice, LetsExternFunctionsRunHere) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, false, false, "cpu");
  EXPECT_EQ(world.run([](const Worker &w) {
    return pipesched_rt_stream(w.context) ? 1 : 0;
  }),
            0);
}

TEST(CpuDevice, EndsWhenAWorkerFails) {
  for (int repetition = 0; repetition < 5; ++repetition) {
    World world(large(), PIPESCHED_RT_RENDEZVOUS, false, false, "cpu");
    EXPECT_EQ(world.run([](const Worker &w) {
      if (w.index == 1)
        return pipesched_rt_fail(w.context, "enough");
      for (int32_t i = 0; i < 7; ++i)
        pipesched_rt_offload(w.context, w.host, w.arena, 3 << 20, i);
      w.recv(w.arena, 64, 1, 0, 7);
      return w.wait(7);
    }),
              PIPESCHED_RT_FAILED);
    EXPECT_EQ(world.error(), "worker 1: enough");
  }
}

TEST(Device, ThatDoesNotExist) {
  World world({}, PIPESCHED_RT_RENDEZVOUS, false, false, "/none/gpu.so");
  EXPECT_EQ(world.run([](const Worker &) { return 0; }), PIPESCHED_RT_SYSTEM);
  EXPECT_NE(world.error().find("worker 0: device '/none/gpu.so': "),
            std::string::npos);
}

TEST(WithoutDevice, ProgramsForDevicesRun) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  int64_t numWrong = 0;
  EXPECT_EQ(world.run([&](const Worker &w) {
    std::memset(w.arena, 'x', 128);
    pipesched_rt_clear(w.context, w.arena, 64);
    pipesched_rt_copy(w.context, w.arena + 64, w.arena, 64);
    if (w.index == 0)
      numWrong = countOthers(w.arena, 128, 0) +
                 (pipesched_rt_stream(w.context) != nullptr);
    return enter(w);
  }),
            0);
  EXPECT_EQ(numWrong, 0);
}
