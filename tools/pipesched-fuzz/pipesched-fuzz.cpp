//===- pipesched-fuzz.cpp - Fuzz target -----------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Feeds libFuzzer's inputs, text or bytecode, to the parser, the verifiers, the
// passes, the analyses and the exports. Nothing may crash, and for every
// accepted input the following must hold:
//
//   module -- print --> text -- parse --> module      the same text again
//   module -- write --> bytes -- read --> module      the same text again
//   schedule -- convert-pipe-to-exec --> program      the same makespan
//   problem -- pipe-schedule-* --> schedule           pipe-verify has no
//   finding
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Exchange/ShardyRules.h"
#include "PipeSched/InitAll.h"
#include "PipeSched/Schedule/Family/Families.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "PipeSched/Target/Comparison.h"
#include "PipeSched/Target/Report.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TextPicture.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/xxhash.h"
#include <random>

using namespace mlir;
using namespace pipesched;

/// Larger problems are valid, but take too long.
static constexpr int64_t kManyWorkers = 16, kManyMicrobatches = 64;

static constexpr Transport kTransports[] = {
    Transport::Overlap, Transport::Delay, Transport::Blocking};

/// Pipelines that check or rewrite any module.
static constexpr StringLiteral kPipelines[] = {
    "pipe-verify",
    "pipe-verify{messages=fifo}",
    "pipe-verify{messages=rendezvous}",
    "pipe-verify{messages=batched receive-placement=consumer}",
    "pipe-verify{memory=2}",
    "pipe-verify{memory=1GB transport=blocking}",
    "pipe-compact,pipe-align-slots",
    "pipe-place-bidirectional,pipe-schedule-chimera",
    "pipe-place-interleaved,pipe-schedule-interleaved-1f1b",
    "pipe-place-v,pipe-schedule-zb-v",
    "pipe-place-wave,pipe-schedule-hanayo",
    "convert-pipe-to-exec{receive-placement=consumer},exec-verify",
    "exec-annotate-timeline",
    "exec-verify{messages=fifo}",
    "exec-verify{messages=rendezvous}",
    "exec-verify{messages=batched}",
};

/// Pipelines that change rows: a valid table must stay valid.
static constexpr StringLiteral kRewrites[] = {
    "pipe-align-slots",
    "pipe-split-backward",
    "pipe-split-backward{gradient-after=I}",
    "pipe-merge-backward",
    "pipe-add-recompute",
    "pipe-add-recompute{keep=1 skip-adjacent=true ahead=2}",
    "pipe-add-optimizer",
    "pipe-add-optimizer{all-reduce=eager}",
};

//===----------------------------------------------------------------------===//
// Round trips
//===----------------------------------------------------------------------===//

static std::string print(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  module.print(os);
  return text;
}

static std::string writeBytecode(ModuleOp module) {
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(module, os)))
    llvm::report_fatal_error("what was accepted cannot be written");
  return bytes;
}

/// Returns the parsed module, or null if it is refused or too large.
static OwningOpRef<ModuleOp> read(const std::string &input,
                                  MLIRContext *context) {
  ParserConfig config(context, /*verifyAfterParse=*/false);
  auto module = parseSourceString<ModuleOp>(input, config);
  if (!module)
    return nullptr;
  auto isLarge = [](pipe::PlacementOwnerOpInterface owner) {
    bool isLarge = owner.getNumWorkers() > kManyWorkers ||
                   owner.getNumMicrobatches() > kManyMicrobatches;
    return isLarge ? WalkResult::interrupt() : WalkResult::advance();
  };
  if (failed(verify(*module)) || module->walk(isLarge).wasInterrupted())
    return nullptr;
  return module;
}

/// Reads the module's bytecode with one byte changed in the cells of a row, and
/// truncated. Damage elsewhere does not reach this project's code: MLIR's own
/// reader allocates as much memory as a wrong count states.
static void readDamaged(ModuleOp module) {
  std::string bytes = writeBytecode(module);
  std::minstd_rand random(llvm::xxh3_64bits(bytes));
  StringRef whole = bytes;
  (void)read(whole.take_front(random() % bytes.size()).str(),
             module.getContext());
  module.walk([&](pipe::WorkerOp row) {
    StringRef cells(reinterpret_cast<const char *>(row.getCells().data()),
                    row.getCells().size() * sizeof(Cell));
    size_t begin = whole.find(cells);
    if (cells.empty() || begin == StringRef::npos)
      return;
    std::string damaged = bytes;
    damaged[begin + random() % cells.size()] = random();
    (void)read(damaged, module.getContext());
  });
}

static void checkRoundTrip(ModuleOp module) {
  std::string text = print(module);
  for (const std::string &source : {text, writeBytecode(module)}) {
    auto again = parseSourceString<ModuleOp>(source, module.getContext());
    if (!again)
      llvm::report_fatal_error("what was accepted is not accepted again");
    if (print(*again) != text)
      llvm::report_fatal_error("what was read again is not the same");
  }
}

//===----------------------------------------------------------------------===//
// Passes and analyses
//===----------------------------------------------------------------------===//

/// A copy of the module after a pipeline, or null if that fails.
static OwningOpRef<ModuleOp> transform(ModuleOp module, StringRef pipeline) {
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager passes(module.getContext());
  if (failed(parsePassPipeline(pipeline, passes)))
    llvm::report_fatal_error("a pipeline of the fuzz target is wrong");
  return succeeded(passes.run(*copy)) ? std::move(copy) : nullptr;
}

static void exportTable(const NamedTable &table) {
  llvm::raw_null_ostream os;
  TextPictureOptions options;
  for (int64_t width : {1, 80}) {
    options.width = width;
    options.hasColours = !options.hasColours;
    llvm::consumeError(writeTextPictures(os, {&table}, options));
  }
  for (ShardyBackward backward :
       {ShardyBackward::Cells, ShardyBackward::Fragments}) {
    ShardyRulesOptions rules;
    rules.backward = backward;
    (void)writeShardyRules(os, table.tableView(), rules);
  }
}

static void exportAll(const NamedEvaluation &result) {
  llvm::raw_null_ostream os;
  llvm::json::OStream json(os);
  writeReport(json, result);
  writeChromeTrace(os, result);
  writeComparison(os, summarizeForComparison(result));
  for (SvgVariant variant :
       {SvgVariant::Timed, SvgVariant::Slots, SvgVariant::Rows})
    llvm::consumeError(writeSvg(os, result, variant));
  if (!result.isProgram())
    exportTable(result);
}

/// Returns the makespans of the schedules and programs; -1 if there is none.
static SmallVector<int64_t> evaluateAll(ModuleOp module, Transport transport) {
  TimingOptions options;
  options.transport = transport;
  SmallVector<int64_t> makespans;
  for (Operation *op : findEvaluables(module)) {
    FailureOr<NamedEvaluation> result = evaluate(op, options);
    if (succeeded(result))
      exportAll(*result);
    makespans.push_back(succeeded(result) ? result->evaluation.totals.makespanPs
                                          : -1);
  }
  return makespans;
}

static void analyse(ModuleOp module) {
  OwningOpRef<ModuleOp> programs = transform(module, "convert-pipe-to-exec");
  for (Transport transport : kTransports) {
    SmallVector<int64_t> makespans = evaluateAll(module, transport);
    if (programs && evaluateAll(*programs, transport) != makespans)
      llvm::report_fatal_error("schedule and program differ in time");
  }
}

/// Whether the module has only schedules without rows.
static bool isProblem(ModuleOp module) {
  return llvm::all_of(findEvaluables(module), [](Operation *op) {
    auto schedule = dyn_cast<pipe::ScheduleOp>(op);
    return schedule && schedule.isProblem();
  });
}

static void generate(ModuleOp problem, const Family &family) {
  OwningOpRef<ModuleOp> module =
      transform(problem, ("pipe-schedule-" + family.name).str());
  if (!module)
    return;
  if (!transform(*module, "pipe-verify"))
    llvm::report_fatal_error("what was generated does not verify");
  analyse(*module);
}

/// Runs two pipelines that change rows, with a proof before and after each.
static void rewrite(ModuleOp module, std::minstd_rand &random) {
  OwningOpRef<ModuleOp> current(module.clone());
  for (int round = 0; round < 2; ++round) {
    bool isSound = bool(transform(*current, "pipe-verify"));
    StringRef pipeline = kRewrites[random() % std::size(kRewrites)];
    OwningOpRef<ModuleOp> result = transform(*current, pipeline);
    if (!result)
      return;
    checkRoundTrip(*result);
    if (isSound && !transform(*result, "pipe-verify"))
      llvm::report_fatal_error("what verified does no longer");
    current = std::move(result);
  }
}

/// Runs a few of the pipelines; the module decides which ones.
static void transformAndAnalyse(ModuleOp module) {
  std::minstd_rand random(llvm::xxh3_64bits(print(module)));
  for (int round = 0; round < 4; ++round) {
    StringRef pipeline = kPipelines[random() % std::size(kPipelines)];
    if (OwningOpRef<ModuleOp> result = transform(module, pipeline))
      checkRoundTrip(*result);
    if (isProblem(module))
      generate(module, families()[random() % families().size()]);
  }
  rewrite(module, random);
  analyse(module);
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  registerAllPasses();
  return 0;
}

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  DialectRegistry registry;
  registerAllDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  ScopedDiagnosticHandler silence(&context,
                                  [](Diagnostic &) { return success(); });
  // Copy the input, because MLIR's lexer reads the zero after the text.
  std::string input(reinterpret_cast<const char *>(data), size);
  OwningOpRef<ModuleOp> module = read(input, &context);
  if (!module)
    return 0;
  checkRoundTrip(*module);
  readDamaged(*module);
  transformAndAnalyse(*module);
  return 0;
}
