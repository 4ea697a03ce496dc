//===- WorkerPrograms.h - Program of each worker for executors --*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program as columns of numbers that a runtime can execute. Each worker finds
// its instructions and their dependences there, and names of messages and
// all-reduces on which all workers agree.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_ANALYSIS_GRAPH_WORKERPROGRAMS_H
#define PIPESCHED_ANALYSIS_GRAPH_WORKERPROGRAMS_H

#include "PipeSched/Schedule/Program/Program.h"

namespace pipesched {

/// How the activation of a cell's stage and microbatch is treated between F and
/// the backward. Bits of InstructionCells::activation.
enum ActivationBits : int8_t {
  kActivationRecomputed = 1, ///< the program has an R for it
  kActivationOffloaded = 2   ///< the program has a D for it
};

/// One cell per instruction, as columns.
struct InstructionCells {
  std::vector<int32_t> path, stage;
  std::vector<int32_t> microbatch; ///< the path for O and G
  std::vector<int8_t> phase;       ///< PhaseTraits::code
  std::vector<int8_t> activation;  ///< ActivationBits; 0 for O and G
};

/// The instructions of all workers, row by row, in the form that an executor
/// reads. An overlapped pair is one instruction. Instructions are numbered from
/// 0 in each row; -1 means "none".
///
///   rowBegins    D + 1 entries: where each row starts in the columns
///   waitBegins   one entry per instruction and one more per row, from 0 in
///                each row: row w has entries rowBegins[w] + w and following
///   rowWaits     D + 1 entries: where the waits of each row start in `waits`
struct WorkerPrograms {
  int64_t numSlices = 1; ///< of a microbatch; then `microbatch` is a unit
  std::vector<uint32_t> rowBegins;
  std::vector<int8_t> kind; ///< an InstructionKind
  InstructionCells first;
  /// The second half of an overlapped pair; otherwise -1, and 0 in
  /// `activation`.
  InstructionCells second;
  std::vector<int32_t> peer; ///< Send, Recv: the other worker
  /// Send, Recv: the number of the message, dense from 0, by worker and by the
  /// order of the sends. Both ends have the same number.
  std::vector<int32_t> message;
  /// Send, Recv: the number of earlier sends between the same two workers in
  /// the same direction.
  std::vector<int32_t> sequence;
  std::vector<int32_t> group; ///< a collective: the number of its group
  std::vector<int32_t> holds; ///< Wait: the first instruction that it holds
  /// The instructions of the same row that must be done first, each once. A
  /// Wait is done when all its operands are done; the instructions that it
  /// holds wait for the Wait.
  std::vector<uint32_t> waitBegins, rowWaits;
  std::vector<int32_t> waits;

  /// Groups by their numbers (Program::groups). A group has a kind, and either
  /// the blocks (else 0) or the microbatch (else -1) for which it meets.
  /// Members are workers, ascending. `groupPaths` and `groupStages` list, by
  /// path, the stages whose gradients are summed, and for other collectives the
  /// stages of the cells (CSR).
  std::vector<int8_t> groupKind;
  std::vector<int64_t> firstBlock, endBlock;
  std::vector<int32_t> groupMicrobatch;
  std::vector<uint32_t> memberBegins, groupStageBegins; ///< groups + 1
  std::vector<int32_t> members, groupPaths, groupStages;

  int64_t getNumWorkers() const { return rowBegins.size() - 1; }
  int64_t getNumGroups() const { return firstBlock.size(); }
};

/// Lists a program; `placement` is the placement of its cells. Joins delay the
/// same instructions as in every other analysis of the program. Linear, with a
/// factor logarithmic in the number of R and D if there are any, and in stages
/// for all-reduces. Errors: more than 2^31 - 1 instructions, or waits of one
/// worker; errors of Replicas if there are all-reduces.
llvm::Expected<WorkerPrograms> listWorkerPrograms(const Program &program,
                                                  const Placement &placement);

/// The ParameterSets of each worker, in the order of the model: CSR. Stages are
/// positions among the stages of the worker.
struct WorkerParameterSets {
  std::vector<uint32_t> begins;              ///< workers + 1
  std::vector<int64_t> firstBlock, endBlock; ///< [first, end) of its blocks
  std::vector<int32_t> owner;                ///< the stage that owns it
  /// The stages that hold it, ascending: CSR for each worker, like waitBegins
  /// and rowWaits of WorkerPrograms.
  std::vector<uint32_t> stageBegins, rowStages;
  std::vector<int32_t> stages;
};

/// The stages of each worker, ascending by path and then by stage: CSR.
struct WorkerStages {
  std::vector<uint32_t> begins; ///< workers + 1
  std::vector<int32_t> path, stage;
  std::vector<int64_t> firstBlock, endBlock; ///< [first, end) of its blocks
  /// The stage holds the sets [firstSet, endSet) of its worker, and owns the
  /// sets before endOwnedSet. All three are 0 for a stage without sets.
  std::vector<int32_t> firstSet, endOwnedSet, endSet;
  WorkerParameterSets sets;
  int64_t numBlocks = 0; ///< of the model
};

/// Lists the stages of a placement, with blocks in the unit of Replicas: layers
/// of the model if all paths state `blocks`. Linear in stages and in the stages
/// of all sets, after ParameterSets::create. Errors: as for
/// ParameterSets::create. Also: more than 2^31 - 1 stages of all sets.
llvm::Expected<WorkerStages> listWorkerStages(const Placement &placement);

} // namespace pipesched

#endif // PIPESCHED_ANALYSIS_GRAPH_WORKERPROGRAMS_H
