//===- Instance.cpp - Scheduling instances and their answers --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every field of a problem is required, even if null, so that a misspelt field
// is noticed.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Description/Instance.h"
#include "FieldReader.h"
#include "PipeSched/Support/InputFile.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"

using namespace pipesched;
using namespace pipesched::optimize;
using llvm::StringRef;
using llvm::Twine;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

/// The required length of a list, what its entries belong to, and their least
/// value.
struct ListRule {
  int64_t length = 0;
  StringRef owners; ///< "stages"
  std::optional<int64_t> least;
};

/// Reads the fields of one file into a problem, which is incomplete after an
/// error.
class InstanceReader {
public:
  InstanceReader(const json::Value &file, StringRef fileName,
                 FileErrors &errors)
      : reader(&file, "", errors), fileName(fileName), errors(errors) {}

  Instance run();

private:
  std::vector<int64_t> readList(FieldReader &parent, StringRef name,
                                ListRule rule);
  void readStages(FieldReader &parent, StringRef name, int64_t least,
                  int64_t StageFacts::*fact);
  void readPlacement();
  void readDurations();
  void readMemory();
  void readOffload();
  void readRecompute();
  void repeatStages();
  std::optional<int64_t> readOptional(StringRef name);
  void fill(int64_t StageFacts::*fact, int64_t value) {
    for (StageFacts &facts : problem.stages)
      facts.*fact = value;
  }

  FieldReader reader;
  StringRef fileName;
  FileErrors &errors;
  Problem problem;
};

} // namespace

/// Returns an empty list after an error.
std::vector<int64_t> InstanceReader::readList(FieldReader &parent,
                                              StringRef name, ListRule rule) {
  const json::Value *value = parent.require(name);
  if (!value)
    return {};
  std::string path = parent.pathOf(name);
  const json::Array *array = value->getAsArray();
  if (!array || int64_t(array->size()) != rule.length) {
    std::string found =
        array ? ("one of " + Twine(array->size())).str() : textOf(*value);
    errors.report(path, "expected a list of " + Twine(rule.length) +
                            " numbers, as many as '" + rule.owners +
                            "', found " + found);
    return {};
  }
  std::string wanted = "a whole number";
  if (rule.least)
    wanted += (" from " + Twine(*rule.least) + " to 2^63 - 1").str();
  std::vector<int64_t> numbers;
  numbers.reserve(array->size());
  for (auto [index, number] : llvm::enumerate(*array)) {
    std::optional<int64_t> found = number.getAsInteger();
    if (!found || (rule.least && *found < *rule.least)) {
      errors.report(path + "[" + Twine(index) + "]",
                    "expected " + wanted + ", found " + textOf(number));
      return {};
    }
    numbers.push_back(*found);
  }
  return numbers;
}

void InstanceReader::readStages(FieldReader &parent, StringRef name,
                                int64_t least, int64_t StageFacts::*fact) {
  std::optional<int64_t> from;
  if (least >= 0)
    from = least;
  std::vector<int64_t> numbers =
      readList(parent, name, {int64_t(problem.stages.size()), "stages", from});
  for (auto [facts, number] : llvm::zip(problem.stages, numbers))
    facts.*fact = number;
}

void InstanceReader::readPlacement() {
  int64_t workers = reader.integer("workers", 1);
  int64_t microbatches = reader.integer("microbatches", 1);
  int64_t stages = reader.integer("stages", 1);
  if (reader.find("slices"))
    problem.numSlices = reader.integer("slices", 1);
  std::vector<int64_t> hosts = readList(reader, "path", {stages, "stages", 0});
  if (!reader.isSound())
    return;
  Path path;
  for (auto [stage, worker] : llvm::enumerate(hosts)) {
    if (worker >= workers)
      errors.report("path[" + Twine(stage) + "]",
                    "expected a worker from 0 to " + Twine(workers - 1) +
                        ", found " + Twine(worker));
    path.workers.push_back(static_cast<int32_t>(worker));
  }
  if (errors.any())
    return;
  llvm::Expected<Placement> placement =
      Placement::create(workers, microbatches, {path}, problem.numSlices);
  if (placement)
    placement = divideSlices(*placement);
  if (!placement)
    return errors.report("", llvm::toString(placement.takeError()));
  problem.placement = std::move(*placement);
  problem.stages.resize(stages);
}

void InstanceReader::readDurations() {
  FieldReader durations(reader.require("duration"), "duration", errors);
  readStages(durations, "F", 1, &StageFacts::forward);
  readStages(durations, "I", 1, &StageFacts::inputGrad);
  readStages(durations, "W", 1, &StageFacts::weightGrad);
  durations.finish();
  int64_t delay = reader.integer("message_delay", 0);
  fill(&StageFacts::activationDelay, delay);
  fill(&StageFacts::gradientDelay, delay);
}

void InstanceReader::readMemory() {
  FieldReader memory(reader.require("memory"), "memory", errors);
  readStages(memory, "stage_activation", 0, &StageFacts::activation);
  readStages(memory, "freed_by_I", -1, &StageFacts::freedByInputGrad);
  int64_t numWorkers = problem.placement.getNumWorkers();
  problem.capacity = readList(memory, "capacity", {numWorkers, "workers", 0});
  memory.finish();
}

/// Reads null, or the times of copies.
void InstanceReader::readOffload() {
  const json::Value *value = reader.require("offload");
  if (!value || value->getAsNull())
    return;
  FieldReader offload(value, "offload", errors);
  fill(&StageFacts::offload, offload.integer("D", 0));
  fill(&StageFacts::reload, offload.integer("U", 0));
  int64_t numQueues = offload.integer("queues", 1);
  if (numQueues > 2)
    errors.report("offload.queues",
                  "expected 1 or 2, found " + Twine(numQueues));
  problem.sharedCopyQueue = numQueues == 1;
  problem.techniques.offload = true;
  offload.finish();
}

void InstanceReader::readRecompute() {
  const json::Value *value = reader.require("recompute");
  if (!value || value->getAsNull())
    return;
  FieldReader recompute(value, "recompute", errors);
  fill(&StageFacts::recompute, recompute.integer("R", 0));
  fill(&StageFacts::checkpoint, recompute.integer("checkpoint", 0));
  problem.techniques.recompute = true;
  recompute.finish();
}

/// Gives all slices the same times and memory.
void InstanceReader::repeatStages() {
  std::vector<StageFacts> one = problem.stages;
  for (int64_t slice = 1; slice < problem.numSlices; ++slice)
    problem.stages.insert(problem.stages.end(), one.begin(), one.end());
}

/// Reads a number that may be missing or null.
std::optional<int64_t> InstanceReader::readOptional(StringRef name) {
  const json::Value *value = reader.find(name);
  if (!value || value->getAsNull())
    return std::nullopt;
  return reader.integer(name, 0);
}

Instance InstanceReader::run() {
  problem.name = reader.text("name", llvm::sys::path::stem(fileName));
  readPlacement();
  if (!errors.any() && !problem.stages.empty()) {
    readDurations();
    readMemory();
    readOffload();
    readRecompute();
    repeatStages();
  }
  problem.objective = reader.choice<Objective>("objective");
  if (reader.find("memory_times"))
    problem.memoryTimes = reader.choice<MemoryTimes>("memory_times");
  Instance instance;
  instance.bestKnown = readOptional("best_known");
  instance.lowerBound = readOptional("lower_bound");
  reader.finishWithNotes();
  if (!errors.any())
    if (llvm::Error error = checkProblem(problem))
      errors.report("", llvm::toString(std::move(error)));
  instance.problem = std::move(problem);
  return instance;
}

llvm::Expected<Instance> optimize::instanceFromJson(StringRef text,
                                                    StringRef file) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  Instance instance = InstanceReader(*value, file, errors).run();
  if (llvm::Error error = errors.take())
    return std::move(error);
  return instance;
}

llvm::Expected<Instance>
optimize::readInstance(StringRef path, const std::atomic<bool> *interrupted) {
  auto buffer = readWholeFile(path, interrupted);
  if (!buffer)
    return buffer.takeError();
  return instanceFromJson((*buffer)->getBuffer(),
                          path == "-" ? "<stdin>" : path);
}

//===----------------------------------------------------------------------===//
// Answers as seeds
//===----------------------------------------------------------------------===//

namespace {

struct AnswerCell {
  int64_t worker, start, end;
  Cell cell;
};

} // namespace

/// Reads one entry of `cells`. Returns nothing if it is not a cell of the
/// problem.
static std::optional<AnswerCell> readCell(const Problem &problem,
                                          const json::Value &value) {
  const json::Array *entry = value.getAsArray();
  if (!entry || entry->size() != 6)
    return std::nullopt;
  std::optional<StringRef> letter = (*entry)[0].getAsString();
  std::optional<Phase> phase;
  if (letter && letter->size() == 1)
    phase = phaseFromLetter(letter->front());
  int64_t numbers[5] = {};
  for (auto [index, number] : llvm::enumerate(numbers)) {
    std::optional<int64_t> found = (*entry)[index + 1].getAsInteger();
    if (!found || *found < 0)
      return std::nullopt;
    number = *found;
  }
  auto [stage, microbatch, worker, start, end] = numbers;
  const Placement &placement = problem.placement;
  if (!phase || stage >= placement.getNumStages(0) ||
      microbatch >= placement.getNumMicrobatches() ||
      worker >= placement.getNumWorkers() || end < start)
    return std::nullopt;
  return AnswerCell{worker, start, end, Cell(stage, *phase, microbatch)};
}

/// Makes the row of one worker from its cells. A copy that starts while a cell
/// runs was issued before that cell, and then waited for its queue or for
/// memory.
static Row rowOf(std::vector<AnswerCell> cells) {
  llvm::sort(cells, [](const AnswerCell &a, const AnswerCell &b) {
    return std::tuple(a.start, !a.cell.isCopy(), a.end, a.cell.getRaw()) <
           std::tuple(b.start, !b.cell.isCopy(), b.end, b.cell.getRaw());
  });
  Row row;
  size_t last = 0;     // position of the last compute cell
  int64_t runsTo = -1; // its end
  for (const AnswerCell &next : cells) {
    bool isIssuedBefore = next.cell.isCopy() && next.start < runsTo;
    row.insert(isIssuedBefore ? row.begin() + last++ : row.end(), next.cell);
    if (next.cell.isCopy())
      continue;
    last = row.size() - 1;
    runsTo = next.end;
  }
  return row;
}

llvm::Expected<Seed> optimize::seedFromAnswer(const Problem &problem,
                                              StringRef text, StringRef file) {
  llvm::Expected<json::Value> value = parseJson(text, file);
  if (!value)
    return value.takeError();
  FileErrors errors(file);
  FieldReader reader(&*value, "", errors);
  const json::Value *cells = reader.require("cells");
  const json::Array *list = cells ? cells->getAsArray() : nullptr;
  std::vector<std::vector<AnswerCell>> rows(problem.placement.getNumWorkers());
  if (!list)
    errors.report("cells", "expected a list of cells");
  for (size_t index = 0; list && index < list->size(); ++index) {
    if (std::optional<AnswerCell> cell = readCell(problem, (*list)[index]))
      rows[cell->worker].push_back(*cell);
    else
      errors.report("cells[" + Twine(index) + "]",
                    "expected [phase, stage, microbatch, worker, start, end] "
                    "of the problem, found " +
                        textOf((*list)[index]));
  }
  if (llvm::Error error = errors.take())
    return std::move(error);
  Seed seed = {"the schedule to start from", {}};
  for (std::vector<AnswerCell> &row : rows)
    seed.rows.push_back(rowOf(std::move(row)));
  return seed;
}

llvm::Expected<Seed> optimize::readSeed(const Problem &problem, StringRef path,
                                        const std::atomic<bool> *interrupted) {
  auto buffer = readWholeFile(path, interrupted);
  if (!buffer)
    return buffer.takeError();
  return seedFromAnswer(problem, (*buffer)->getBuffer(),
                        path == "-" ? "<stdin>" : path);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

StringRef optimize::nameOf(Status status) {
  switch (status) {
  case Status::Optimal:
    return "optimal";
  case Status::GapReached:
    return "gap";
  case Status::TimeLimit:
    return "time_limit";
  case Status::Interrupted:
    return "interrupted";
  }
  llvm_unreachable("covered switch");
}

static int64_t durationOf(const Problem &problem, Cell cell) {
  return problem.stages[problem.placement.globalStage(cell)].durationOf(
      cell.getPhase());
}

/// Lists cells by worker, start and end.
static std::vector<AnswerCell> listCells(const Problem &problem,
                                         const Solution &solution) {
  std::vector<AnswerCell> cells;
  for (auto [worker, row] : llvm::enumerate(solution.rows)) {
    size_t first = cells.size();
    for (auto [cell, start] : llvm::zip(row, solution.starts[worker]))
      if (!cell.isIdle() && !cell.isJoin())
        cells.push_back(
            {int64_t(worker), start, start + durationOf(problem, cell), cell});
    llvm::sort(cells.begin() + first, cells.end(),
               [](const AnswerCell &a, const AnswerCell &b) {
                 return std::tuple(a.start, a.end, a.cell.getRaw()) <
                        std::tuple(b.start, b.end, b.cell.getRaw());
               });
  }
  return cells;
}

/// Writes one cell per line.
static void writeCells(llvm::ArrayRef<AnswerCell> cells,
                       llvm::raw_ostream &os) {
  StringRef separator = "\n";
  for (const AnswerCell &cell : cells) {
    os << separator << "  [\"" << phaseLetter(cell.cell.getPhase()) << "\", "
       << cell.cell.getStage() << ", " << cell.cell.getNumber() << ", "
       << cell.worker << ", " << cell.start << ", " << cell.end << "]";
    separator = ",\n";
  }
}

/// Writes one row per line, with joins.
static void writeRows(llvm::ArrayRef<Row> rows, llvm::raw_ostream &os) {
  StringRef separator = "\n";
  for (const Row &row : rows) {
    os << separator << "  \"";
    llvm::interleave(row, os, " ");
    os << '"';
    separator = ",\n";
  }
}

llvm::Error optimize::writeAnswer(const Problem &problem,
                                  const SolverResult &result,
                                  llvm::raw_ostream &os) {
  Solution solution = result.solution;
  bool isPeriodic = problem.objective == Objective::Period;
  if (isPeriodic) {
    std::vector<llvm::ArrayRef<Cell>> rows(solution.rows.begin(),
                                           solution.rows.end());
    llvm::Expected<Solution> steady = steadyState(problem, rows);
    if (!steady)
      return steady.takeError();
    solution = std::move(*steady);
  }
  os << "{\n\"name\": " << json::Value(problem.name)
     << ",\n\"makespan\": " << solution.makespan;
  if (isPeriodic)
    os << ",\n\"period\": " << solution.period;
  os << ",\n\"lower_bound\": " << result.lowerBound << ",\n\"status\": \""
     << nameOf(result.status)
     << "\",\n\"seconds\": " << llvm::format("%.3f", result.seconds);
  if (problem.memoryTimes == MemoryTimes::Any) {
    os << ",\n\"memory_times\": \"" << enumName(problem.memoryTimes)
       << "\",\n\"rows\": [";
    writeRows(solution.rows, os);
    os << "\n]";
  }
  os << ",\n\"cells\": [";
  writeCells(listCells(problem, solution), os);
  os << "\n]\n}\n";
  return llvm::Error::success();
}
