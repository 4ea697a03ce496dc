//===- MatmulTile.h - A matrix product for one type and processor -*- C -*-===//
//
// Part of PipeSched, under the Apache License v2.0 with LLVM Exceptions.
// See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matmul.c includes this file once for each type of element and each kind of
// processor. It defines
//
//   NAME(x)       the name of a function for this pair
//   TARGET        attribute that lets the compiler use the instructions
//   Real          type of an element
//   ROWS, COLUMNS a tile of C, which fits into registers
//   DEPTH         summands that a tile adds in one go
//   CODE_OF_TILE  body of `tile`, below
//
// and may define
//
//   SQUARE        a divisor of 16, and
//   TRANSPOSE     a function that transposes a square of so many elements
//
// NAME(multiply) is the result.
//
//===----------------------------------------------------------------------===//

/// Elements where C begins: row i, column j is from[i * row + j * column].
/// Zeros have a row of them, and no strides.
struct NAME(Start) {
  const Real *from;
  int64_t row, column;
};

static const Real NAME(zeros)[COLUMNS];

/// c[i][j] = start[i][j], then += a[k][i] * b[k][j] for k in order. `a` and `b`
/// are packed; rows of `c` are `stride` elements apart, those of `start`, which
/// may be `c`, `startStride`.
TARGET static void NAME(tile)(int64_t depth, const Real *a, const Real *b,
                              Real *c, int64_t stride, const Real *start,
                              int64_t startStride){CODE_OF_TILE}

/// Packs `count` columns of 16 rows. Row k, column j is from[k + j * stride].
TARGET static inline __attribute__((always_inline)) void NAME(packSquares)(
    Real *to, const Real *from, int64_t count, int64_t width, int64_t stride) {
  int64_t done = 0;
#ifdef SQUARE
  // The last square may begin inside of the one before.
  for (; done < count && count >= SQUARE; done += SQUARE) {
    int64_t j = smaller(done, count - SQUARE);
    for (int64_t k = 0; k < 16; k += SQUARE)
      TRANSPOSE(to + k * width + j, width, from + k + j * stride, stride);
  }
#endif
  for (int64_t j = done; j < count; ++j)
    for (int64_t k = 0; k < 16; ++k)
      to[k * width + j] = from[k + j * stride];
}

/// Packs `count` (up to `width`) columns of `depth` rows, row by row, with
/// zeros behind each row. Row k, column j is from[k * rowStride + j *
/// columnStride]. Reads along whichever stride is 1.
TARGET static inline __attribute__((always_inline)) void
NAME(packPanel)(Real *to, const Real *from, int64_t depth, int64_t count,
                int64_t width, int64_t rowStride, int64_t columnStride) {
  if (count < width)
    memset(to, 0, (size_t)(depth * width) * sizeof(Real));
  if (columnStride == 1 && count == width) {
    for (int64_t k = 0; k < depth; ++k)
      memcpy(to + k * width, from + k * rowStride,
             (size_t)width * sizeof(Real));
    return;
  }
  // Few rows at a time, so that what is written stays in the first cache.
  int64_t begin = 0;
  if (rowStride == 1)
    for (; begin + 16 <= depth; begin += 16)
      NAME(packSquares)(to + begin * width, from + begin, count, width,
                        columnStride);
  for (; begin < depth; begin += 16) {
    int64_t end = smaller(begin + 16, depth);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t k = begin; k < end; ++k)
        to[k * width + j] = from[k * rowStride + j * columnStride];
  }
}

/// Packs a block of B as panels of COLUMNS, of which several are written at a
/// time where that reads longer rows.
TARGET static void NAME(packB)(Real *to, const Real *b, int64_t depth,
                               int64_t columns, int64_t rowStride,
                               int64_t columnStride) {
  enum { panels = 4 };
  int64_t j = 0;
  if (columnStride == 1)
    for (; j + panels * COLUMNS <= columns; j += panels * COLUMNS)
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t panel = 0; panel < panels; ++panel) {
          int64_t first = j + panel * COLUMNS;
          memcpy(to + first * depth + k * COLUMNS, b + k * rowStride + first,
                 COLUMNS * sizeof(Real));
        }
  for (; j < columns; j += COLUMNS)
    NAME(packPanel)(to + j * depth, b + j * columnStride, depth,
                    smaller(columns - j, COLUMNS), COLUMNS, rowStride,
                    columnStride);
}

/// A tile of which only `rows` x `columns` elements belong to C, or whose rows
/// are not contiguous, is computed in a buffer.
TARGET static void NAME(partialTile)(int64_t depth, const Real *a,
                                     const Real *b, Real *c, int64_t rows,
                                     int64_t columns, int64_t rowStride,
                                     int64_t columnStride,
                                     struct NAME(Start) start) {
  Real buffer[ROWS * COLUMNS] = {0};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      buffer[i * COLUMNS + j] = start.from[i * start.row + j * start.column];
  NAME(tile)(depth, a, b, buffer, COLUMNS, buffer, COLUMNS);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      c[i * rowStride + j * columnStride] = buffer[i * COLUMNS + j];
}

/// The product of a packed block of A and a packed block of B.
TARGET static void NAME(block)(int64_t m, int64_t n, int64_t depth,
                               const Real *a, const Real *b, Real *c,
                               int64_t rowStride, int64_t columnStride,
                               struct NAME(Start) start) {
  bool inRows =
      columnStride == 1 && (start.column == 1 || start.from == NAME(zeros));
  for (int64_t j = 0; j < n; j += COLUMNS)
    for (int64_t i = 0; i < m; i += ROWS) {
      int64_t rows = m - i < ROWS ? m - i : ROWS;
      int64_t columns = n - j < COLUMNS ? n - j : COLUMNS;
      Real *to = c + i * rowStride + j * columnStride;
      // Rows of C lie far apart: fetch those of the next tile.
      if (i + ROWS < m)
        for (int64_t row = ROWS; row < smaller(2 * ROWS, m - i); ++row) {
          __builtin_prefetch(to + row * rowStride, 1);
          __builtin_prefetch(to + row * rowStride + COLUMNS - 1, 1);
        }
      const Real *left = a + i * depth, *right = b + j * depth;
      struct NAME(Start) begin = {start.from + i * start.row + j * start.column,
                                  start.row, start.column};
      if (rows == ROWS && columns == COLUMNS && inRows)
        NAME(tile)(depth, left, right, to, rowStride, begin.from, begin.row);
      else
        NAME(partialTile)(depth, left, right, to, rows, columns, rowStride,
                          columnStride, begin);
    }
}

/// See Matmul.c for the loops. `packed` has room for a block of A, then one of
/// B. There are summands.
TARGET static void NAME(multiply)(const struct RtMatmul *of, void *packed) {
  const Real *a = of->a, *b = of->b;
  Real *c = of->c;
  Real *packedA = packed, *packedB = packedA + BLOCK_ROWS(ROWS) * DEPTH;
  // Parts and blocks of equal size, so that none is short.
  int64_t parts = (of->k + DEPTH - 1) / DEPTH;
  int64_t part = (of->k + parts - 1) / parts;
  int64_t tiles = (of->m + ROWS - 1) / ROWS;
  int64_t blocks = (of->m + BLOCK_ROWS(ROWS) - 1) / BLOCK_ROWS(ROWS);
  int64_t blockRows = blocks ? (tiles + blocks - 1) / blocks * ROWS : ROWS;
  for (int64_t j = 0; j < of->n; j += BLOCK_COLUMNS(COLUMNS)) {
    int64_t columns = smaller(of->n - j, BLOCK_COLUMNS(COLUMNS));
    // The first part begins at `start`, the others go on from C.
    struct NAME(Start) start = {of->start, of->startRow, of->startColumn};
    if (!of->start)
      start = (struct NAME(Start)){NAME(zeros), 0, 0};
    for (int64_t k = 0; k < of->k; k += part) {
      int64_t depth = smaller(of->k - k, part);
      NAME(packB)(packedB, b + k * of->bRow + j * of->bColumn, depth, columns,
                  of->bRow, of->bColumn);
      for (int64_t i = 0; i < of->m; i += blockRows) {
        int64_t rows = smaller(of->m - i, blockRows);
        for (int64_t l = 0; l < rows; l += ROWS)
          NAME(packPanel)(packedA + l * depth,
                          a + (i + l) * of->aRow + k * of->aColumn, depth,
                          smaller(rows - l, ROWS), ROWS, of->aColumn, of->aRow);
        struct NAME(Start) begin = start;
        begin.from += i * start.row + j * start.column;
        NAME(block)(rows, columns, depth, packedA, packedB,
                    c + i * of->cRow + j * of->cColumn, of->cRow, of->cColumn,
                    begin);
      }
      start = (struct NAME(Start)){c, of->cRow, of->cColumn};
    }
  }
}

#undef NAME
#undef TARGET
#undef Real
#undef ROWS
#undef COLUMNS
#undef DEPTH
#undef CODE_OF_TILE
// What CODE_OF_TILE is made of, where that is vectors.
#undef SQUARE
#undef TRANSPOSE
#undef LANES
#undef Vector
#undef LOAD
#undef STORE
#undef SPLAT
#undef FMA
