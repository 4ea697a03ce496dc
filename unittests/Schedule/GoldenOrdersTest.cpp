//===- GoldenOrdersTest.cpp - Orders of other implementations -------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If independent implementations agree on an order, our order is the same; if
// they search, our table is as short and holds as little.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/Golden.h"
#include "PipeSched/Schedule/Family/Generators.h"

using namespace pipesched;

TEST(GoldenOrders, GPipe) {
  expectGoldenOrder(llvm::cantFail(generateGPipe(makeLinear(4, 8))),
                    "pytorch_gpipe_D4_N8");
}

TEST(GoldenOrders, OneFOneB) {
  Table small = llvm::cantFail(generate1F1B(makeLinear(4, 8)));
  expectGoldenOrder(small, "pytorch_1f1b_D4_N8");
  expectGoldenOrder(small, "megatron_1f1b_D4_N8");
  Table large = llvm::cantFail(generate1F1B(makeLinear(8, 32)));
  expectGoldenOrder(large, "pytorch_1f1b_D8_N32");
  expectGoldenOrder(large, "zbpp_1f1b_D8_N32");
  expectGoldenOrder(llvm::cantFail(generate1F1B(makeLinear(8, 24))),
                    "mpmd_1f1b_D8_N24");
}

TEST(GoldenOrders, Eager1F1B) {
  expectGoldenOrder(llvm::cantFail(generateEager1F1B(makeLinear(4, 8))),
                    "jaxpp_eager1f1b_D4_N8");
}

static InterleavedOptions chunksAndGroup(int64_t chunks,
                                         std::optional<int64_t> group = {}) {
  InterleavedOptions options;
  options.chunks = chunks;
  options.group = group;
  return options;
}

TEST(GoldenOrders, Interleaved1F1B) {
  auto expectOrder = [](int64_t workers, int64_t microbatches,
                        InterleavedOptions options, llvm::StringRef name) {
    Placement placement = makeLinear(workers, microbatches);
    expectGoldenOrder(
        llvm::cantFail(generateInterleaved1F1B(placement, options)), name);
  };
  expectOrder(4, 8, chunksAndGroup(2), "pytorch_interleaved1f1b_D4_N8_V2");
  expectOrder(8, 32, chunksAndGroup(4), "pytorch_interleaved1f1b_D8_N32_V4");
  expectOrder(4, 8, chunksAndGroup(2, 4), "megatron_interleaved_D4_N8_V2_g4");
  expectOrder(4, 10, chunksAndGroup(2, 5), "megatron_interleaved_D4_N10_V2_g5");
  expectOrder(4, 8, chunksAndGroup(2), "zbpp_vpp_D4_N8_V2");
  expectOrder(8, 32, chunksAndGroup(4, 8), "megatron_interleaved_D8_N32_V4_g8");
}

TEST(GoldenOrders, Combined1F1B) {
  auto expectOrder = [](int64_t workers, int64_t microbatches,
                        InterleavedOptions options, llvm::StringRef name) {
    Placement placement = makeLinear(workers, microbatches);
    expectGoldenOrder(llvm::cantFail(generateCombined1F1B(placement, options)),
                      name);
  };
  expectOrder(4, 8, chunksAndGroup(2), "megatron_combined1f1b_D4_N8_V2_g4");
  expectOrder(4, 10, chunksAndGroup(2, 5),
              "megatron_combined1f1b_D4_N10_V2_g5");
  expectOrder(8, 32, chunksAndGroup(4, 8),
              "megatron_combined1f1b_D8_N32_V4_g8");
}

TEST(GoldenOrders, LoopedFamilies) {
  LoopOptions options;
  options.chunks = 2;
  Placement placement = makeLinear(4, 8);
  expectGoldenOrder(llvm::cantFail(generateLoopedBFS(placement, options)),
                    "pytorch_loopedbfs_D4_N8_V2");
  expectGoldenOrder(llvm::cantFail(generateMpmdCircular(placement, options)),
                    "mpmd_circular_D4_N8_V2");
}

TEST(GoldenOrders, InterleavedZB) {
  Placement placement = makeLinear(4, 8);
  expectGoldenOrder(
      llvm::cantFail(generateInterleavedZB(placement, chunksAndGroup(1))),
      "pytorch_interleavedzb_D4_N8_V1");
  expectGoldenOrder(
      llvm::cantFail(generateInterleavedZB(placement, chunksAndGroup(2))),
      "pytorch_interleavedzb_D4_N8_V2");
}

TEST(GoldenOrders, ZBH1) {
  expectGoldenOrder(llvm::cantFail(generateZBH1(makeLinear(4, 8))),
                    "zbpp_zbh1_D4_N8");
  expectGoldenOrder(llvm::cantFail(generateZBH1(makeLinear(8, 24))),
                    "zbpp_zbh1_D8_N24");
  expectGoldenOrder(llvm::cantFail(generateZBH1(makeLinear(8, 32))),
                    "zbpp_zbh1_D8_N32");
}

/// Others find these by search: ours are no longer and hold no more.
TEST(GoldenOrders, ZBH2IsNoWorse) {
  auto expectNoWorse = [](int64_t workers, int64_t microbatches,
                          llvm::StringRef name) {
    SCOPED_TRACE(name.str());
    Placement placement = makeLinear(workers, microbatches);
    TableMetrics ours = measure(llvm::cantFail(generateZBH2(placement)));
    TableMetrics theirs = measure(loadGoldenTable(name, placement));
    EXPECT_LE(ours.slots, theirs.slots);
    EXPECT_LE(largest(ours.peakActivations), largest(theirs.peakActivations));
  };
  expectNoWorse(4, 8, "zbpp_zbh2_D4_N8");
  expectNoWorse(8, 24, "zbpp_zbh2_D8_N24");
  expectNoWorse(4, 16, "mpmd_zbh2_zerotx_D4_N16");
}
