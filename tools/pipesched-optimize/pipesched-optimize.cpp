//===- pipesched-optimize.cpp - Schedules within a memory budget ----------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads scheduling instances, and writes the best schedule of each and a table
// of all results (docs/Optimize.md, the tool). An interrupt ends the search;
// the tool then writes the schedules found so far.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/Instance.h"
#include "PipeSched/Optimize/Schedule/Cache.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Support/MakeError.h"
#include "PipeSched/Support/OutputErrors.h"
#include "PipeSched/Support/OutputFile.h"
#include "PipeSched/Support/PrintableErrors.h"
#include "PipeSched/Support/PrintableText.h"
#include "PipeSched/Support/StandardStreams.h"
#include "PipeSched/Support/Version.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/Unicode.h"
#include "llvm/Support/WithColor.h"
#include <cmath>
#include <csignal>

namespace pipesched::optimize {

enum class TableFormat { Text, Json, Csv };

} // namespace pipesched::optimize

namespace pipesched {
template <>
struct EnumNames<optimize::TableFormat> {
  static constexpr EnumName<optimize::TableFormat> values[] = {
      {optimize::TableFormat::Text, "text", "columns"},
      {optimize::TableFormat::Json, "json", "an array of objects"},
      {optimize::TableFormat::Csv, "csv", "with a line of names"}};
};
} // namespace pipesched

namespace pipesched::optimize {

/// The result for one instance. Objectives and bounds are in ticks.
struct ResultRow {
  std::string name;
  Objective objective = Objective::Makespan;
  std::optional<int64_t> bestKnown;
  int64_t found = 0, lowerBound = 0;
  std::string bound;  ///< name of the lower bound
  std::string origin; ///< the method that found the schedule
  Status status = Status::TimeLimit;
  double seconds = 0;
  std::optional<int64_t> heuristic; ///< from only the constructive heuristics
  std::optional<int64_t> seed;      ///< of the best static schedule that fits
  std::string seedName;
};

} // namespace pipesched::optimize

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::StringRef;
namespace cl = llvm::cl;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

//===----------------------------------------------------------------------===//
// The table of results
//
// The columns are listed once. Formats differ only in the text of a value.
//===----------------------------------------------------------------------===//

namespace {

/// A value as text; empty if it is missing.
struct Value {
  std::string text;
  bool isNumber = false;
};

struct Column {
  StringRef title; ///< of the text table
  StringRef key;   ///< of JSON and CSV
  Value (*valueOf)(const ResultRow &row);
};

} // namespace

static Value number(std::optional<int64_t> value) {
  return {value ? llvm::itostr(*value) : "", /*isNumber=*/true};
}

static Value decimal(double value, const char *format) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(format, value);
  return {text, /*isNumber=*/true};
}

static Value ratio(const ResultRow &row) {
  if (row.bestKnown.value_or(0) == 0)
    return number(std::nullopt);
  return decimal(double(row.found) / double(*row.bestKnown), "%.4f");
}

static const Column kColumns[] = {
    {"name", "name", [](const ResultRow &row) { return Value{row.name}; }},
    {"objective", "objective",
     [](const ResultRow &row) { return Value{enumName(row.objective).str()}; }},
    {"best known", "best_known",
     [](const ResultRow &row) { return number(row.bestKnown); }},
    {"found", "found", [](const ResultRow &row) { return number(row.found); }},
    {"ratio", "ratio", ratio},
    {"lower bound", "lower_bound",
     [](const ResultRow &row) { return number(row.lowerBound); }},
    {"status", "status",
     [](const ResultRow &row) { return Value{nameOf(row.status).str()}; }},
    {"seconds", "seconds",
     [](const ResultRow &row) { return decimal(row.seconds, "%.2f"); }},
    {"heuristic", "heuristic",
     [](const ResultRow &row) { return number(row.heuristic); }},
    {"best static", "best_static",
     [](const ResultRow &row) { return number(row.seed); }},
    {"which", "best_static_name",
     [](const ResultRow &row) { return Value{row.seedName}; }},
    {"bound by", "bound_by",
     [](const ResultRow &row) { return Value{row.bound}; }},
    {"found by", "found_by",
     [](const ResultRow &row) { return Value{row.origin}; }},
};

//===----------------------------------------------------------------------===//
// Formats
//===----------------------------------------------------------------------===//

/// Returns the text in printable form, or a dash if it is empty.
static std::string onOneLine(StringRef text) {
  return text.empty() ? "-" : printableText(text);
}

/// Aligns numbers to the right; a dash stands for a missing value.
static void writeText(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  std::vector<std::string> lines(rows.size() + 1);
  for (const Column &column : kColumns) {
    std::vector<Value> cells = {{column.title.str()}};
    for (const ResultRow &row : rows)
      cells.push_back(column.valueOf(row));
    cells.front().isNumber = cells.back().isNumber;
    int width = 0;
    for (Value &cell : cells) {
      cell.text = onOneLine(cell.text);
      width = std::max(width, llvm::sys::unicode::columnWidthUTF8(cell.text));
    }
    for (auto [line, cell] : llvm::zip(lines, cells)) {
      int own = llvm::sys::unicode::columnWidthUTF8(cell.text);
      std::string padding(std::max(width - own, 0), ' ');
      line += line.empty() ? "" : "  ";
      line += cell.isNumber ? padding + cell.text : cell.text + padding;
    }
  }
  for (StringRef line : lines)
    os << line.rtrim() << "\n";
}

static void writeJson(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  StringRef separator = "[\n";
  for (const ResultRow &row : rows) {
    os << separator << "  {";
    separator = ",\n";
    StringRef comma;
    for (const Column &column : kColumns) {
      Value value = column.valueOf(row);
      os << comma << '"' << column.key << "\": ";
      comma = ", ";
      if (value.text.empty())
        os << "null";
      else if (value.isNumber)
        os << value.text;
      else
        os << llvm::json::Value(value.text);
    }
    os << "}";
  }
  os << (rows.empty() ? "[]\n" : "\n]\n");
}

/// Quotes text with a comma, a quote or a line break (RFC 4180).
static std::string quote(StringRef text) {
  if (text.find_first_of(",\"\r\n") == StringRef::npos)
    return text.str();
  std::string quoted = "\"";
  for (char c : text) {
    quoted += c;
    if (c == '"')
      quoted += c;
  }
  return quoted + "\"";
}

static void writeCsv(llvm::ArrayRef<ResultRow> rows, llvm::raw_ostream &os) {
  auto title = [](const Column &column) { return column.key.str(); };
  os << llvm::join(llvm::map_range(kColumns, title), ",") << "\n";
  for (const ResultRow &row : rows) {
    auto value = [&](const Column &column) {
      return quote(column.valueOf(row).text);
    };
    os << llvm::join(llvm::map_range(kColumns, value), ",") << "\n";
  }
}

static void writeTable(llvm::ArrayRef<ResultRow> rows, TableFormat format,
                       llvm::raw_ostream &os) {
  switch (format) {
  case TableFormat::Text:
    return writeText(rows, os);
  case TableFormat::Json:
    return writeJson(rows, os);
  case TableFormat::Csv:
    return writeCsv(rows, os);
  }
}

//===----------------------------------------------------------------------===//
// Progress
//===----------------------------------------------------------------------===//

namespace {
/// Writes to standard error if that is a terminal:
///
///   V02_d4n8_u_m2 [=====     ] 15 s of 30 s, best 2950, bound 2900, gap 1.7 %
class ProgressLine {
public:
  /// The bar is full when the time or the evaluations of `limits` are used.
  ProgressLine(llvm::StringRef name, const SolverOptions &limits);
  ~ProgressLine() { clear(); }

  void show(const Progress &progress);

private:
  void clear();
  double shareOf(const Progress &progress) const;

  std::string name;
  double timeLimitSeconds;
  uint64_t maxEvaluations;
  bool isTerminal;
  size_t width = 0; ///< of the line on the terminal
};
} // namespace

static constexpr unsigned kBarWidth = 20;

ProgressLine::ProgressLine(llvm::StringRef name, const SolverOptions &limits)
    : name(printableText(name)), timeLimitSeconds(limits.timeLimitSeconds),
      maxEvaluations(limits.maxEvaluations),
      isTerminal(llvm::sys::Process::StandardErrIsDisplayed()) {}

/// Returns the used share of the limit that is closest, from 0 to 1.
double ProgressLine::shareOf(const Progress &progress) const {
  double share = 0;
  if (timeLimitSeconds > 0)
    share = progress.seconds / timeLimitSeconds;
  if (maxEvaluations > 0)
    share =
        std::max(share, double(progress.evaluations) / double(maxEvaluations));
  return std::min(share, 1.0);
}

void ProgressLine::show(const Progress &progress) {
  if (!isTerminal)
    return;
  auto full = static_cast<unsigned>(shareOf(progress) * kBarWidth);
  std::string line;
  llvm::raw_string_ostream os(line);
  os << name << " [" << std::string(full, '=')
     << std::string(kBarWidth - full, ' ') << "] "
     << llvm::format("%.0f s of %.0f s", progress.seconds, timeLimitSeconds);
  if (progress.best > 0)
    os << ", best " << progress.best;
  if (progress.lowerBound > 0)
    os << ", bound " << progress.lowerBound;
  if (progress.best > 0 && progress.lowerBound > 0)
    os << llvm::format(
        ", gap %.1f %%",
        100.0 * (double(progress.best) / double(progress.lowerBound) - 1));
  size_t length = line.size();
  if (length < width)
    line.append(width - length, ' ');
  width = length;
  llvm::errs() << "\r" << line;
}

void ProgressLine::clear() {
  if (width > 0)
    llvm::errs() << "\r" << std::string(width, ' ') << "\r";
  width = 0;
}

//===----------------------------------------------------------------------===//
// Command line
//===----------------------------------------------------------------------===//

namespace {

/// Constructed in main, after the options of libLLVM are removed: some have the
/// same names, and none is needed here.
struct Options {
  cl::OptionCategory category{"pipesched-optimize options"};
  cl::list<std::string> inputs{
      cl::Positional, cl::OneOrMore, cl::cat(category),
      cl::desc("<instance files, or folders of them; -: standard input>")};
  cl::opt<std::string> output{
      "o", cl::cat(category), cl::value_desc("file or folder"),
      cl::desc("Write the schedule here, -: to standard output; of several "
               "instances, a folder for a file each")};
  cl::opt<double> timeLimit{
      "time-limit", cl::cat(category), cl::value_desc("seconds"), cl::init(30),
      cl::desc("Search this long per instance; 0: the best of seeds and "
               "heuristics (default 30)")};
  cl::opt<double> gap{
      "gap", cl::cat(category), cl::value_desc("share"), cl::init(0),
      cl::desc("Stop within this share of the lower bound, 0.01 for 1 % "
               "(default 0)")};
  cl::opt<uint64_t> seed{"seed", cl::cat(category), cl::init(0),
                         cl::desc("Of the random numbers (default 0)")};
  cl::opt<unsigned> threads{"threads", cl::cat(category), cl::init(0),
                            cl::desc("Threads; 0: one per core (default 0)")};
  cl::opt<uint64_t> maxEvaluations{
      "max-evaluations", cl::cat(category), cl::init(0),
      cl::desc("Look at so many schedules at most, for results that do not "
               "depend on the machine; 0: no limit (default 0)")};
  cl::opt<std::string> cache{
      "cache", cl::cat(category), cl::value_desc("folder"),
      cl::desc("Keep the best schedules known here, and start from them")};
  cl::opt<std::string> start{
      "start", cl::cat(category), cl::value_desc("answer"),
      cl::desc("Start from this answer to the instance, too")};
  cl::opt<MemoryTimes> memoryTimes{
      "memory-times", cl::cat(category),
      cl::desc("For which times the capacity has to suffice (default: what "
               "the instance says, and 'given' if it says nothing)"),
      enumOptionValues<MemoryTimes>()};
  cl::opt<TableFormat> format{"format", cl::cat(category),
                              cl::desc("Format of the table"),
                              cl::init(TableFormat::Text),
                              enumOptionValuesWithDefault<TableFormat::Text>()};

  llvm::Error check() const;
  /// The options of a search, without its report.
  SolverOptions makeSolverOptions(llvm::ThreadPoolInterface &pool) const;
};

} // namespace

llvm::Error Options::check() const {
  for (const cl::opt<double> *option : {&timeLimit, &gap})
    if (!(*option >= 0) || std::isinf(*option))
      return makeError(
          llvm::formatv("--{0}: expected a number from 0, found {1}",
                        option->ArgStr, option->getValue())
              .str());
  return llvm::Error::success();
}

//===----------------------------------------------------------------------===//
// Files
//===----------------------------------------------------------------------===//

/// Adds the `.json` files of a folder, sorted by name.
static llvm::Error listFolder(StringRef folder,
                              std::vector<std::string> &files) {
  std::error_code code;
  size_t first = files.size();
  for (fs::directory_iterator entry(folder, code), end; entry != end && !code;
       entry.increment(code))
    if (path::extension(entry->path()) == ".json")
      files.push_back(entry->path());
  if (code)
    return makeError("cannot read '" + folder + "': " + code.message());
  if (files.size() == first)
    return makeError("'" + folder + "' has no .json files");
  llvm::sort(files.begin() + first, files.end());
  return llvm::Error::success();
}

static llvm::Expected<std::vector<std::string>>
listInstances(llvm::ArrayRef<std::string> inputs) {
  std::vector<std::string> files;
  for (const std::string &input : inputs) {
    if (!fs::is_directory(input))
      files.push_back(input);
    else if (llvm::Error error = listFolder(input, files))
      return std::move(error);
  }
  return files;
}

/// Creates a folder if it does not exist.
static llvm::Error makeFolder(StringRef folder) {
  std::error_code code = fs::create_directories(folder);
  if (!code && !fs::is_directory(folder))
    code = std::make_error_code(std::errc::not_a_directory);
  if (code)
    return makeError("cannot make the folder '" + folder +
                     "': " + code.message());
  return llvm::Error::success();
}

/// Checks before the search that the answer can be written afterwards.
static llvm::Error checkAnswer(StringRef answer, StringRef instance) {
  if (fs::equivalent(answer, instance))
    return makeError("the answer to '" + instance +
                     "' would be written over it");
  StringRef folder = path::parent_path(answer);
  if (folder.empty() || fs::is_directory(folder))
    return llvm::Error::success();
  std::errc code = fs::exists(folder) ? std::errc::not_a_directory
                                      : std::errc::no_such_file_or_directory;
  return makeError("cannot write '" + answer +
                   "': " + std::make_error_code(code).message());
}

/// Whether the output is a folder: an existing folder, a path that ends with a
/// separator, or any path if there are several instances or a folder of
/// instances.
static bool isFolder(const Options &options, size_t numInstances) {
  return numInstances != 1 || fs::is_directory(options.output) ||
         fs::is_directory(options.inputs.front()) ||
         path::is_separator(options.output.back());
}

/// Returns the files for the answers to instances, in order; empty names if no
/// answers are written.
static llvm::Expected<std::vector<std::string>>
listAnswers(llvm::ArrayRef<std::string> instances, const Options &options) {
  StringRef output = options.output;
  if (output.empty())
    return std::vector<std::string>(instances.size());
  if (output == "-" ? instances.size() == 1
                    : !isFolder(options, instances.size())) {
    if (llvm::Error error = checkAnswer(output, instances.front()))
      return std::move(error);
    return std::vector<std::string>{output.str()};
  }
  if (output == "-")
    return makeError("-o: standard output takes one answer, found " +
                     llvm::Twine(instances.size()) +
                     " instances; a folder takes several");
  if (llvm::Error error = makeFolder(output))
    return std::move(error);
  std::vector<std::string> answers;
  llvm::StringSet<> names;
  for (const std::string &instance : instances) {
    llvm::SmallString<128> answer(output);
    StringRef name = instance == "-" ? "stdin" : path::stem(instance);
    path::append(answer, name + ".json");
    if (!names.insert(answer).second)
      return makeError("two instances would be answered in '" + answer + "'");
    if (llvm::Error error = checkAnswer(answer, instance))
      return std::move(error);
    answers.push_back(answer.str().str());
  }
  return answers;
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

/// Set by the first SIGINT or SIGTERM; the next one ends the process.
static std::atomic<bool> isInterrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free,
              "signal handlers must not wait");
static constexpr int kExitInterrupted = 130;

static void catchInterrupts() {
  struct sigaction action = {};
  action.sa_handler = [](int) { isInterrupted = true; };
  action.sa_flags = SA_RESETHAND;
  for (int signal : {SIGINT, SIGTERM})
    sigaction(signal, &action, nullptr);
}

/// Returns the objective of only the constructive heuristics.
static std::optional<int64_t> solveByHeuristics(const Problem &problem,
                                                SolverOptions options) {
  options.timeLimitSeconds = 0;
  llvm::Expected<SolverResult> result = solve(problem, {}, options);
  if (result)
    return objectiveOf(problem, result->solution);
  llvm::consumeError(result.takeError());
  return std::nullopt;
}

SolverOptions
Options::makeSolverOptions(llvm::ThreadPoolInterface &pool) const {
  SolverOptions options;
  options.timeLimitSeconds = timeLimit;
  options.gap = gap;
  options.seed = seed;
  options.pool = &pool;
  options.maxEvaluations = maxEvaluations;
  options.interrupted = &isInterrupted;
  return options;
}

static void reportWarning(StringRef message) {
  llvm::WithColor::warning() << printableText(message) << "\n";
}

/// Returns seeds of families, and the initial answer if there is one.
static llvm::Expected<std::vector<Seed>> makeSeeds(const Problem &problem,
                                                   const Options &options,
                                                   SolverOptions &limits) {
  std::vector<Seed> seeds = familySeeds(problem, limits);
  if (options.start.empty())
    return seeds;
  llvm::Expected<Seed> seed = readSeed(problem, options.start, &isInterrupted);
  if (!seed)
    return seed.takeError();
  seeds.push_back(std::move(*seed));
  return seeds;
}

/// Searches, starting from the entry of the cache if there is a cache.
static llvm::Expected<SolverResult> search(const Problem &problem,
                                           llvm::ArrayRef<Seed> seeds,
                                           SolverOptions options,
                                           StringRef cache) {
  std::string warning;
  llvm::Expected<SolverResult> result = [&] {
    ProgressLine line(problem.name, options);
    auto report = [&](const Progress &progress) { line.show(progress); };
    options.report = report;
    return solveCached(problem, seeds, options, cache, warning);
  }();
  if (!warning.empty())
    reportWarning(warning);
  return result;
}

static ResultRow makeRow(const Instance &instance, const SolverResult &result) {
  const Problem &problem = instance.problem;
  ResultRow row;
  row.name = problem.name;
  row.objective = problem.objective;
  row.bestKnown = instance.bestKnown;
  row.found = objectiveOf(problem, result.solution);
  row.lowerBound = result.lowerBound;
  row.bound = result.boundName;
  row.origin = result.origin;
  row.status = result.status;
  row.seconds = result.seconds;
  if (result.bestSeed > 0)
    row.seed = result.bestSeed;
  row.seedName = result.bestSeedName;
  return row;
}

/// Returns the answer to an instance as JSON. Errors: the schedule violates a
/// rule.
static llvm::Expected<std::string> textOf(const Problem &problem,
                                          const SolverResult &result) {
  if (llvm::Error error = verifySolution(problem, result.solution))
    return makeError("the schedule that was found does not hold: " +
                     llvm::toString(std::move(error)));
  std::string text;
  llvm::raw_string_ostream os(text);
  if (llvm::Error error = writeAnswer(problem, result, os))
    return std::move(error);
  return text;
}

/// Finds a schedule of one instance and writes it to `answer`, if that is not
/// empty.
static llvm::Expected<ResultRow>
optimizeInstance(StringRef file, StringRef answer, const Options &options,
                 llvm::ThreadPoolInterface &pool) {
  llvm::Expected<Instance> instance = readInstance(file, &isInterrupted);
  if (!instance)
    return instance.takeError();
  auto fail = [&](llvm::Error error) {
    return makeError(file + ": " + llvm::toString(std::move(error)));
  };
  if (options.memoryTimes.getNumOccurrences() > 0)
    instance->problem.memoryTimes = options.memoryTimes;
  const Problem &problem = instance->problem;
  if (llvm::Error error = checkTime(problem, options.timeLimit))
    return fail(std::move(error));
  if (llvm::Error error = checkCapacity(problem))
    return fail(std::move(error));
  SolverOptions limits = options.makeSolverOptions(pool);
  llvm::Expected<std::vector<Seed>> seeds = makeSeeds(problem, options, limits);
  if (!seeds)
    return seeds.takeError();
  llvm::Expected<SolverResult> result =
      search(problem, *seeds, limits, options.cache);
  if (!result)
    return fail(result.takeError());
  llvm::Expected<std::string> text = textOf(problem, *result);
  if (!text)
    return fail(text.takeError());
  if (!answer.empty())
    if (llvm::Error error = writeWholeFile(answer, *text))
      return std::move(error);
  ResultRow row = makeRow(*instance, *result);
  if (!isInterrupted && options.output != "-")
    row.heuristic = solveByHeuristics(problem, limits);
  return row;
}

static int reportError(llvm::Error error) {
  llvm::WithColor::error() << printableText(llvm::toString(std::move(error)))
                           << "\n";
  return 1;
}

/// Optimizes the instances one after the other; instances with an error are
/// reported and left out of the table.
static int optimizeAll(const Options &options) {
  if (llvm::Error error = options.check())
    return reportError(std::move(error));
  llvm::Expected<std::vector<std::string>> instances =
      listInstances(options.inputs);
  if (!instances)
    return reportError(instances.takeError());
  llvm::Expected<std::vector<std::string>> answers =
      listAnswers(*instances, options);
  if (!answers)
    return reportError(answers.takeError());
  if (!options.cache.empty())
    if (llvm::Error error = makeFolder(options.cache))
      return reportError(std::move(error));
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency(options.threads));
  int exitStatus = 0;
  std::vector<ResultRow> rows;
  for (auto [instance, answer] : llvm::zip(*instances, *answers)) {
    if (auto row = optimizeInstance(instance, answer, options, pool))
      rows.push_back(std::move(*row));
    else
      exitStatus = reportError(row.takeError());
    if (isInterrupted)
      break;
  }
  if (!rows.empty() && options.output != "-")
    writeTable(rows, options.format, llvm::outs());
  return isInterrupted ? kExitInterrupted : exitStatus;
}

int main(int argc, char **argv) {
  openStandardStreams();
  static OutputErrors outputErrors;
  static PrintableErrors errors(argc, argv);
  llvm::InitLLVM init(argc, argv);
  cl::ResetCommandLineParser();
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::SetVersionPrinter(printVersion);
  cl::ParseCommandLineOptions(
      argc, argv, "Finds pipeline schedules within a memory budget\n");
  catchInterrupts();
  return optimizeAll(options);
}
