//===- MatmulTest.cpp - Products of matrices ------------------------------===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All kernels that this processor has, beside a plain loop, to the last bit.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-rt/Runtime.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>
#include <thread>
#include <vector>

// Of runtime/lib/Internal.h, which is C11.
extern "C" {
struct RtMatmul {
  int64_t m, n, k;
  const void *a, *b;
  void *c;
  int64_t aRow, aColumn, bRow, bColumn, cRow, cColumn;
  const void *start;
  int64_t startRow, startColumn;
  const void *end;
  int64_t endRow, endColumn;
  void *partial;
};
int32_t rtMatmulKernels(void);
void rtMatmul(int32_t elementType, int32_t kernels, RtMatmul of);
}

namespace {
/// Elements that do not touch each other, row by row or column by column.
template <typename T>
struct Matrix {
  int64_t rows, columns, row, column;
  std::vector<T> elements;

  Matrix(int64_t rows, int64_t columns, bool isTransposed, int64_t gap)
      : rows(rows), columns(columns),
        row(isTransposed ? gap : gap * columns + 3),
        column(isTransposed ? gap * rows + 3 : gap),
        elements(static_cast<size_t>(rows * row + columns * column + 1)) {}

  void fill(std::mt19937 &random) {
    std::uniform_real_distribution<T> numbers(-1, 1);
    for (T &element : elements)
      element = numbers(random);
  }
  T &at(int64_t i, int64_t j) {
    return elements[static_cast<size_t>(i * row + j * column)];
  }
};

struct Shape {
  int64_t m, n, k;
};
} // namespace

/// Begins at `start`, or at zeros where it is null, and adds `end`, if any.
template <typename T>
static void multiply(int32_t elementType, int32_t kernels, Matrix<T> &a,
                     Matrix<T> &b, Matrix<T> &c, const Matrix<T> *start,
                     const Matrix<T> *end = nullptr,
                     Matrix<T> *partial = nullptr) {
  rtMatmul(elementType, kernels,
           {c.rows, c.columns, a.columns, a.elements.data(), b.elements.data(),
            c.elements.data(), a.row, a.column, b.row, b.column, c.row,
            c.column, start ? start->elements.data() : nullptr,
            start ? start->row : 0, start ? start->column : 0,
            end ? end->elements.data() : nullptr, end ? end->row : 0,
            end ? end->column : 0,
            partial ? partial->elements.data() : nullptr});
}

template <typename T>
static void multiplyPlainly(Matrix<T> &a, Matrix<T> &b, Matrix<T> &c) {
  for (int64_t i = 0; i < c.rows; ++i)
    for (int64_t j = 0; j < c.columns; ++j)
      for (int64_t k = 0; k < a.columns; ++k)
        c.at(i, j) = std::fma(a.at(i, k), b.at(k, j), c.at(i, j));
}

/// Also compares what lies between the elements, which must not change.
template <typename T>
static void tryShape(int32_t elementType, Shape shape, int64_t gap) {
  std::mt19937 random(static_cast<unsigned>(shape.m + 31 * shape.n));
  for (int orders = 0; orders < 8; ++orders) {
    Matrix<T> a(shape.m, shape.k, orders & 1, gap);
    Matrix<T> b(shape.k, shape.n, orders & 2, gap);
    Matrix<T> c(shape.m, shape.n, orders & 4, gap);
    for (Matrix<T> *matrix : {&a, &b, &c})
      matrix->fill(random);
    Matrix<T> expected = c;
    multiplyPlainly(a, b, expected);
    for (int32_t kernels = 0; kernels <= rtMatmulKernels(); ++kernels) {
      Matrix<T> got = c;
      multiply(elementType, kernels, a, b, got, &got);
      EXPECT_EQ(got.elements, expected.elements)
          << shape.m << "x" << shape.n << "x" << shape.k << ", orders "
          << orders << ", kernels " << kernels << ", gap " << gap;
    }
  }
}

/// From zeros, from another matrix and from a row, for each order of C. What C
/// has before does not matter.
template <typename T>
static void tryStarts(int32_t elementType, Shape shape) {
  std::mt19937 random(11);
  for (int orders = 0; orders < 4; ++orders) {
    Matrix<T> a(shape.m, shape.k, false, 1), b(shape.k, shape.n, false, 1);
    Matrix<T> c(shape.m, shape.n, orders & 1, 1);
    Matrix<T> other(shape.m, shape.n, orders & 2, 2), row(1, shape.n, false, 1);
    for (Matrix<T> *matrix : {&a, &b, &c, &other, &row})
      matrix->fill(random);
    row.row = 0;
    for (Matrix<T> *start : {static_cast<Matrix<T> *>(nullptr), &other, &row}) {
      Matrix<T> expected = c;
      for (int64_t i = 0; i < c.rows; ++i)
        for (int64_t j = 0; j < c.columns; ++j)
          expected.at(i, j) = start ? start->at(i, j) : 0;
      multiplyPlainly(a, b, expected);
      for (int32_t kernels = 0; kernels <= rtMatmulKernels(); ++kernels) {
        Matrix<T> got = c;
        multiply(elementType, kernels, a, b, got, start);
        EXPECT_EQ(got.elements, expected.elements)
            << shape.m << "x" << shape.n << "x" << shape.k << ", orders "
            << orders << ", kernels " << kernels;
      }
    }
  }
}

TEST(Matmul, BeginsAtAnotherMatrix) {
  const Shape shapes[] = {{30, 70, 5}, {15, 33, 800}, {3, 5, 0}};
  for (Shape shape : shapes) {
    tryStarts<float>(PIPESCHED_RT_F32, shape);
    tryStarts<double>(PIPESCHED_RT_F64, shape);
  }
}

/// Adds another matrix, a row or a column at last, for each order of C.
template <typename T>
static void tryEnds(int32_t elementType, Shape shape) {
  std::mt19937 random(13);
  for (int orders = 0; orders < 4; ++orders) {
    Matrix<T> a(shape.m, shape.k, false, 1), b(shape.k, shape.n, false, 1);
    Matrix<T> c(shape.m, shape.n, orders & 1, 1);
    Matrix<T> other(shape.m, shape.n, orders & 2, 2);
    Matrix<T> row(1, shape.n, false, 1), column(shape.m, 1, true, 1);
    for (Matrix<T> *matrix : {&a, &b, &c, &other, &row, &column})
      matrix->fill(random);
    row.row = column.column = 0;
    for (Matrix<T> *end : {&other, &row, &column}) {
      Matrix<T> expected = c;
      for (int64_t i = 0; i < c.rows; ++i)
        for (int64_t j = 0; j < c.columns; ++j)
          expected.at(i, j) = 0;
      multiplyPlainly(a, b, expected);
      for (int64_t i = 0; i < c.rows; ++i)
        for (int64_t j = 0; j < c.columns; ++j)
          expected.at(i, j) += end->at(i, j);
      for (int32_t kernels = 0; kernels <= rtMatmulKernels(); ++kernels) {
        Matrix<T> got = c;
        multiply<T>(elementType, kernels, a, b, got, nullptr, end);
        EXPECT_EQ(got.elements, expected.elements)
            << shape.m << "x" << shape.n << "x" << shape.k << ", orders "
            << orders << ", kernels " << kernels;
      }
    }
  }
}

/// Adds a product to what C has, with sums of parts in other memory.
template <typename T>
static void tryAddsTo(int32_t elementType, Shape shape) {
  std::mt19937 random(17);
  for (int orders = 0; orders < 4; ++orders) {
    Matrix<T> a(shape.m, shape.k, orders & 2, 1), b(shape.k, shape.n, false, 1);
    Matrix<T> c(shape.m, shape.n, orders & 1, 1), sums = c;
    for (Matrix<T> *matrix : {&a, &b, &c})
      matrix->fill(random);
    Matrix<T> expected = sums;
    multiplyPlainly(a, b, expected);
    for (size_t i = 0; i < c.elements.size(); ++i)
      expected.elements[i] += c.elements[i];
    for (int32_t kernels = 0; kernels <= rtMatmulKernels(); ++kernels) {
      Matrix<T> got = c, partial = sums;
      multiply<T>(elementType, kernels, a, b, got, nullptr, &got, &partial);
      EXPECT_EQ(got.elements, expected.elements)
          << shape.m << "x" << shape.n << "x" << shape.k << ", orders "
          << orders << ", kernels " << kernels;
    }
  }
}

TEST(Matmul, AddsToWhatThereIs) {
  const Shape shapes[] = {{30, 70, 5}, {28, 64, 300}, {15, 33, 800}, {3, 5, 0}};
  for (Shape shape : shapes) {
    tryAddsTo<float>(PIPESCHED_RT_F32, shape);
    tryAddsTo<double>(PIPESCHED_RT_F64, shape);
  }
}

TEST(Matmul, AddsAnotherMatrixAtLast) {
  // The last tiles of rows and columns, several parts of summands, and none.
  const Shape shapes[] = {{30, 70, 5}, {28, 64, 300}, {15, 33, 800}, {3, 5, 0}};
  for (Shape shape : shapes) {
    tryEnds<float>(PIPESCHED_RT_F32, shape);
    tryEnds<double>(PIPESCHED_RT_F64, shape);
  }
}

TEST(Matmul, HasTheBitsOfALoop) {
  // Around the tiles of all kernels, and none at all.
  const Shape shapes[] = {{1, 1, 1},    {4, 16, 8},  {5, 17, 9},  {14, 32, 33},
                          {15, 33, 20}, {28, 64, 7}, {13, 31, 2}, {6, 8, 1},
                          {0, 4, 4},    {4, 0, 4},   {4, 4, 0},   {1, 40, 50}};
  for (Shape shape : shapes)
    for (int64_t gap : {1, 2}) {
      tryShape<float>(PIPESCHED_RT_F32, shape, gap);
      tryShape<double>(PIPESCHED_RT_F64, shape, gap);
    }
}

TEST(Matmul, HasTilesOfEachHeight) {
  // Few panels of B read rows of A where they are, many a packed copy, as do
  // rows 4096 bytes apart.
  for (int64_t m = 1; m <= 15; ++m)
    for (Shape shape : {Shape{m, 32, 40}, Shape{m, 264, 17}}) {
      tryShape<float>(PIPESCHED_RT_F32, shape, 1);
      tryShape<double>(PIPESCHED_RT_F64, shape, 1);
    }
  // A row of A has a gap of three elements.
  tryShape<float>(PIPESCHED_RT_F32, {15, 32, 1021}, 1);
  tryShape<double>(PIPESCHED_RT_F64, {15, 32, 509}, 1);
}

TEST(Matmul, PacksInSquares) {
  // 16 summands and more, parts of squares behind whole ones, and panels side
  // by side.
  const Shape shapes[] = {{9, 41, 16}, {13, 29, 35}, {29, 135, 50}};
  for (Shape shape : shapes) {
    tryShape<float>(PIPESCHED_RT_F32, shape, 1);
    tryShape<double>(PIPESCHED_RT_F64, shape, 1);
  }
}

TEST(Matmul, GoesOverSeveralBlocks) {
  // More rows than a block of each kernel, and more summands.
  const Shape shapes[] = {{530, 20, 10}, {200, 300, 5}, {15, 17, 800}};
  for (Shape shape : shapes) {
    tryShape<float>(PIPESCHED_RT_F32, shape, 1);
    tryShape<double>(PIPESCHED_RT_F64, shape, 1);
  }
}

TEST(Matmul, RunsOnSeveralThreads) {
  auto run = [] {
    std::mt19937 random(7);
    Matrix<float> a(50, 60, false, 1), b(60, 70, false, 1), c(50, 70, false, 1);
    a.fill(random);
    b.fill(random);
    Matrix<float> expected = c;
    multiplyPlainly(a, b, expected);
    for (int i = 0; i < 20; ++i) {
      Matrix<float> got = c;
      pipesched_rt_matmul(PIPESCHED_RT_F32, 50, 70, 60, a.elements.data(),
                          a.row, a.column, b.elements.data(), b.row, b.column,
                          got.elements.data(), got.row, got.column,
                          got.elements.data(), got.row, got.column, nullptr, 0,
                          0, nullptr);
      EXPECT_EQ(got.elements, expected.elements);
    }
  };
  std::thread first(run), second(run);
  first.join();
  second.join();
}
