//===- BlasTest.cpp - Products of matrices --------------------------------===//
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compares products with sums in the order of their terms. Numbers are small
// integers, so that no order rounds. test/Run/blas.test chooses libraries.
//
//===----------------------------------------------------------------------===//

#include "PipeSched-rt/Runtime.h"

#include <cmath>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace {

/// The layout of the elements of a matrix: rows follow each other, or columns
/// do; after each are `gap` others.
struct Order {
  bool isTurned;
  int64_t gap;
};

template <typename Real>
struct Matrix {
  int64_t rows, columns, row, column;
  std::vector<Real> data;

  Matrix(int64_t rows, int64_t columns, Order order)
      : rows(rows), columns(columns),
        row(order.isTurned ? 1 : columns + order.gap),
        column(order.isTurned ? rows + order.gap : 1),
        data((rows + order.gap) * (columns + order.gap) + 1) {
    for (size_t i = 0; i < data.size(); ++i)
      data[i] = int64_t(i * 7 % 19) - 9;
  }
  Real &at(int64_t i, int64_t j) { return data[i * row + j * column]; }
};

constexpr int32_t typeOf(float) { return PIPESCHED_RT_F32; }
constexpr int32_t typeOf(double) { return PIPESCHED_RT_F64; }

template <typename Real>
void multiply(Matrix<Real> &a, Matrix<Real> &b, Matrix<Real> &c) {
  pipesched_rt_matmul(typeOf(Real()), a.rows, b.columns, a.columns,
                      a.data.data(), a.row, a.column, b.data.data(), b.row,
                      b.column, c.data.data(), c.row, c.column);
}

/// Elements between rows of the result also stay.
template <typename Real>
void check(int64_t m, int64_t n, int64_t k, const Order orders[3]) {
  Matrix<Real> a(m, k, orders[0]), b(k, n, orders[1]), c(m, n, orders[2]);
  Matrix<Real> wanted = c;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t l = 0; l < k; ++l)
        wanted.at(i, j) += a.at(i, l) * b.at(l, j);
  multiply(a, b, c);
  EXPECT_EQ(c.data, wanted.data) << m << " x " << n << " x " << k;
}

template <typename Real>
void checkOrders(int64_t m, int64_t n, int64_t k) {
  for (int turned = 0; turned < 8; ++turned)
    for (int64_t gap : {0, 3}) {
      Order orders[] = {{(turned & 1) != 0, gap},
                        {(turned & 2) != 0, 0},
                        {(turned & 4) != 0, gap}};
      check<Real>(m, n, k, orders);
    }
}

TEST(BlasTest, AddsProductsInAnyOrder) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{33, 17, 65},
                         {1, 1, 1},
                         {1, 40, 20},
                         {40, 1, 20},
                         {5, 7, 1},
                         {130, 90, 300}}) {
    checkOrders<float>(m, n, k);
    checkOrders<double>(m, n, k);
  }
}

TEST(BlasTest, AddsNothingToEmptyMatrices) {
  for (auto [m, n, k] : {std::array<int64_t, 3>{4, 5, 0}, {0, 5, 4}, {4, 0, 5}})
    checkOrders<float>(m, n, k);
}

/// BLAS takes neither columns of columns nor one row that represents all rows.
TEST(BlasTest, TakesAnyStrides) {
  Matrix<float> a(6, 8, {false, 0}), b(8, 5, {false, 0}), c(6, 5, {false, 0});
  a.row = 0;
  b.row = 1;
  b.column = 2;
  Matrix<float> wanted = c;
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < 5; ++j)
      for (int64_t l = 0; l < 8; ++l)
        wanted.at(i, j) += a.at(i, l) * b.at(l, j);
  multiply(a, b, c);
  EXPECT_EQ(c.data, wanted.data);
}

TEST(BlasTest, KeepsNaNAndInfinity) {
  Matrix<float> a(20, 30, {false, 0}), b(30, 40, {false, 0}),
      c(20, 40, {false, 0});
  for (int64_t j = 0; j < 40; ++j)
    b.at(4, j) = 0;
  a.at(3, 4) = NAN;
  a.at(5, 4) = INFINITY;
  multiply(a, b, c);
  for (int64_t j = 0; j < 40; ++j) {
    EXPECT_TRUE(std::isnan(c.at(3, j)));
    EXPECT_TRUE(std::isnan(c.at(5, j)));
    EXPECT_FALSE(std::isnan(c.at(4, j)));
  }
}

/// Workers of loopback are threads.
TEST(BlasTest, ThreadsMultiplyAtTheSameTime) {
  std::vector<std::thread> threads;
  for (int64_t i = 0; i < 8; ++i)
    threads.emplace_back([i] {
      Order orders[] = {{false, 0}, {i % 2 == 0, 0}, {false, 0}};
      for (int repeat = 0; repeat < 5; ++repeat)
        check<float>(64 + i, 48, 96, orders);
    });
  for (std::thread &thread : threads)
    thread.join();
}

} // namespace
