//===- Comparison.cpp - Comparison of schedules as text -------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two tables, a line that explains their columns, and the findings, which are
// functions of the entries. Ratios with the same text count as equal.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Target/Comparison.h"
#include "Format.h"
#include "PipeSched/Evaluation/Summary.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/Unicode.h"
#include "llvm/Support/raw_ostream.h"
#include <map>
#include <string>
#include <vector>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::StringRef;

using Group = std::vector<const ComparisonEntry *>;

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

/// Prints `a`, `a and b`, `a, b and c`, or `a, b, c, d and 3 more`.
static std::string listNames(ArrayRef<const ComparisonEntry *> entries) {
  constexpr size_t kMost = 4;
  bool isCut = entries.size() > kMost + 1;
  size_t shown = isCut ? kMost : entries.size();
  std::string text;
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0)
      text += !isCut && i + 1 == shown ? " and " : ", ";
    text += printableName(entries[i]->name);
  }
  if (isCut)
    text += " and " + std::to_string(entries.size() - shown) + " more";
  return text;
}

//===----------------------------------------------------------------------===//
// Speed
//===----------------------------------------------------------------------===//

/// Whether every entry has a microbatch size.
static bool knowsSequences(ArrayRef<ComparisonEntry> entries) {
  return llvm::all_of(entries, [](const ComparisonEntry &entry) {
    return entry.microbatchSize > 0;
  });
}

/// Returns the sequences of a step, or its microbatches if an entry has no
/// microbatch size.
static std::vector<uint64_t> workPerStep(ArrayRef<ComparisonEntry> entries) {
  bool inSequences = knowsSequences(entries);
  std::vector<uint64_t> work;
  for (const ComparisonEntry &entry : entries)
    work.push_back(llvm::SaturatingMultiply<uint64_t>(
        entry.microbatches, inSequences ? entry.microbatchSize : 1));
  return work;
}

/// Returns work per time of each entry, relative to the best; 0 for an empty
/// step.
static std::vector<double> relativeSpeeds(ArrayRef<ComparisonEntry> entries) {
  std::vector<uint64_t> work = workPerStep(entries);
  std::vector<double> speeds;
  double best = 0;
  for (auto [entry, amount] : llvm::zip(entries, work)) {
    speeds.push_back(entry.stepPs == 0 ? 0
                                       : static_cast<double>(amount) /
                                             static_cast<double>(entry.stepPs));
    best = std::max(best, speeds.back());
  }
  for (double &speed : speeds)
    speed = best == 0 ? 0 : speed / best;
  return speeds;
}

static std::string findFastest(ArrayRef<ComparisonEntry> entries) {
  std::vector<double> speeds = relativeSpeeds(entries);
  Group fastest;
  const ComparisonEntry *next = nullptr;
  double nextSpeed = 0;
  for (auto [entry, speed] : llvm::zip(entries, speeds)) {
    if (speed == 1)
      fastest.push_back(&entry);
    else if (speed > nextSpeed) {
      next = &entry;
      nextSpeed = speed;
    }
  }
  if (fastest.empty())
    return "no schedule takes any time";
  std::string text = "fastest: " + listNames(fastest);
  if (next) {
    std::string ahead = formatPercent(1 / nextSpeed - 1);
    if (ahead == formatPercent(0))
      ahead = "less than 0.01 %";
    text += ", " + ahead + " ahead of " + printableName(next->name);
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Idle time
//===----------------------------------------------------------------------===//

namespace {
struct Cause {
  std::string name;
  double ratio;
};
} // namespace

/// Returns a cause of idle time as words: `queue order`.
static std::string nameOfCause(const IdleCause &cause) {
  std::string name = cause.key.str();
  llvm::replace(name, '_', ' ');
  return name;
}

static std::string formatRange(double least, double most) {
  std::string from = formatPercent(least), to = formatPercent(most);
  return from == to ? from : from + " to " + to;
}

/// Returns the cause with the most idle time. Fill and drain count together,
/// because both are ramps of the pipeline.
static Cause dominantCause(const ComparisonEntry &entry) {
  Cause ramps{"fill and drain", 0}, dominant{"nothing", 0};
  for (auto [cause, ratio] : llvm::zip_equal(kIdleCauses, entry.idleByCause)) {
    if (cause.ps == &IdleTimes::fillPs || cause.ps == &IdleTimes::drainPs)
      ramps.ratio += ratio;
    else if (ratio > dominant.ratio)
      dominant = {nameOfCause(cause), ratio};
  }
  return ramps.ratio >= dominant.ratio && ramps.ratio > 0 ? ramps : dominant;
}

static void findCauses(ArrayRef<ComparisonEntry> entries,
                       std::vector<Finding> &findings) {
  std::map<std::string, Group> byCause;
  for (const ComparisonEntry &entry : entries)
    if (dominantCause(entry).ratio > 0)
      byCause[dominantCause(entry).name].push_back(&entry);
  for (const auto &[cause, group] : byCause) {
    double least = 1, most = 0;
    for (const ComparisonEntry *entry : group) {
      least = std::min(least, dominantCause(*entry).ratio);
      most = std::max(most, dominantCause(*entry).ratio);
    }
    findings.push_back(
        {FindingKind::Cause, "workers idle mostly by " + cause + " in " +
                                 listNames(group) + " (" +
                                 formatRange(least, most) + " of the step)"});
  }
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Returns the bytes that an entry needs above its capacity. It fits if this is
/// 0 or less. Nothing if unknown.
static std::optional<int64_t> missingBytes(const ComparisonEntry &entry) {
  if (!entry.memory || entry.capacityBytes == 0)
    return std::nullopt;
  return entry.memory->peakBytes() - entry.capacityBytes;
}

static std::string describeNeed(const ComparisonEntry &entry) {
  return "worker " + std::to_string(entry.bottleneckWorker) + " needs " +
         formatGiB(entry.memory->peakBytes()) + " of " +
         formatGiB(entry.capacityBytes) + ", " +
         formatGiB(entry.memory->persistentBytes()) +
         " for weights, gradients and optimizer state, " +
         formatGiB(entry.memory->peakActivationBytes) + " for activations";
}

/// Lists the schedules that do not fit, and which of them is closest to
/// fitting.
static void findWhoDoesNotFit(ArrayRef<ComparisonEntry> entries,
                              std::vector<Finding> &findings) {
  Group tooLarge;
  for (const ComparisonEntry &entry : entries)
    if (missingBytes(entry).value_or(0) > 0)
      tooLarge.push_back(&entry);
  if (tooLarge.empty())
    return;
  const ComparisonEntry &closest = **llvm::min_element(
      tooLarge, [](const ComparisonEntry *a, const ComparisonEntry *b) {
        return *missingBytes(*a) < *missingBytes(*b);
      });
  if (tooLarge.size() == 1)
    findings.push_back(
        {FindingKind::Fit, printableName(closest.name) +
                               " does not fit: " + describeNeed(closest)});
  else
    findings.push_back({FindingKind::Fit, listNames(tooLarge) +
                                              " do not fit; closest is " +
                                              printableName(closest.name) +
                                              ": " + describeNeed(closest)});
}

/// Names the fastest schedule that fits, if the fastest of all does not fit.
static void findFastestThatFits(ArrayRef<ComparisonEntry> entries,
                                std::vector<Finding> &findings) {
  std::vector<double> speeds = relativeSpeeds(entries);
  const ComparisonEntry *best = nullptr;
  double bestSpeed = 0;
  for (auto [entry, speed] : llvm::zip(entries, speeds)) {
    if (missingBytes(entry).value_or(0) > 0 || speed <= bestSpeed)
      continue;
    best = &entry;
    bestSpeed = speed;
  }
  if (best && bestSpeed < 1)
    findings.push_back({FindingKind::Fastest,
                        "fastest that fits: " + printableName(best->name)});
}

/// Returns the part of a sentence on equal steps that compares their memory.
static std::string compareMemory(const Group &group) {
  auto peak = [](const ComparisonEntry *entry) {
    return entry->memory->peakBytes();
  };
  if (!llvm::all_of(group, [](const ComparisonEntry *entry) {
        return entry->memory.has_value();
      }))
    return "";
  auto [least, most] =
      std::minmax_element(group.begin(), group.end(),
                          [&](auto *a, auto *b) { return peak(a) < peak(b); });
  if (peak(*least) == peak(*most))
    return ", and have the same peak memory";
  return "; " + printableName((*least)->name) + " peaks at " +
         formatGiB(peak(*least)) + ", " + printableName((*most)->name) +
         " at " + formatGiB(peak(*most));
}

static void findEqualSteps(const Group &comparable,
                           std::vector<Finding> &findings) {
  std::map<int64_t, Group> byStep;
  for (const ComparisonEntry *entry : comparable)
    byStep[entry->stepPs].push_back(entry);
  for (const auto &[stepPs, group] : byStep)
    if (group.size() > 1 && stepPs > 0)
      findings.push_back({FindingKind::EqualSteps,
                          listNames(group) +
                              " take the same step to the picosecond, " +
                              formatTime(stepPs) + compareMemory(group)});
}

//===----------------------------------------------------------------------===//
// Rankings
//===----------------------------------------------------------------------===//

namespace {

/// A level of abstraction and its bubble ratio.
struct Level {
  StringRef name;
  std::optional<double> (*ratio)(const ComparisonEntry &);
};

/// The order of a pair of entries at one level, if it has both.
struct Opinion {
  StringRef level;
  int order; ///< -1: the first idles less; 0: both have the same text
  std::string first, second; ///< ratios as text
};

} // namespace

static const Level kLevels[] = {
    {"formula",
     [](const ComparisonEntry &entry) { return entry.formulaBubble; }},
    {"table", [](const ComparisonEntry &entry) { return entry.tableBubble; }},
    {"execution",
     [](const ComparisonEntry &entry) { return std::optional(entry.idle); }}};

static llvm::SmallVector<Opinion, 3> opinionsOn(const ComparisonEntry &a,
                                                const ComparisonEntry &b) {
  constexpr double kVisible = 1e-4; // a hundredth of a percent
  llvm::SmallVector<Opinion, 3> opinions;
  for (const Level &level : kLevels) {
    std::optional<double> x = level.ratio(a), y = level.ratio(b);
    if (!x || !y)
      continue;
    double difference = *x - *y;
    opinions.push_back({level.name,
                        difference < -kVisible  ? -1
                        : difference > kVisible ? 1
                                                : 0,
                        formatPercent(*x), formatPercent(*y)});
  }
  return opinions;
}

static bool differ(ArrayRef<Opinion> opinions) {
  return llvm::any_of(opinions, [&](const Opinion &opinion) {
    return opinion.order != opinions.front().order;
  });
}

/// Returns "table puts a (20.00 %) before b (25.00 %)"; all `levels` agree on
/// it.
static std::string describe(ArrayRef<Opinion> levels, const ComparisonEntry &a,
                            const ComparisonEntry &b) {
  const Opinion &opinion = levels.front();
  std::string text = opinion.level.str();
  for (const Opinion &other : levels.drop_front())
    text += " and " + other.level.str();
  bool isOne = levels.size() == 1;
  std::string first = printableName(a.name) + " (" + opinion.first + ")";
  std::string second = printableName(b.name) + " (" + opinion.second + ")";
  if (opinion.order == 0)
    return text + (isOne ? " has " : " have ") + first + " and " + second +
           " equal";
  if (opinion.order > 0)
    std::swap(first, second);
  return text + (isOne ? " puts " : " put ") + first + " before " + second;
}

/// Writes one clause per level; neighbouring levels with the same numbers share
/// one.
static std::string describeAll(ArrayRef<Opinion> opinions,
                               const ComparisonEntry &a,
                               const ComparisonEntry &b) {
  std::string text;
  while (!opinions.empty()) {
    ArrayRef<Opinion> alike = opinions.take_while([&](const Opinion &opinion) {
      return opinion.order == opinions.front().order &&
             opinion.first == opinions.front().first &&
             opinion.second == opinions.front().second;
    });
    text += (text.empty() ? "" : "; ") + describe(alike, a, b);
    opinions = opinions.drop_front(alike.size());
  }
  return text;
}

static FindingKind kindOf(ArrayRef<Opinion> opinions) {
  bool hasTie = llvm::any_of(
      opinions, [](const Opinion &opinion) { return opinion.order == 0; });
  return hasTie ? FindingKind::Tie : FindingKind::Ranking;
}

/// Lists pairs of equal work whose order depends on the level.
static void findDisagreements(ArrayRef<Group> groups,
                              std::vector<Finding> &findings) {
  constexpr int64_t kMost = 4;
  int64_t pairs = 0, different = 0;
  for (const Group &group : groups)
    for (size_t i = 0; i < group.size(); ++i)
      for (size_t j = i + 1; j < group.size(); ++j) {
        llvm::SmallVector<Opinion, 3> opinions =
            opinionsOn(*group[i], *group[j]);
        pairs += opinions.size() > 1;
        if (differ(opinions) && ++different <= kMost)
          findings.push_back(
              {kindOf(opinions), describeAll(opinions, *group[i], *group[j])});
      }
  if (different > kMost)
    findings.push_back(
        {FindingKind::AllRankings,
         std::to_string(different) + " of " + std::to_string(pairs) +
             " pairs of equal work change order between levels"});
  else if (different == 0 && pairs > 0)
    findings.push_back({FindingKind::AllRankings,
                        "formula, table and execution, where known, rank all "
                        "pairs of equal work alike"});
}

//===----------------------------------------------------------------------===//
// All findings
//===----------------------------------------------------------------------===//

static std::vector<Group> groupComparable(ArrayRef<ComparisonEntry> entries) {
  std::vector<uint64_t> work = workPerStep(entries);
  std::map<std::pair<int64_t, uint64_t>, Group> groups;
  for (auto [entry, amount] : llvm::zip(entries, work))
    groups[{entry.workers, amount}].push_back(&entry);
  std::vector<Group> result;
  result.reserve(groups.size());
  for (auto &[key, group] : groups)
    result.push_back(std::move(group));
  return result;
}

std::vector<Finding>
pipesched::findFindings(ArrayRef<ComparisonEntry> entries) {
  std::vector<Finding> findings;
  if (entries.size() > 1)
    findings.push_back({FindingKind::Fastest, findFastest(entries)});
  findFastestThatFits(entries, findings);
  findCauses(entries, findings);
  std::vector<Group> groups = groupComparable(entries);
  for (const Group &group : groups)
    findEqualSteps(group, findings);
  findWhoDoesNotFit(entries, findings);
  findDisagreements(groups, findings);
  return findings;
}

//===----------------------------------------------------------------------===//
// Tables of text
//===----------------------------------------------------------------------===//

namespace {
enum class Align { Left, Right };

class TextTable {
public:
  struct Column {
    llvm::StringRef title;
    Align align;
  };
  explicit TextTable(llvm::ArrayRef<Column> columns);

  /// Adds a row with one text per column.
  void addRow(std::vector<std::string> row);
  /// Prints titles, a rule and the rows, without spaces at the ends of lines.
  void print(llvm::raw_ostream &os) const;

private:
  void printRow(llvm::raw_ostream &os,
                const std::vector<std::string> &row) const;

  std::vector<Align> aligns;
  std::vector<size_t> widths;
  std::vector<std::vector<std::string>> rows; ///< the first one has the titles
};
} // namespace

static size_t displayWidth(llvm::StringRef text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  // unprintable text, for which any width is fine
  return width < 0 ? text.size() : width;
}

TextTable::TextTable(llvm::ArrayRef<Column> columns) {
  std::vector<std::string> titles;
  for (const Column &column : columns) {
    aligns.push_back(column.align);
    titles.push_back(column.title.str());
  }
  widths.resize(columns.size());
  addRow(std::move(titles));
}

void TextTable::addRow(std::vector<std::string> row) {
  assert(row.size() == aligns.size() && "one text per column");
  for (auto [width, text] : llvm::zip(widths, row))
    width = std::max(width, displayWidth(text));
  rows.push_back(std::move(row));
}

void TextTable::printRow(llvm::raw_ostream &os,
                         const std::vector<std::string> &row) const {
  size_t pending = 0; // spaces that are written only if text follows
  for (auto [column, text] : llvm::enumerate(row)) {
    size_t padding = widths[column] - displayWidth(text);
    bool isRight = aligns[column] == Align::Right;
    if (!text.empty()) {
      os.indent(pending + (isRight ? padding : 0)) << text;
      pending = isRight ? 0 : padding;
    } else {
      pending += padding;
    }
    pending += 2;
  }
  os << '\n';
}

void TextTable::print(llvm::raw_ostream &os) const {
  printRow(os, rows.front());
  size_t total = 2 * (widths.size() - 1);
  for (size_t width : widths)
    total += width;
  os << std::string(total, '-') << '\n';
  for (const std::vector<std::string> &row : llvm::drop_begin(rows))
    printRow(os, row);
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

ComparisonEntry
pipesched::summarizeForComparison(const NamedEvaluation &result) {
  const Evaluation &evaluation = result.evaluation;
  const ExecutionTotals &execution = evaluation.totals;
  ExecutionSummary summary = summarize(execution);
  int64_t stepPs = execution.makespanPs;
  ComparisonEntry entry;
  entry.name = result.name;
  entry.family = result.family;
  entry.workers = result.placement.getNumWorkers();
  entry.microbatches = result.placement.getNumMicrobatches();
  entry.slices = result.placement.getNumSlices();
  entry.microbatchSize = result.microbatchSize;
  entry.stepPs = stepPs;
  entry.idle = summary.idleRatio;
  entry.idleByCause = summary.idleByCause;
  if (stepPs > 0)
    entry.exposed = static_cast<double>(summary.exposedCommunicationPs) /
                    static_cast<double>(stepPs);
  if (evaluation.table)
    entry.tableBubble = evaluation.table->bubbleRatio;
  if (evaluation.formula)
    entry.formulaBubble = evaluation.formula->bubbleRatio;
  if (execution.memory) {
    entry.bottleneckWorker = execution.memory->bottleneckWorker;
    entry.memory = execution.memory->workers[entry.bottleneckWorker];
    entry.capacityBytes = execution.memory->capacityBytes;
  }
  return entry;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

static std::string percentOrDash(std::optional<double> ratio) {
  return ratio ? formatPercent(*ratio) : "-";
}

static std::string nameOrDash(llvm::StringRef name) {
  return name.empty() ? "-" : printableName(name);
}

static std::string describeFit(const ComparisonEntry &entry) {
  if (!entry.memory || entry.capacityBytes == 0)
    return "-";
  int64_t missing = entry.memory->peakBytes() - entry.capacityBytes;
  return missing <= 0 ? "yes" : "no, " + formatGiB(missing) + " short";
}

static std::string describeWhere(const ComparisonEntry &entry) {
  if (!entry.memory)
    return "-";
  std::string where = "worker " + std::to_string(entry.bottleneckWorker);
  if (entry.memory->peakCell)
    where += " at " + CellName{*entry.memory->peakCell, entry.slices}.str();
  return where;
}

static void printResults(llvm::raw_ostream &os,
                         ArrayRef<ComparisonEntry> entries) {
  TextTable table({{"schedule", Align::Left},
                   {"family", Align::Left},
                   {"D", Align::Right},
                   {"N", Align::Right},
                   {"step", Align::Right},
                   {"speed", Align::Right},
                   {"idle", Align::Right},
                   {"table", Align::Right},
                   {"formula", Align::Right},
                   {"exposed", Align::Right},
                   {"memory/worker", Align::Right},
                   {"where", Align::Left},
                   {"fits", Align::Left}});
  std::vector<double> speeds = relativeSpeeds(entries);
  for (auto [entry, speed] : llvm::zip(entries, speeds)) {
    std::string speedText;
    llvm::raw_string_ostream(speedText) << llvm::format("%.4f", speed);
    table.addRow(
        {printableName(entry.name), nameOrDash(entry.family),
         std::to_string(entry.workers), std::to_string(entry.microbatches),
         formatTime(entry.stepPs), speedText, formatPercent(entry.idle),
         percentOrDash(entry.tableBubble), percentOrDash(entry.formulaBubble),
         formatPercent(entry.exposed),
         entry.memory ? formatGiB(entry.memory->peakBytes()) : "-",
         describeWhere(entry), describeFit(entry)});
  }
  table.print(os);
}

static void printIdle(llvm::raw_ostream &os,
                      ArrayRef<ComparisonEntry> entries) {
  std::vector<unsigned> shown;
  std::vector<std::string> names;
  for (unsigned cause = 0; cause != kNumIdleCauses; ++cause)
    if (llvm::any_of(entries, [&](const ComparisonEntry &entry) {
          return entry.idleByCause[cause] != 0;
        })) {
      shown.push_back(cause);
      names.push_back(nameOfCause(kIdleCauses[cause]));
    }
  std::vector<TextTable::Column> columns = {{"idle by cause", Align::Left}};
  for (const std::string &name : names)
    columns.push_back({name, Align::Right});
  columns.push_back({"all", Align::Right});
  TextTable table(columns);
  for (const ComparisonEntry &entry : entries) {
    std::vector<std::string> cells = {printableName(entry.name)};
    for (unsigned cause : shown)
      cells.push_back(formatPercent(entry.idleByCause[cause]));
    cells.push_back(formatPercent(entry.idle));
    table.addRow(std::move(cells));
  }
  table.print(os);
}

void pipesched::writeComparison(llvm::raw_ostream &os,
                                ArrayRef<ComparisonEntry> entries) {
  if (entries.empty())
    return;
  printResults(os, entries);
  os << "\nD workers, N microbatches. speed: "
     << (knowsSequences(entries) ? "sequences" : "microbatches")
     << " per second, relative to the fastest.\n"
        "idle: of workers x step; table and formula: the same by slots and by "
        "closed formula.\n"
        "exposed: part of the step that free messages would save. "
        "memory/worker: of the fullest worker, with all its accelerators.\n\n";
  printIdle(os, entries);
  os << '\n';
  for (const Finding &finding : findFindings(entries))
    os << "- " << finding.text << '\n';
}
