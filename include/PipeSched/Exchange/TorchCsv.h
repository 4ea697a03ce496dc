//===- TorchCsv.h - PyTorch's schedule files --------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads and writes the CSV form of torch.distributed.pipelining: one row per
// rank, one action per cell. docs/Exchange.md describes the format and its
// limits.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_EXCHANGE_TORCHCSV_H
#define PIPESCHED_EXCHANGE_TORCHCSV_H

#include "PipeSched/Schedule/Check/Verify.h"
#include "PipeSched/Schedule/Table/Table.h"

namespace pipesched {

/// An error in a file, with its place. Line and column count from 1; line 0 is
/// the file as a whole.
class TorchCsvError : public llvm::ErrorInfo<TorchCsvError> {
public:
  static char ID; // NOLINT(readability-identifier-naming): LLVM's name

  TorchCsvError(int64_t line, int64_t column, std::string text,
                std::vector<std::string> notes = {})
      : line(line), column(column), text(std::move(text)),
        notes(std::move(notes)) {}

  int64_t getLine() const { return line; }
  int64_t getColumn() const { return column; }
  llvm::StringRef getText() const { return text; }
  llvm::ArrayRef<std::string> getNotes() const { return notes; }

  /// Prints `line 2, column 15: ` and the text; each note on a separate line.
  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  int64_t line, column;
  std::string text;
  std::vector<std::string> notes;
};

/// A silent error of PyTorch with a file that can be read.
struct TorchCsvWarning {
  int64_t line, column; ///< from 1
  std::string text;
};

struct TorchCsvImport {
  /// If true, empty cells become idle slots; otherwise they are dropped.
  bool keepColumns = false;
  /// Stages per path, for files with replicated stages: the file's stage p * S
  /// + s is stage s of path p.
  std::optional<int64_t> stagesPerPath;
};

/// Reads either format. Row r is worker r, and N is 1 + the highest microbatch.
/// There is one path, whose entry s is the row that holds stage s. With
/// `stagesPerPath` there are several paths, and each takes the microbatches
/// that occur on it. Messages, UNSHARD, RESHARD and REDUCE_GRAD follow from the
/// cells: they are checked and dropped, and an export creates them again.
///
/// The rows of the result pass verifyRow, but the table is not verified: it may
/// be incomplete or cyclic. Time and memory are linear in the length of the
/// text (n log n with messages), for any numbers in it. Errors are
/// TorchCsvErrors. One of them reports the result of findUnorderedForward for a
/// file with one path. `warnings`, which may be null, receives the silent
/// errors of PyTorch with such a file: by default it does not divide gradients
/// by N if the file has messages but no REDUCE_GRAD.
llvm::Expected<Table>
parseTorchCsv(llvm::StringRef text, const TorchCsvImport &options = {},
              std::vector<TorchCsvWarning> *warnings = nullptr);

enum class TorchCsvFormat {
  ComputeOnly, ///< F, B, I, W and overlapped pairs; empty cells are idle
  ComputeComms ///< also messages and actions on parameters; no empty cells
};

template <>
struct EnumNames<TorchCsvFormat> {
  static constexpr EnumName<TorchCsvFormat> values[] = {
      {TorchCsvFormat::ComputeOnly, "compute_only", "cells and idle slots"},
      {TorchCsvFormat::ComputeComms, "compute_comms",
       "all that PyTorch's runtime executes, in its own order"}};
};

/// Writes a table that passes verifyTable. In `ComputeOnly` a cell and an idle
/// slot take one column each; in an aligned table columns are slots, so an
/// empty cell follows each B. `ComputeComms` also has the actions that PyTorch
/// derives from the `ComputeOnly` file, in which empty cells have no effect:
/// UNSHARD, RESHARD, REDUCE_GRAD, SEND and RECV. Before writing, they are
/// checked like by parseTorchCsv, so that every RECV gets the message that it
/// names.
///
/// Returns a violation and writes nothing if the format cannot express the
/// table or PyTorch would compute it wrongly: several paths; phases other than
/// F, B, I, W; overlapped pairs other than F + B; gradients sent after W;
/// alignment by slots other than unit slots; a worker without cells; more than
/// kMaxTableCells columns; a forward that findUnorderedForward returns.
std::optional<Violation> writeTorchCsv(llvm::raw_ostream &os,
                                       const TableView &table,
                                       TorchCsvFormat format);

/// Finds a forward of the last stage that runs before a forward of an earlier
/// microbatch. PyTorch's runtime appends losses in the order of these forwards
/// and reads them by microbatch, so backwards would start from the losses of
/// other microbatches.
std::optional<Violation> findUnorderedForward(const TableView &table);

} // namespace pipesched

#endif // PIPESCHED_EXCHANGE_TORCHCSV_H
