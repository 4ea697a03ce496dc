//===- AllFamilies.h - Small tables of every family -------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables over which property tests of transforms run.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_UNITTESTS_SUPPORT_ALLFAMILIES_H
#define PIPESCHED_UNITTESTS_SUPPORT_ALLFAMILIES_H

#include "CheckTable.h"
#include "PipeSched/Schedule/Family/Families.h"

namespace pipesched {

/// Calls `check(family, table)` for each family and all sizes up to D workers
/// and N microbatches that it does not refuse. Fails if a family has no table
/// at all.
template <typename Check>
void forAllFamilies(int64_t mostWorkers, int64_t mostMicrobatches,
                    const FamilyOptions &options, Check &&check) {
  for (const Family &family : families()) {
    if (options.splitBackward && !family.takes(FamilyOption::SplitBackward))
      continue;
    int64_t numTables = 0;
    for (int64_t workers = 1; workers <= mostWorkers; ++workers)
      for (int64_t n = 1; n <= mostMicrobatches; ++n) {
        SCOPED_TRACE(testing::Message()
                     << family.name.str() << " D=" << workers << " N=" << n);
        llvm::Expected<Table> table = generate(family, workers, n, options);
        if (!table) {
          llvm::consumeError(table.takeError());
          continue;
        }
        ++numTables;
        check(family, *table);
      }
    EXPECT_GT(numTables, 0) << family.name.str();
  }
}

/// Whether workers have shards of a vocabulary. A walk cannot time such a
/// table.
inline bool hasShards(const Table &table) {
  return llvm::any_of(table.rows, [](const Row &row) {
    return llvm::any_of(row,
                        [](Cell cell) { return cell.isIn(kSpreadPhases); });
  });
}

/// The same table, each cell at its earliest slot.
inline Table align(Table table) {
  table.rows = llvm::cantFail(alignRows(table.view()));
  table.aligned = true;
  return table;
}

} // namespace pipesched

#endif // PIPESCHED_UNITTESTS_SUPPORT_ALLFAMILIES_H
