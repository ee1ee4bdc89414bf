/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Transposition between two layouts in memory. Small squares of elements are transposed in registers, in
 * tiles of one cache line by one cache line, so that each line is read and written once. It knows bytes and
 * strides, no dtype.
 */
#include "transpose.h"
#include "staging.h"

/* Bytes of a cache line, the side of a tile in both directions. */
#define LINE 64
/*
 * Bytes of the source's lines that a column of tiles covers. Where lines of the two sides are not aligned,
 * the lines it writes stay in the second-level cache until the next column of tiles completes them.
 */
#define STRIP 2048

/* Vectors of 16 bytes, which every level has: memory, not the shuffles, limits the speed. */
typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t words8 __attribute__((vector_size(16)));
typedef uint32_t words4 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));
typedef bytes16 loose __attribute__((aligned(1), may_alias));

#if defined(__clang__)
#define SHUFFLE(type, a, b, ...) (bytes16) __builtin_shufflevector((type)(a), (type)(b), __VA_ARGS__)
#else
#define SHUFFLE(type, a, b, ...) (bytes16) __builtin_shuffle((type)(a), (type)(b), (type){__VA_ARGS__})
#endif

/* Interleaves the lower halves of two vectors, or the upper ones. */
static inline __attribute__((always_inline)) bytes16 weave_low(bytes16 a, bytes16 b, int bytes)
{
    if (bytes == 1) return SHUFFLE(bytes16, a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    if (bytes == 2) return SHUFFLE(words8, a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    if (bytes == 4) return SHUFFLE(words4, a, b, 0, 4, 1, 5);
    return SHUFFLE(words2, a, b, 0, 2);
}
static inline __attribute__((always_inline)) bytes16 weave_high(bytes16 a, bytes16 b, int bytes)
{
    if (bytes == 1)
        return SHUFFLE(bytes16, a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    if (bytes == 2) return SHUFFLE(words8, a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    if (bytes == 4) return SHUFFLE(words4, a, b, 2, 6, 3, 7);
    return SHUFFLE(words2, a, b, 1, 3);
}

/*
 * Interleaves the first half of the vectors with the second; a square of `side` elements takes log2(side)
 * such steps.
 */
static inline __attribute__((always_inline)) void weave(bytes16 *v, int side, int bytes)
{
    bytes16 out[16];
    for (int i = 0; i < side / 2; i++) {
        out[2 * i] = weave_low(v[i], v[i + side / 2], bytes);
        out[2 * i + 1] = weave_high(v[i], v[i + side / 2], bytes);
    }
    for (int i = 0; i < side; i++) v[i] = out[i];
}

/* Transposes a square of `side` by `side` elements. */
static inline __attribute__((always_inline)) void turn(char *to, int64_t to_row, const char *from,
                                                       int64_t from_column, int side)
{
    bytes16 v[16];
    for (int i = 0; i < side; i++) v[i] = *(const loose *)(const void *)(from + i * from_column);
    for (int steps = 1; steps < side; steps *= 2) weave(v, side, 16 / side);
    for (int i = 0; i < side; i++) *(loose *)(void *)(to + i * to_row) = v[i];
}

/* The elements outside of whole squares, along the longer side. */
static void turn_edge(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t columns,
                      int64_t rows, int64_t bytes)
{
    if (columns > rows)
        for (int64_t r = 0; r < rows; r++)
            cpu_move(to + r * to_row, bytes, from + r * bytes, from_column, columns, bytes);
    else
        for (int64_t c = 0; c < columns; c++)
            cpu_move(to + c * bytes, to_row, from + c * from_column, bytes, rows, bytes);
}

/* A tile of at most LINE by LINE bytes. */
static inline __attribute__((always_inline)) void turn_tile(char *to, int64_t to_row, const char *from,
                                                            int64_t from_column, int64_t columns,
                                                            int64_t rows, const int side)
{
    const int bytes = 16 / side;
    int64_t whole_columns = columns / side * side, whole_rows = rows / side * side;
    for (int64_t r = 0; r < whole_rows; r += side)
        for (int64_t c = 0; c < whole_columns; c += side)
            turn(to + r * to_row + c * bytes, to_row, from + c * from_column + r * bytes, from_column, side);
    if (whole_columns < columns)
        turn_edge(to + whole_columns * bytes, to_row, from + whole_columns * from_column, from_column,
                  columns - whole_columns, rows, bytes);
    if (whole_rows < rows)
        turn_edge(to + whole_rows * to_row, to_row, from + whole_rows * bytes, from_column, whole_columns,
                  rows - whole_rows, bytes);
}

static inline __attribute__((always_inline)) void turn_strip(char *to, int64_t to_row, const char *from,
                                                             int64_t from_column, int64_t columns,
                                                             int64_t rows, const int side)
{
    const int bytes = 16 / side;
    const int64_t tile = LINE / bytes;
    for (int64_t c = 0; c < columns; c += tile)
        for (int64_t r = 0; r < rows; r += tile)
            turn_tile(to + r * to_row + c * bytes, to_row, from + c * from_column + r * bytes, from_column,
                      columns - c < tile ? columns - c : tile, rows - r < tile ? rows - r : tile, side);
}

void cpu_transpose(char *to, int64_t to_row, const char *from, int64_t from_column, int64_t columns,
                   int64_t rows, int64_t bytes)
{
    const int64_t strip = STRIP / bytes;
    int64_t side = 16 / bytes;
    for (int64_t done = 0; done < rows; done += strip) {
        int64_t n = rows - done < strip ? rows - done : strip;
        char *o = to + done * to_row;
        const char *a = from + done * bytes;
        if (columns < side || n < side)
            turn_edge(o, to_row, a, from_column, columns, n, bytes);
        else if (side == 16)
            turn_strip(o, to_row, a, from_column, columns, n, 16);
        else if (side == 8)
            turn_strip(o, to_row, a, from_column, columns, n, 8);
        else if (side == 4)
            turn_strip(o, to_row, a, from_column, columns, n, 4);
        else if (side == 2)
            turn_strip(o, to_row, a, from_column, columns, n, 2);
        else
            turn_strip(o, to_row, a, from_column, columns, n, 1);
    }
}
