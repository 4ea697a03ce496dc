//===- MeasuredProfile.cpp - Profiles from measured times -----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collects the times of each phase by stage, adds times that a profile needs
// and that the run did not measure separately, and computes means.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Evaluation/MeasuredProfile.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Program/Program.h"
#include "PipeSched/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <map>
#include <numeric>

using namespace pipesched;

namespace {

/// Times in ns, by the position of the stage on its path, because stages of
/// several paths share the times of a profile.
struct Samples {
  void add(int32_t stage, double ns) {
    byStage[stage].push_back(std::max(ns, 0.0));
  }
  bool has(int32_t stage) const { return byStage.count(stage); }
  bool empty() const { return byStage.empty(); }
  double mean(int32_t stage) const { return meanOf(byStage.at(stage)); }

  /// Returns one time in ps for each stage; stages without a sample get the
  /// time of all samples together. Returns one time for all stages if
  /// `numStages` is absent, or if all times are equal.
  std::vector<int64_t> take(std::optional<int64_t> numStages,
                            double (*typical)(std::vector<double>)) const;

  std::map<int32_t, std::vector<double>> byStage;

  static double meanOf(std::vector<double> times) {
    return std::accumulate(times.begin(), times.end(), 0.0) /
           double(times.size());
  }
  static double medianOf(std::vector<double> times) {
    llvm::sort(times);
    size_t half = times.size() / 2;
    return times.size() % 2 ? times[half] : (times[half - 1] + times[half]) / 2;
  }
};

/// The numbers of blocks that a stage owns and holds. O updates and G reduces
/// the owned ones.
struct Share {
  int64_t owned = 1, held = 1;
};

class ProfileMaker {
public:
  ProfileMaker(const WorkerPrograms &programs, const WorkerStages &stages,
               const MeasuredRows &rows);
  Profile run(bool withIssue);

private:
  void readWorker(int64_t worker, bool withIssue);
  void readCompute(uint32_t i, double ns);
  void readPair(uint32_t i, double ns);
  void readArrival(int64_t worker, uint32_t i);
  void readSum(int32_t group);
  std::vector<double> findIssues(int64_t worker) const;
  void addIssues(int64_t worker, int64_t step,
                 std::vector<double> &issues) const;
  int64_t waitEnd(int64_t worker, uint32_t i, size_t at) const;
  void fill();

  InstructionKind kind(uint32_t i) const {
    return static_cast<InstructionKind>(programs.kind[i]);
  }
  uint32_t begin(int64_t worker) const { return programs.rowBegins[worker]; }
  size_t size(int64_t worker) const {
    return programs.rowBegins[worker + 1] - begin(worker);
  }
  /// Returns the index of the time of instruction `i` in a step.
  size_t at(int64_t worker, int64_t step, uint32_t i) const {
    return step * size(worker) + (i - begin(worker));
  }
  Share shareOf(uint32_t i) const {
    auto found = shares.find({programs.first.path[i], programs.first.stage[i]});
    return found == shares.end() ? Share() : found->second;
  }
  static Phase phaseOf(const InstructionCells &cells, uint32_t i) {
    return *phaseFromCode(cells.phase[i]);
  }

  const WorkerPrograms &programs;
  const MeasuredRows &rows;
  /// By path and stage.
  std::map<std::pair<int32_t, int32_t>, Share> shares;
  std::optional<int64_t> numStages; ///< of each path
  PhaseMap<Samples> phases;
  Samples pairs, messages;
  /// Times of cells in pairs: parts of the time of the pair in proportion to
  /// unit slots.
  PhaseMap<Samples> partsOfPairs;
  /// By message: its send, and the worker of the send.
  std::vector<std::pair<int64_t, uint32_t>> sends;
  /// By group: worker and instruction of each all-reduce.
  std::map<int32_t, std::vector<std::pair<int64_t, uint32_t>>> sums;
};

} // namespace

/// Returns the difference, which is exact for any two times.
static double between(int64_t begin, int64_t end) {
  return double(static_cast<__int128>(end) - begin);
}

static int64_t toPs(double ns) {
  constexpr double kLimit = 0x1p62;
  return std::llround(std::min(1000 * ns, kLimit));
}

std::vector<int64_t>
Samples::take(std::optional<int64_t> numStages,
              double (*typical)(std::vector<double>)) const {
  if (empty())
    return {};
  std::vector<double> all;
  for (const auto &[stage, times] : byStage)
    llvm::append_range(all, times);
  int64_t ofAll = toPs(typical(all));
  std::vector<int64_t> result(numStages.value_or(1), ofAll);
  for (const auto &[stage, times] : byStage)
    if (numStages && stage < *numStages)
      result[stage] = toPs(typical(times));
  return llvm::all_equal(result) ? std::vector<int64_t>(1, result.front())
                                 : result;
}

ProfileMaker::ProfileMaker(const WorkerPrograms &programs,
                           const WorkerStages &stages, const MeasuredRows &rows)
    : programs(programs), rows(rows) {
  std::map<int32_t, int64_t> lengths; // by path
  const WorkerParameterSets &sets = stages.sets;
  for (size_t worker = 0; worker + 1 < stages.begins.size(); ++worker)
    for (uint32_t i = stages.begins[worker]; i < stages.begins[worker + 1];
         ++i) {
      auto countBlocks = [&](int32_t end) {
        int64_t count = 0;
        for (uint32_t set = sets.begins[worker] + stages.firstSet[i];
             set < sets.begins[worker] + end; ++set)
          count += sets.endBlock[set] - sets.firstBlock[set];
        return count;
      };
      Share share = {countBlocks(stages.endOwnedSet[i]),
                     countBlocks(stages.endSet[i])};
      if (share.held == 0) // it has at most an embedding or a head
        share = {stages.endOwnedSet[i] > stages.firstSet[i], 1};
      shares[{stages.path[i], stages.stage[i]}] = share;
      int64_t &length = lengths[stages.path[i]];
      length = std::max<int64_t>(length, stages.stage[i] + 1);
    }
  if (!lengths.empty() && llvm::all_equal(llvm::make_second_range(lengths)))
    numStages = lengths.begin()->second;
}

//===----------------------------------------------------------------------===//
// Samples
//===----------------------------------------------------------------------===//

/// Reads a pair. Its cells may be of two stages; both get the time of the
/// first.
void ProfileMaker::readPair(uint32_t i, double ns) {
  pairs.add(programs.first.stage[i], ns);
  auto slots = [&](const InstructionCells &cells) {
    return double(traitsOf(phaseOf(cells, i)).unitSlots);
  };
  double both = slots(programs.first) + slots(programs.second);
  for (const InstructionCells *cells : {&programs.first, &programs.second})
    partsOfPairs[phaseOf(*cells, i)].add(cells->stage[i],
                                         ns * slots(*cells) / both);
}

/// Reads a compute. O is measured for the blocks that a stage owns; a profile
/// has the time of all blocks, because another schedule may divide them
/// differently.
void ProfileMaker::readCompute(uint32_t i, double ns) {
  if (programs.second.stage[i] >= 0) {
    readPair(i, ns);
    return;
  }
  Phase phase = phaseOf(programs.first, i);
  Share share = phase == Phase::Optimizer ? shareOf(i) : Share();
  if (share.owned > 0)
    phases[phase].add(programs.first.stage[i],
                      ns * double(share.held) / double(share.owned));
}

void ProfileMaker::readWorker(int64_t worker, bool withIssue) {
  const WorkerStamps &stamps = rows.workers[worker];
  std::vector<double> issues(stamps.start.size());
  if (withIssue)
    issues = findIssues(worker);
  for (uint32_t i = begin(worker); i < begin(worker + 1); ++i) {
    InstructionKind what = kind(i);
    if (what == InstructionKind::Send) {
      if (sends.size() <= size_t(programs.message[i]))
        sends.resize(programs.message[i] + 1);
      sends[programs.message[i]] = {worker, i};
    } else if (traitsOf(what).grouping == Grouping::Blocks) {
      sums[programs.group[i]].push_back({worker, i});
    }
    for (int64_t step = 0; step < rows.numSteps; ++step) {
      size_t k = at(worker, step, i);
      if (what == InstructionKind::Compute)
        readCompute(i, between(stamps.start[k], stamps.end[k]) + issues[k]);
      else if (traitsOf(what).role == InstructionRole::Copy ||
               traitsOf(what).grouping == Grouping::Unit)
        phases[phaseOf(programs.first, i)].add(
            programs.first.stage[i],
            between(stamps.start[k], stamps.arrived[k] == kUnknownNs
                                         ? stamps.end[k]
                                         : stamps.arrived[k]));
    }
  }
}

/// Reads a message. It takes from its send, or from the posting of its receive
/// if that is later, to its arrival.
void ProfileMaker::readArrival(int64_t worker, uint32_t i) {
  auto [sender, send] = sends[programs.message[i]];
  const WorkerStamps &stamps = rows.workers[worker];
  for (int64_t step = 0; step < rows.numSteps; ++step) {
    size_t k = at(worker, step, i);
    if (stamps.arrived[k] == kUnknownNs)
      continue;
    int64_t sent = rows.workers[sender].start[at(sender, step, send)];
    messages.add(programs.first.stage[send],
                 between(std::max(sent, stamps.end[k]), stamps.arrived[k]));
  }
}

/// Reads an all-reduce. It runs from the start of its last member until the
/// first member sees its end. As for O, a profile has its time for all blocks
/// of a stage. It counts for the stage of its first member, because predictions
/// use that time.
void ProfileMaker::readSum(int32_t group) {
  const auto &members = sums.at(group);
  uint32_t first = members.front().second;
  double blocks = std::max<double>(
      1, double(programs.endBlock[group] - programs.firstBlock[group]));
  for (int64_t step = 0; step < rows.numSteps; ++step) {
    int64_t start = std::numeric_limits<int64_t>::min();
    int64_t end = std::numeric_limits<int64_t>::max();
    for (auto [worker, i] : members) {
      const WorkerStamps &stamps = rows.workers[worker];
      size_t k = at(worker, step, i);
      start = std::max(start, stamps.start[k]);
      end = std::min(end, std::max(stamps.done[k], stamps.end[k]));
    }
    phases[Phase::AllReduce].add(programs.first.stage[first],
                                 between(start, end) *
                                     double(shareOf(first).held) / blocks);
  }
}

//===----------------------------------------------------------------------===//
// Issue times
//===----------------------------------------------------------------------===//

/// Returns when the last awaited input of an instruction arrived; between its
/// ready and its start.
int64_t ProfileMaker::waitEnd(int64_t worker, uint32_t i, size_t at) const {
  const WorkerStamps &stamps = rows.workers[worker];
  const uint32_t *waits = &programs.waitBegins[i + worker];
  int64_t end = stamps.ready[at];
  for (uint32_t wait = waits[0]; wait < waits[1]; ++wait) {
    size_t other = at - (i - begin(worker)) +
                   programs.waits[programs.rowWaits[worker] + wait];
    end = std::max(end, stamps.arrived[other] == kUnknownNs
                            ? stamps.done[other]
                            : stamps.arrived[other]);
  }
  return std::min(end, stamps.start[at]);
}

///     compute | gap | send | gap | recv | gap | wait ...... | unpack | compute
///     `-------------- of the first ----------'               `of the next-'
void ProfileMaker::addIssues(int64_t worker, int64_t step,
                             std::vector<double> &issues) const {
  const WorkerStamps &stamps = rows.workers[worker];
  auto order = llvm::to_vector(llvm::seq(begin(worker), begin(worker + 1)));
  llvm::sort(order, [&](uint32_t a, uint32_t b) {
    return std::pair(stamps.ready[at(worker, step, a)], a) <
           std::pair(stamps.ready[at(worker, step, b)], b);
  });
  std::optional<size_t> last;
  int64_t reached = std::numeric_limits<int64_t>::min();
  for (uint32_t i : order) {
    size_t k = at(worker, step, i);
    int64_t ready = stamps.ready[k], end = stamps.end[k];
    if (last && ready > reached)
      issues[*last] += between(reached, ready);
    InstructionKind what = kind(i);
    if (InstructionRole role = traitsOf(what).role;
        last && (role == InstructionRole::Message ||
                 role == InstructionRole::Collective))
      issues[*last] += between(ready, end);
    if (what == InstructionKind::Compute) {
      issues[k] += between(waitEnd(worker, i, k), stamps.start[k]);
      last = k;
    }
    reached = std::max(reached, end);
  }
  if (last) // work after the last compute delays no compute
    issues[*last] = 0;
}

/// By step and compute: the time until the next compute in which the worker
/// neither computes nor waits nor copies, plus the time to unpack messages
/// before the compute.
std::vector<double> ProfileMaker::findIssues(int64_t worker) const {
  std::vector<double> issues(rows.workers[worker].ready.size());
  for (int64_t step = 0; step < rows.numSteps; ++step)
    addIssues(worker, step, issues);
  return issues;
}

//===----------------------------------------------------------------------===//
// The whole profile
//===----------------------------------------------------------------------===//

/// Adds times that a run does not show separately. A cell that a stage runs
/// only in pairs gets its part of these, unless it is a B whose I and W are
/// known. If other stages have a B, a stage with split backwards has I + W.
void ProfileMaker::fill() {
  Samples &whole = phases[Phase::Backward];
  const Samples &inputGrad = phases[Phase::InputGrad];
  const Samples &weightGrad = phases[Phase::WeightGrad];
  Samples split;
  for (const auto &[stage, times] : inputGrad.byStage)
    if (weightGrad.has(stage))
      split.add(stage, inputGrad.mean(stage) + weightGrad.mean(stage));
  for (auto [known, parts] : llvm::zip(phases, partsOfPairs))
    for (const auto &[stage, times] : parts.byStage)
      if (!known.has(stage) && !(&known == &whole && split.has(stage)))
        known.byStage[stage] = times;
  if (!whole.empty())
    whole.byStage.insert(split.byStage.begin(), split.byStage.end());
}

/// Converts measured times of slices to the times of whole microbatches that a
/// profile has.
static void ofMicrobatches(Profile &profile, int64_t numSlices) {
  auto scale = [&](std::vector<int64_t> &times) {
    for (int64_t &ps : times)
      if (llvm::MulOverflow(ps, numSlices, ps))
        ps = std::numeric_limits<int64_t>::max();
  };
  (kCostedPhases - kPerPathPhases).forEach([&](Phase phase) {
    scale(profile.phasePs[phase]);
  });
  scale(profile.overlappedPs);
  scale(profile.commPs);
}

Profile ProfileMaker::run(bool withIssue) {
  for (int64_t worker = 0; worker < programs.getNumWorkers(); ++worker)
    readWorker(worker, withIssue);
  for (int64_t worker = 0; worker < programs.getNumWorkers(); ++worker)
    for (uint32_t i = begin(worker); i < begin(worker + 1); ++i)
      if (kind(i) == InstructionKind::Recv)
        readArrival(worker, i);
  for (const auto &[group, members] : sums)
    readSum(group);
  fill();
  Profile profile;
  for (const EnumName<Phase> &phase : enumValues<Phase>())
    profile.phasePs[phase.value] =
        phases[phase.value].take(numStages, Samples::meanOf);
  profile.overlappedPs = pairs.take(numStages, Samples::meanOf);
  profile.commPs = messages.take(numStages, Samples::medianOf);
  ofMicrobatches(profile, programs.numSlices);
  return profile;
}

llvm::Expected<Profile> pipesched::makeProfile(const WorkerPrograms &programs,
                                               const WorkerStages &stages,
                                               const MeasuredRows &rows,
                                               bool withIssue) {
  if (int64_t(rows.workers.size()) != programs.getNumWorkers())
    return makeError("measured times of " + llvm::Twine(rows.workers.size()) +
                     " workers, the program has " +
                     llvm::Twine(programs.getNumWorkers()));
  for (auto [worker, stamps] : llvm::enumerate(rows.workers)) {
    size_t wanted = rows.numSteps * (programs.rowBegins[worker + 1] -
                                     programs.rowBegins[worker]);
    for (llvm::ArrayRef<int64_t> times :
         {stamps.ready, stamps.start, stamps.end, stamps.done, stamps.arrived})
      if (times.size() != wanted)
        return makeError("worker " + llvm::Twine(worker) + " has " +
                         llvm::Twine(times.size()) + " times, wanted " +
                         llvm::Twine(wanted));
  }
  return ProfileMaker(programs, stages, rows).run(withIssue);
}
