//===- ShardyRules.cpp - Fragment schedule rules of Shardy MPMD -----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks that rules can express the table, then writes it. A rule is a chain of
// fragments on one mesh; all fields of a fragment together identify it:
//
//   0F2  FragmentInfo(origins=["s0"],mesh_name="m0",call_counter=2)
//   0B2  FragmentInfo(origins=["s0"(1)],mesh_name="m0",call_counter=2)
//   0I2  ... ,call_counter=2,split_type=kKeepTransferred)
//   0W2  ... ,call_counter=2,split_type=kDropTransferred)
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Exchange/ShardyRules.h"
#include "ExportViolation.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::formatv;

//===----------------------------------------------------------------------===//
// Limits of rules
//===----------------------------------------------------------------------===//

/// Checks a prefix. Prefixes are inside two kinds of quotes, which shells,
/// response files and MLIR's option parser all read differently.
static std::optional<Violation> checkPrefix(llvm::StringRef what,
                                            llvm::StringRef prefix) {
  for (char character : prefix)
    if (!llvm::isAlnum(character) && !llvm::is_contained("_-.:/", character))
      return makeViolation(formatv("the {0} prefix '{1}' has a character other "
                                   "than letters, digits and _ - . : /",
                                   what, prefix));
  return std::nullopt;
}

static std::optional<Violation> checkCell(const TableView &table, CellRef at) {
  llvm::ArrayRef<Cell> row = table.rows[at.row];
  Cell cell = row[at.index];
  if (!cell.isIdle() && !cell.isIn(kKnownPhases))
    return makeViolation(formatv("cell {0} ({1}): Shardy's rules have no "
                                 "fragment for {2}",
                                 at.index, cell,
                                 describeOtherPhase(cell.getPhase())),
                         at);
  if (cell.overlapsNext())
    return makeViolation(formatv("cell {0} ({1}+{2}): Shardy's rules order "
                                 "fragments one after the other, they cannot "
                                 "overlap two",
                                 at.index, cell, row[at.index + 1]),
                         at);
  return std::nullopt;
}

static std::optional<Violation> checkTable(const TableView &table) {
  if (int64_t paths = table.placement->getNumPaths(); paths > 1)
    return makeViolation(
        formatv("the schedule has {0} paths: Shardy assigns each computation "
                "to one mesh, replicated stages cannot be written",
                paths));
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (int64_t index = 0, last = table.rows[row].size(); index != last;
         ++index)
      if (std::optional<Violation> violation = checkCell(table, {row, index}))
        return violation;
  return std::nullopt;
}

static bool isHalfOfBackward(Cell cell) { return cell.isIn(kSplitBackward); }

/// Shardy splits a backward only if it transfers a gradient to another mesh.
static bool leavesMesh(const Placement &placement, int64_t stage) {
  return stage > 0 &&
         placement.workerOf(stage - 1) != placement.workerOf(stage);
}

static bool splitsBackward(const TableView &table) {
  return llvm::any_of(table.rows, [](llvm::ArrayRef<Cell> row) {
    return llvm::any_of(row, isHalfOfBackward);
  });
}

bool pipesched::sendsAfterWeightGrad(const TableView &table) {
  return table.gradientAfter == GradientAfter::WeightGrad &&
         splitsBackward(table);
}

std::optional<Violation>
pipesched::findUnsplitBackward(const TableView &table,
                               const ShardyRulesOptions &options) {
  if (options.backward == ShardyBackward::Fragments)
    return std::nullopt;
  for (int64_t row = 0, end = table.rows.size(); row != end; ++row)
    for (auto [index, cell] : llvm::enumerate(table.rows[row]))
      if (isHalfOfBackward(cell) &&
          !leavesMesh(*table.placement, cell.getStage()))
        return makeViolation(
            formatv("cell {0} ({1}): Shardy splits only backwards whose "
                    "gradient goes to another mesh, but the gradient of stage "
                    "{2} stays on its mesh",
                    index, cell, cell.getStage()),
            CellRef{row, int64_t(index)});
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Writer
//===----------------------------------------------------------------------===//

namespace {
class RulesWriter {
public:
  RulesWriter(llvm::raw_ostream &os, const TableView &table,
              const ShardyRulesOptions &options)
      : os(os), table(table), options(options),
        splitsProgram(options.backward == ShardyBackward::Fragments &&
                      splitsBackward(table)) {}

  void run();

private:
  void writeRule(int64_t worker);
  void writeCell(int64_t worker, Cell cell);
  void writeFragment(int64_t worker, Cell cell);

  llvm::raw_ostream &os;
  const TableView &table;
  const ShardyRulesOptions &options;
  bool splitsProgram;
  bool isFirst = true; ///< fragment of the current rule
};
} // namespace

/// Writes F and B unchanged, I and W as the parts of a split backward.
void RulesWriter::writeFragment(int64_t worker, Cell cell) {
  if (!isFirst)
    os << "->";
  isFirst = false;
  os << "FragmentInfo(origins=[\"" << options.stagePrefix << cell.getStage()
     << '"' << (cell.is(Phase::Forward) ? "" : "(1)") << "],mesh_name=\""
     << options.meshPrefix << worker << "\",call_counter=" << cell.getUnit();
  if (options.stageIds)
    os << ",stage=" << cell.getStage();
  if (cell.is(Phase::InputGrad))
    os << ",split_type=kKeepTransferred";
  if (cell.is(Phase::WeightGrad))
    os << ",split_type=kDropTransferred";
  os << ')';
}

void RulesWriter::writeCell(int64_t worker, Cell cell) {
  if (cell.isIdle())
    return;
  if (cell.is(Phase::Forward) || !splitsProgram)
    return writeFragment(worker, cell);
  if (!leavesMesh(*table.placement, cell.getStage())) {
    if (!cell.is(Phase::WeightGrad)) // written with its I
      writeFragment(worker, cell.withPhase(Phase::Backward));
    return;
  }
  if (!cell.is(Phase::Backward))
    return writeFragment(worker, cell);
  writeFragment(worker, cell.withPhase(Phase::InputGrad));
  writeFragment(worker, cell.withPhase(Phase::WeightGrad));
}

void RulesWriter::writeRule(int64_t worker) {
  isFirst = true;
  os << "FragmentScheduleRule(ordered_fragments=[";
  for (Cell cell : table.rows[worker])
    writeCell(worker, cell);
  os << "])";
}

void RulesWriter::run() {
  const char *separator = "-mpmd-rule-based-schedule='rules=";
  for (int64_t worker = 0, end = table.rows.size(); worker != end; ++worker) {
    if (llvm::all_of(table.rows[worker], [](Cell c) { return c.isIdle(); }))
      continue;
    os << separator;
    writeRule(worker);
    separator = ",";
  }
  os << "'\n";
}

std::optional<Violation>
pipesched::writeShardyRules(llvm::raw_ostream &os, const TableView &table,
                            const ShardyRulesOptions &options) {
  for (auto [what, prefix] : {std::pair("stage", &options.stagePrefix),
                              std::pair("mesh", &options.meshPrefix)})
    if (std::optional<Violation> violation = checkPrefix(what, *prefix))
      return violation;
  if (std::optional<Violation> violation = checkTable(table))
    return violation;
  RulesWriter(os, table, options).run();
  return std::nullopt;
}
