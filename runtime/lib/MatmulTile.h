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
//   BLOCK_ROWS    rows of A, of so many summands, that the second cache keeps
//                 beside other things
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

/// Elements where C begins, or that are added to it at last: row i, column j is
/// from[i * row + j * column]. Zeros have a row of them, and no strides.
struct NAME(Elements) {
  const Real *from;
  int64_t row, column;
};

static const Real NAME(zeros)[COLUMNS];

/// A tile of C: c[i][j] = start[i][j], then += a[i][k] * b[k][j] for k in
/// order, then += end[i][j].
struct NAME(Tile) {
  int64_t depth; ///< summands
  const Real *a; ///< a[i][k] = a[i * aRow + k * aStep]
  int64_t aRow, aStep;
  const Real *b; ///< packed
  Real *c;       ///< rows are `stride` apart
  int64_t stride;
  const Real *start; ///< may be `c`
  int64_t startStride;
  const Real *end; ///< is added at last; may be null
  int64_t endStride;
  const Real *nextC;     ///< the next tile of C, to be fetched; may be `c`
  const Real *nextStart; ///< where that begins, if it is elsewhere
  /// What is packed next, to be fetched: two lines for each row of the tile,
  /// `nextStep` bytes apart. It may lie behind the matrix.
  uintptr_t next;
  uintptr_t nextStep;
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
                                     int64_t endColumn,
                                     const struct NAME(Tile) * of) {
  Real buffer[ROWS * COLUMNS] = {0};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      buffer[i * COLUMNS + j] =
          of->start[i * of->startStride + j * startColumn];
  struct NAME(Tile) tile = *of;
  tile.c = buffer;
  tile.start = tile.nextC = buffer;
  tile.nextStart = NULL;
  tile.stride = tile.startStride = COLUMNS;
  tile.end = NULL;
  NAME(tile)(rows, &tile);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      Real sum = buffer[i * COLUMNS + j];
      if (of->end)
        sum += of->end[i * of->endStride + j * endColumn];
      of->c[i * of->stride + j * columnStride] = sum;
    }
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

/// A block of A, a panel of B and a part of C: c = start + a * b + end.
struct NAME(Block) {
  int64_t rows, columns, depth;
  const Real *a; ///< packed if `aStep` is 0: row i is then at a + i * depth
  int64_t aRow, aStep;
  const Real *b; ///< packed
  Real *c;
  int64_t cRow, cColumn;
  struct NAME(Elements) start, end;
};

/// A panel of B that is packed next, in pieces of two lines, which are fetched
/// by the tiles before.
struct NAME(Next) {
  uintptr_t from;
  uintptr_t rowBytes; ///< from one row of pieces to the next
  int64_t perRow;     ///< pieces that follow each other
  int64_t pieces;
};

/// The panel behind the one at `from`, which may be behind the matrix.
static inline struct NAME(Next)
    NAME(nextPanel)(const Real *from, int64_t depth, int64_t rowStride,
                    int64_t columnStride) {
  enum { piece = 128 };
  bool isTransposed = rowStride == 1;
  int64_t rows = isTransposed ? COLUMNS : depth;
  int64_t bytes = (isTransposed ? depth : COLUMNS) * (int64_t)sizeof(Real);
  int64_t perRow = (bytes + piece - 1) / piece;
  int64_t stride = isTransposed ? columnStride : rowStride;
  return (struct NAME(Next)){
      (uintptr_t)from + (uintptr_t)(COLUMNS * columnStride) * sizeof(Real),
      (uintptr_t)stride * sizeof(Real), perRow, rows * perRow};
}

/// Computes some rows of a block, and fetches piece `piece` of the next panel
/// and those behind it.
TARGET static void NAME(blockTile)(const struct NAME(Block) * of,
                                   struct NAME(Rows) rows,
                                   const struct NAME(Next) * next,
                                   int64_t piece) {
  bool isPacked = of->aStep == 0;
  int64_t count = rows.end - rows.begin;
  struct NAME(Tile)
      tile = {.depth = of->depth,
              .a = of->a + rows.begin * (isPacked ? of->depth : of->aRow),
              .aRow = isPacked ? 1 : of->aRow,
              .aStep = isPacked ? count : of->aStep,
              .b = of->b,
              .c = of->c + rows.begin * of->cRow,
              .stride = of->cRow,
              .start = of->start.from + rows.begin * of->start.row,
              .startStride = of->start.row,
              .endStride = of->end.row};
  if (of->end.from)
    tile.end = of->end.from + rows.begin * of->end.row;
  bool isLast = rows.end + count > of->rows;
  tile.nextC = isLast ? tile.c : tile.c + count * of->cRow;
  if (tile.start != tile.c && of->start.row != 0 && !isLast)
    tile.nextStart = tile.start + count * of->start.row;
  tile.nextStep = next->perRow == 1 ? next->rowBytes : 128;
  tile.next = next->from + (uintptr_t)(piece / next->perRow) * next->rowBytes +
              (uintptr_t)(piece % next->perRow) * 128;
  if (of->columns == COLUMNS && of->cColumn == 1 &&
      (of->start.column == 1 || of->start.from == NAME(zeros)) &&
      (of->end.column == 1 || !tile.end))
    NAME(tile)(count, &tile);
  else
    NAME(partialTile)(count, of->columns, of->cColumn, of->start.column,
                      of->end.column, &tile);
}

/// Whether to pack A. Where its rows are contiguous, broadcasts of elements
/// read them as fast as packed ones, but for rows that are a multiple of 4096
/// bytes apart, of which the first cache keeps few. Columns are worth it if
/// enough panels of B read them.
static inline bool NAME(packsA)(const struct RtMatmul *of) {
  if (of->aRow != 1 && of->aColumn != 1)
    return true;
  int64_t stride = of->aRow == 1 ? of->aColumn : of->aRow;
  return (of->aRow == 1 && of->n > 8 * COLUMNS) ||
         stride * (int64_t)sizeof(Real) % 4096 == 0;
}

/// Packs a block of A tile by tile.
TARGET static void NAME(packBlock)(Real *to, const Real *a,
                                   const struct RtMatmul *of, int64_t rows,
                                   int64_t depth) {
  for (int64_t tile = 0; tile * ROWS < rows; ++tile) {
    struct NAME(Rows) part = NAME(rowsOf)(rows, ROWS, tile);
    NAME(packA)(to + part.begin * depth, a + part.begin * of->aRow, depth,
                part.end - part.begin, of->aRow, of->aColumn);
  }
}

/// Some summands of all of C: c = start + a * b + end.
struct NAME(Part) {
  struct NAME(Rows) k;
  Real *c;
  struct NAME(Elements) start, end;
  Real *packedA, *packedB; ///< room for a block of A and for a panel of B
  bool packsA;
};

/// The elements from row `i` and column `j` on, if there are any.
static inline struct NAME(Elements)
    NAME(elementsAt)(struct NAME(Elements) of, int64_t i, int64_t j) {
  if (of.from)
    of.from += i * of.row + j * of.column;
  return of;
}

/// Rows `rows` of a part. A panel of B is packed when all rows before it are
/// done, which have fetched it.
TARGET static void NAME(block)(const struct RtMatmul *of,
                               const struct NAME(Part) * part,
                               struct NAME(Rows) rows) {
  int64_t i = rows.begin, height = rows.end - i;
  int64_t depth = part->k.end - part->k.begin;
  int64_t tiles = (height + ROWS - 1) / ROWS;
  const Real *a =
      (const Real *)of->a + i * of->aRow + part->k.begin * of->aColumn;
  const Real *firstB = (const Real *)of->b + part->k.begin * of->bRow;
  struct NAME(Block) block = {.rows = height,
                              .depth = depth,
                              .a = part->packsA ? part->packedA : a,
                              .aRow = of->aRow,
                              .aStep = part->packsA ? 0 : of->aColumn,
                              .b = part->packedB,
                              .cRow = of->cRow,
                              .cColumn = of->cColumn};
  if (part->packsA)
    NAME(packBlock)(part->packedA, a, of, height, depth);
  for (int64_t j = 0; j < of->n; j += COLUMNS) {
    const Real *b = firstB + j * of->bColumn;
    block.columns = smaller(of->n - j, COLUMNS);
    NAME(packB)(part->packedB, b, depth, block.columns, of->bRow, of->bColumn);
    struct NAME(Next) next = NAME(nextPanel)(b, depth, of->bRow, of->bColumn);
    block.c = part->c + i * of->cRow + j * of->cColumn;
    block.start = NAME(elementsAt)(part->start, i, j);
    block.end = NAME(elementsAt)(part->end, i, j);
    for (int64_t tile = 0; tile < tiles; ++tile)
      NAME(blockTile)(&block, NAME(rowsOf)(height, ROWS, tile), &next,
                      tile * next.pieces / tiles);
  }
}

/// See Matmul.c for the loops. `packed` has room for a block of A, then a panel
/// of B. There are summands.
TARGET static void NAME(multiply)(const struct RtMatmul *of, void *packed) {
  struct NAME(Part) part = {.start = {of->start, of->startRow, of->startColumn},
                            .packedA = packed,
                            .packedB = (Real *)packed + BLOCK_ROWS * DEPTH,
                            .packsA = NAME(packsA)(of)};
  if (!of->start)
    part.start = (struct NAME(Elements)){NAME(zeros), 0, 0};
  for (int64_t step = 0; step * DEPTH < of->k; ++step) {
    part.k = NAME(rowsOf)(of->k, DEPTH, step);
    part.c = of->partial ? of->partial : of->c;
    if (part.k.end == of->k) {
      part.c = of->c;
      part.end = (struct NAME(Elements)){of->end, of->endRow, of->endColumn};
    }
    for (int64_t block = 0; block * BLOCK_ROWS < of->m; ++block)
      NAME(block)(of, &part, NAME(rowsOf)(of->m, BLOCK_ROWS, block));
    // The first summands begin at `start`, the others go on from there.
    part.start = (struct NAME(Elements)){part.c, of->cRow, of->cColumn};
  }
}

#undef EACH_HEIGHT
#undef NAME
#undef TARGET
#undef Real
#undef ROWS
#undef COLUMNS
#undef DEPTH
#undef BLOCK_ROWS
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
#undef ADD
