//===- TorchCsvImport.cpp - Reads PyTorch's schedule files ----------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads lines into rows and stages into paths, then checks them. Arrays are
// indexed by numbers from the file but never longer than the file: a higher
// number implies that another number is missing, which is an error.
//
//===----------------------------------------------------------------------===//

#include "PipeSched/Exchange/TorchCsv.h"
#include "TorchToken.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace pipesched;
using llvm::Error;
using llvm::Expected;
using llvm::formatv;
using llvm::StringRef;

static Error errorOfFile(std::string text) {
  return llvm::make_error<TorchCsvError>(0, 0, std::move(text));
}

namespace {
/// Maps each number below a limit to a value, or to -1 if unknown. Also stores
/// the highest number and where it occurred.
class NumberMap {
public:
  explicit NumberMap(int64_t limit) : limit(limit) {}

  /// Sets the value if it is unknown; returns the previous value, or -1.
  int32_t insert(int64_t number, int32_t value, TorchFieldRef at) {
    if (number > highest) {
      highest = number;
      highestAt = at;
    }
    if (number >= limit)
      return -1;
    if (number >= int64_t(values.size()))
      values.resize(number + 1, -1);
    return std::exchange(values[number],
                         values[number] < 0 ? value : values[number]);
  }

  int64_t size() const { return highest + 1; }
  TorchFieldRef getHighestAt() const { return highestAt; }
  /// The lowest number without a value; size() if all have one.
  int64_t firstUnknown() const {
    return llvm::find(values, -1) - values.begin();
  }
  llvm::ArrayRef<int32_t> getValues() const { return values; }

private:
  int64_t limit, highest = -1;
  TorchFieldRef highestAt;
  std::vector<int32_t> values;
};

class Importer {
public:
  Importer(StringRef text, const TorchCsvImport &options)
      : options(options), numFieldsBound(text.size() / 3 + 1),
        lineOfStage(numFieldsBound), pathOfMicrobatch(numFieldsBound) {
    text.consume_front("\xEF\xBB\xBF"); // a byte order mark
    text.rtrim().split(lines, '\n');
  }

  Expected<Table> run();
  void listWarnings(std::vector<TorchCsvWarning> &warnings) const;

private:
  Error checkLines() const;
  Error readLine(uint32_t line);
  Error readField(TorchFieldRef at, StringRef field);
  Error addCell(TorchFieldRef at, Cell cell);
  Error placeStage(TorchFieldRef at, const TorchToken &token);
  Error placeMicrobatch(TorchFieldRef at, Cell cell);
  Error checkStages() const;
  Error checkMicrobatches() const;
  std::vector<Path> makePaths() const;
  Error checkRows() const;
  Error checkForwards() const;
  TorchFieldRef fieldOf(CellRef cell) const;

  int64_t getStagesPerPath() const {
    return options.stagesPerPath.value_or(lineOfStage.size());
  }
  int64_t getNumPaths() const {
    return lineOfStage.size() / getStagesPerPath();
  }
  Error errorAt(TorchFieldRef at, std::string text) const {
    return errorAtField(lines, at, std::move(text));
  }

  const TorchCsvImport &options;
  /// The shortest token has three characters, or two and a comma to its left.
  int64_t numFieldsBound;
  llvm::SmallVector<StringRef> lines;
  NumberMap lineOfStage, pathOfMicrobatch;
  int64_t numMicrobatches = 0;
  bool hasMessages = false, hasParameterActions = false, hasReduction = false;
  Table table;
};
} // namespace

Error Importer::checkLines() const {
  if (options.stagesPerPath &&
      (*options.stagesPerPath < 1 || *options.stagesPerPath > Cell::kMaxStages))
    return errorOfFile(formatv("a path has 1 to {0} stages, not {1}",
                               Cell::kMaxStages, *options.stagesPerPath));
  if (lines.size() == 1 && lines.front().trim().empty())
    return errorOfFile("the file is empty, wanted one line per rank");
  if (int64_t(lines.size()) > kMaxWorkers)
    return errorOfFile(formatv("the file has {0} lines: there may be {1} ranks "
                               "at most",
                               lines.size(), kMaxWorkers));
  return Error::success();
}

/// Checks that all actions of a stage are on one line.
Error Importer::placeStage(TorchFieldRef at, const TorchToken &token) {
  int64_t stage = token.cell.getStage();
  int32_t line = lineOfStage.insert(stage, at.line, at);
  if (line < 0 || line == int32_t(at.line))
    return Error::success();
  return errorAt(at, formatv("stage {0} is on line {1} already; a file with "
                             "replicated stages numbers replica p of stage s "
                             "as p * S + s and is imported with "
                             "--torch-replicas=S",
                             stage, line + 1));
}

/// Checks that all cells of a microbatch are on one path.
Error Importer::placeMicrobatch(TorchFieldRef at, Cell cell) {
  int32_t path = cell.getStage() / *options.stagesPerPath;
  int32_t other = pathOfMicrobatch.insert(cell.getUnit(), path, at);
  if (other < 0 || other == path)
    return Error::success();
  return errorAt(at, formatv("{0} puts microbatch {1} on path {2}, where "
                             "earlier cells put it on path {3}",
                             cell, cell.getUnit(), path, other));
}

Error Importer::addCell(TorchFieldRef at, Cell cell) {
  numMicrobatches = std::max(numMicrobatches, cell.getUnit() + 1);
  if (!options.stagesPerPath) {
    table.rows.back().push_back(cell);
    return Error::success();
  }
  if (Error error = placeMicrobatch(at, cell))
    return error;
  table.rows.back().emplace_back(cell.getStage() % *options.stagesPerPath,
                                 cell.getPhase(), cell.getUnit(),
                                 cell.overlapsNext());
  return Error::success();
}

/// Extends the idle entry at the end of a row, or starts one.
static void addIdleSlot(Row &row) {
  if (!row.empty() && row.back().isIdle())
    row.back() = Cell::idle(row.back().getIdleSlots() + 1);
  else
    row.push_back(Cell::idle(1));
}

Error Importer::readField(TorchFieldRef at, StringRef field) {
  Expected<TorchToken> token = parseTorchToken(field);
  if (!token)
    return errorAt(at, llvm::toString(token.takeError()));
  if (token->kind == TorchToken::Empty) {
    if (options.keepColumns)
      addIdleSlot(table.rows.back());
    return Error::success();
  }
  hasMessages |= token->isMessage();
  hasParameterActions |= token->kind >= TorchToken::Unshard;
  hasReduction |= token->kind == TorchToken::ReduceGrad;
  if (Error error = placeStage(at, *token))
    return error;
  if (token->getNumCells() > 0)
    if (Error error = addCell(at, token->cell))
      return error;
  if (token->getNumCells() < 2)
    return Error::success();
  TorchToken second;
  second.cell = token->second;
  if (Error error = placeStage(at, second))
    return error;
  return addCell(at, token->second);
}

Error Importer::readLine(uint32_t line) {
  Row &row = table.rows.emplace_back();
  row.reserve(lines[line].count(',') + 1);
  if (Error error =
          forEachTorchField(lines[line], [&](StringRef field, uint32_t number) {
            return readField({line, number}, field);
          }))
    return error;
  if (llvm::all_of(row, [](Cell cell) { return cell.isIdle(); }))
    return errorAt({line, 0},
                   "the line has no cell, wanted what its rank runs");
  return Error::success();
}

Error Importer::checkStages() const {
  int64_t highest = lineOfStage.size() - 1;
  TorchFieldRef at = lineOfStage.getHighestAt();
  int64_t missing = lineOfStage.firstUnknown();
  if (missing <= highest)
    return errorAt(at, formatv("found stage {0}, but no line has stage {1}",
                               highest, missing));
  if ((highest + 1) % getStagesPerPath() != 0)
    return errorAt(at, formatv("stage {0} is the last, wanted a multiple of "
                               "{1} stages, as many as a path has",
                               highest, getStagesPerPath()));
  return Error::success();
}

/// With several paths every microbatch must occur. With one path, pipe-verify
/// reports the missing cells.
Error Importer::checkMicrobatches() const {
  if (!options.stagesPerPath)
    return Error::success();
  int64_t missing = pathOfMicrobatch.firstUnknown();
  if (missing >= numMicrobatches)
    return Error::success();
  return errorAt(pathOfMicrobatch.getHighestAt(),
                 formatv("found microbatch {0}, but no line has microbatch {1}",
                         numMicrobatches - 1, missing));
}

/// Groups ascending microbatches into few ranges. Just two microbatches do not
/// form a range with a stride above 1.
static std::vector<MicrobatchRange> rangesOf(llvm::ArrayRef<int32_t> numbers) {
  std::vector<MicrobatchRange> ranges;
  for (size_t begin = 0, end; begin < numbers.size(); begin = end) {
    end = begin + 1;
    int64_t step = end < numbers.size() ? numbers[end] - numbers[begin] : 1;
    while (end < numbers.size() && numbers[end] - numbers[end - 1] == step)
      ++end;
    if (end - begin == 2 && step > 1)
      --end;
    if (end - begin == 1)
      step = 1;
    ranges.push_back({numbers[begin], int64_t(numbers[end - 1]) + 1, step});
  }
  return ranges;
}

std::vector<Path> Importer::makePaths() const {
  std::vector<Path> paths(getNumPaths());
  for (auto [path, entries] : llvm::enumerate(paths))
    entries.workers = lineOfStage.getValues()
                          .slice(path * getStagesPerPath(), getStagesPerPath())
                          .vec();
  if (paths.size() == 1)
    return paths;
  std::vector<std::vector<int32_t>> taken(paths.size());
  for (auto [microbatch, path] : llvm::enumerate(pathOfMicrobatch.getValues()))
    taken[path].push_back(microbatch);
  for (auto [path, microbatches] : llvm::zip_equal(paths, taken))
    path.takes = rangesOf(microbatches);
  return paths;
}

/// Returns the field of an entry of a row. Reads the line again, so it is only
/// for diagnostics.
TorchFieldRef Importer::fieldOf(CellRef cell) const {
  TorchFieldRef at;
  at.line = cell.row;
  int64_t numEntries = 0;
  bool wasIdle = false;
  llvm::consumeError(forEachTorchField(
      lines[at.line], [&](StringRef field, uint32_t number) -> Error {
        TorchToken token = llvm::cantFail(parseTorchToken(field));
        bool isIdle = options.keepColumns && token.kind == TorchToken::Empty;
        numEntries += isIdle ? !wasIdle : token.getNumCells();
        wasIdle = isIdle || (wasIdle && token.getNumCells() == 0);
        at.field = number;
        return numEntries > cell.index ? errorOfFile("found")
                                       : Error::success();
      }));
  return at;
}

Error Importer::checkRows() const {
  for (auto [line, row] : llvm::enumerate(table.rows))
    if (std::optional<Violation> violation =
            verifyRow(table.placement, line, row)) {
      CellRef cell = violation->at.value_or(CellRef{int64_t(line), 0});
      std::vector<std::string> notes;
      for (const Violation::Note &note : violation->notes)
        notes.push_back(note.message);
      return errorAtField(lines, fieldOf(cell), violation->message,
                          std::move(notes));
    }
  return Error::success();
}

Expected<Table> Importer::run() {
  if (Error error = checkLines())
    return std::move(error);
  table.rows.reserve(lines.size());
  for (uint32_t line = 0; line < lines.size(); ++line)
    if (Error error = readLine(line))
      return std::move(error);
  if (Error error = checkStages())
    return std::move(error);
  if (Error error = checkMicrobatches())
    return std::move(error);
  Expected<Placement> placement =
      Placement::create(lines.size(), numMicrobatches, makePaths());
  if (!placement)
    return errorOfFile(llvm::toString(placement.takeError()));
  table.placement = std::move(*placement);
  if (Error error = checkRows())
    return std::move(error);
  if (Error error = checkForwards())
    return std::move(error);
  TorchFile file{lines, lineOfStage.getValues(), getStagesPerPath()};
  if (hasMessages)
    if (Error error = checkTorchMessages(file))
      return std::move(error);
  if (hasParameterActions)
    if (Error error = checkTorchParameters(file))
      return std::move(error);
  return std::move(table);
}

/// Files with replicas are for readers other than PyTorch.
Error Importer::checkForwards() const {
  if (options.stagesPerPath)
    return Error::success();
  TableView view = table.view();
  if (std::optional<Violation> violation = findUnorderedForward(view))
    return errorAt(fieldOf(*violation->at), violation->message);
  return Error::success();
}

void Importer::listWarnings(std::vector<TorchCsvWarning> &warnings) const {
  if (!options.stagesPerPath && hasMessages && !hasReduction &&
      numMicrobatches > 1)
    warnings.push_back(
        {1, 1,
         formatv("the file has messages but no REDUCE_GRAD, where PyTorch's "
                 "runtime divides gradients by the {0} microbatches; an export "
                 "writes it",
                 numMicrobatches)});
}

Expected<Table>
pipesched::parseTorchCsv(StringRef text, const TorchCsvImport &options,
                         std::vector<TorchCsvWarning> *warnings) {
  Importer importer(text, options);
  Expected<Table> table = importer.run();
  if (table && warnings)
    importer.listWarnings(*warnings);
  return table;
}
