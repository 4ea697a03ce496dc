//===- Columns.h - Columns of numbers as arrays -----------------*- C++ -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arrays that the C API fills and NumPy then owns, without a copy.
//
//===----------------------------------------------------------------------===//

#ifndef PIPESCHED_PYTHON_SRC_COLUMNS_H
#define PIPESCHED_PYTHON_SRC_COLUMNS_H

#include "PipeSched-c/Module.h"
#include <memory>
#include <nanobind/ndarray.h>

namespace pipesched::python {

/// Makes a NumPy array that takes ownership of `column`, which may be null if
/// the size is 0.
template <typename T>
nanobind::object toArray(std::unique_ptr<T[]> column, size_t size) {
  T *data = column.release();
  nanobind::capsule owner(
      data, [](void *memory) noexcept { delete[] static_cast<T *>(memory); });
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, T>(data, {size}, std::move(owner)));
}

/// Makes a NumPy array of a borrowed column, which nobody can write to and
/// which keeps `owner` alive.
template <typename T>
nanobind::object view(const T *column, size_t size, nanobind::handle owner) {
  return nanobind::cast(
      nanobind::ndarray<nanobind::numpy, const T>(column, {size}, owner));
}

/// Columns for the cells of a schedule; only a timed one has messages.
class CellColumns {
public:
  CellColumns(size_t size, bool withTimes)
      : size(size), worker(new int32_t[size]), index(new int32_t[size]),
        stage(new int32_t[size]), microbatch(new int32_t[size]),
        slice(new int32_t[size]), phase(new int8_t[size]),
        startPs(withTimes ? new int64_t[size] : nullptr),
        endPs(withTimes ? new int64_t[size] : nullptr), queue(new int8_t[size]),
        pair(new int32_t[size]),
        message(withTimes ? new int32_t[size] : nullptr) {}

  PipeschedCellColumns get() {
    return {worker.get(),     index.get(), stage.get(),   phase.get(),
            microbatch.get(), slice.get(), startPs.get(), endPs.get(),
            queue.get(),      pair.get(),  message.get()};
  }

  /// Moves the columns into NumPy arrays, by name.
  nanobind::dict take() {
    nanobind::dict arrays;
    arrays["worker"] = toArray(std::move(worker), size);
    arrays["index"] = toArray(std::move(index), size);
    arrays["stage"] = toArray(std::move(stage), size);
    arrays["phase"] = toArray(std::move(phase), size);
    arrays["microbatch"] = toArray(std::move(microbatch), size);
    arrays["slice"] = toArray(std::move(slice), size);
    if (startPs)
      arrays["start_ps"] = toArray(std::move(startPs), size);
    if (endPs)
      arrays["end_ps"] = toArray(std::move(endPs), size);
    arrays["queue"] = toArray(std::move(queue), size);
    arrays["pair"] = toArray(std::move(pair), size);
    if (message)
      arrays["message"] = toArray(std::move(message), size);
    return arrays;
  }

private:
  size_t size;
  std::unique_ptr<int32_t[]> worker, index, stage, microbatch, slice;
  std::unique_ptr<int8_t[]> phase;
  std::unique_ptr<int64_t[]> startPs, endPs;
  std::unique_ptr<int8_t[]> queue;
  std::unique_ptr<int32_t[]> pair, message;
};

} // namespace pipesched::python

#endif // PIPESCHED_PYTHON_SRC_COLUMNS_H
