//===- CopiesTest.cpp - Copies to and from host memory --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies run alongside the worker, in order for each direction.
//
//===----------------------------------------------------------------------===//

#include "Program.h"
#include <cstring>

using namespace runtime_test;

TEST(Copies, ToTheHostAndBack) {
  Sizes sizes;
  sizes.arena = sizes.host = 3 << 20;
  World world(sizes, PIPESCHED_RT_RENDEZVOUS);
  int64_t numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  std::memset(w.arena, 'a' + w.index, 1 << 20);
                  pipesched_rt_offload(w.context, w.host, w.arena, 1 << 20, 0);
                  if (int32_t status = w.wait(0))
                    return status;
                  std::memset(w.arena, 'x', 1 << 20);
                  pipesched_rt_reload(w.context, w.arena, w.host, 1 << 20, 1);
                  if (int32_t status = w.wait(1))
                    return status;
                  if (w.index == 0)
                    for (int i = 0; i < 1 << 20; ++i)
                      numWrong += w.arena[i] != 'a';
                  return 0;
                },
                3),
            0);
  EXPECT_EQ(numWrong, 0);
}

TEST(Copies, OfOneDirectionRunInOrder) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  int64_t numWrong = 0;
  EXPECT_EQ(world.run(
                [&](const Worker &w) {
                  // Each copy reads the bytes that the one before it wrote.
                  w.arena[0] = static_cast<char>(w.step + w.index);
                  for (int32_t i = 0; i < 8; ++i)
                    pipesched_rt_offload(w.context, w.arena + 64 * (i + 1),
                                         w.arena + 64 * i, 64, i);
                  if (int32_t status = w.wait(7))
                    return status;
                  if (w.index == 0)
                    numWrong += w.arena[64 * 8] != static_cast<char>(w.step);
                  return 0;
                },
                100),
            0);
  EXPECT_EQ(numWrong, 0);
}

TEST(Copies, MayBeEmpty) {
  World world({}, PIPESCHED_RT_RENDEZVOUS);
  EXPECT_EQ(world.run([](const Worker &w) {
    pipesched_rt_offload(w.context, nullptr, nullptr, 0, 0);
    return w.wait(0);
  }),
            0);
}

TEST(Copies, EndBeforeARunReturns) {
  // Worker 1 fails while worker 0 copies; the memory may be freed at once.
  Sizes sizes;
  sizes.arena = sizes.host = 8 << 20;
  for (int repetition = 0; repetition < 5; ++repetition) {
    World world(sizes, PIPESCHED_RT_RENDEZVOUS);
    EXPECT_EQ(world.run([](const Worker &w) {
      if (w.index == 1)
        return pipesched_rt_fail(w.context, "enough");
      for (int32_t i = 0; i < 8; ++i)
        pipesched_rt_offload(w.context, w.host, w.arena, 8 << 20, i);
      return w.wait(7);
    }),
              PIPESCHED_RT_FAILED);
    EXPECT_EQ(world.error(), "worker 1: enough");
  }
}
