//===- Cache.cpp - Cache of schedules -------------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An entry is text:
//
//   pipesched-optimize-cache 2        the version of the format
//   key <64 digits>                   of the problem, as in the file's name
//   status .. seconds .. origin ..    of the search
//   row 0F0 0D0 0F1 ..                one per worker
//   checksum <64 digits>              of all lines before
//
// It is written to a temporary file that is renamed, so that readers see either
// an old entry or a new one. Only one writer at a time compares and replaces an
// entry, so that the better entry is kept.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Optimize/Schedule/Cache.h"
#include "PipeSched/Support/OutputFile.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/SHA256.h"
#include <cmath>
#include <mutex>

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

static constexpr StringRef kHeader = "pipesched-optimize-cache 1\n";

static std::string hashOf(StringRef text) {
  return llvm::toHex(llvm::SHA256::hash(llvm::arrayRefFromStringRef(text)),
                     /*LowerCase=*/true);
}

//===----------------------------------------------------------------------===//
// Problems
//===----------------------------------------------------------------------===//

static void writePaths(llvm::raw_ostream &os, const Placement &placement) {
  os << "workers " << placement.getNumWorkers() << " microbatches "
     << placement.getNumMicrobatches() << '\n';
  for (const Path &path : placement.getPaths()) {
    os << "path ";
    llvm::interleave(path.workers, os, " ");
    for (const MicrobatchRange &range : path.takes)
      os << " takes " << range.begin << ' ' << range.end << ' ' << range.step;
    os << '\n';
  }
}

static void writeStage(llvm::raw_ostream &os, const StageFacts &stage) {
  const int64_t facts[] = {
      stage.forward,         stage.inputGrad,        stage.weightGrad,
      stage.recompute,       stage.offload,          stage.reload,
      stage.activationDelay, stage.gradientDelay,    stage.offloadDelay,
      stage.activation,      stage.freedByInputGrad, stage.checkpoint};
  os << "stage ";
  llvm::interleave(facts, os, " ");
  os << '\n';
}

std::string optimize::cacheKey(const Problem &problem) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << kHeader;
  writePaths(os, problem.placement);
  for (const StageFacts &stage : problem.stages)
    writeStage(os, stage);
  if (problem.numSlices > 1) {
    os << "slices " << problem.numSlices << " left";
    for (const StageFacts &stage : problem.stages)
      os << ' ' << stage.leftForSlices;
    os << '\n';
  }
  os << "capacity ";
  llvm::interleave(problem.capacity, os, " ");
  os << "\nrules " << (problem.gradientAfter == GradientAfter::WeightGrad)
     << ' ' << problem.sharedCopyQueue << ' '
     << (problem.memoryTimes == MemoryTimes::Any) << ' '
     << problem.techniques.splitBackward << ' ' << problem.techniques.offload
     << ' ' << problem.techniques.recompute << ' '
     << (problem.objective == Objective::Period) << '\n';
  return hashOf(text);
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Returns a name without line breaks or other characters that cannot be
/// printed.
static std::string onOneLine(StringRef name) {
  std::string line = name.str();
  std::replace_if(
      line.begin(), line.end(), [](char c) { return !llvm::isPrint(c); }, ' ');
  return line;
}

static std::string printLimit(double seconds) {
  return std::isinf(seconds) ? "none" : formatv("{0:f3}", seconds).str();
}

static std::string printEntry(const Problem &problem, const CacheEntry &entry) {
  const SolverResult &result = entry.result;
  std::string text;
  llvm::raw_string_ostream os(text);
  os << kHeader << "key " << cacheKey(problem) << '\n'
     << "status " << enumName(result.status) << '\n'
     << "objective " << objectiveOf(problem, result.solution) << '\n'
     << "lower-bound " << result.lowerBound << '\n'
     << "bound-name " << onOneLine(result.boundName) << '\n'
     << "origin " << onOneLine(result.origin) << '\n'
     << "seconds " << formatv("{0:f3}", result.seconds) << '\n'
     << "seconds-to-best " << formatv("{0:f3}", result.secondsToBest) << '\n'
     << "evaluations " << result.evaluations << '\n'
     << "best-seed " << result.bestSeed << '\n'
     << "best-seed-name " << onOneLine(result.bestSeedName) << '\n'
     << "time-limit " << printLimit(entry.timeLimitSeconds) << '\n'
     << "max-evaluations " << entry.maxEvaluations << '\n';
  for (ArrayRef<Cell> row : result.solution.rows) {
    os << "row";
    for (Cell cell : row)
      os << ' ' << cell;
    os << '\n';
  }
  text += "checksum " + hashOf(text) + '\n';
  return text;
}

namespace {
/// Reads lines `key value` of an entry in their order. After any failure the
/// whole entry is unusable.
class EntryReader {
public:
  explicit EntryReader(StringRef text) : rest(text) {}

  bool isGood() const { return good; }
  bool isAtEnd() const { return rest.empty(); }

  StringRef readText(StringRef key) {
    auto [line, others] = rest.split('\n');
    rest = others;
    good &=
        line.consume_front(key) && (line.empty() || line.consume_front(" "));
    return line;
  }
  template <typename Number>
  void read(StringRef key, Number &value) {
    good &= !readText(key).getAsInteger(10, value);
  }
  void read(StringRef key, double &value) {
    good &= !readText(key).getAsDouble(value) && value >= 0;
  }
  void readLimit(StringRef key, double &seconds) {
    StringRef text = readText(key);
    seconds = kNoTimeLimit;
    good &= text == "none" || (!text.getAsDouble(seconds) && seconds >= 0);
  }
  void read(StringRef key, Status &status) {
    std::optional<Status> named = enumFromName<Status>(readText(key));
    good &= named.has_value();
    if (good)
      status = *named;
  }
  void read(StringRef key, Row &row) {
    StringRef words = readText(key);
    while (good && !words.empty()) {
      auto [word, others] = words.split(' ');
      words = others;
      row.push_back(readCell(word));
    }
  }

private:
  Cell readCell(StringRef word) {
    int64_t stage = 0, microbatch = 0;
    bool isRead = !word.consumeInteger(10, stage) && !word.empty();
    std::optional<Phase> phase;
    if (isRead)
      phase = phaseFromLetter(word.front());
    good &= phase && !word.drop_front().getAsInteger(10, microbatch) &&
            stage >= 0 && stage < Cell::kMaxStages && microbatch >= 0 &&
            microbatch <= Cell::kMaxMicrobatches;
    return good ? Cell(stage, *phase, microbatch) : Cell();
  }

  StringRef rest;
  bool good = true;
};
} // namespace

/// Returns the text before the checksum if the checksum is correct.
static std::optional<StringRef> takeChecked(StringRef text) {
  constexpr StringRef kKey = "checksum ";
  size_t at = text.rfind(kKey);
  if (at == StringRef::npos || !text.ends_with("\n"))
    return std::nullopt;
  StringRef body = text.take_front(at);
  StringRef found = text.drop_front(at + kKey.size()).drop_back();
  return found == hashOf(body) ? std::optional(body) : std::nullopt;
}

/// Reads an entry without the times of its rows, which settle() computes.
static std::optional<CacheEntry> parseEntry(StringRef text, StringRef key,
                                            size_t numWorkers,
                                            int64_t &objective) {
  std::optional<StringRef> body = takeChecked(text);
  if (!body || !body->consume_front(kHeader))
    return std::nullopt;
  CacheEntry entry;
  SolverResult &result = entry.result;
  EntryReader reader(*body);
  bool isSame = reader.readText("key") == key;
  reader.read("status", result.status);
  reader.read("objective", objective);
  reader.read("lower-bound", result.lowerBound);
  result.boundName = reader.readText("bound-name");
  result.origin = reader.readText("origin");
  reader.read("seconds", result.seconds);
  reader.read("seconds-to-best", result.secondsToBest);
  reader.read("evaluations", result.evaluations);
  reader.read("best-seed", result.bestSeed);
  result.bestSeedName = reader.readText("best-seed-name");
  reader.readLimit("time-limit", entry.timeLimitSeconds);
  reader.read("max-evaluations", entry.maxEvaluations);
  while (reader.isGood() && result.solution.rows.size() < numWorkers)
    reader.read("row", result.solution.rows.emplace_back());
  if (!isSame || !reader.isGood() || !reader.isAtEnd())
    return std::nullopt;
  return entry;
}

/// Computes the times of the rows. Returns false if rows violate a rule, or
/// have another objective than the entry states.
static bool settle(const Problem &problem, int64_t objective,
                   SolverResult &result) {
  const std::vector<Row> &rows = result.solution.rows;
  Expected<Solution> timed =
      timeRows(problem, std::vector<ArrayRef<Cell>>(rows.begin(), rows.end()));
  if (!timed) {
    llvm::consumeError(timed.takeError());
    return false;
  }
  bool isValid = objectiveOf(problem, *timed) == objective;
  if (Error error = verifySolution(problem, *timed)) {
    llvm::consumeError(std::move(error));
    isValid = false;
  }
  result.solution = std::move(*timed);
  return isValid;
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

static Error fileError(const char *what, StringRef path, std::error_code code) {
  return llvm::createStringError(
      code, formatv("cannot {0} '{1}': {2}", what, path, code.message()).str());
}

std::string Cache::pathOf(const Problem &problem) const {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, cacheKey(problem) + ".txt");
  return std::string(path);
}

std::optional<CacheEntry> Cache::find(const Problem &problem,
                                      std::string &warning) const {
  std::string path = pathOf(problem);
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                            /*RequiresNullTerminator=*/false);
  if (!buffer) {
    if (buffer.getError() != std::errc::no_such_file_or_directory)
      warning = llvm::toString(fileError("read", path, buffer.getError()));
    return std::nullopt;
  }
  int64_t objective = 0;
  std::optional<CacheEntry> entry =
      parseEntry((*buffer)->getBuffer(), cacheKey(problem),
                 problem.placement.getNumWorkers(), objective);
  if (entry && settle(problem, objective, entry->result))
    return entry;
  warning = formatv("'{0}' is no cached schedule of this problem and is left "
                    "aside",
                    path);
  return std::nullopt;
}

/// Whether a limit is at most the other limit. 0 means no limit and is the
/// largest.
static bool isWithin(uint64_t limit, uint64_t other) {
  return other == 0 || (limit != 0 && limit <= other);
}

static bool isBetter(const Problem &problem, const CacheEntry &entry,
                     const CacheEntry &other) {
  int64_t mine = objectiveOf(problem, entry.result.solution);
  int64_t others = objectiveOf(problem, other.result.solution);
  if (mine != others)
    return mine < others;
  if (entry.result.lowerBound != other.result.lowerBound)
    return entry.result.lowerBound > other.result.lowerBound;
  if (entry.timeLimitSeconds != other.timeLimitSeconds)
    return entry.timeLimitSeconds > other.timeLimitSeconds;
  return !isWithin(entry.maxEvaluations, other.maxEvaluations);
}

namespace {
/// Lets one writer at a time use a folder: with a mutex within this process,
/// and with a lock on a file between processes, if the file system supports
/// locks.
class WriterLock {
public:
  explicit WriterLock(StringRef directory) : guard(mutex) {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, "lock");
    if (llvm::sys::fs::openFileForReadWrite(
            path, file, llvm::sys::fs::CD_OpenAlways, llvm::sys::fs::OF_None))
      return;
    isLocked = !llvm::sys::fs::tryLockFile(file, kPatience);
  }
  WriterLock(const WriterLock &) = delete;
  WriterLock &operator=(const WriterLock &) = delete;
  ~WriterLock() {
    if (isLocked)
      (void)llvm::sys::fs::unlockFile(file);
    if (file >= 0)
      (void)llvm::sys::Process::SafelyCloseFileDescriptor(file);
  }

private:
  static constexpr std::chrono::milliseconds kPatience{2000};
  static std::mutex mutex;

  std::lock_guard<std::mutex> guard;
  int file = -1;
  bool isLocked = false;
};

std::mutex WriterLock::mutex;
} // namespace

Error Cache::store(const Problem &problem, const CacheEntry &entry) const {
  if (std::error_code code = llvm::sys::fs::create_directories(directory))
    return fileError("create the folder", directory, code);
  WriterLock lock(directory);
  std::string ignored;
  std::optional<CacheEntry> present = find(problem, ignored);
  if (present && !isBetter(problem, entry, *present))
    return Error::success();
  CacheEntry stored = entry;
  if (present)
    stored.result.lowerBound =
        std::max(stored.result.lowerBound, present->result.lowerBound);
  return writeWholeFile(pathOf(problem), printEntry(problem, stored));
}

//===----------------------------------------------------------------------===//
// Solving with a cache
//===----------------------------------------------------------------------===//

/// Whether the entry makes a search with these options unnecessary.
static bool isEnough(const Problem &problem, const CacheEntry &entry,
                     const SolverOptions &options) {
  const SolverResult &result = entry.result;
  auto objective = static_cast<double>(objectiveOf(problem, result.solution));
  auto bound = static_cast<double>(result.lowerBound);
  if (objective <= bound * (1 + std::max(0.0, options.gap)))
    return true;
  return result.status != Status::Interrupted &&
         options.timeLimitSeconds <= entry.timeLimitSeconds &&
         isWithin(options.maxEvaluations, entry.maxEvaluations);
}

/// Keeps the bound of the entry if the search found no better one.
static void merge(const Problem &problem, const CacheEntry &entry, double gap,
                  SolverResult &result) {
  if (entry.result.lowerBound > result.lowerBound) {
    result.lowerBound = entry.result.lowerBound;
    result.boundName = entry.result.boundName;
  }
  int64_t objective = objectiveOf(problem, result.solution);
  if (objective <= result.lowerBound)
    result.status = Status::Optimal;
  else if (static_cast<double>(objective) <=
           static_cast<double>(result.lowerBound) * (1 + gap))
    result.status = Status::GapReached;
}

Expected<SolverResult> optimize::solveCached(const Problem &problem,
                                             ArrayRef<Seed> seeds,
                                             const SolverOptions &options,
                                             StringRef directory,
                                             std::string &warning) {
  if (directory.empty())
    return solve(problem, seeds, options);
  if (Error error = checkProblem(problem))
    return std::move(error);
  Cache cache(directory);
  std::optional<CacheEntry> entry = cache.find(problem, warning);
  if (entry && isEnough(problem, *entry, options))
    return std::move(entry->result);
  std::vector<Seed> all(seeds.begin(), seeds.end());
  if (entry)
    all.push_back({entry->result.origin, entry->result.solution.rows});
  Expected<SolverResult> result = solve(problem, all, options);
  if (!result)
    return result.takeError();
  if (entry)
    merge(problem, *entry, options.gap, *result);
  if (Error error = cache.store(
          problem, {*result, options.timeLimitSeconds, options.maxEvaluations}))
    warning = llvm::toString(std::move(error));
  return result;
}
