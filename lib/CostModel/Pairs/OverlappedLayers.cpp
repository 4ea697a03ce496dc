//===- OverlappedLayers.cpp - Parts of layers on two streams --------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Simulates two streams, each in its order of issue, from one end of a part to
// the next:
//
//   compute   | attention.F |  mlp.I   |mlp.W|  mlp.F  | attention.I |att.W|
//   exchange  |comb.I|      |disp.F||disp.I| |         |comb.F|
//
//===----------------------------------------------------------------------===//

#include "PipeSched/CostModel/Pairs/OverlappedLayers.h"
#include "PipeSched/Support/CheckedInt.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <limits>

using namespace pipesched;
using llvm::ArrayRef;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

namespace {
/// The layers of a pair of cells, with checked times.
struct PairLayers {
  llvm::ArrayRef<LayerTimes> forward, backward;
  bool delaysWeights = true;

  /// The time of a part; of I and W together if W is not delayed.
  int64_t timeOf(PartPhase what, int64_t layer) const;
};

/// The number of exchanges that may run at the same time.
enum class Exchanges : uint8_t { OneAtATime, AnyNumber };
} // namespace

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static constexpr Phase kPartPhases[] = {Phase::Forward, Phase::InputGrad,
                                        Phase::WeightGrad};

static size_t indexOf(Phase phase) {
  return llvm::find(kPartPhases, phase) - std::begin(kPartPhases);
}

int64_t &LayerTimes::of(PartPhase what) {
  return ps[static_cast<size_t>(what.part)][indexOf(what.phase)];
}
int64_t LayerTimes::of(PartPhase what) const {
  return ps[static_cast<size_t>(what.part)][indexOf(what.phase)];
}

std::string pipesched::nameOf(PartPhase what) {
  return (enumName(what.part) + "." + enumName(what.phase)).str();
}

/// Returns all phases of all parts of a pair of layers.
static PairPattern allParts(bool delaysWeights) {
  PairPattern all;
  for (const EnumName<LayerPart> &part : enumValues<LayerPart>())
    for (Phase phase : kPartPhases)
      if (phase != Phase::WeightGrad ||
          (delaysWeights && streamOf(part.value) == Stream::Compute))
        all.push_back({part.value, phase});
  return all;
}

PairPattern pipesched::patternOf(PairOrder order, bool delaysWeights) {
  using Part = LayerPart;
  constexpr Phase F = Phase::Forward, I = Phase::InputGrad;
  constexpr Phase W = Phase::WeightGrad;
  PairPattern pattern;
  switch (order) {
  case PairOrder::InTurn:
    pattern = {{Part::Combine, I},   {Part::Mlp, I},       {Part::Mlp, W},
               {Part::Dispatch, I},  {Part::Attention, I}, {Part::Attention, W},
               {Part::Attention, F}, {Part::Dispatch, F},  {Part::Mlp, F},
               {Part::Combine, F}};
    break;
  case PairOrder::DeepSeek:
  case PairOrder::Best:
  case PairOrder::Fluid:
    pattern = {{Part::Combine, I},  {Part::Attention, F}, {Part::Mlp, I},
               {Part::Dispatch, F}, {Part::Dispatch, I},  {Part::Mlp, W},
               {Part::Mlp, F},      {Part::Attention, I}, {Part::Attention, W},
               {Part::Combine, F}};
    break;
  case PairOrder::Megatron:
    pattern = {{Part::Combine, I},  {Part::Attention, F}, {Part::Mlp, I},
               {Part::Dispatch, F}, {Part::Mlp, W},       {Part::Dispatch, I},
               {Part::Mlp, F},      {Part::Combine, F},   {Part::Attention, I},
               {Part::Attention, W}};
    break;
  }
  if (!delaysWeights)
    llvm::erase_if(pattern, [](PartPhase what) {
      return what.phase == Phase::WeightGrad;
    });
  return pattern;
}

static Error refuseName(StringRef name, const PairPattern &known) {
  std::vector<std::string> names;
  for (PartPhase what : known)
    names.push_back(nameOf(what));
  llvm::SmallVector<StringRef> all(names.begin(), names.end());
  return formatError("the order has '{0}', which is not a phase of a part{1}",
                     name, nameHint(name, all));
}

Expected<PairPattern> pipesched::parsePairPattern(StringRef text,
                                                  bool delaysWeights) {
  PairPattern known = allParts(delaysWeights), pattern;
  llvm::SmallVector<StringRef> entries;
  text.split(entries, ',');
  for (StringRef entry : entries) {
    StringRef name = entry.trim();
    const auto *found = llvm::find_if(
        known, [&](PartPhase what) { return nameOf(what) == name; });
    if (found == known.end())
      return refuseName(name, known);
    if (llvm::is_contained(pattern, *found))
      return formatError("the order has {0} twice", name);
    pattern.push_back(*found);
  }
  for (PartPhase what : known)
    if (!llvm::is_contained(pattern, what))
      return formatError("the order leaves out {0}", nameOf(what));
  return pattern;
}

//===----------------------------------------------------------------------===//
// Times
//===----------------------------------------------------------------------===//

int64_t PairLayers::timeOf(PartPhase what, int64_t layer) const {
  bool isForward = what.phase == Phase::Forward;
  const LayerTimes &times = (isForward ? forward : backward)[layer];
  int64_t ps = times.of(what);
  if (what.phase == Phase::InputGrad && !delaysWeights)
    ps += times.of({what.part, Phase::WeightGrad});
  return ps;
}

/// Adds the times of layers. Errors: a time below 0; W of an exchange.
static Error addTimes(ArrayRef<LayerTimes> layers, StringRef cell,
                      CheckedInt &sum) {
  for (auto [number, times] : llvm::enumerate(layers))
    for (const EnumName<LayerPart> &part : enumValues<LayerPart>())
      for (Phase phase : kPartPhases) {
        PartPhase what = {part.value, phase};
        int64_t ps = times.of(what);
        if (ps < 0)
          return formatError("layer {0} of the {1}: {2} takes {3} ps; expected "
                             "0 or more",
                             number, cell, nameOf(what), ps);
        if (ps != 0 && phase == Phase::WeightGrad &&
            streamOf(part.value) == Stream::Exchange)
          return formatError("layer {0} of the {1}: {2} takes {3} ps; an "
                             "exchange has no weights",
                             number, cell, nameOf(what), ps);
        sum += ps;
      }
  return Error::success();
}

static Error checkFactor(StringRef what, int64_t percent) {
  if (percent >= 100 && percent <= kMaxSlowdown)
    return Error::success();
  return formatError("while the other stream is in use, {0} takes {1} percent "
                     "of its time; expected 100 to {2}",
                     what, percent, kMaxSlowdown);
}

static Error check(const PairLayers &layers, const PairOptions &options) {
  CheckedInt sum;
  if (Error error = addTimes(layers.forward, "forward", sum))
    return error;
  if (Error error = addTimes(layers.backward, "backward", sum))
    return error;
  if (!(sum * kMaxSlowdown).isValid())
    return formatError("the parts of the layers take more than {0} ps",
                       std::numeric_limits<int64_t>::max() / kMaxSlowdown);
  if (options.order == PairOrder::Fluid && options.pattern.empty())
    return formatError("fluid is not an order of parts; expected in-turn, "
                       "deepseek, megatron, best, or a list of phases");
  if (Error error = checkFactor("compute", options.computePercent))
    return error;
  return checkFactor("an exchange", options.exchangePercent);
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

namespace {
constexpr size_t kNumStreams = kNumEnumValues<Stream>;
constexpr int64_t kNone = -1;

/// Runs parts in their order of issue. Each part waits for at most one other
/// part.
class Streams {
public:
  Streams(const PairLayers &layers, const PairPattern &pattern,
          const PairOptions &options);

  /// Runs all tasks. Errors: streams that wait for each other.
  Error run();
  /// The same with any number of exchanges at once, and without slowdown.
  /// Errors: parts of the compute stream that wait for each other.
  Error runFreely();
  PairSchedule take();

private:
  struct Task : PartRun {
    int64_t waitsFor = kNone; ///< number of a task
    int64_t ps = 0;
    bool isDone = false;
  };
  /// The tasks of one stream; the first `numDone` have ended.
  struct Queue {
    std::vector<int64_t> tasks;
    size_t numDone = 0;
    int64_t leftPs = kNone; ///< of the current task
    int64_t percent = 100;

    bool isOver() const { return numDone == tasks.size(); }
    bool isRunning() const { return leftPs != kNone; }
  };

  void issue(PartPhase what, int64_t layer);
  void linkTasks();
  bool isReady(const Queue &queue) const;
  void startAll();
  void finish(Queue &queue);
  void advance();
  Error refuse() const;

  const PairLayers &layers;
  std::vector<Task> tasks;
  std::array<Queue, kNumStreams> queues;
  /// By layer, part and phase: the number of the task.
  using Numbers = std::array<std::array<int64_t, 3>, kNumEnumValues<LayerPart>>;
  std::vector<Numbers> forwardTasks, backwardTasks;
  PairSchedule result;
  int64_t nowPs = 0;
};
} // namespace

Streams::Streams(const PairLayers &layers, const PairPattern &pattern,
                 const PairOptions &options)
    : layers(layers), forwardTasks(layers.forward.size()),
      backwardTasks(layers.backward.size()) {
  auto numForward = int64_t(layers.forward.size());
  auto numBackward = int64_t(layers.backward.size());
  tasks.reserve(4 * numForward + 6 * numBackward);
  queues[size_t(Stream::Compute)].percent = options.computePercent;
  queues[size_t(Stream::Exchange)].percent = options.exchangePercent;
  for (int64_t i = 0; i < std::max(numForward, numBackward); ++i)
    for (PartPhase what : pattern) {
      bool isForward = what.phase == Phase::Forward;
      int64_t layer = isForward ? i : numBackward - 1 - i;
      if (isForward ? i < numForward : layer >= 0)
        issue(what, layer);
    }
  linkTasks();
  result.pattern = pattern;
}

void Streams::issue(PartPhase what, int64_t layer) {
  auto number = int64_t(tasks.size());
  auto &numbers =
      what.phase == Phase::Forward ? forwardTasks[layer] : backwardTasks[layer];
  numbers[size_t(what.part)][indexOf(what.phase)] = number;
  Task task;
  task.what = what;
  task.layer = layer;
  task.ps = layers.timeOf(what, layer);
  tasks.push_back(task);
  queues[size_t(streamOf(what.part))].tasks.push_back(number);
}

/// Links each task with the task that it waits for. The forward runs attention,
/// dispatch, mlp, combine, then the next layer; I runs the other way; W runs
/// after its I.
void Streams::linkTasks() {
  for (Task &task : tasks) {
    auto part = size_t(task.what.part);
    size_t phase = indexOf(task.what.phase);
    bool isForward = task.what.phase == Phase::Forward;
    const auto &own = isForward ? forwardTasks : backwardTasks;
    constexpr size_t first = 0, last = size_t(LayerPart::Combine);
    int64_t step = isForward ? -1 : 1, before = task.layer + step;
    if (task.what.phase == Phase::WeightGrad)
      task.waitsFor = own[task.layer][part][indexOf(Phase::InputGrad)];
    else if (part != (isForward ? first : last))
      task.waitsFor = own[task.layer][part + step][phase];
    else if (before >= 0 && before < int64_t(own.size()))
      task.waitsFor = own[before][isForward ? last : first][phase];
  }
}

bool Streams::isReady(const Queue &queue) const {
  if (queue.isOver() || queue.isRunning())
    return false;
  int64_t waitsFor = tasks[queue.tasks[queue.numDone]].waitsFor;
  return waitsFor == kNone || tasks[waitsFor].isDone;
}

void Streams::finish(Queue &queue) {
  Task &task = tasks[queue.tasks[queue.numDone++]];
  task.endPs = nowPs;
  task.isDone = true;
  queue.leftPs = kNone;
}

/// Starts all tasks that can start. Tasks without a time end at once, and may
/// let other tasks start.
void Streams::startAll() {
  while (true) {
    auto *found =
        llvm::find_if(queues, [&](const Queue &q) { return isReady(q); });
    if (found == queues.end())
      return;
    Task &task = tasks[found->tasks[found->numDone]];
    task.startPs = nowPs;
    found->leftPs = task.ps;
    if (task.ps == 0)
      finish(*found);
  }
}

/// Advances to the next end of a task. Times are rounded to picoseconds there.
void Streams::advance() {
  bool isShared = llvm::all_of(
      queues, [](const Queue &queue) { return queue.isRunning(); });
  auto percentOf = [&](const Queue &queue) {
    return isShared ? queue.percent : 100;
  };
  auto untilEnd = [&](const Queue &queue) {
    return int64_t(llvm::divideCeil(
        uint64_t(queue.leftPs) * uint64_t(percentOf(queue)), 100));
  };
  int64_t step = std::numeric_limits<int64_t>::max();
  for (const Queue &queue : queues)
    if (queue.isRunning())
      step = std::min(step, untilEnd(queue));
  nowPs += step;
  auto &[compute, exchange] = queues;
  result.computePs += compute.isRunning() ? step : 0;
  result.exchangePs += exchange.isRunning() ? step : 0;
  result.exposedPs += compute.isRunning() ? 0 : step;
  for (Queue &queue : queues) {
    if (!queue.isRunning())
      continue;
    if (untilEnd(queue) <= step)
      finish(queue);
    else
      queue.leftPs -= step * 100 / percentOf(queue);
  }
}

Error Streams::run() {
  while (true) {
    startAll();
    if (llvm::any_of(queues,
                     [](const Queue &queue) { return queue.isRunning(); }))
      advance();
    else if (llvm::all_of(queues,
                          [](const Queue &queue) { return queue.isOver(); }))
      break;
    else
      return refuse();
  }
  result.endPs = nowPs;
  return Error::success();
}

Error Streams::runFreely() {
  auto &[compute, exchange] = queues;
  std::vector<int64_t> pending = exchange.tasks;
  auto endOf = [&](const Task &task) {
    return task.waitsFor == kNone ? 0 : tasks[task.waitsFor].endPs;
  };
  auto isFree = [&](const Task &task) {
    return task.waitsFor == kNone || tasks[task.waitsFor].isDone;
  };
  auto runTask = [&](Task &task, int64_t startPs) {
    task.startPs = startPs;
    task.endPs = startPs + task.ps;
    task.isDone = true;
    result.endPs = std::max(result.endPs, task.endPs);
  };
  while (true) {
    size_t before = pending.size() + compute.tasks.size() - compute.numDone;
    llvm::erase_if(pending, [&](int64_t number) {
      if (!isFree(tasks[number]))
        return false;
      runTask(tasks[number], endOf(tasks[number]));
      return true;
    });
    while (!compute.isOver()) {
      Task &task = tasks[compute.tasks[compute.numDone]];
      if (!isFree(task))
        break;
      runTask(task, std::max(nowPs, endOf(task)));
      nowPs = task.endPs;
      ++compute.numDone;
    }
    size_t after = pending.size() + compute.tasks.size() - compute.numDone;
    if (after == 0)
      return Error::success();
    if (after == before)
      return refuse();
  }
}

/// Follows the waits of the first blocked task until a task occurs again. A
/// task waits for its predecessor in the stream if that has not ended, else for
/// the task whose result it needs.
Error Streams::refuse() const {
  const Queue *stuck =
      llvm::find_if(queues, [](const Queue &queue) { return !queue.isOver(); });
  auto waitOf = [&](int64_t number) -> std::pair<int64_t, const char *> {
    const Task &task = tasks[number];
    const Queue &queue = queues[size_t(streamOf(task.what.part))];
    int64_t head = queue.tasks[queue.numDone];
    if (head != number)
      return {head, "is issued behind"};
    return {task.waitsFor, "needs"};
  };
  std::vector<int64_t> seen;
  int64_t number = stuck->tasks[stuck->numDone];
  while (!llvm::is_contained(seen, number)) {
    seen.push_back(number);
    number = waitOf(number).first;
  }
  std::string cycle = nameOf(tasks[number].what);
  for (auto at = llvm::find(seen, number); at != seen.end(); ++at) {
    auto [next, why] = waitOf(*at);
    cycle += llvm::formatv(", which {0} {1}", why, nameOf(tasks[next].what));
  }
  return formatError("the order has a cycle at layer {0}: {1}",
                     tasks[number].layer, cycle);
}

PairSchedule Streams::take() {
  for (const Task &task : tasks) {
    result.runs.push_back(task);
    if (task.what.phase == Phase::Forward)
      result.forwardPs = std::max(result.forwardPs, task.endPs);
    else if (task.what.phase == Phase::InputGrad)
      result.gradientPs = std::max(result.gradientPs, task.endPs);
  }
  return std::move(result);
}

/// Runs the parts in the order of `pattern`, layer by layer. With any number of
/// exchanges at once, each starts when its dependences have ended, without
/// slowdown. Errors: streams that wait for each other.
static Expected<PairSchedule> runPair(const PairLayers &layers,
                                      const PairPattern &pattern,
                                      const PairOptions &options,
                                      Exchanges exchanges) {
  Streams streams(layers, pattern, options);
  bool isFree = exchanges == Exchanges::AnyNumber;
  if (Error error = isFree ? streams.runFreely() : streams.run())
    return std::move(error);
  return streams.take();
}

//===----------------------------------------------------------------------===//
// Pairs
//===----------------------------------------------------------------------===//

/// A lower bound on the time of any order: the longest of either stream and
/// either cell, each by itself.
static int64_t boundPair(const PairLayers &layers) {
  std::array<int64_t, kNumStreams> streams = {};
  int64_t forward = 0, backward = 0;
  auto add = [&](int64_t numLayers, bool isForward, int64_t &chain) {
    for (int64_t layer = 0; layer < numLayers; ++layer)
      for (PartPhase what : allParts(layers.delaysWeights)) {
        if ((what.phase == Phase::Forward) != isForward)
          continue;
        int64_t ps = layers.timeOf(what, layer);
        streams[size_t(streamOf(what.part))] += ps;
        if (what.phase != Phase::WeightGrad)
          chain += ps;
      }
  };
  add(int64_t(layers.forward.size()), true, forward);
  add(int64_t(layers.backward.size()), false, backward);
  // W of the first layer's attention comes after all I.
  if (layers.delaysWeights && !layers.backward.empty())
    backward += layers.timeOf({LayerPart::Attention, Phase::WeightGrad}, 0);
  return std::max({streams[0], streams[1], forward, backward});
}

/// Runs the whole backward, then the whole forward.
static Expected<PairSchedule> runInTurn(const PairLayers &layers,
                                        const PairOptions &options) {
  PairPattern pattern = patternOf(PairOrder::InTurn, layers.delaysWeights);
  PairLayers before = {{}, layers.backward, layers.delaysWeights};
  PairLayers behind = {layers.forward, {}, layers.delaysWeights};
  Expected<PairSchedule> result =
      runPair(before, pattern, options, Exchanges::OneAtATime);
  if (!result)
    return result;
  Expected<PairSchedule> next =
      runPair(behind, pattern, options, Exchanges::OneAtATime);
  if (!next)
    return next;
  for (PartRun run : next->runs) {
    run.startPs += result->endPs;
    run.endPs += result->endPs;
    result->runs.push_back(run);
  }
  result->forwardPs = result->endPs + next->endPs;
  result->endPs += next->endPs;
  result->computePs += next->computePs;
  result->exchangePs += next->exchangePs;
  result->exposedPs += next->exposedPs;
  return result;
}

//===----------------------------------------------------------------------===//
// The best order
//
// Branch and bound over the orders of both streams. The compute stream has six
// parts, with 45 possible orders (four parts and 6 orders if weights are not
// delayed). The exchange stream has four parts and 6 orders:
//
//   compute   attention.F < mlp.F,  mlp.I < attention.I < attention.W,
//             mlp.I < mlp.W
//   exchange  dispatch.F < combine.F,  combine.I < dispatch.I
//
// Any other order would wait for itself. Each order of the compute stream is
// first run with any number of exchanges at once, which is a lower bound for
// all orders of the exchange stream.
//===----------------------------------------------------------------------===//

namespace {
constexpr Phase F = Phase::Forward, I = Phase::InputGrad, W = Phase::WeightGrad;

/// A part that must come before another part of the same stream.
struct Before {
  PartPhase first, second;
};
constexpr Before kChains[] = {
    {{LayerPart::Attention, F}, {LayerPart::Mlp, F}},
    {{LayerPart::Mlp, I}, {LayerPart::Attention, I}},
    {{LayerPart::Attention, I}, {LayerPart::Attention, W}},
    {{LayerPart::Mlp, I}, {LayerPart::Mlp, W}},
    {{LayerPart::Dispatch, F}, {LayerPart::Combine, F}},
    {{LayerPart::Combine, I}, {LayerPart::Dispatch, I}}};
} // namespace

static bool canFollow(ArrayRef<PartPhase> order, PartPhase next) {
  return llvm::none_of(kChains, [&](const Before &chain) {
    return chain.second == next && !llvm::is_contained(order, chain.first);
  });
}

/// Appends to `order` all orders of the `left` parts that respect these
/// constraints.
static void extend(PairPattern &order, ArrayRef<PartPhase> left,
                   std::vector<PairPattern> &found) {
  if (order.size() == left.size()) {
    found.push_back(order);
    return;
  }
  for (PartPhase next : left) {
    if (llvm::is_contained(order, next) || !canFollow(order, next))
      continue;
    order.push_back(next);
    extend(order, left, found);
    order.pop_back();
  }
}

static std::vector<PairPattern> ordersOn(Stream stream, bool delaysWeights) {
  PairPattern parts = patternOf(PairOrder::DeepSeek, delaysWeights);
  llvm::erase_if(parts,
                 [&](PartPhase what) { return streamOf(what.part) != stream; });
  std::vector<PairPattern> found;
  PairPattern order;
  extend(order, parts, found);
  return found;
}

/// Returns a pattern with the order of issue of both streams; how they
/// interleave makes no difference.
static PairPattern join(const PairPattern &compute,
                        const PairPattern &exchange) {
  PairPattern both = compute;
  llvm::append_range(both, exchange);
  return both;
}

/// Whether all layers of a pair of cells have the same orders as a single pair
/// of layers.
static bool isOnePair(const PairLayers &layers) {
  return layers.forward.size() <= 1 && layers.backward.size() <= 1;
}

/// Finds the earliest end of all orders that are the same for all layers.
static Expected<PairSchedule> findBestPair(const PairLayers &layers,
                                           const PairOptions &options) {
  auto run = [&](const PairPattern &pattern, Exchanges exchanges) {
    return runPair(layers, pattern, options, exchanges);
  };
  Expected<PairSchedule> best =
      run(patternOf(PairOrder::DeepSeek, layers.delaysWeights),
          Exchanges::OneAtATime);
  if (!best)
    return best;
  int64_t numTimed = 1, numCut = 0, boundPs = boundPair(layers);
  std::vector<PairPattern> exchanges =
      ordersOn(Stream::Exchange, layers.delaysWeights);
  for (const PairPattern &compute :
       ordersOn(Stream::Compute, layers.delaysWeights)) {
    if (best->endPs == boundPs)
      break;
    Expected<PairSchedule> free =
        run(join(compute, exchanges.front()), Exchanges::AnyNumber);
    if (!free || free->endPs >= best->endPs) {
      llvm::consumeError(free.takeError());
      numCut += int64_t(exchanges.size());
      continue;
    }
    for (const PairPattern &exchange : exchanges) {
      Expected<PairSchedule> timed =
          run(join(compute, exchange), Exchanges::OneAtATime);
      ++numTimed;
      if (!timed)
        // the streams wait for each other
        llvm::consumeError(timed.takeError());
      else if (timed->endPs < best->endPs)
        best = std::move(timed);
    }
  }
  best->numTimed = numTimed;
  best->numCut = numCut;
  best->isOptimal = isOnePair(layers);
  return best;
}

Expected<PairSchedule> pipesched::schedulePair(ArrayRef<LayerTimes> forward,
                                               ArrayRef<LayerTimes> backward,
                                               const PairOptions &options) {
  PairLayers layers = {forward, backward, options.delaysWeights};
  if (Error error = check(layers, options))
    return std::move(error);
  auto schedule = [&]() -> Expected<PairSchedule> {
    if (!options.pattern.empty())
      return runPair(layers, options.pattern, options, Exchanges::OneAtATime);
    if (options.order == PairOrder::InTurn)
      return runInTurn(layers, options);
    if (options.order == PairOrder::Best)
      return findBestPair(layers, options);
    return runPair(layers, patternOf(options.order, options.delaysWeights),
                   options, Exchanges::OneAtATime);
  };
  Expected<PairSchedule> result = schedule();
  if (!result)
    return result;
  result->boundPs = boundPair(layers);
  result->isOptimal |= result->endPs == result->boundPs;
  return result;
}
