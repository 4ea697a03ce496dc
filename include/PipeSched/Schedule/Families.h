//===- Families.h - All schedule families by name ---------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
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

#ifndef PIPESCHED_SCHEDULE_FAMILIES_H
#define PIPESCHED_SCHEDULE_FAMILIES_H

#include "PipeSched/Schedule/Generators.h"
#include "PipeSched/Schedule/Lowering.h"
#include "PipeSched/Schedule/MessageSemantics.h"
#include <initializer_list>
#include <variant>

namespace pipesched {

struct FormulaInputs;
struct FormulaResult;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

/// Every option of every family. Nothing: the family's default. The generators
/// say what each means (Generators.h).
struct FamilyOptions {
  std::optional<int64_t> chunks, group, waves, pairs, memory;
  std::optional<ChimeraConstruction> construction;
  std::optional<bool> splitBackward;
  /// Of split backwards only: without effect where they are whole.
  std::optional<GradientAfter> gradientAfter;
  /// Of greedy and hanayo, by global stage; empty: unit slots. No text form.
  std::vector<StageSlots> slots;

  ChimeraConstruction getConstruction() const {
    return construction.value_or(ChimeraConstruction::Concat);
  }
};

/// The member of FamilyOptions that holds an option.
using FamilyOptionField =
    std::variant<std::optional<int64_t> FamilyOptions::*,
                 std::optional<bool> FamilyOptions::*,
                 std::optional<GradientAfter> FamilyOptions::*,
                 std::optional<ChimeraConstruction> FamilyOptions::*>;

/// An option as people name it.
enum class FamilyOption : uint8_t {
  Chunks,
  Group,
  Waves,
  Pairs,
  Memory,
  Construction,
  SplitBackward,
  GradientAfter,
};

struct FamilyOptionInfo {
  FamilyOption option;
  llvm::StringLiteral name;    ///< "split-backward", as passes spell it
  llvm::StringRef values;      ///< "true or false"
  llvm::StringLiteral summary; ///< one line
  /// What a number is where it is not given; empty for other options.
  llvm::StringLiteral notGiven;
  FamilyOptionField field;
  /// Whether the schedule says it beside the name of its family. The other
  /// options can be read off its paths and its gradient rule.
  bool isWritten;

  bool isGiven(const FamilyOptions &options) const {
    return std::visit(
        [&](auto member) { return (options.*member).has_value(); }, field);
  }
};

/// All of them, in the order of the enum.
llvm::ArrayRef<FamilyOptionInfo> familyOptions();

/// Sets the option of that name ("split-backward", "split_backward") from text
/// ("true"). Errors: no such option, with the closest; a value that it does not
/// take. Ranges are checked where a table is made.
llvm::Error setOption(FamilyOptions &options, llvm::StringRef name,
                      llvm::StringRef value);

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

/// The placement that a family takes.
enum class FamilyPlacement : uint8_t {
  Linear,        ///< one path, one stage per worker
  Interleaved,   ///< one path, `chunks` rounds over the workers
  V,             ///< one path, down the workers and up again
  Wave,          ///< one path, down and up `waves` times
  Bidirectional, ///< `pairs` mirrored pairs of paths
  Any,           ///< whatever paths
};

/// Message semantics under which every table finishes, whatever its size and
/// options: 1 << MessageSemantics, by where receives stand. Under all others
/// some table deadlocks.
struct MessageClaims {
  uint32_t arrival, consumer;
};

/// Another name of a family. Other spellings of its own name ("1F1B",
/// "LoopedBFS") are known without it.
struct OtherName {
  llvm::StringLiteral name, usedBy;
};

/// All that is said of a family in one place: the pass of the family, its
/// options, its formula and the names by which it is found are made from it.
struct Family {
  llvm::StringLiteral name; ///< of `family` in IR and of pipe-schedule-<name>
  llvm::StringLiteral summary;
  llvm::StringLiteral source;
  std::initializer_list<OtherName> otherNames;
  llvm::StringLiteral sizes; ///< D and N that have a table, "any" for all
  FamilyPlacement placement;
  /// Nothing: always split, or as the rule has it cell by cell; no option then.
  std::optional<bool> splitsBackward;
  uint32_t options; ///< 1 << FamilyOption
  MessageClaims messages;
  /// Of a placement and checked options: generate() is the way to it.
  llvm::Expected<Table> (*generator)(const Placement &, const FamilyOptions &);
  /// The closed form, or null: evaluateFormula() is the way to it.
  llvm::Expected<FormulaResult> (*formula)(llvm::StringRef family,
                                           const FormulaInputs &);
  llvm::StringLiteral whyNoFormula = ""; ///< where there is none
  /// Whether the pass of the family has the options `slots` and `slot`.
  bool measuresSlots = false;

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

/// Another name of a family, with the name of the family and who uses it.
struct FamilyAlias {
  llvm::StringRef alias, family, usedBy;
};

/// The other names of all families, those of a family one after the other.
llvm::ArrayRef<FamilyAlias> familyAliases();

/// The family of a name or alias; null for none. Only letters and digits count,
/// in either case, and a leading "Schedule" does not: "ScheduleZBVZeroBubble",
/// "zbv_zero_bubble" and "ZBV" are all zb-v.
const Family *findFamily(llvm::StringRef name);

/// The same, never null. Errors: an unknown name, with the closest known one
/// and all families.
llvm::Expected<const Family *> lookUpFamily(llvm::StringRef name);

//===----------------------------------------------------------------------===//
// Placements and tables
//===----------------------------------------------------------------------===//

/// The placement that the family takes for these sizes: `chunks` defaults to 2,
/// `waves` and `pairs` to 1; Any is linear. Errors: an option that the family
/// does not take; those of the placement.
llvm::Expected<Placement> placeFamily(const Family &family, int64_t numWorkers,
                                      int64_t numMicrobatches,
                                      const FamilyOptions &options = {});

/// The table of the family on a placement; as its generator, which replaces a
/// path 0..D-1. Errors: an option that the family does not take, with those it
/// does; those of the generator.
llvm::Expected<Table> generate(const Family &family, const Placement &placement,
                               const FamilyOptions &options = {});

/// The table of the family on the placement of placeFamily.
llvm::Expected<Table> generate(const Family &family, int64_t numWorkers,
                               int64_t numMicrobatches,
                               const FamilyOptions &options = {});

} // namespace pipesched

#endif // PIPESCHED_SCHEDULE_FAMILIES_H
