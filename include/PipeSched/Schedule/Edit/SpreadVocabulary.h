//===- SpreadVocabulary.h - Shards of the head on all workers ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Vocabulary parallelism for any table (Yeung et al. 2024, arXiv 2411.05288):
// each worker gets a shard of the head, S and T, and the collectives X, Y and
// Z that bring shards together.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_EDIT_SPREADVOCABULARY_H
#define PIPESCHED_SCHEDULE_EDIT_SPREADVOCABULARY_H

#include "PipeSched/Schedule/Table/Table.h"
#include "llvm/Support/Error.h"

namespace pipesched {

/// How shards compute the gradient of the last output.
enum class VocabularyAlgorithm : uint8_t {
  Vocab1, ///< two barriers: the softmax after S, and the gradient after T
  Vocab2, ///< one barrier: the gradient comes with the softmax, T may come
          ///< later
};

template <>
struct EnumNames<VocabularyAlgorithm> {
  static constexpr EnumName<VocabularyAlgorithm> values[] = {
      {VocabularyAlgorithm::Vocab1, "vocab-1",
       "Two barriers: the softmax after S, the gradient after T"},
      {VocabularyAlgorithm::Vocab2, "vocab-2",
       "One barrier: the gradient comes with the softmax"}};
};

/// Returns the rows of a table with S, T and their collectives. The other cells
/// keep their order, so that workers hold as many activations as before. All
/// workers run the steps of the head in the order in which the last stages need
/// them. S of a microbatch follows its last F; T follows one step later, or
/// before the backward that waits for it. In unit slots, each worker runs a
/// step as soon as it can. Vocab-1 has a Z on each worker, Vocab-2 has no Z.
/// The cells of a worker belong to its last stage on the path.
///
/// Linear in the entries and the slots of the result. Errors, as
/// ViolationError: as for verifyTable; a table that has such cells already; O
/// or G cells, which would run before T; written slots. Others: more than
/// kMaxTableCells entries.
llvm::Expected<std::vector<Row>>
spreadVocabulary(const TableView &table, VocabularyAlgorithm algorithm);

/// Returns the rows of a table with a shard of the embedding on each worker
/// (same paper, section on the input layer). E looks up the rows of the shard,
/// and A sums the lookups for F of the first stage. C sends the gradient of
/// that sum to all workers, and V adds it to the gradients of the shard. The
/// other cells keep their order and their unit slots. All workers run E in the
/// order of the F of the first stage. Each E runs when the second F before its
/// own has ended, so that the worker of the first stage holds at most two
/// outputs. V follows the next backward of the first stage. The cells of a
/// worker belong to its first stage on the path.
///
/// Linear in the entries of the result. Errors, as ViolationError: as for
/// verifyTable; a table that has such cells already; O or G cells, which would
/// run before V; written slots. Others: more than kMaxTableCells entries.
llvm::Expected<std::vector<Row>> spreadEmbedding(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_EDIT_SPREADVOCABULARY_H
