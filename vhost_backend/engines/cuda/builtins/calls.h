/* Parameters of kernels, which planners fill in: the same for C and CUDA C. Addresses are those of device memory. */
#ifndef CUDA_BUILTINS_CALLS_H
#define CUDA_BUILTINS_CALLS_H

typedef unsigned long long u64;
typedef long long i64;
typedef unsigned int u32;
typedef int i32;

enum {
    THREADS = 256, /* of a block */
    AXES = 4,
};

/* Status words, which kernels write when a call fails. 0: it did not. */
enum {
    NO_BIN = 1,
    WRONG_ROW = 2,
    WRONG_COLUMN = 3,
    NO_ITEM = 4,
};

/* ---- math ----------------------------------------------------------------------------------------------------- */

/* Operations of kernels that have several: they take less time than loading elements does. */
enum math_operation {
    MATH_ADD,
    MATH_SUBTRACT,
    MATH_MULTIPLY,
    MATH_MAXIMUM,
    MATH_MINIMUM,
    MATH_EQUAL,
    MATH_NOT_EQUAL,
    MATH_LESS,
    MATH_LESS_EQUAL,
    MATH_NEGATIVE,
    MATH_ABSOLUTE,
    MATH_SQUARE,
    MATH_SIGN,
    MATH_SQRT,
    MATH_RECIPROCAL,
    MATH_FLOOR,
    MATH_CEIL,
    MATH_RINT,
    MATH_TRUNC,
    MATH_DIVIDE,
    MATH_CONJUGATE,
    MATH_ANGLE,
};

enum { MATH_INPUTS = 3 };

/* Elements `count`, whose places follow from axes, the innermost first. */
struct math_call {
    u64 count;
    u64 length[AXES];
    u64 strides[MATH_INPUTS][AXES]; /* of each input; 0 for those that there are not */
    u64 inputs[MATH_INPUTS];        /* a and b; of where: condition, a and b */
    u64 out;
    u32 rank;      /* axes that are used, 1 or more */
    u32 operation; /* enum math_operation; of conversions: the type of out, as requests number it */
};

/* ---- reduce, and sums of products ------------------------------------------------------------------------------- */

/* Threads of a block for an array (outer, n, inner): each has a column, and some of the terms of a row. All three are
 * powers of two, whose product is THREADS. */
struct fold_shape {
    u32 columns; /* threads along inner */
    u32 lanes;   /* threads along n, whose folds are folded */
    u32 rows;    /* threads along outer */
    u32 pieces;  /* of n, each of which another block folds */
    u64 piece;   /* terms of a piece */
    u64 outer, n, inner;
    u64 tiles; /* blocks of all results: (row tiles, column tiles) */
};

struct reduce_call {
    struct fold_shape shape;
    u64 in, out;
    u32 reads_parts;  /* 1: in has folds of pieces */
    u32 writes_parts; /* 1: out is (pieces, outer, inner) of folds */
};

/* ---- scan ------------------------------------------------------------------------------------------------------- */

enum {
    SCAN_ITEMS = 8, /* elements of a thread */
    SCAN_TILE = THREADS * SCAN_ITEMS,
};

struct scan_call {
    u64 in, out;
    u64 before; /* (outer, tiles): folds of tiles, then of all tiles before; 0: rows have one tile */
    u64 outer, n;
    u64 tiles;     /* of a row */
    u32 lanes;     /* threads of a row; THREADS if rows have several tiles */
    u32 exclusive; /* 1: without the element itself */
};

/* ---- count ------------------------------------------------------------------------------------------------------ */

struct count_call {
    u64 in, n;
    u64 counts, bins;
    u64 status;
    double low, high, step; /* of histograms: edge i is low + i * step */
    u32 has_tables;         /* 1: each block counts in shared memory */
};

/* ---- random ----------------------------------------------------------------------------------------------------- */

struct random_call {
    u64 out, n;
    u64 seed, offset;
    double mean, deviation;
};

/* ---- select ----------------------------------------------------------------------------------------------------- */

struct nonzero_call {
    u64 in, n, out, count;
    u64 counts;      /* (parts): elements that are true, then those of all parts before */
    u64 part, parts; /* elements of a part, which a block takes */
};

struct take_call {
    u64 in, n;
    u64 indices, num_indices, out;
    u64 units; /* of an item */
    u64 status;
    u32 unit_bytes; /* 1, 2, 4 or 8 */
};

/* ---- sparse ----------------------------------------------------------------------------------------------------- */

struct spmv_call {
    u64 rows, columns, nonzeros;
    u64 row_starts, indices, values, x, y;
    u64 status;
    double alpha, beta;
    u32 lanes; /* threads of a row, a power of two up to 32 */
};

/* ---- blas ------------------------------------------------------------------------------------------------------- */

struct vector_call {
    u64 n, x, y;
    u64 incx, incy;
    double alpha;
};

/* Folds of products, and what becomes of them: y = alpha * fold + beta * y, with alpha = 1 and beta = 0 for dot. */
struct product_call {
    struct fold_shape shape; /* outer * inner results, one of which is 1 */
    u64 a, x, y;
    u64 a_result, a_term; /* elements from one result or one term of a to the next */
    u64 incx, incy;
    double alpha, beta;
    u64 parts; /* (pieces, results) of folds; 0: there is one piece */
    u32 reads_parts;
};

/* ---- products of matrices --------------------------------------------------------------------------------------- */

enum {
    TILE = 64, /* rows and columns of the tiles of results */
    LARGE_TILE = 128,
};

/* Products of matrices (m, k) and (k, n), cut into tiles of results and, if these are few, pieces of k. */
struct tile_shape {
    u64 m, n, k;
    u64 batch;
    u64 row_tiles, column_tiles;
    u64 pieces, piece; /* number of pieces; terms of each */
    u64 parts;         /* (pieces, batch, m, n) of sums; 0: there is one piece */
};

struct gemm_call {
    struct tile_shape shape;
    u64 a, b, c;
    u64 a_row, a_term, b_term, b_column, c_row; /* elements from one to the next */
    u64 a_matrix, b_matrix, c_matrix;
    double alpha, beta;
};

/* ---- conv ------------------------------------------------------------------------------------------------------- */

/* A product of the filters of a group, as a matrix, and of the pixels below them: (channels * kernel_h * kernel_w,
 * batch * out_h * out_w). */
struct conv_call {
    struct tile_shape shape;
    u64 x, weights, y;
    u32 kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
    u64 height, width, out_w, pixels; /* pixels: of a result */
    u64 channels;                     /* of a group */
    u64 groups;
};

/* ---- sort ------------------------------------------------------------------------------------------------------- */

enum {
    SORT_ITEMS = 8, /* elements of a thread */
    SORT_TILE = THREADS * SORT_ITEMS,
    DIGITS = 256, /* of a pass, which sorts by eight bits */
};

/* Keys are sorted as unsigned integers of the same order ("bits"). */
struct sort_call {
    u64 in, out;             /* keys, and what comes of them: keys, positions or unique keys */
    u64 values, values_out;  /* 0: nothing to move */
    u64 bits, next_bits;     /* (outer, n), before and behind a pass */
    u64 places, next_places; /* positions of the bits in their rows; 0: nobody wants them */
    u64 counts;              /* (outer, DIGITS, parts): numbers of digits, then of all elements before */
    u64 count;               /* number of unique keys */
    u64 outer, n;
    u64 part, parts; /* elements that a block moves, a multiple of SORT_TILE; parts of a row */
    u32 shift;       /* of the digit */
    u32 descending;
    u32 place_bytes; /* 4 or 8 */
    u32 value_bytes;
    u32 gives_positions; /* 1: out has positions */
    u32 joins_zeros;     /* 1: -0.0 and 0.0 are equal, and stay in order */
};

/* ---- fft -------------------------------------------------------------------------------------------------------- */

enum {
    FFT_BYTES =
        16384, /* of complex numbers that a block transforms in shared memory, which has room for twice as many */
    FFT_FACTORS = 12, /* most factors of their number */
};

/* Lines along the axis `length` of (outer, length, inner). */
struct fft_lines {
    u64 outer, length, inner;
};

/* Transforms whole lines in shared memory. */
struct fft_lines_call {
    u64 in, out;
    struct fft_lines lines;
    double scale;  /* factor of the result */
    u32 per_block; /* lines that blocks transform side by side */
    u32 inverse;
    u32 num_factors;
    u32 factors[FFT_FACTORS];
};

/* One pass over all lines, for one factor of their length [Stockham's algorithm]. */
struct fft_pass_call {
    u64 in, out;
    struct fft_lines lines;
    u64 done;     /* product of the factors before */
    double scale; /* factor of the result */
    u32 inverse;
};

/* Transforms of any length as convolutions of a longer one [Bluestein's algorithm]; also products of complex arrays. */
struct fft_chirp_call {
    u64 in, out;
    struct fft_lines lines;
    u64 padded; /* length of the convolution */
    double scale;
    u32 inverse;
};

/* Rows of `length` real numbers, or of half as many complex ones, plus one, or of `length` complex ones. */
struct fft_rows_call {
    u64 in, out;
    u64 outer, length;
};

/* Halves of (rows, length), where rows are those of arrays (..., lengths[0], lengths[1]). */
struct fft_hermitian_call {
    u64 in, out;
    u64 rows, length;
    u64 lengths[2]; /* 1 for axes that there are not */
    double scale;   /* factor of the result */
};

#endif
