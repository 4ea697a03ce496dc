//===- Families.cpp - All schedule families -----------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The list of families, one row each, and the mapping of their options to the
// options of generators and placements.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Schedule/Family/Families.h"
#include "Formulas/Families.h"
#include "PipeSched/Schedule/Edit/SpreadVocabulary.h"
#include "PipeSched/Support/ClosestName.h"
#include "PipeSched/Support/FormatError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Options of one generator
//===----------------------------------------------------------------------===//

static void read(const FamilyOptions &given, GeneratorOptions &options) {
  options.splitBackward = given.splitBackward.value_or(false);
  if (options.splitBackward)
    options.gradientAfter = given.gradientAfter;
}
static void read(const FamilyOptions &given, LoopOptions &options) {
  read(given, static_cast<GeneratorOptions &>(options));
  options.chunks = given.chunks;
}
static void read(const FamilyOptions &given, InterleavedOptions &options) {
  read(given, static_cast<LoopOptions &>(options));
  options.group = given.group;
}
static void read(const FamilyOptions &given, ChimeraOptions &options) {
  read(given, static_cast<GeneratorOptions &>(options));
  options.pairs = given.pairs;
  options.construction = given.getConstruction();
}
static void read(const FamilyOptions &given, VocabularyOptions &options) {
  options.algorithm = given.getVocabulary();
}
static void read(const FamilyOptions &given, Vocab1F1BOptions &options) {
  read(given, static_cast<VocabularyOptions &>(options));
  options.backward = given.backward;
}
static void read(const FamilyOptions &given, ZBAutoOptions &options) {
  options.memory = given.memory;
}
static void read(const FamilyOptions &given, GreedyOptions &options) {
  options.splitBackward = given.splitBackward.value_or(true);
  options.gradientAfter =
      options.splitBackward
          ? given.gradientAfter.value_or(GradientAfter::WeightGrad)
          : GradientAfter::InputGrad;
  options.slots = given.slots;
}
static void read(const FamilyOptions &given, HanayoOptions &options) {
  read(given, static_cast<GreedyOptions &>(options));
  options.waves = given.waves;
}

template <typename Options>
static Expected<Table>
runWith(Expected<Table> (&generator)(const Placement &, const Options &),
        const Placement &placement, const FamilyOptions &given) {
  Options options;
  read(given, options);
  return generator(placement, options);
}

/// Wraps a generator that has its own options type, so that it takes the
/// options of all families.
template <auto &generator>
static Expected<Table> adapt(const Placement &placement,
                             const FamilyOptions &given) {
  return runWith(generator, placement, given);
}

//===----------------------------------------------------------------------===//
// Families
//===----------------------------------------------------------------------===//

template <typename... Options>
static constexpr uint32_t bitsOf(Options... options) {
  return (0u | ... | (1u << static_cast<unsigned>(options)));
}

static constexpr uint32_t kForwardOnly = bitsOf(FamilyOption::ForwardOnly);
static constexpr uint32_t kNoOptions = 0;
static constexpr uint32_t kSplit =
    bitsOf(FamilyOption::SplitBackward, FamilyOption::GradientAfter);
static constexpr uint32_t kChunks = bitsOf(FamilyOption::Chunks);
static constexpr uint32_t kGroups = kChunks | bitsOf(FamilyOption::Group);
static constexpr uint32_t kSlices = bitsOf(FamilyOption::Slices);
static constexpr uint32_t kEmbedding = bitsOf(FamilyOption::Embedding);
static constexpr uint32_t kVocabulary =
    kEmbedding | bitsOf(FamilyOption::Vocabulary);

/// If receives are at the slots in which their messages arrive, all tables
/// finish under Unbounded, Fifo and Batched. Rendezvous deadlocks if two
/// workers send to each other at once. If receives are right before their
/// consumers, fewer tables finish, because receives overtake each other. Under
/// Pairs two workers must agree on the order of the messages of both
/// directions. Only gpipe does so at all sizes, because two workers exchange
/// all activations first, then all gradients.
static constexpr uint32_t kUnbounded = bitsOf(MessageSemantics::Unbounded);
static constexpr uint32_t kFifo = kUnbounded | bitsOf(MessageSemantics::Fifo);
static constexpr uint32_t kBatched = kFifo | bitsOf(MessageSemantics::Batched);
static constexpr uint32_t kPairs = bitsOf(MessageSemantics::Pairs);
static constexpr uint32_t kAny =
    kBatched | kPairs | bitsOf(MessageSemantics::Rendezvous);
static constexpr MessageClaims kFinishes = {kAny, kAny};
static constexpr MessageClaims kNoRendezvous = {kBatched, kBatched};
static constexpr MessageClaims kFifoAtConsumer = {kBatched, kFifo};
static constexpr MessageClaims kUnboundedAtConsumer = {kBatched, kUnbounded};

/// Each row has the fields of Family in their order.
static constexpr Family kFamilies[] = {
    {"gpipe",
     "all forwards, then all backwards",
     "Huang et al. 2019, arXiv 1811.06965",
     {{"fill-drain", "the literature"},
      {"AFAB", "torchtitan and others: all forwards, all backwards"},
      {"FThenB", "PaddlePaddle"}},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/false,
     kSplit | kForwardOnly,
     kFinishes,
     adapt<generateGPipe>,
     formulas::evaluateGPipe},
    {"1f1b",
     "alternately one forward and one backward",
     "Narayanan et al. 2021, arXiv 2104.04473",
     {{"PipeDream-Flush", "Narayanan et al. 2021"},
      {"DAPPLE", "Fan et al. 2021"},
      {"Std1F1B", "JaxPP"},
      {"one-forward-one-backward", "the literature"}},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/false,
     kSplit | kForwardOnly,
     kNoRendezvous,
     adapt<generate1F1B>,
     formulas::evaluate1F1B},
    {"eager-1f1b",
     "1F1B that warms up twice as long",
     "Xhebraj et al. 2024, arXiv 2412.14374",
     {},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/false,
     kSplit,
     kFifoAtConsumer,
     adapt<generateEager1F1B>,
     formulas::evaluateEager1F1B},
    {"zb-h1",
     "1F1B whose weight gradients fill the drain",
     "Qi et al. 2024, arXiv 2401.10241",
     {{"ZeroBubbleH1", "the literature"}},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/std::nullopt,
     kSlices,
     kNoRendezvous,
     adapt<generateZBH1>,
     formulas::evaluateZBH1},
    {"zb-h2",
     "ZB-H1 with a longer warm-up and no bubble between steps",
     "Qi et al. 2024, arXiv 2401.10241",
     {{"ZeroBubbleH2", "the literature"}},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/std::nullopt,
     kSlices,
     kFifoAtConsumer,
     adapt<generateZBH2>,
     formulas::evaluateZBH2},
    {"looped-bfs",
     "breadth first over the chunks of a worker",
     "Lamy-Poirier 2023, arXiv 2211.05953",
     {{"BFS", "the literature"}, {"breadth-first", "Lamy-Poirier 2023"}},
     "any",
     FamilyPlacement::Interleaved,
     /*splitsBackward=*/false,
     kSplit | kChunks | kForwardOnly,
     kFifoAtConsumer,
     adapt<generateLoopedBFS>,
     formulas::evaluateLoopedBFS},
    {"mpmd-circular",
     "phases of D microbatches through all chunks",
     "Shardy's MPMD partitioner",
     {{"circular", "MaxText, Shardy"}},
     "any",
     FamilyPlacement::Interleaved,
     /*splitsBackward=*/false,
     kSplit | kChunks | kForwardOnly,
     kFifoAtConsumer,
     adapt<generateMpmdCircular>,
     formulas::evaluateMpmdCircular},
    {"interleaved-1f1b",
     "1F1B in groups that alternate between the chunks",
     "Narayanan et al. 2021, arXiv 2104.04473",
     {{"VPP", "Megatron-LM, PaddlePaddle"},
      {"virtual-pipeline", "Megatron-LM"},
      {"interleaved", "Megatron-LM"},
      {"1F1B-I", "Qi et al. 2024"},
      {"1F1B-interleaved", "the literature"}},
     "max(1, N div D) divides N, or a group",
     FamilyPlacement::Interleaved,
     /*splitsBackward=*/false,
     kSplit | kGroups | kForwardOnly,
     kUnboundedAtConsumer,
     adapt<generateInterleaved1F1B>,
     formulas::evaluateInterleaved1F1B},
    {"combined-1f1b",
     "(interleaved) 1F1B of pairs that overlap a forward and a backward",
     "Megatron-Core, after Narayanan et al. 2021, arXiv 2104.04473",
     {},
     "any; of several chunks as interleaved-1f1b",
     FamilyPlacement::Rounds,
     /*splitsBackward=*/std::nullopt,
     kGroups,
     kUnboundedAtConsumer,
     adapt<generateCombined1F1B>,
     formulas::evaluateCombined1F1B},
    {"interleaved-zb",
     "interleaved order whose weight gradients fill gaps",
     "PyTorch, after Qi et al. 2024, arXiv 2401.10241",
     {{"InterleavedZeroBubble", "PyTorch"}},
     "max(1, N div D) divides N, or a group",
     FamilyPlacement::Interleaved,
     /*splitsBackward=*/std::nullopt,
     kGroups,
     kUnboundedAtConsumer,
     adapt<generateInterleavedZB>,
     formulas::evaluateInterleavedZB},
    {"seq1f1b",
     "1F1B over slices of microbatches",
     "Sun et al. 2024, arXiv 2406.03488",
     {{"sequence-1f1b", "Sun et al. 2024"}},
     "any; of several chunks whole groups",
     FamilyPlacement::Rounds,
     /*splitsBackward=*/false,
     kSplit | kChunks | kSlices | kForwardOnly,
     kUnboundedAtConsumer,
     adapt<generateSeq1F1B>,
     formulas::evaluateSeq1F1B,
     "",
     /*measuresSlots=*/false,
     /*defaultSlices=*/4},
    {"slimpipe",
     "1F1B over many slices, warmed up as eager 1F1B",
     "Li et al. 2025, arXiv 2504.14519",
     {},
     "any; of several chunks slices >= D",
     FamilyPlacement::Rounds,
     /*splitsBackward=*/false,
     kSplit | kChunks | kSlices,
     kUnboundedAtConsumer,
     adapt<generateSlimPipe>,
     formulas::evaluateSlimPipe,
     "",
     /*measuresSlots=*/false,
     /*defaultSlices=*/kSlicePerWorker},
    {"terapipe",
     "all forwards of all slices, then all backwards",
     "Li et al. 2021, arXiv 2102.07988",
     {},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/false,
     kSplit | kSlices | kForwardOnly,
     kFinishes,
     adapt<generateTeraPipe>,
     formulas::evaluateTeraPipe,
     "",
     /*measuresSlots=*/false,
     /*defaultSlices=*/4},
    {"chimera",
     "mirrored pipelines that fill each other's bubbles",
     "Li and Hoefler 2021, arXiv 2107.06925",
     {},
     "pairs divides D/2, N >= 2 pairs; halving: an even share per path",
     FamilyPlacement::Bidirectional,
     /*splitsBackward=*/false,
     kSplit | bitsOf(FamilyOption::Pairs, FamilyOption::Construction),
     kFifoAtConsumer,
     adapt<generateChimera>,
     formulas::evaluateChimera},
    {"zb-v",
     "no bubble between the first and the last cell, on a V",
     "Qi et al. 2024, arXiv 2405.15362",
     {{"ZBVZeroBubble", "PyTorch"},
      {"V-ZB", "Qi et al. 2024, controllable memory"},
      {"ZeroBubbleV", "the literature"}},
     "any",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     kSlices | kForwardOnly,
     kUnboundedAtConsumer,
     adapt<generateZBV>,
     formulas::evaluateZBV},
    {"v-half",
     "half of 1F1B's activations, on a V",
     "Qi et al. 2024, arXiv 2405.15362",
     {},
     "any",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     kNoOptions,
     kUnboundedAtConsumer,
     adapt<generateVHalf>,
     formulas::evaluateVHalf},
    {"v-min",
     "a third of 1F1B's activations, on a V",
     "Qi et al. 2024, arXiv 2405.15362",
     {},
     "any",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     kNoOptions,
     kUnboundedAtConsumer,
     adapt<generateVMin>,
     formulas::evaluateVMin},
    {"zb-auto",
     "the shortest V schedule that the memory allows",
     "after Qi et al. 2024, arXiv 2405.15362",
     {{"V-Auto", "the zero-bubble repository"},
      {"ZB-V-Auto", "the zero-bubble repository"}},
     "any",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     bitsOf(FamilyOption::Memory),
     kUnboundedAtConsumer,
     adapt<generateZBAuto>,
     nullptr,
     "it is the shortest of several that the memory allows"},
    {"dualpipe-v",
     "DualPipe cut in half, on a V",
     "DeepSeek-AI 2025, arXiv 2412.19437",
     {},
     "N >= 2D",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     kNoOptions,
     kUnboundedAtConsumer,
     adapt<generateDualPipeV>,
     formulas::evaluateDualPipeV},
    {"dualpipe",
     "forwards of one direction over backwards of the other",
     "DeepSeek-AI 2025, arXiv 2412.19437",
     {},
     "D and N even, N >= 2D",
     FamilyPlacement::Bidirectional,
     /*splitsBackward=*/std::nullopt,
     kNoOptions,
     kUnboundedAtConsumer,
     adapt<generateDualPipe>,
     formulas::evaluateDualPipe},
    {"vocab-1f1b",
     "1F1B with shards of the vocabulary on all workers",
     "Yeung et al. 2024, arXiv 2411.05288",
     {},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/std::nullopt,
     kVocabulary | bitsOf(FamilyOption::Backward),
     kFifoAtConsumer,
     adapt<generateVocab1F1B>,
     formulas::evaluateVocab1F1B},
    {"vocab-v-half",
     "V-Half with shards of the vocabulary on all workers",
     "Yeung et al. 2024, arXiv 2411.05288",
     {},
     "any",
     FamilyPlacement::V,
     /*splitsBackward=*/std::nullopt,
     kVocabulary,
     kUnboundedAtConsumer,
     adapt<generateVocabVHalf>,
     nullptr,
     "the cost of its head steps depends on their lengths"},
    {"interlaced-1f1b",
     "1F1B in which all workers stop for the head of a microbatch",
     "Yeung et al. 2024, arXiv 2411.05288",
     {},
     "any",
     FamilyPlacement::Linear,
     /*splitsBackward=*/std::nullopt,
     kEmbedding,
     kFifoAtConsumer,
     adapt<generateInterlaced1F1B>,
     formulas::evaluateInterlaced1F1B},
    {"greedy",
     "slot by slot the ready cell that is furthest along",
     "Barley et al. 2026, arXiv 2605.24006",
     {},
     "N >= paths",
     FamilyPlacement::Any,
     /*splitsBackward=*/true,
     kSplit | kSlices | kForwardOnly,
     kUnboundedAtConsumer,
     adapt<generateGreedy>,
     nullptr,
     "a greedy table has a formula only on linear, bidirectional and wave "
     "placements",
     /*measuresSlots=*/true},
    {"hanayo",
     "waves down and up the workers, filled greedily",
     "Liu et al. 2023, arXiv 2308.15762",
     {{"wave", "Liu et al. 2023"}},
     "any",
     FamilyPlacement::Wave,
     /*splitsBackward=*/true,
     kSplit | kForwardOnly | bitsOf(FamilyOption::Waves),
     kUnboundedAtConsumer,
     adapt<generateHanayo>,
     formulas::evaluateHanayo},
};

llvm::ArrayRef<Family> pipesched::families() { return kFamilies; }

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static std::vector<FamilyAlias> collectAliases() {
  std::vector<FamilyAlias> aliases;
  for (const Family &family : families())
    for (const OtherName &other : family.otherNames)
      aliases.push_back({other.name, family.name, other.usedBy});
  return aliases;
}

llvm::ArrayRef<FamilyAlias> pipesched::familyAliases() {
  static const std::vector<FamilyAlias> aliases = collectAliases();
  return aliases;
}

/// The letters and digits of a name in lower case, without the "schedule" that
/// starts the names of PyTorch's classes.
static std::string spell(StringRef name) {
  std::string spelled;
  for (char character : name)
    if (llvm::isAlnum(character))
      spelled += llvm::toLower(character);
  StringRef kept = spelled;
  if (kept.consume_front("schedule") && !kept.empty())
    return kept.str();
  return spelled;
}

static const Family *findExact(StringRef name) {
  for (const Family &family : families())
    if (family.name == name)
      return &family;
  return nullptr;
}

const Family *pipesched::findFamily(StringRef name) {
  if (const Family *family = findExact(name))
    return family;
  std::string spelled = spell(name);
  for (const Family &family : families())
    if (spell(family.name) == spelled)
      return &family;
  for (const FamilyAlias &alias : familyAliases())
    if (spell(alias.alias) == spelled)
      return findExact(alias.family);
  return nullptr;
}

/// Lists the families for a user who gave an unknown name, and suggests the
/// closest name. An alias is listed with its family.
static std::string suggest(StringRef name) {
  llvm::SmallVector<StringRef> names;
  for (const Family &family : families())
    names.push_back(family.name);
  for (const FamilyAlias &alias : familyAliases())
    names.push_back(alias.alias);
  StringRef closest = closeName(name, names);
  if (closest.empty())
    return nameHint(name, llvm::ArrayRef(names).take_front(families().size()));
  const Family *family = findFamily(closest);
  if (family->name == closest)
    return nameHint(name, closest);
  return nameHint(name, closest) +
         llvm::formatv(", which is {0}", family->name).str();
}

Expected<const Family *> pipesched::lookUpFamily(StringRef name) {
  if (const Family *family = findFamily(name))
    return family;
  return formatError("there is no schedule family '{0}'{1}", name,
                     suggest(name));
}

//===----------------------------------------------------------------------===//
// Placements and tables
//===----------------------------------------------------------------------===//

static Error refuseOption(const Family &family, StringRef option) {
  llvm::SmallVector<StringRef> taken;
  for (const FamilyOptionInfo &info : familyOptions())
    if (family.takes(info.option))
      taken.push_back(info.name);
  if (taken.empty())
    return formatError("{0} has no option '{1}'; it has none", family.name,
                       option);
  return formatError("{0} has no option '{1}'; it has {2}", family.name, option,
                     llvm::join(taken, ", "));
}

static Error checkFamilyOptions(const Family &family,
                                const FamilyOptions &options) {
  for (const FamilyOptionInfo &info : familyOptions())
    if (info.isGiven(options) && !family.takes(info.option))
      return refuseOption(family, info.name);
  if (!options.slots.empty() && family.splitsBackward != true)
    return refuseOption(family, "slots");
  return Error::success();
}

/// Turns one path into a list, or returns its error.
static Expected<std::vector<Path>> alone(Expected<Path> path) {
  if (!path)
    return path.takeError();
  return std::vector<Path>{std::move(*path)};
}

static Expected<std::vector<Path>> makePaths(const Family &family,
                                             int64_t numWorkers,
                                             int64_t numMicrobatches,
                                             const FamilyOptions &options) {
  switch (family.placement) {
  case FamilyPlacement::Linear:
  case FamilyPlacement::Any:
    return alone(placeLinear(numWorkers));
  case FamilyPlacement::Rounds:
    return alone(placeInterleaved(numWorkers, options.chunks.value_or(1)));
  case FamilyPlacement::Interleaved:
    return alone(placeInterleaved(numWorkers, options.chunks.value_or(2)));
  case FamilyPlacement::V:
    return alone(placeV(numWorkers));
  case FamilyPlacement::Wave:
    return alone(placeWave(numWorkers, options.waves.value_or(1)));
  case FamilyPlacement::Bidirectional:
    return placeBidirectional(numWorkers, numMicrobatches,
                              options.pairs.value_or(1), Assign::Alternate);
  }
  llvm_unreachable("covered switch");
}

/// The number of slices for a family that starts from whole microbatches.
static int64_t slicesOf(const Family &family, int64_t numWorkers,
                        const FamilyOptions &options) {
  return options.slices.value_or(family.defaultSlices == kSlicePerWorker
                                     ? numWorkers
                                     : family.defaultSlices);
}

Expected<Placement> pipesched::placeFamily(const Family &family,
                                           int64_t numWorkers,
                                           int64_t numMicrobatches,
                                           const FamilyOptions &options) {
  if (Error error = checkFamilyOptions(family, options))
    return std::move(error);
  Expected<std::vector<Path>> paths =
      makePaths(family, numWorkers, numMicrobatches, options);
  if (!paths)
    return paths.takeError();
  if (options.forwardOnly.value_or(false))
    for (Path &path : *paths)
      path.backward.isNone = true;
  return Placement::create(numWorkers, numMicrobatches, std::move(*paths),
                           slicesOf(family, numWorkers, options));
}

/// The placement with the slices of the options, or with the family's slices if
/// its microbatches are whole.
static Expected<Placement> placeSlices(const Family &family,
                                       const Placement &placement,
                                       const FamilyOptions &options) {
  int64_t numSlices = placement.getNumSlices();
  if (numSlices > 1 && !family.takes(FamilyOption::Slices))
    return formatError("family \"{0}\" takes whole microbatches only, and each "
                       "has {1} slices",
                       family.name, numSlices);
  int64_t wanted = numSlices > 1
                       ? options.slices.value_or(numSlices)
                       : slicesOf(family, placement.getNumWorkers(), options);
  if (wanted == numSlices)
    return placement;
  if (numSlices > 1)
    return formatError("{0} is asked for {1} slices, but each microbatch has "
                       "{2}",
                       family.name, wanted, numSlices);
  return Placement::create(placement.getNumWorkers(),
                           placement.getNumMicrobatches(), placement.getPaths(),
                           wanted);
}

static Expected<Table> generateTrained(const Family &family,
                                       const Placement &placement,
                                       const FamilyOptions &options) {
  Expected<Table> table = family.generator(placement, options);
  if (!table || !options.embedding.value_or(false))
    return table;
  Expected<std::vector<Row>> rows = spreadEmbedding(table->view());
  if (!rows)
    return rows.takeError();
  table->rows = std::move(*rows);
  return table;
}

/// Keeps the cells that stages run. A frozen stage runs I in place of B.
///
///   stage 0, 2 frozen    0F0 2F0+0B1 2B0 0B0    becomes    0F0 2F0 2I0
static void keepRunCells(const Placement &placement, Row &row) {
  Row kept;
  kept.reserve(row.size());
  for (Cell cell : row) {
    StageBackward backward =
        cell.isIdle() ? StageBackward::Whole : placement.backwardOf(cell);
    if (cell.is(Phase::Backward) && backward == StageBackward::Input)
      cell = cell.withPhase(Phase::InputGrad);
    if (allowedPhases(backward).contains(cell.getPhase()))
      kept.push_back(cell);
    else if (!kept.empty()) // the dropped cell may be the second half of a pair
      kept.back() = kept.back().withOverlap(false);
  }
  row = std::move(kept);
}

/// Makes the table of a family if some stages do not train.
static Expected<Table> generateFrozen(const Family &family,
                                      const Placement &placement,
                                      const FamilyOptions &options) {
  if (family.takes(FamilyOption::Embedding))
    if (Error error = placement.checkTrainsAll(family.name.str() + " takes"))
      return std::move(error);
  std::vector<Path> paths = placement.getPaths();
  for (Path &path : paths)
    path.backward = {};
  Expected<Placement> trained = placement.withPaths(paths);
  if (!trained)
    return trained.takeError();
  FamilyOptions orderOptions = options;
  if (llvm::all_of(placement.getPaths(),
                   [](const Path &path) { return path.backward.isNone; }))
    orderOptions.gradientAfter.reset(); // there is no gradient
  Expected<Table> table = generateTrained(family, *trained, orderOptions);
  if (!table)
    return table;
  paths = table->placement.getPaths();
  if (Error error = keepBackward(placement.getPaths(), paths))
    return formatError("{0}: {1}", family.name,
                       llvm::toString(std::move(error)));
  Expected<Placement> placed = table->placement.withPaths(std::move(paths));
  if (!placed)
    return placed.takeError();
  table->placement = std::move(*placed);
  for (Row &row : table->rows)
    keepRunCells(table->placement, row);
  if (llvm::all_of(table->placement.getPaths(),
                   [](const Path &path) { return path.backward.isNone; }))
    table->gradientAfter = GradientAfter::InputGrad;
  return table;
}

Expected<Table> pipesched::generate(const Family &family,
                                    const Placement &placement,
                                    const FamilyOptions &options) {
  if (Error error = checkFamilyOptions(family, options))
    return std::move(error);
  if (Error error = placement.checkChains(family.name.str() + " takes"))
    return std::move(error);
  Expected<Placement> placed = placeSlices(family, placement, options);
  if (!placed)
    return placed.takeError();
  if (options.forwardOnly.value_or(false)) {
    std::vector<Path> paths = placed->getPaths();
    for (Path &path : paths)
      path.backward = {/*isNone=*/true, {}};
    placed = placed->withPaths(std::move(paths));
    if (!placed)
      return placed.takeError();
  }
  return placed->trainsAll() ? generateTrained(family, *placed, options)
                             : generateFrozen(family, *placed, options);
}

Expected<Table> pipesched::generate(const Family &family, int64_t numWorkers,
                                    int64_t numMicrobatches,
                                    const FamilyOptions &options) {
  Expected<Placement> placement =
      placeFamily(family, numWorkers, numMicrobatches, options);
  if (!placement)
    return placement.takeError();
  return generate(family, *placement, options);
}
