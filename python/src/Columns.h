//===- Columns.h - Columns of numbers as arrays -----------------*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arrays that NumPy owns or borrows, without a copy.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_COLUMNS_H
#define PIPESCHED_PYTHON_SRC_COLUMNS_H

#include "PipeSched/Schedule/Kinds/Instructions.h"
#include "PipeSched/Schedule/Kinds/PhaseSets.h"
#include "PipeSched/Schedule/Table/CellNumbers.h"
#include <nanobind/ndarray.h>

namespace pipesched::python {

/// Makes a NumPy array that takes the memory of a column.
template <typename T>
nanobind::object toArray(std::vector<T> &&column) {
  auto *kept = new std::vector<T>(std::move(column));
  nanobind::capsule owner(kept, [](void *memory) noexcept {
    delete static_cast<std::vector<T> *>(memory);
  });
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, T>(
      kept->data(), {kept->size()}, std::move(owner)));
}

/// Makes a read-only NumPy array of a borrowed column, which keeps `owner`
/// alive.
template <typename T>
nanobind::object view(llvm::ArrayRef<T> column, nanobind::handle owner) {
  return nanobind::cast(nanobind::ndarray<nanobind::numpy, const T>(
      column.data(), {column.size()}, owner));
}
template <typename T>
nanobind::object view(const std::vector<T> &column, nanobind::handle owner) {
  return view(llvm::ArrayRef<T>(column), owner);
}

/// The cells of a schedule, one after the other; only a timed one has times
/// and messages.
class CellColumns {
public:
  CellColumns(int64_t numSlices, bool isTimed)
      : numSlices(numSlices), isTimed(isTimed) {}

  void add(int64_t row, Cell cell, int64_t start = 0, int64_t end = 0,
           int64_t sent = -1) {
    CellNumbers numbers = numbersOf(cell, numSlices);
    int32_t place =
        !worker.empty() && worker.back() == row ? index.back() + 1 : 0;
    bool isSecondHalf = place != 0 && isFirstHalf;
    if (isSecondHalf)
      pair.back() = place;
    isFirstHalf = !isSecondHalf && numbers.overlapsNext;
    worker.push_back(row);
    index.push_back(place);
    stage.push_back(numbers.stage);
    phase.push_back(numbers.phase);
    microbatch.push_back(numbers.number);
    slice.push_back(numbers.slice);
    queue.push_back(static_cast<int8_t>(laneOf(cell)));
    pair.push_back(isSecondHalf ? place - 1 : -1);
    if (!isTimed)
      return;
    startPs.push_back(start);
    endPs.push_back(end);
    message.push_back(sent);
  }

  /// Moves the columns into NumPy arrays, by name.
  nanobind::dict take() {
    nanobind::dict arrays;
    arrays["worker"] = toArray(std::move(worker));
    arrays["index"] = toArray(std::move(index));
    arrays["stage"] = toArray(std::move(stage));
    arrays["phase"] = toArray(std::move(phase));
    arrays["microbatch"] = toArray(std::move(microbatch));
    arrays["slice"] = toArray(std::move(slice));
    if (isTimed) {
      arrays["start_ps"] = toArray(std::move(startPs));
      arrays["end_ps"] = toArray(std::move(endPs));
    }
    arrays["queue"] = toArray(std::move(queue));
    arrays["pair"] = toArray(std::move(pair));
    if (isTimed)
      arrays["message"] = toArray(std::move(message));
    return arrays;
  }

private:
  static Lane laneOf(Cell cell) {
    std::optional<InstructionKind> kind = traitsOf(cell.getPhase()).instruction;
    return kind ? traitsOf(*kind).lane : Lane::Compute;
  }

  int64_t numSlices;
  bool isTimed;
  bool isFirstHalf = false; ///< the last cell starts a pair
  std::vector<int32_t> worker, index, stage, microbatch, slice, pair, message;
  std::vector<int8_t> phase, queue;
  std::vector<int64_t> startPs, endPs;
};

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_COLUMNS_H
