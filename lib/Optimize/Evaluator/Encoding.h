//===- Encoding.h - Compact form of schedules -------------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A problem as flat arrays by kind of cell, and its rows in a form that is
// cheap to change and to restore.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ENCODING_H
#define PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ENCODING_H

#include "PipeSched/Optimize/Problem/Solution.h"

namespace pipesched::optimize {

inline constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

/// The types of cells of a stage, in this order. A backward that is not split
/// is an InputGrad without a WeightGrad.
enum class CellType : uint8_t {
  Forward,
  InputGrad,
  WeightGrad,
  Recompute,
  Offload,
  Reload
};
inline constexpr uint32_t kNumCellTypes = 6;

/// A cell in a row: its number and its kind (stage x kNumCellTypes + type).
/// Cells are numbered by kind and rank, so that the cells of other kinds with
/// the same stage and microbatch are at a fixed distance.
struct Token {
  uint32_t cell = kNone, kind = kNone;

  friend bool operator==(Token a, Token b) { return a.cell == b.cell; }
  friend bool operator!=(Token a, Token b) { return a.cell != b.cell; }
};

/// The facts of a kind of cells, equal for all microbatches.
struct KindFacts {
  int64_t duration = 0;
  int64_t delay = 0; ///< of the message that it waits for; for a D: the time
                     ///< until the output of its F is sent
  int64_t allocates = 0;    ///< at its start
  int64_t frees = 0;        ///< at its end
  uint32_t waitsFor = 0;    ///< distance to the cell of the message
  uint32_t waitsOn = kNone; ///< worker of that cell; kNone: no message
  uint32_t firstCell = 0;   ///< cell of rank 0
  uint32_t count = 0;       ///< microbatches on the path
  uint32_t stage = 0, worker = 0;
  CellType type = CellType::Forward;

  bool isCopy() const { return type >= CellType::Offload; }
};

/// The problem by kind of cells. One array has the rows of all workers. Each
/// row has room for all cells that it could need and for one more entry.
struct Encoding {
  explicit Encoding(const Problem &problem);

  const Problem &problem;
  uint32_t numWorkers = 0, numStages = 0, numCells = 0;
  bool splitBackward = true, offload = false, recompute = false;
  bool sharedQueue = false;
  bool anyTimes = false; ///< whether memory must suffice for any times
  std::vector<KindFacts> kinds;
  std::vector<uint32_t> rowBegins;              ///< by worker, D + 1
  std::vector<int64_t> capacity;                ///< by worker
  std::vector<std::vector<uint32_t>> stagesOf;  ///< by worker, ascending
  std::vector<uint32_t> nextStage, stageBefore; ///< on the path, or kNone
  uint32_t numSlices = 1;
  /// By stage: its slice; the same stage of the first slice; and the distance
  /// to the same stage of the next slice.
  std::vector<uint32_t> sliceOf, firstSlice, sliceStride;
  std::vector<std::vector<int32_t>> microbatches; ///< by path and rank

  uint32_t kindOf(uint32_t stage, CellType type) const {
    return stage * kNumCellTypes + static_cast<uint32_t>(type);
  }
  const KindFacts &facts(uint32_t stage, CellType type) const {
    return kinds[kindOf(stage, type)];
  }
  Token token(uint32_t stage, CellType type, uint32_t rank) const {
    uint32_t kind = kindOf(stage, type);
    return {kinds[kind].firstCell + rank, kind};
  }
  /// Returns the cell of another type with the same stage and microbatch.
  Token sibling(Token token, CellType type) const {
    const KindFacts &from = kinds[token.kind];
    return this->token(from.stage, type, token.cell - from.firstCell);
  }
  /// The stage with another slice of the same microbatches.
  uint32_t withSlice(uint32_t stage, uint32_t slice) const {
    return firstSlice[stage] + slice * sliceStride[stage];
  }
  /// Returns the cell of a type of another slice with the same stage and
  /// microbatch.
  Token ofSlice(Token token, CellType type, uint32_t slice) const {
    return this->token(withSlice(kinds[token.kind].stage, slice), type,
                       rankOf(token));
  }
  /// Whether the order of slices forces two cells of a row to stay in this
  /// order.
  bool isFixedBySlices(Token earlier, Token later) const;
  uint32_t rankOf(Token token) const {
    return token.cell - kinds[token.kind].firstCell;
  }
  uint32_t capacityOfRow(uint32_t worker) const {
    return rowBegins[worker + 1] - rowBegins[worker] - 1;
  }
  const StageFacts &stageFacts(uint32_t stage) const {
    return problem.stages[stage];
  }
  /// The additional memory that F frees if its microbatch is recomputed.
  int64_t freedByDropping(uint32_t stage) const {
    return stageFacts(stage).activation - stageFacts(stage).checkpoint;
  }
  /// The cell as it appears in rows of a schedule.
  Cell cellOf(Token token) const;
};

/// Rows of tokens. `positions`, `remaining` and `levels` are derived from the
/// rows; refresh() updates them.
struct Plan {
  std::vector<Token> tokens;
  std::vector<uint32_t> sizes;     ///< by worker
  std::vector<uint32_t> positions; ///< by cell, in `tokens`; kNone: absent
  /// By position: compute time from there to the end of the row.
  std::vector<int64_t> remaining;
  /// By position: memory before that cell without offload.
  std::vector<int64_t> levels;

  Plan() = default;
  explicit Plan(const Encoding &encoding);

  void append(const Encoding &encoding, uint32_t worker, Token token) {
    tokens[encoding.rowBegins[worker] + sizes[worker]++] = token;
  }
  /// Updates the derived numbers after tokens of [`begin`, `end`) of a row were
  /// reordered. Returns whether memory suffices there; this is always true with
  /// offload.
  bool refresh(const Encoding &encoding, uint32_t worker, uint32_t begin,
               uint32_t end);
  /// The same for a whole row, in which cells may have been added or removed.
  bool refreshRow(const Encoding &encoding, uint32_t worker);
  bool refreshAll(const Encoding &encoding);
  /// Whether every row fits its worker's memory without offload.
  bool fitsMemory(const Encoding &encoding) const;
  bool has(Token token) const { return positions[token.cell] != kNone; }
  /// Whether the cells of the stage and microbatch of `token` are in order: F,
  /// then D and U or R, then I, then W; and whether slices are in order.
  bool isOrdered(const Encoding &encoding, Token token) const;
  /// Whether the slices of the microbatch of `token` are in order on its stage
  /// (see Problem). If a slice is offloaded, the last slice must be too, and
  /// its U must come last, so that its I, which runs first, waits for all of
  /// them.
  bool areSlicesOrdered(const Encoding &encoding, Token token) const;
  /// Whether no cell is missing and the cells of every microbatch are in order.
  bool isComplete(const Encoding &encoding) const;
};

/// Makes a plan of the rows of a seed. Whole backwards are split if allowed;
/// joins, idle slots, O and G are dropped; if the rows have no D, U and R,
/// every stage runs its microbatches in order. Returns nothing if a cell is
/// missing, occurs twice, is on another worker or is not allowed.
std::optional<Plan> planOf(const Encoding &encoding, llvm::ArrayRef<Row> rows);

} // namespace pipesched::optimize

#endif // PIPESCHED_LIB_OPTIMIZE_EVALUATOR_ENCODING_H
