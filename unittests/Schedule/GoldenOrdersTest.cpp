//===- GoldenOrdersTest.cpp - Orders of other implementations -------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// If independent implementations agree on an order, our order is the same; if
// they search, our table is as short and holds as little.
//
//===----------------------------------------------------------------------===//

#include "../Support/CheckTable.h"
#include "../Support/Golden.h"
#include "PipeSched/Schedule/Family/Families.h"

using namespace pipesched;

namespace {
/// The rows of `family` equal the rows of the file `name`.
struct GoldenOrder {
  llvm::StringRef family;
  int64_t workers, microbatches;
  llvm::StringRef name;
  std::optional<int64_t> chunks = {}, group = {}, memory = {};

  Table generate() const {
    FamilyOptions options;
    options.chunks = chunks;
    options.group = group;
    options.memory = memory;
    return llvm::cantFail(pipesched::generate(*findFamily(family), workers,
                                              microbatches, options));
  }
};
} // namespace

static const GoldenOrder kOrders[] = {
    {"gpipe", 4, 8, "pytorch_gpipe_D4_N8"},
    {"1f1b", 4, 8, "pytorch_1f1b_D4_N8"},
    {"1f1b", 4, 8, "megatron_1f1b_D4_N8"},
    {"1f1b", 8, 32, "pytorch_1f1b_D8_N32"},
    {"1f1b", 8, 32, "zbpp_1f1b_D8_N32"},
    {"1f1b", 8, 24, "mpmd_1f1b_D8_N24"},
    {"eager-1f1b", 4, 8, "jaxpp_eager1f1b_D4_N8"},
    {"interleaved-1f1b", 4, 8, "pytorch_interleaved1f1b_D4_N8_V2", 2},
    {"interleaved-1f1b", 8, 32, "pytorch_interleaved1f1b_D8_N32_V4", 4},
    {"interleaved-1f1b", 4, 8, "megatron_interleaved_D4_N8_V2_g4", 2, 4},
    {"interleaved-1f1b", 4, 10, "megatron_interleaved_D4_N10_V2_g5", 2, 5},
    {"interleaved-1f1b", 4, 8, "zbpp_vpp_D4_N8_V2", 2},
    {"interleaved-1f1b", 8, 32, "megatron_interleaved_D8_N32_V4_g8", 4, 8},
    {"combined-1f1b", 4, 8, "megatron_combined1f1b_D4_N8_V2_g4", 2},
    {"combined-1f1b", 4, 10, "megatron_combined1f1b_D4_N10_V2_g5", 2, 5},
    {"combined-1f1b", 8, 32, "megatron_combined1f1b_D8_N32_V4_g8", 4, 8},
    {"looped-bfs", 4, 8, "pytorch_loopedbfs_D4_N8_V2", 2},
    {"mpmd-circular", 4, 8, "mpmd_circular_D4_N8_V2", 2},
    {"interleaved-zb", 4, 8, "pytorch_interleavedzb_D4_N8_V1", 1},
    {"interleaved-zb", 4, 8, "pytorch_interleavedzb_D4_N8_V2", 2},
    {"zb-h1", 4, 8, "zbpp_zbh1_D4_N8"},
    {"zb-h1", 8, 24, "zbpp_zbh1_D8_N24"},
    {"zb-h1", 8, 32, "zbpp_zbh1_D8_N32"},
    {"zb-v", 4, 8, "pytorch_zbv_D4_N8"},
    {"zb-v", 8, 32, "pytorch_zbv_D8_N32"},
    {"dualpipe", 4, 8, "deepseek_dualpipe_D4_N8"},
    {"dualpipe", 8, 16, "deepseek_dualpipe_D8_N16"},
    {"dualpipe", 8, 20, "deepseek_dualpipe_D8_N20"},
    {"dualpipe-v", 4, 10, "pytorch_dualpipev_D4_N10"},
    {"dualpipe-v", 8, 20, "pytorch_dualpipev_D8_N20"},
};

TEST(GoldenOrders, AreThoseOfOtherImplementations) {
  for (const GoldenOrder &order : kOrders) {
    SCOPED_TRACE(order.name.str());
    expectGoldenOrder(order.generate(), order.name);
  }
}

/// Published orders were found by search: ours are no longer and hold no more.
static const GoldenOrder kSearched[] = {
    {"zb-h2", 4, 8, "zbpp_zbh2_D4_N8"},
    {"zb-h2", 8, 24, "zbpp_zbh2_D8_N24"},
    {"zb-h2", 4, 16, "mpmd_zbh2_zerotx_D4_N16"},
    {"zb-v", 4, 8, "zbpp_zbv_D4_N8"},
    {"zb-v", 8, 24, "zbpp_zbv_D8_N24"},
    {"v-half", 4, 8, "zbpp_vhalf_D4_N8"},
    {"v-half", 5, 10, "zbpp_vhalf_D5_N10"},
    {"v-half", 8, 24, "zbpp_vhalf_D8_N24"},
    {"v-min", 4, 8, "zbpp_vmin_D4_N8"},
    {"v-min", 5, 10, "zbpp_vmin_D5_N10"},
    {"v-min", 8, 24, "zbpp_vmin_D8_N24"},
    {"zb-auto", 4, 8, "zbpp_vauto_D4_N8_mem4", {}, {}, /*memory=*/4},
    {"zb-auto", 4, 8, "zbpp_vauto_D4_N8_mem6", {}, {}, /*memory=*/6},
    {"zb-auto", 4, 8, "zbpp_vauto_D4_N8_mem8", {}, {}, /*memory=*/8},
};

TEST(GoldenOrders, AreNoBetterWhereOthersSearch) {
  for (const GoldenOrder &order : kSearched) {
    SCOPED_TRACE(order.name.str());
    Table table = order.generate();
    TableMetrics ours = measure(table);
    TableMetrics theirs = measure(loadGoldenTable(order.name, table.placement));
    EXPECT_LE(ours.slots, theirs.slots);
    EXPECT_LE(largest(ours.peakActivations), largest(theirs.peakActivations));
  }
}
