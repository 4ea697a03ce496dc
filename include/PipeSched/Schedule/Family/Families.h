//===- Families.h - All schedule families by name ---------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The registry of families: their names, their options, and one function from
// (family, placement, options) to a table. Passes, formulas, sweeps, benchmarks
// and bindings reach every generator through it:
//
//   const Family *family = take(lookUpFamily("VPP"));    interleaved-1f1b
//   FamilyOptions options;
//   take(setOption(options, "chunks", "2"));
//   Placement placement = take(placeFamily(*family, 8, 32, options));
//   Table table = take(generate(*family, placement, options));
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_SCHEDULE_FAMILY_FAMILIES_H
#define PIPESCHED_SCHEDULE_FAMILY_FAMILIES_H

#include "PipeSched/Schedule/Family/Generators.h"
#include "PipeSched/Schedule/Program/Lowering.h"
#include "PipeSched/Schedule/Program/MessageSemantics.h"
#include <initializer_list>
#include <variant>

namespace pipesched {

struct FormulaInputs;
struct FormulaResult;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// All options of all families. An option without a value has the family's
/// default. Generators.h explains each.
struct FamilyOptions {
  std::optional<int64_t> chunks, group, waves, pairs, memory, slices, backward;
  std::optional<ChimeraConstruction> construction;
  std::optional<VocabularyAlgorithm> vocabulary;
  /// Whether the shards of the embedding have separate cells (E, A, C, V) if
  /// the vocabulary is sharded over workers.
  std::optional<bool> embedding;
  std::optional<bool> splitBackward;
  /// Whether no path has a backward.
  std::optional<bool> forwardOnly;
  /// Has no effect on whole backwards.
  std::optional<GradientAfter> gradientAfter;
  /// For greedy and hanayo, by global stage; empty: unit slots. No text form.
  std::vector<StageSlots> slots;

  ChimeraConstruction getConstruction() const {
    return construction.value_or(ChimeraConstruction::Concat);
  }
  VocabularyAlgorithm getVocabulary() const {
    return vocabulary.value_or(VocabularyAlgorithm::Vocab1);
  }
};

/// The member of FamilyOptions that holds an option.
using FamilyOptionField =
    std::variant<std::optional<int64_t> FamilyOptions::*,
                 std::optional<bool> FamilyOptions::*,
                 std::optional<GradientAfter> FamilyOptions::*,
                 std::optional<ChimeraConstruction> FamilyOptions::*,
                 std::optional<VocabularyAlgorithm> FamilyOptions::*>;

/// The options that have a name and a text form.
enum class FamilyOption : uint8_t {
  Chunks,
  Group,
  Waves,
  Pairs,
  Memory,
  Construction,
  SplitBackward,
  GradientAfter,
  Slices,
  Vocabulary,
  Backward,
  Embedding,
  ForwardOnly,
};

struct FamilyOptionInfo {
  FamilyOption option;
  llvm::StringLiteral name;    ///< "split-backward", as passes spell it
  llvm::StringRef values;      ///< "true or false"
  llvm::StringLiteral summary; ///< one line
  /// The default of a number, in words; empty for options that are not numbers.
  llvm::StringLiteral notGiven;
  FamilyOptionField field;
  /// Whether a schedule in IR states the option next to the name of its family.
  /// All other options follow from its paths and its gradient rule.
  bool isWritten;

  bool isGiven(const FamilyOptions &options) const {
    return std::visit(
        [&](auto member) { return (options.*member).has_value(); }, field);
  }
};

/// All options, in the order of the enum.
llvm::ArrayRef<FamilyOptionInfo> familyOptions();

/// Sets the option of that name ("split-backward", "split_backward") from text
/// ("true"). Errors: an unknown name, with the closest option; a value that the
/// option does not take. The generator checks ranges.
llvm::Error setOption(FamilyOptions &options, llvm::StringRef name,
                      llvm::StringRef value);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// The placement that a family takes.
enum class FamilyPlacement : uint8_t {
  Linear,        ///< one path, one stage per worker
  Rounds,        ///< one path: `chunks` (by default 1) rounds over the workers
  Interleaved,   ///< one path: `chunks` (by default 2) rounds over the workers
  V,             ///< one path, down the workers and up again
  Wave,          ///< one path, down and up `waves` times
  Bidirectional, ///< `pairs` mirrored pairs of paths
  Any,           ///< any paths
};

/// Message semantics under which every table of a family finishes, for any size
/// and options: bits 1 << MessageSemantics, by ReceivePlacement. Under each of
/// the other semantics, some table deadlocks.
struct MessageClaims {
  uint32_t arrival, consumer;
};

/// Another name of a family. Other spellings of its main name ("1F1B",
/// "LoopedBFS") need no entry.
struct OtherName {
  llvm::StringLiteral name, usedBy;
};

/// As many slices as workers (see Family::defaultSlices).
inline constexpr int64_t kSlicePerWorker = 0;

/// All facts about a family. Its pass, its options, its formula and the names
/// by which it is found all come from here.
struct Family {
  llvm::StringLiteral name; ///< as in IR (`family`) and pipe-schedule-<name>
  llvm::StringLiteral summary;
  llvm::StringLiteral source;
  std::initializer_list<OtherName> otherNames;
  /// The D and N for which there is a table, or "any".
  llvm::StringLiteral sizes;
  FamilyPlacement placement;
  /// The default of split-backward. No value: the family has no such option; it
  /// always splits, or its rule decides cell by cell.
  std::optional<bool> splitsBackward;
  uint32_t options; ///< bits 1 << FamilyOption
  MessageClaims messages;
  /// Call generate() instead, which checks the options first.
  llvm::Expected<Table> (*generator)(const Placement &, const FamilyOptions &);
  /// The closed form, or null. Call evaluateFormula() instead, which checks the
  /// sizes first.
  llvm::Expected<FormulaResult> (*formula)(llvm::StringRef family,
                                           const FormulaInputs &);
  llvm::StringLiteral whyNoFormula = ""; ///< the reason why there is no formula
  /// Whether the pass of the family has the options `slots` and `slot`.
  bool measuresSlots = false;
  /// The number of slices if neither options nor placement give one.
  /// kSlicePerWorker means as many slices as workers.
  int64_t defaultSlices = 1;

  bool takes(FamilyOption option) const {
    return options >> static_cast<unsigned>(option) & 1;
  }
  /// Whether all of its tables finish under these semantics.
  bool finishesUnder(MessageSemantics semantics,
                     ReceivePlacement receives) const {
    uint32_t claimed = receives == ReceivePlacement::Arrival
                           ? messages.arrival
                           : messages.consumer;
    return claimed >> static_cast<unsigned>(semantics) & 1;
  }
};

/// All families, in the order of Generators.h.
llvm::ArrayRef<Family> families();

/// Another name of a family, the name of the family, and the software that uses
/// the alias.
struct FamilyAlias {
  llvm::StringRef alias, family, usedBy;
};

/// The other names of all families, in the order of families().
llvm::ArrayRef<FamilyAlias> familyAliases();

/// Returns the family with this name or alias, or null. Ignores case, a leading
/// "Schedule", and all but letters and digits: "ScheduleZBVZeroBubble",
/// "zbv_zero_bubble" and "ZBV" are all zb-v.
const Family *findFamily(llvm::StringRef name);

/// The same, but never null. Errors: an unknown name, with all families and the
/// closest name.
llvm::Expected<const Family *> lookUpFamily(llvm::StringRef name);

//===----------------------------------------------------------------------===//
// Placements and tables
//===----------------------------------------------------------------------===//

/// Returns the placement that the family takes for these sizes. `chunks`
/// defaults to 2 (for Rounds to 1), `waves` and `pairs` to 1, and `slices` to
/// the family's default; Any becomes linear. Errors: an option that the family
/// does not take; the errors of the placement.
llvm::Expected<Placement> placeFamily(const Family &family, int64_t numWorkers,
                                      int64_t numMicrobatches,
                                      const FamilyOptions &options = {});

/// Returns the table of the family on a placement. The generator replaces a
/// path 0..D-1 by the paths that the family needs, and undivided microbatches
/// by the slices of the options or by the family's default. If some stages do
/// not train, it first makes rows for training stages and then removes the
/// cells that the frozen stages do not run. Errors: frozen stages on a path
/// that the family replaces by one of another length; stages that do not train
/// in a family with shards; an option that the family does not take, with the
/// options that it takes; slices of the placement that the family does not
/// take, or that differ from the options; the errors of the generator.
llvm::Expected<Table> generate(const Family &family, const Placement &placement,
                               const FamilyOptions &options = {});

/// Returns the table of the family on the placement of placeFamily.
llvm::Expected<Table> generate(const Family &family, int64_t numWorkers,
                               int64_t numMicrobatches,
                               const FamilyOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FAMILY_FAMILIES_H
