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
//   EACH_HEIGHT   EACH_HEIGHT(DO) is DO(1) DO(2) .. DO(ROWS)
//   CODE_OF_TILE  CODE_OF_TILE(rows, AT) computes the tile `of`, below, of so
//                 many rows; row i of A is at a[AT(i)]
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

/// A tile of C: c[i][j] = start[i][j], then += a[i][k] * b[k][j] for k in
/// order.
struct NAME(Tile) {
  int64_t depth; ///< summands
  const Real *a; ///< a[i][k] = a[i * aRow + k * aStep]
  int64_t aRow, aStep;
  const Real *b; ///< packed
  Real *c;       ///< rows are `stride` apart
  int64_t stride;
  const Real *start; ///< may be `c`
  int64_t startStride;
  const Real *nextC; ///< the next tile of C, to be fetched; may be `c`
};

// Tiles of each height, whose rows of A follow each other, or do not.
#define TOGETHER(i) i
#define APART(i) (i) * aRow
#define DEFINE_TILES(rows)                                                     \
  TARGET static void NAME(tile##rows)(const struct NAME(Tile) * of){           \
      CODE_OF_TILE(rows, TOGETHER)} TARGET static void                         \
      NAME(tileApart##rows)(const struct NAME(Tile) * of) {                    \
    CODE_OF_TILE(rows, APART)                                                  \
  }
EACH_HEIGHT(DEFINE_TILES)

/// Computes a tile of 1 to ROWS rows.
static inline void NAME(tile)(int64_t rows, const struct NAME(Tile) * of) {
  typedef void (*Compute)(const struct NAME(Tile) *);
#define NAME_TILE(rows) NAME(tile##rows),
#define NAME_TILE_APART(rows) NAME(tileApart##rows),
  static const Compute computes[2][ROWS] = {{EACH_HEIGHT(NAME_TILE)},
                                            {EACH_HEIGHT(NAME_TILE_APART)}};
  computes[of->aRow != 1][rows - 1](of);
}

/// Fetches what is packed next, which may lie behind the matrix.
static inline void NAME(fetch)(const Real *from, int64_t ahead) {
  uintptr_t address = (uintptr_t)from + (uintptr_t)ahead * sizeof(Real);
  __builtin_prefetch((const void *)address, 0, 2);
}

/// Packs `count` columns of 16 rows. Row k, column j is from[k + j * stride].
TARGET static inline __attribute__((always_inline)) void
NAME(packSquares)(Real *to, const Real *from, int64_t count, int64_t width,
                  int64_t stride) {
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

/// Copies up to ROWS elements, more than four of them by vectors that overlap.
TARGET static inline __attribute__((always_inline)) void
NAME(copyRow)(Real *to, const Real *from, int64_t count) {
  enum { most = 8, least = 4 };
  if (count >= most) {
    memcpy(to, from, most * sizeof(Real));
    memcpy(to + count - most, from + count - most, most * sizeof(Real));
  } else if (count >= least) {
    memcpy(to, from, least * sizeof(Real));
    memcpy(to + count - least, from + count - least, least * sizeof(Real));
  } else {
    for (int64_t i = 0; i < count; ++i)
      to[i] = from[i];
  }
}

/// Packs `count` (up to `width`) columns of `depth` rows, row by row, `width`
/// elements apart. Row k, column j is from[k * rowStride + j * columnStride].
/// Reads along whichever stride is 1.
TARGET static inline __attribute__((always_inline)) void
NAME(packPanel)(Real *to, const Real *from, int64_t depth, int64_t count,
                int64_t width, int64_t rowStride, int64_t columnStride) {
  // Few rows at a time, so that what is written stays in the first cache.
  int64_t begin = 0;
  if (rowStride == 1)
    for (; begin + 16 <= depth; begin += 16) {
      NAME(packSquares)(to + begin * width, from + begin, count, width,
                        columnStride);
    }
  for (; begin < depth; begin += 16) {
    int64_t end = smaller(begin + 16, depth);
    for (int64_t j = 0; j < count; ++j)
      for (int64_t k = begin; k < end; ++k)
        to[k * width + j] = from[k * rowStride + j * columnStride];
  }
}

/// Packs up to ROWS rows of A.
TARGET static void NAME(packA)(Real *to, const Real *a, int64_t depth,
                               int64_t rows, int64_t rowStride,
                               int64_t columnStride) {
  if (rowStride != 1)
    NAME(packPanel)(to, a, depth, rows, rows, columnStride, rowStride);
  else
    for (int64_t k = 0; k < depth; ++k) {
      NAME(fetch)(a + k * columnStride, 2 * rows);
      NAME(copyRow)(to + k * rows, a + k * columnStride, rows);
    }
}

/// Packs up to COLUMNS columns of B, with zeros behind them.
TARGET static void NAME(packB)(Real *to, const Real *b, int64_t depth,
                               int64_t columns, int64_t rowStride,
                               int64_t columnStride) {
  if (columns < COLUMNS)
    memset(to, 0, (size_t)(depth * COLUMNS) * sizeof(Real));
  else if (columnStride == 1) {
    for (int64_t k = 0; k < depth; ++k) {
      NAME(fetch)(b + k * rowStride, COLUMNS);
      NAME(fetch)(b + k * rowStride, COLUMNS + COLUMNS / 2);
      memcpy(to + k * COLUMNS, b + k * rowStride, COLUMNS * sizeof(Real));
    }
    return;
  }
  NAME(packPanel)(to, b, depth, columns, COLUMNS, rowStride, columnStride);
}

/// A tile of which only `columns` belong to C, or whose rows are not contiguous
/// in C or where it begins, is computed in a buffer.
TARGET static void NAME(partialTile)(int64_t rows, int64_t columns,
                                     int64_t columnStride, int64_t startColumn,
                                     const struct NAME(Tile) * of) {
  Real buffer[ROWS * COLUMNS] = {0};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      buffer[i * COLUMNS + j] =
          of->start[i * of->startStride + j * startColumn];
  struct NAME(Tile) tile = *of;
  tile.c = buffer;
  tile.start = tile.nextC = buffer;
  tile.stride = tile.startStride = COLUMNS;
  NAME(tile)(rows, &tile);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      of->c[i * of->stride + j * columnStride] = buffer[i * COLUMNS + j];
}

/// Rows `begin` to `end` of A.
struct NAME(Rows) {
  int64_t begin, end;
};

/// Part `part` of rows or summands in parts of nearly equal size, of which none
/// has more than `most`, so that none is short.
static inline struct NAME(Rows)
    NAME(rowsOf)(int64_t size, int64_t most, int64_t part) {
  int64_t parts = (size + most - 1) / most;
  return (struct NAME(Rows)){part * size / parts, (part + 1) * size / parts};
}

/// A block of A, of B and of C: c = start + a * b.
struct NAME(Block) {
  int64_t rows, columns, depth;
  const Real *a; ///< packed if `aStep` is 0: row i is then at a + i * depth
  int64_t aRow, aStep;
  const Real *b; ///< packed
  Real *c;
  int64_t cRow, cColumn;
  struct NAME(Start) start;
};

/// The tile of some rows at column `j`.
TARGET static void NAME(blockTile)(const struct NAME(Block) * of,
                                   struct NAME(Rows) rows, int64_t j) {
  bool isPacked = of->aStep == 0;
  int64_t count = rows.end - rows.begin;
  int64_t columns = smaller(of->columns - j, COLUMNS);
  struct NAME(Tile)
      tile = {.depth = of->depth,
              .a = of->a + rows.begin * (isPacked ? of->depth : of->aRow),
              .aRow = isPacked ? 1 : of->aRow,
              .aStep = isPacked ? count : of->aStep,
              .b = of->b + j * of->depth,
              .c = of->c + rows.begin * of->cRow + j * of->cColumn,
              .stride = of->cRow,
              .start = of->start.from + rows.begin * of->start.row +
                       j * of->start.column,
              .startStride = of->start.row};
  bool isLast = rows.end + count > of->rows;
  tile.nextC = isLast ? tile.c : tile.c + count * of->cRow;
  if (columns == COLUMNS && of->cColumn == 1 &&
      (of->start.column == 1 || of->start.from == NAME(zeros)))
    NAME(tile)(count, &tile);
  else
    NAME(partialTile)(count, columns, of->cColumn, of->start.column, &tile);
}

/// Computes a block, for which there is room for packed rows of A.
TARGET static void NAME(block)(struct NAME(Block) of, bool packs,
                               Real *packedA) {
  int64_t tiles = (of.rows + ROWS - 1) / ROWS;
  if (packs) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      struct NAME(Rows) rows = NAME(rowsOf)(of.rows, ROWS, tile);
      NAME(packA)(packedA + rows.begin * of.depth, of.a + rows.begin * of.aRow,
                  of.depth, rows.end - rows.begin, of.aRow, of.aStep);
    }
    of.a = packedA;
    of.aStep = 0;
  }
  for (int64_t j = 0; j < of.columns; j += COLUMNS)
    for (int64_t tile = 0; tile < tiles; ++tile)
      NAME(blockTile)(&of, NAME(rowsOf)(of.rows, ROWS, tile), j);
}

/// Whether to pack A: it is read once for each panel of B, and the first cache
/// keeps few lines that are a multiple of 4096 bytes apart.
static inline bool NAME(packsA)(const struct RtMatmul *of) {
  int64_t stride = of->aRow == 1 ? of->aColumn : of->aRow;
  return of->n > 8 * COLUMNS || (of->aRow != 1 && of->aColumn != 1) ||
         stride * (int64_t)sizeof(Real) % 4096 == 0;
}

/// See Matmul.c for the loops. `packed` has room for a block of A, then one of
/// B. There are summands.
TARGET static void NAME(multiply)(const struct RtMatmul *of, void *packed) {
  const Real *a = of->a, *b = of->b;
  Real *c = of->c;
  Real *packedA = packed, *packedB = packedA + BLOCK_ROWS * DEPTH;
  bool packs = NAME(packsA)(of);
  for (int64_t j = 0; j < of->n; j += BLOCK_COLUMNS) {
    int64_t columns = smaller(of->n - j, BLOCK_COLUMNS);
    // The first part begins at `start`, the others go on from C.
    struct NAME(Start) start = {of->start, of->startRow, of->startColumn};
    if (!of->start)
      start = (struct NAME(Start)){NAME(zeros), 0, 0};
    for (int64_t part = 0; part * DEPTH < of->k; ++part) {
      struct NAME(Rows) k = NAME(rowsOf)(of->k, DEPTH, part);
      int64_t depth = k.end - k.begin;
      for (int64_t l = 0; l < columns; l += COLUMNS)
        NAME(packB)(packedB + l * depth,
                    b + k.begin * of->bRow + (j + l) * of->bColumn, depth,
                    smaller(columns - l, COLUMNS), of->bRow, of->bColumn);
      for (int64_t block = 0; block * BLOCK_ROWS < of->m; ++block) {
        struct NAME(Rows) rows = NAME(rowsOf)(of->m, BLOCK_ROWS, block);
        int64_t i = rows.begin;
        struct NAME(Block)
            blocks = {.rows = rows.end - i,
                      .columns = columns,
                      .depth = depth,
                      .a = a + i * of->aRow + k.begin * of->aColumn,
                      .aRow = of->aRow,
                      .aStep = of->aColumn,
                      .b = packedB,
                      .c = c + i * of->cRow + j * of->cColumn,
                      .cRow = of->cRow,
                      .cColumn = of->cColumn,
                      .start = {start.from + i * start.row + j * start.column,
                                start.row, start.column}};
        NAME(block)(blocks, packs, packedA);
      }
      start = (struct NAME(Start)){c, of->cRow, of->cColumn};
    }
  }
}

#undef EACH_HEIGHT
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
