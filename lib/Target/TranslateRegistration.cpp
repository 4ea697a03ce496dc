//===- TranslateRegistration.cpp - Exports of the tool --------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every export evaluates all its inputs before it writes the first byte, so a
// failure leaves no partial output.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Adapter/Evaluate.h"
#include "PipeSched/Dialect/Exec/IR/Exec.h"
#include "PipeSched/Dialect/Pipe/IR/Pipe.h"
#include "PipeSched/Support/EnumOptions.h"
#include "PipeSched/Target/ChromeTrace.h"
#include "PipeSched/Target/Comparison.h"
#include "PipeSched/Target/Report.h"
#include "PipeSched/Target/Svg.h"
#include "PipeSched/Target/TextPicture.h"
#include "PipeSched/Target/Translations.h"
#include "RegisterExport.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Process.h"

using namespace mlir;
using namespace pipesched;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

namespace {
enum class ColourChoice { Auto, Always, Never };
} // namespace

namespace pipesched {
template <>
struct EnumNames<ColourChoice> {
  static constexpr EnumName<ColourChoice> values[] = {
      {ColourChoice::Auto, "auto", "on a terminal, unless NO_COLOR is set"},
      {ColourChoice::Always, "always", "ANSI colours"},
      {ColourChoice::Never, "never", "letters only"}};
};
} // namespace pipesched

namespace {

/// Reads a disturbance; refuses any other text.
class DisturbanceParser : public llvm::cl::parser<Disturbance> {
public:
  using parser::parser;

  bool parse(llvm::cl::Option &option, StringRef, StringRef text,
             Disturbance &disturbance) {
    llvm::Expected<Disturbance> read = parseDisturbance(text);
    if (!read)
      return option.error(llvm::toString(read.takeError()));
    disturbance = std::move(*read);
    return false;
  }
};

struct Options {
  llvm::cl::opt<Transport> transport{
      "transport",
      llvm::cl::desc("How messages occupy workers, for everything that times"),
      enumOptionValuesWithDefault<Transport::Overlap>(),
      llvm::cl::init(Transport::Overlap)};
  llvm::cl::opt<ReceivePlacement> receivePlacement{
      "receive-placement",
      llvm::cl::desc("Where receives stand in the rows of schedules"),
      enumOptionValuesWithDefault<ReceivePlacement::Arrival>(),
      llvm::cl::init(ReceivePlacement::Arrival)};
  llvm::cl::opt<ForwardSends> forwardSends{
      "forward-sends",
      llvm::cl::desc("What the send of a forward does to a forward behind it"),
      enumOptionValuesWithDefault<ForwardSends::Async>(),
      llvm::cl::init(ForwardSends::Async)};
  llvm::cl::opt<Runtime> runtime{
      "runtime",
      llvm::cl::desc("What executes the cells, for everything that times"),
      enumOptionValuesWithDefault<Runtime::Table>(),
      llvm::cl::init(Runtime::Table)};
  llvm::cl::opt<SvgVariant> svgVariant{
      "svg-variant", llvm::cl::desc("What --export-svg draws"),
      enumOptionValuesWithDefault<SvgVariant::Timed>(),
      llvm::cl::init(SvgVariant::Timed)};

  llvm::cl::opt<Disturbance, /*ExternalStorage=*/false, DisturbanceParser>
      disturbance{
          "disturbance",
          llvm::cl::desc("Slow workers and stages and jitter, for everything "
                         "that times: worker3=1.3,stage5=1.2,jitter=5%,seed=7"),
          llvm::cl::value_desc("text")};

  llvm::cl::opt<ColourChoice> textColour{
      "text-color", llvm::cl::desc("Whether --export-text has colours"),
      enumOptionValuesWithDefault<ColourChoice::Auto>(),
      llvm::cl::init(ColourChoice::Auto)};
  llvm::cl::opt<unsigned> textWidth{
      "text-width",
      llvm::cl::desc("Columns of --export-text, 0 for as many as it takes "
                     "(default: those of the terminal, else 120)"),
      llvm::cl::value_desc("columns")};
  llvm::cl::opt<std::string> textSlots{
      "text-slots",
      llvm::cl::desc("Slots that --export-text draws, ':' for all (default: "
                     "the first and the last panels)"),
      llvm::cl::value_desc("begin:end")};
  llvm::cl::opt<std::string> textWorkers{
      "text-workers",
      llvm::cl::desc("Workers that --export-text draws, ':' for all (default: "
                     "the first and the last 16)"),
      llvm::cl::value_desc("begin:end")};

  TimingOptions timing() const {
    return {transport, receivePlacement, forwardSends, runtime, disturbance};
  }
};

} // namespace

/// Created at the first registration, because LLVM requires options to outlive
/// parsing.
static Options &translateOptions() {
  static Options instance;
  return instance;
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

/// Evaluates all schedules and programs, and passes each result to `consume`.
/// Errors as for `evaluate`; the other results are still passed on.
static LogicalResult
forEachResult(Operation *root,
              llvm::function_ref<void(NamedEvaluation &&)> consume) {
  LogicalResult result = success();
  for (Operation *op : findEvaluables(root)) {
    FailureOr<NamedEvaluation> evaluated =
        evaluate(op, translateOptions().timing());
    if (failed(evaluated))
      result = failure();
    else
      consume(std::move(*evaluated));
  }
  return result;
}

/// Evaluates all schedules and programs at once, for drawings on one scale.
/// Errors: there is nothing to draw.
static FailureOr<std::vector<NamedEvaluation>> evaluateAll(Operation *root) {
  std::vector<NamedEvaluation> results;
  if (failed(forEachResult(root, [&](NamedEvaluation &&result) {
        results.push_back(std::move(result));
      })))
    return failure();
  if (results.empty())
    return root->emitOpError(
        "has no schedule and no program to export; pipe-create makes a "
        "schedule, pipe-schedule-* fills it");
  return std::move(results);
}

/// Returns all schedules at or below `root`, in order; programs are skipped.
/// The results refer to their rows. Errors, emitted: as for loadTable, after
/// trying all schedules; only programs; neither schedules nor programs.
static FailureOr<std::vector<NamedTable>> loadSlotTables(Operation *root) {
  SmallVector<Operation *> found = findEvaluables(root);
  if (found.empty())
    return root->emitOpError("has no schedule to draw; pipe-create makes one, "
                             "pipe-schedule-* fills it");
  auto isSchedule = [](Operation *op) { return isa<pipe::ScheduleOp>(op); };
  if (llvm::any_of(found, isSchedule))
    llvm::erase_if(found, std::not_fn(isSchedule));
  std::vector<NamedTable> tables;
  LogicalResult result = success();
  for (Operation *op : found) {
    FailureOr<NamedTable> table = loadTable(op);
    if (failed(table))
      result = failure();
    else
      tables.push_back(std::move(*table));
  }
  if (failed(result))
    return failure();
  return std::move(tables);
}

//===----------------------------------------------------------------------===//
// Exports
//===----------------------------------------------------------------------===//

/// Keeps only the text of each report, not the evaluation.
static LogicalResult exportReport(Operation *root, raw_ostream &os) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  llvm::json::OStream json(stream, /*IndentSize=*/2);
  json.arrayBegin();
  LogicalResult result = forEachResult(
      root, [&](NamedEvaluation &&result) { writeReport(json, result); });
  json.arrayEnd();
  json.flush();
  if (succeeded(result))
    os << text << '\n';
  return result;
}

static LogicalResult exportChromeTrace(Operation *root, raw_ostream &os) {
  FailureOr<std::vector<NamedEvaluation>> results = evaluateAll(root);
  if (succeeded(results))
    writeChromeTrace(os, *results);
  return results;
}

static LogicalResult exportTimelineSvg(Operation *root, raw_ostream &os) {
  FailureOr<std::vector<NamedEvaluation>> results = evaluateAll(root);
  if (failed(results))
    return failure();
  if (llvm::Error error = writeSvg(os, *results, translateOptions().svgVariant))
    return root->emitOpError(llvm::toString(std::move(error)));
  return success();
}

static LogicalResult exportSlotSvg(Operation *root, raw_ostream &os) {
  FailureOr<std::vector<NamedTable>> tables = loadSlotTables(root);
  if (failed(tables))
    return failure();
  if (llvm::Error error = writeSlotSvg(os, pointersTo(*tables)))
    return root->emitOpError(llvm::toString(std::move(error)));
  return success();
}

static LogicalResult exportSvg(Operation *root, raw_ostream &os) {
  if (translateOptions().svgVariant == SvgVariant::Slots)
    return exportSlotSvg(root, os);
  return exportTimelineSvg(root, os);
}

static LogicalResult exportComparison(Operation *root, raw_ostream &os) {
  std::vector<ComparisonEntry> entries;
  if (failed(forEachResult(root, [&](NamedEvaluation &&result) {
        entries.push_back(summarizeForComparison(result));
      })))
    return failure();
  if (entries.empty())
    return root->emitOpError("has no schedule and no program to compare");
  writeComparison(os, entries);
  return success();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// NO_COLOR counts if it is set and not empty (https://no-color.org).
static bool wantsColours(const raw_ostream &os) {
  if (translateOptions().textColour != ColourChoice::Auto)
    return translateOptions().textColour == ColourChoice::Always;
  std::optional<std::string> noColour = llvm::sys::Process::GetEnv("NO_COLOR");
  return os.has_colors() && (!noColour || noColour->empty());
}

static int64_t widthOf(const raw_ostream &os) {
  if (translateOptions().textWidth.getNumOccurrences() > 0)
    return translateOptions().textWidth;
  unsigned columns =
      os.is_displayed() ? llvm::sys::Process::StandardOutColumns() : 0;
  return columns > 0 ? columns : TextPictureOptions::kDefaultWidth;
}

/// Reads a range; errors name the option.
static LogicalResult readRange(Operation *root,
                               const llvm::cl::opt<std::string> &option,
                               std::optional<TextRange> &range) {
  if (option.getNumOccurrences() == 0)
    return success();
  llvm::Expected<TextRange> read = parseTextRange(option);
  if (!read)
    return emitError(root->getLoc())
           << "--" << option.ArgStr << ": " << llvm::toString(read.takeError());
  range = *read;
  return success();
}

static LogicalResult exportText(Operation *root, raw_ostream &os) {
  TextPictureOptions picture;
  picture.width = widthOf(os);
  picture.hasColours = wantsColours(os);
  if (failed(readRange(root, translateOptions().textSlots, picture.slots)) ||
      failed(readRange(root, translateOptions().textWorkers, picture.workers)))
    return failure();
  FailureOr<std::vector<NamedTable>> tables = loadSlotTables(root);
  if (failed(tables))
    return failure();
  if (llvm::Error error = writeTextPictures(os, pointersTo(*tables), picture))
    return root->emitOpError(llvm::toString(std::move(error)));
  return success();
}

void pipesched::registerPipeSchedTranslations() {
  translateOptions();
  registerExport("export-report", "all numbers as JSON", exportReport);
  registerExport("export-chrome-trace",
                 "timelines for Perfetto and chrome://tracing",
                 exportChromeTrace);
  registerExport("export-svg", "pictures of schedules", exportSvg);
  registerExport("export-comparison", "schedules side by side, as text",
                 exportComparison);
  registerExport("export-text", "schedules as tables in the terminal",
                 exportText);
}
