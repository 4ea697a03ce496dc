//===- SlotsAttr.cpp - The lengths of cells in slots ----------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The text has numbers by name, and lib/Schedule has lengths by stage. Converts
// between the two; writes the shortest text.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Support/ClosestName.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringExtras.h"
#include <numeric>

using namespace mlir;
using namespace pipesched;
using namespace pipesched::pipe;

/// Names in the order of the attribute's counts: the weight of stages, which
/// has no name; phases with slots; and pairs.
static constexpr unsigned kWeight = 0, kPair = 1 + kComputePhases.size(),
                          kNumNames = kPair + 1;

/// Returns the phase of a name, which must not be a weight or a pair.
static Phase phaseOf(unsigned name) {
  PhaseSet left = kComputePhases;
  while (--name != 0)
    left = left - left.first();
  return left.first();
}

static ArrayRef<StringRef> allNames() {
  static const std::array<StringRef, kNumNames> names = [] {
    std::array<StringRef, kNumNames> names;
    for (unsigned name = 1; name < kPair; ++name)
      names[name] = enumName(phaseOf(name));
    names[kPair] = "FB";
    return names;
  }();
  return names;
}

/// B takes twice the weight, which must not exceed kMaxSlots.
static constexpr int64_t kMaxWeight = kMaxSlots / 2;

using NumberLists = std::array<SmallVector<int64_t>, kNumNames>;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Parses `4` or `[4, 8]`.
static ParseResult parseNumbers(AsmParser &parser,
                                SmallVectorImpl<int64_t> &numbers) {
  auto parseOne = [&] { return parser.parseInteger(numbers.emplace_back()); };
  if (succeeded(parser.parseOptionalLSquare()))
    return failure(parser.parseCommaSeparatedList(parseOne) ||
                   parser.parseRSquare());
  return parseOne();
}

/// Parses an entry. Only the first entry may have no name.
static ParseResult parseEntry(AsmParser &parser, bool first,
                              NumberLists &lists) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef word;
  if (failed(parser.parseOptionalKeyword(&word))) {
    if (first)
      return parseNumbers(parser, lists[kWeight]);
    return parser.emitError(loc, "expected a phase such as F");
  }
  ArrayRef<StringRef> known = allNames().drop_front();
  size_t name = 1 + (llvm::find(known, word) - known.begin());
  if (name == kNumNames)
    return parser.emitError(loc)
           << "no slots are given by '" << word << "'" << nameHint(word, known);
  if (!lists[name].empty())
    return parser.emitError(loc) << "'" << word << "' is given twice";
  return failure(parser.parseEqual() || parseNumbers(parser, lists[name]));
}

static void join(const NumberLists &lists, SmallVectorImpl<int64_t> &counts,
                 SmallVectorImpl<int64_t> &numbers) {
  for (const SmallVector<int64_t> &list : lists) {
    counts.push_back(list.size());
    llvm::append_range(numbers, list);
  }
}

Attribute SlotsAttr::parse(AsmParser &parser, Type) {
  SMLoc loc = parser.getCurrentLocation();
  NumberLists lists;
  bool first = true;
  auto parseOne = [&] {
    return parseEntry(parser, std::exchange(first, false), lists);
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater,
                                     parseOne))
    return {};
  SmallVector<int64_t> counts, numbers;
  join(lists, counts, numbers);
  return parser.getChecked<SlotsAttr>(loc, parser.getContext(),
                                      ArrayRef(counts), ArrayRef(numbers));
}

static ArrayRef<int64_t> numbersOf(SlotsAttr slots, unsigned name) {
  ArrayRef<int64_t> counts = slots.getCounts();
  int64_t first =
      std::accumulate(counts.begin(), counts.begin() + name, int64_t(0));
  return slots.getNumbers().slice(first, counts[name]);
}

void SlotsAttr::print(AsmPrinter &printer) const {
  StringRef separator = "<";
  for (unsigned name = 0; name < kNumNames; ++name) {
    ArrayRef<int64_t> numbers = numbersOf(*this, name);
    if (numbers.empty())
      continue;
    printer << separator << allNames()[name] << (name == kWeight ? "" : " = ");
    separator = ", ";
    if (numbers.size() == 1) {
      printer << numbers.front();
      continue;
    }
    printer << '[';
    llvm::interleaveComma(numbers, printer);
    printer << ']';
  }
  printer << '>';
}

/// slots_c1, slots_c2.
LogicalResult SlotsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> counts,
                                ArrayRef<int64_t> numbers) {
  size_t left = numbers.size();
  for (int64_t count : counts) {
    if (count < 0 || static_cast<size_t>(count) > left)
      return emitError() << "expected counts that add up to the "
                         << numbers.size() << " numbers of slots";
    left -= count;
  }
  if (counts.size() != kNumNames || left != 0)
    return emitError() << "expected " << kNumNames
                       << " counts that add up to the " << numbers.size()
                       << " numbers of slots";
  if (numbers.empty())
    return emitError() << "expected slots such as F = 2, found nothing";
  for (auto [index, number] : llvm::enumerate(numbers)) {
    bool isWeight = static_cast<int64_t>(index) < counts[kWeight];
    int64_t most = isWeight ? kMaxWeight : std::numeric_limits<int64_t>::max();
    if (number < 0 || number > most)
      return emitError() << "expected " << (isWeight ? "weights" : "slots")
                         << " from 0 to " << most << ", found " << number;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// From numbers to stages
//===----------------------------------------------------------------------===//

/// Returns the number of stages of each path, or -1 if paths differ.
static int64_t stagesOfEachPath(const Placement &placement) {
  int64_t stages = placement.getNumStages(0);
  for (int64_t path = 1; path < placement.getNumPaths(); ++path)
    if (placement.getNumStages(path) != stages)
      return -1;
  return stages;
}

static llvm::Error checkLength(const Placement &placement, StringRef name,
                               size_t found) {
  int64_t length = found, all = placement.getNumGlobalStages();
  int64_t each = stagesOfEachPath(placement);
  if (length <= 1 || length == all || length == each)
    return llvm::Error::success();
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "has ";
  if (name.empty())
    os << found << " weights";
  else
    os << found << " numbers of slots for " << name;
  os << ", expected one";
  if (each >= 0)
    os << " or one for each of the " << each << " stages of "
       << (placement.getNumPaths() == 1 ? "the" : "a") << " path";
  if (placement.getNumPaths() > 1)
    os << " or one for each of the " << all << " stages of all paths";
  return llvm::createStringError(text);
}

namespace {
/// The numbers of an attribute that passed checkLength.
class StageReader {
public:
  StageReader(SlotsAttr slots, const Placement &placement)
      : numStages(placement.getNumGlobalStages()) {
    for (unsigned name = 0; name < kNumNames; ++name)
      lists[name] = numbersOf(slots, name);
  }

  StageSlots read(int64_t stage, int64_t globalStage) const;

private:
  std::optional<int64_t> get(unsigned name, int64_t stage,
                             int64_t globalStage) const {
    ArrayRef<int64_t> list = lists[name];
    if (list.size() <= 1)
      return list.empty() ? std::nullopt : std::optional(list.front());
    return list[static_cast<int64_t>(list.size()) == numStages ? globalStage
                                                               : stage];
  }

  std::array<ArrayRef<int64_t>, kNumNames> lists;
  int64_t numStages;
};
} // namespace

StageSlots StageReader::read(int64_t stage, int64_t globalStage) const {
  auto given = [&](unsigned name) { return get(name, stage, globalStage); };
  PhaseMap<std::optional<int64_t>> own;
  for (unsigned name = 1; name < kPair; ++name)
    own[phaseOf(name)] = given(name);
  int64_t weight = given(kWeight).value_or(1);
  int64_t half = own[Phase::Backward] ? StageSlots::kUnknown : weight;
  StageSlots slots(own[Phase::Forward].value_or(weight),
                   own[Phase::InputGrad].value_or(half),
                   own[Phase::WeightGrad].value_or(half));
  slots.setOthers(weight);
  kComputePhases.forEach([&](Phase phase) {
    if (own[phase])
      slots.set(phase, *own[phase]);
  });
  slots.overlapped = given(kPair);
  return slots;
}

llvm::Expected<std::vector<StageSlots>>
SlotsAttr::toStages(const Placement &placement) const {
  for (unsigned name = 0; name < kNumNames; ++name)
    if (llvm::Error error = checkLength(placement, allNames()[name],
                                        numbersOf(*this, name).size()))
      return std::move(error);
  StageReader reader(*this, placement);
  std::vector<StageSlots> stages;
  stages.reserve(placement.getNumGlobalStages());
  for (int64_t path = 0; path < placement.getNumPaths(); ++path)
    for (int64_t stage = 0; stage < placement.getNumStages(path); ++stage)
      stages.push_back(reader.read(stage, stages.size()));
  return stages;
}

//===----------------------------------------------------------------------===//
// From stages to numbers
//===----------------------------------------------------------------------===//

/// Keeps one number if all are equal, the numbers of one path if all paths are
/// equal, else all numbers.
static void shorten(SmallVectorImpl<int64_t> &numbers,
                    const Placement &placement) {
  if (llvm::all_equal(numbers)) {
    numbers.truncate(1);
    return;
  }
  int64_t each = stagesOfEachPath(placement);
  if (each < 0)
    return;
  ArrayRef<int64_t> all = numbers;
  for (int64_t first = 0, end = all.size(); first < end; first += each)
    if (all.slice(first, each) != all.take_front(each))
      return;
  numbers.truncate(each);
}

/// Whether an entry differs from the value that the other entries imply.
static bool isNeeded(unsigned name, ArrayRef<StageSlots> stages) {
  auto any = [&](auto condition) { return llvm::any_of(stages, condition); };
  bool needsBackward = any([](const StageSlots &slots) {
    StageSlots halves(1, slots.of(Phase::InputGrad),
                      slots.of(Phase::WeightGrad));
    return slots.of(Phase::Backward) != halves.of(Phase::Backward);
  });
  if (name == kPair)
    return any(
        [](const StageSlots &slots) { return slots.overlapped.has_value(); });
  Phase phase = phaseOf(name);
  if (phase == Phase::Backward)
    return needsBackward;
  if (phase == Phase::Recompute)
    return any([](const StageSlots &slots) {
      return slots.of(Phase::Recompute) != slots.of(Phase::Forward);
    });
  int64_t implied = traitsOf(phase).unitSlots;
  if (needsBackward && kSplitBackward.contains(phase))
    implied = StageSlots::kUnknown;
  return any(
      [&](const StageSlots &slots) { return slots.of(phase) != implied; });
}

static bool isWeighted(const StageSlots &slots) {
  return slots == StageSlots::makeWeighted(slots.of(Phase::Forward));
}

SlotsAttr SlotsAttr::get(MLIRContext *context, const Placement &placement,
                         ArrayRef<StageSlots> stages) {
  if (llvm::all_of(stages, [](const StageSlots &slots) {
        return slots == StageSlots();
      }))
    return {};
  NumberLists lists;
  auto add = [&](unsigned name, auto numberOf) {
    for (const StageSlots &slots : stages)
      lists[name].push_back(numberOf(slots));
    shorten(lists[name], placement);
  };
  if (llvm::all_of(stages, isWeighted)) {
    add(kWeight,
        [](const StageSlots &slots) { return slots.of(Phase::Forward); });
  } else {
    for (unsigned name = 1; name < kPair; ++name)
      if (isNeeded(name, stages))
        add(name,
            [&](const StageSlots &slots) { return slots.of(phaseOf(name)); });
    if (isNeeded(kPair, stages))
      add(kPair,
          [](const StageSlots &slots) { return slots.overlapped.value_or(0); });
  }
  SmallVector<int64_t> counts, numbers;
  join(lists, counts, numbers);
  return get(context, counts, numbers);
}
