//===- Generators.h - Schedule families ---------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each generator is a pure function from (placement, options) to a table. Its
// declaration and docs/Schedules.md state its rule, source and limits;
// Families.h lists all generators by name. There are D workers with V stages
// each and N microbatches; r is the position of a worker on the path.
//
// Errors of every generator: a placement that its rule does not cover, with the
// placement found and the placements it takes; sizes for which its rule is not
// defined, with the condition that fails and the nearest sizes; a table of more
// than kMaxTableCells cells. Time and memory are linear in cells unless stated
// otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FAMILY_GENERATORS_H
#define PIPESCHED_SCHEDULE_FAMILY_GENERATORS_H

#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"

namespace pipesched {

struct GeneratorOptions {
  bool splitBackward = false; ///< writes B as an adjacent I W
  /// No value: the family's default (W if a generator splits B into a pair).
  std::optional<GradientAfter> gradientAfter;
};

//===----------------------------------------------------------------------===//
// One path that visits every worker once
//===----------------------------------------------------------------------===//

/// All forwards, then all backwards, both in microbatch order (GPipe, Huang
/// 2019, arXiv 1811.06965).
llvm::Expected<Table> generateGPipe(const Placement &placement,
                                    const GeneratorOptions &options = {});

/// min(N, D-r) warm-up forwards, then alternately one backward and one forward,
/// then the remaining backwards (1F1B, Narayanan 2021, arXiv 2104.04473).
llvm::Expected<Table> generate1F1B(const Placement &placement,
                                   const GeneratorOptions &options = {});

/// 1F1B with min(N, 2(D-r)-1) warm-up forwards, which leaves each message a
/// slot to travel (eager 1F1B, as in JaxPP, arXiv 2412.14374).
llvm::Expected<Table> generateEager1F1B(const Placement &placement,
                                        const GeneratorOptions &options = {});

/// 1F1B's order with W delayed by r microbatches, so that W fills the drain
/// (ZB-H1, Qi 2024, arXiv 2401.10241). Always split; gradient after I. With k
/// slices: Seq1F1B's order with W delayed by r units.
llvm::Expected<Table> generateZBH1(const Placement &placement,
                                   const GeneratorOptions &options = {});

/// ZB-H1 with the warm-up of eager 1F1B and W delayed by 2r: no idle between
/// the first and the last cell of a worker if N >= 2D-1 (ZB-H2, same paper).
/// Always split; gradient after I. With k slices: k-1 more forwards in the
/// warm-up.
llvm::Expected<Table> generateZBH2(const Placement &placement,
                                   const GeneratorOptions &options = {});

//===----------------------------------------------------------------------===//
// One interleaved path: V rounds over all workers in the same order
//===----------------------------------------------------------------------===//

struct LoopOptions : GeneratorOptions {
  /// V. The path must agree, except that V rounds of 0..D-1 replace a path
  /// 0..D-1. No value: as in the path.
  std::optional<int64_t> chunks;
};

struct InterleavedOptions : LoopOptions {
  /// Number of microbatches that run on a chunk before the next chunk's turn. A
  /// given value must follow Megatron's rule: D <= group <= N (or all N in one
  /// group), and N mod group is 0 or at least D. Without a value PyTorch's rule
  /// applies: max(1, N div D) groups, a number that must divide N; the group is
  /// D if D divides N.
  std::optional<int64_t> group;
};

/// Runs all forwards stage by stage, in ascending order; then all backwards
/// stage by stage, in descending order and with microbatches reversed (looped
/// BFS, Lamy-Poirier 2023, arXiv 2211.05953).
llvm::Expected<Table> generateLoopedBFS(const Placement &placement,
                                        const LoopOptions &options = {});

/// Microbatches in groups of D; forwards by (group, stage ascending,
/// microbatch), then backwards by (group, stage descending, microbatch) (Shardy
/// MPMD's circular order, which calls the groups phases).
llvm::Expected<Table> generateMpmdCircular(const Placement &placement,
                                           const LoopOptions &options = {});

/// Groups of microbatches take turns on the chunks; min((V-1)group + 2(D-1-r),
/// NV) warm-up forwards, then alternately one forward and one backward, then
/// the remaining backwards (Narayanan 2021, arXiv 2104.04473, section 2.2;
/// Megatron-LM; PyTorch).
llvm::Expected<Table>
generateInterleaved1F1B(const Placement &placement,
                        const InterleavedOptions &options = {});

/// The interleaved order with (V-1)group + (D-1-r) warm-up forwards, I in place
/// of B, and W delayed by r microbatches (PyTorch's
/// ScheduleInterleavedZeroBubble after Qi 2024). Always split; gradient after
/// I.
llvm::Expected<Table>
generateInterleavedZB(const Placement &placement,
                      const InterleavedOptions &options = {});

/// The interleaved order with one more forward in the warm-up, min((V-1)group +
/// 2(D-1-r) + 1, NV). Then each forward overlaps the backward after it; the
/// extra forward keeps that backward independent of it (Megatron-Core,
/// combined_1f1b.py and schedules.py). V may be 1, where the group does not
/// matter. Whole backwards. Peak: min((V-1)group + 2D, NV).
llvm::Expected<Table>
generateCombined1F1B(const Placement &placement,
                     const InterleavedOptions &options = {});

//===----------------------------------------------------------------------===//
// Slices: a microbatch has k slices along its tokens (docs/Schedules.md). Rows
// run u = N k units; the backward of a microbatch starts with slice k-1. With
// one slice, each family equals a family without slices.
//===----------------------------------------------------------------------===//

/// min(D-r+k-1, u) warm-up forwards, then alternately one backward and one
/// forward (Seq1F1B, arXiv 2406.03488). With V > 1 chunks, (V-1)g + 2(D-1-r) +
/// k-1 warm-up forwards, then alternately one forward and one backward. Units
/// go through the chunks in groups of g, the least multiple of k that is at
/// least D; the last group has at least D. With one slice: 1F1B, or interleaved
/// 1F1B with a group of D.
llvm::Expected<Table> generateSeq1F1B(const Placement &placement,
                                      const LoopOptions &options = {});

/// min(k V + 2(D-1-r), u V) warm-up forwards, then alternately one backward and
/// one forward (SlimPipe, arXiv 2504.14519). With V > 1 chunks units go through
/// them in groups whose size is the smallest divisor of k that is at least D;
/// this needs k >= D. With one slice and chunk: eager 1F1B.
llvm::Expected<Table> generateSlimPipe(const Placement &placement,
                                       const LoopOptions &options = {});

/// All forwards, then all backwards (TeraPipe, arXiv 2102.07988). With one
/// slice: GPipe.
llvm::Expected<Table> generateTeraPipe(const Placement &placement,
                                       const GeneratorOptions &options = {});

//===----------------------------------------------------------------------===//
// Mirrored pairs of paths
//===----------------------------------------------------------------------===//

/// The construction for more microbatches than a basic unit has.
enum class ChimeraConstruction : uint8_t {
  Concat,   ///< units one after the other
  Doubling, ///< two microbatches in each forward, which makes it as long as a B
  Halving,  ///< Doubling's order for half microbatches
};

template <>
struct EnumNames<ChimeraConstruction> {
  static constexpr EnumName<ChimeraConstruction> values[] = {
      {ChimeraConstruction::Concat, "concat", "Units one after the other"},
      {ChimeraConstruction::Doubling, "doubling",
       "Two microbatches per forward"},
      {ChimeraConstruction::Halving, "halving",
       "Doubling for halves of microbatches"}};
};

struct ChimeraOptions : GeneratorOptions {
  /// As in placeBidirectional. The paths must agree, except that `pairs`
  /// mirrored pairs replace a single path 0..D-1. No value: as in the paths;
  /// one for a single path.
  std::optional<int64_t> pairs;
  ChimeraConstruction construction = ChimeraConstruction::Concat;
};

/// Basic units of D microbatches (2D for doubling and halving), shared evenly
/// by the paths, that enter every other slot and walk down the path and back
/// (Chimera, Li & Hoefler 2021, arXiv 2107.06925, sections 3.2 to 3.6). Units
/// may be incomplete, but each path needs at least one microbatch, and with
/// halving an even number. Paths without a list of microbatches take turns.
llvm::Expected<Table> generateChimera(const Placement &placement,
                                      const ChimeraOptions &options = {});

//===----------------------------------------------------------------------===//
// One path that goes down the workers and back up: a V, two stages per worker.
// It replaces a path 0..D-1.
//===----------------------------------------------------------------------===//

/// No idle slot between the first and the last cell of a worker if N >= 2D-1
/// (ZB-V, Qi 2024b, arXiv 2405.15362, in the order of PyTorch's
/// ScheduleZBVZeroBubble). Always split; gradient after I. Peak 2D. With k
/// slices: each chunk runs k-1 more forwards before its first I.
llvm::Expected<Table> generateZBV(const Placement &placement,
                                  const GeneratorOptions &options = {});

/// V-Half and V-Min of the same paper: their building blocks, repeated and
/// shifted left as far as their memory allows. The generator makes two tables
/// and takes the shorter one in unit slots: one keeps the blocks' order of
/// forwards, in the other one forwards of the first stage may overtake. Always
/// split; gradient after I. Peaks: V-Half D+2 for even and D+1 for odd D; V-Min
/// 2(floor((D+1)/3)+1).
llvm::Expected<Table> generateVHalf(const Placement &placement,
                                    const GeneratorOptions &options = {});
llvm::Expected<Table> generateVMin(const Placement &placement,
                                   const GeneratorOptions &options = {});

struct ZBAutoOptions : GeneratorOptions {
  /// Number of activations (of one stage and microbatch) that a worker may
  /// hold. The minimum is 2. No value: 2D, as much as 1F1B holds.
  std::optional<int64_t> memory;
};

/// Returns the shortest table, in unit slots, of several left-shifted V blocks.
/// A block that needs more memory than `memory` gets a longer period.
llvm::Expected<Table> generateZBAuto(const Placement &placement,
                                     const ZBAutoOptions &options = {});

/// DualPipe cut in half: its two directions become the two legs of one V, and
/// forwards of one leg overlap with backwards of the other (DeepSeek-AI 2025,
/// arXiv 2412.19437). N >= 2D. Some backwards are split; gradient after I. Peak
/// 2D+1.
llvm::Expected<Table> generateDualPipeV(const Placement &placement,
                                        const GeneratorOptions &options = {});

/// DualPipe on two mirrored paths with half of the microbatches each,
/// regardless of `takes` (DeepSeek-AI 2025, section 3.2.1). Two mirrored paths
/// replace a path 0..D-1. D and N even, N >= 2D. Peak D+1.
llvm::Expected<Table> generateDualPipe(const Placement &placement,
                                       const GeneratorOptions &options = {});

//===----------------------------------------------------------------------===//
// A vocabulary sharded over the workers: each has a shard of the head, so all
// workers run F .. X S Y T Z of a microbatch (arXiv 2411.05288, vocabulary
// parallelism)
//===----------------------------------------------------------------------===//

struct VocabularyOptions : GeneratorOptions {
  VocabularyAlgorithm algorithm = VocabularyAlgorithm::Vocab1;
};

struct Vocab1F1BOptions : VocabularyOptions {
  /// The time of B in percent of F, from 1 to kMostBackward; by default as in
  /// unit slots. It decides where the steps of the head run.
  std::optional<int64_t> backward;

  static constexpr int64_t kUnitBackward = 200, kMostBackward = 10000;
};

/// 1F1B with one S and one T in each interval on each worker (arXiv 2411.05288,
/// section 5). Peaks: min(N, D-r+2) microbatches with Vocab-1, min(N, D-r+1)
/// with Vocab-2. Errors: `backward` is out of its range.
llvm::Expected<Table> generateVocab1F1B(const Placement &placement,
                                        const Vocab1F1BOptions &options = {});

/// V-Half with S and T in its building block (same paper, appendix).
llvm::Expected<Table> generateVocabVHalf(const Placement &placement,
                                         const VocabularyOptions &options = {});

/// 1F1B in which all workers stop for S and T of a microbatch together
/// (interlaced, same paper, section 6; nnScaler). Peak about 1.5 D.
llvm::Expected<Table>
generateInterlaced1F1B(const Placement &placement,
                       const GeneratorOptions &options = {});

//===----------------------------------------------------------------------===//
// Schedules for any paths
//===----------------------------------------------------------------------===//

struct GreedyOptions {
  bool splitBackward = true;
  GradientAfter gradientAfter = GradientAfter::WeightGrad;
  /// By global stage; empty: unit slots. The table has the same slots. Longer
  /// stages (by blocks or durations) change the order.
  std::vector<StageSlots> slots;
};

/// In each slot, every free worker runs the ready cell that is furthest along
/// its chain (position s for F, 2S-1-s for B, I and W of stage s of S). Among
/// equals it runs the cell that was ready first, then the cell that the
/// lowest-numbered worker made ready (arXiv 2605.24006). All microbatches are
/// ready at slot 0. Paths without a list of microbatches take turns (m mod P of
/// P paths). A slice is also ready only after the previous slice (in a
/// backward: the next one) has run on the stage. The first slice of a
/// microbatch is ready once the earlier microbatches of its path have started
/// all slices. O(cells log(D V)).
llvm::Expected<Table> generateGreedy(const Placement &placement,
                                     const GreedyOptions &options = {});

struct HanayoOptions : GreedyOptions {
  /// As in placeWave. The path must agree, except that this many waves replace
  /// a path 0..D-1. No value: as in the path; one for 0..D-1.
  std::optional<int64_t> waves;
};

/// The greedy rule on a wave placement (Hanayo, Liu 2023, arXiv 2308.15762).
llvm::Expected<Table> generateHanayo(const Placement &placement,
                                     const HanayoOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FAMILY_GENERATORS_H
