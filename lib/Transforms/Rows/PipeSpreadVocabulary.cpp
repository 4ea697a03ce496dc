//===- PipeSpreadVocabulary.cpp - pipe-spread-vocabulary ------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adapter around spreadVocabulary.
//
//===----------------------------------------------------------------------===//

#include "../SchedulePass.h"
#include "PipeSched/Dialect/Pipe/IR/ScheduleTable.h"
#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Transforms/Passes.h"

namespace pipesched::pipe {
#define GEN_PASS_DEF_PIPESPREADVOCABULARYPASS
#include "PipeSched/Transforms/Passes.h.inc"
} // namespace pipesched::pipe

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

namespace {
struct PipeSpreadVocabularyPass final
    : SchedulePass<PipeSpreadVocabularyPass,
                   pipe::impl::PipeSpreadVocabularyPassBase> {
  using Base::Base;

  LogicalResult treat(ScheduleOp op) const {
    ScheduleTable table(op);
    llvm::Expected<std::vector<Row>> rows =
        spreadVocabulary(table.view(), vocabulary);
    if (rows && embedding) {
      TableView spread = table.view();
      spread.rows.assign(rows->begin(), rows->end());
      rows = spreadEmbedding(spread);
    }
    if (!rows)
      return emitTableError(op, rows.takeError());
    storeRows(op, std::move(*rows));
    op.dropFamily();
    return success();
  }
};
} // namespace
