/* Products of matrices: C = alpha op(A) op(B) + beta C, all by columns.
 *
 * Large ones: op(A) is first laid out in panels, which `product` reads from one end to the other; op(B)
 * is read where it lies, or laid out likewise if its numbers are of another type. A thread of `product` has one row and
 * a few columns: so the accumulators of a row of threads fit into the registers of a processor with vectors. Small ones
 * are computed by `product_of_small`, element by element, without a copy. */
#pragma once
#include "context.h"
#include "host.h"

namespace blas
{

constexpr int PANEL_ROWS = 4;               /* rows of threads in a block of `product` */
constexpr i64 SMALL = 64 * 64 * 16;         /* products of fewer terms are small */
constexpr size_t MOST_PACKED = 24ull << 20; /* bytes of panels at a time */

/* Rows of a panel, as measured: with four columns, their sums about fill half of a processor's vectors. */
template <class T> constexpr int panel = sizeof(T) == 16 ? 32 : 256 / sizeof(T);

constexpr i64 MOST_SCATTERED = 1 << 20; /* bytes that a transposed B may span to be read where it lies */

/* One matrix, or a batch of them: by a table of pointers, or `jump` elements apart. */
template <class T> struct batch {
    T *first;
    T *const *table;
    i64 jump;
    __host__ __device__ T *operator[](i64 z) const
    {
        return table ? table[z] : first + z * jump;
    }
};
template <class T> static inline batch<typename inside<T>::type> one_of(T *first)
{
    return {in(first), nullptr, 0};
}
template <class T> static inline batch<const typename inside<T>::type> one_of(const T *first)
{
    return {in(first), nullptr, 0};
}
template <class T> static inline batch<typename inside<T>::type> table_of(T *const table[])
{
    return {nullptr, (typename inside<T>::type *const *)table, 0};
}
template <class T> static inline batch<const typename inside<T>::type> table_of(const T *const table[])
{
    return {nullptr, (const typename inside<T>::type *const *)table, 0};
}
/* op(M): element (i, p) lies i * row + p * column behind the first. */
template <class T> struct operand {
    batch<const T> matrix;
    i64 row, column;
    bool conjugates;
};

template <class T> static inline operand<T> operand_of(cublasOperation_t op, batch<const T> matrix, i64 ld)
{
    const bool is_turned = op == CUBLAS_OP_T || op == CUBLAS_OP_C;
    return {matrix, is_turned ? ld : 1, is_turned ? 1 : ld, op == CUBLAS_OP_C || op == CUBLAS_OP_CONJG};
}

template <class Sum, class In> struct widen {
    static __device__ Sum from(In x)
    {
        return (Sum)x;
    }
};
template <class R, class In> struct widen<complex<R>, complex<In>> {
    static __device__ complex<R> from(complex<In> x)
    {
        return {(R)x.x, (R)x.y};
    }
};

template <class T> __device__ inline void add_product(T &sum, T a, T b)
{
    sum += a * b;
}
template <class R> __device__ inline void add_product(complex<R> &sum, complex<R> a, complex<R> b)
{
    sum.x += a.x * b.x - a.y * b.y;
    sum.y += a.x * b.y + a.y * b.x;
}

/* Part of C that is written: all, or one triangle, whose diagonal may have to be real. */
enum kept { ALL, LOWER, UPPER, LOWER_HERMITIAN, UPPER_HERMITIAN };
__device__ inline bool keeps(kept part, i64 i, i64 j)
{
    return part == ALL || (part == LOWER || part == LOWER_HERMITIAN ? i >= j : i <= j);
}

/* Whether nothing is kept of this many rows and columns. */
__device__ inline bool is_outside(kept part, i64 row, i64 rows, i64 column, i64 columns)
{
    if (part == ALL)
        return false;
    return part == LOWER || part == LOWER_HERMITIAN ? row + rows <= column : column + columns <= row;
}

template <class Scale, class Out, class Sum>
__device__ inline void put(Out &to, Sum sum, Scale alpha, Scale beta, bool reads, bool makes_real)
{
    Scale result = alpha == zero<Scale>() ? alpha : alpha * widen<Scale, Sum>::from(sum);
    if (reads)
        result += beta * widen<Scale, Out>::from(to);
    to = widen<Out, Scale>::from(makes_real ? real_part(result) : result);
}

/* Lays `length` rows of op(M) out in panels, each column behind the other. Missing rows are 0. */
template <class Sum, class Read>
__global__ void __launch_bounds__(panel<Sum> *PANEL_ROWS) pack(i64 rows, i64 columns, Read read, i64 z, Sum *to)
{
    const i64 i = (i64)blockIdx.x * panel<Sum> + threadIdx.x;
    for (i64 p = (i64)blockIdx.y * PANEL_ROWS + threadIdx.y; p < columns; p += (i64)gridDim.y * PANEL_ROWS)
        to[((i64)blockIdx.x * columns + p) * panel<Sum> + threadIdx.x] =
            i < rows ? read.template get<Sum>(z, i, p) : zero<Sum>();
}

/* Reads a matrix without structure. */
template <class In> struct reader {
    operand<In> from;
    template <class Sum> __device__ Sum get(i64 z, i64 i, i64 p) const
    {
        return conjugate_if(from.conjugates, widen<Sum, In>::from(from.matrix[z][i * from.row + p * from.column]));
    }
};

/* a: op(A) in panels. Element (p, j) of op(B) lies p * b_row + j * b_column behind b. */
template <class Sum, class Out, class Scale, int C>
__global__ void __launch_bounds__(panel<Sum> *PANEL_ROWS)
    product(i64 m, i64 n, i64 k, scalar<Scale> alpha, const Sum *__restrict__ a, const Sum *__restrict__ b, i64 b_row,
            i64 b_column, scalar<Scale> beta, batch<Out> result, i64 z, i64 ldc, i64 first_row, i64 first_column,
            kept part)
{
    const Sum *__restrict__ from = a + (i64)blockIdx.x * k * panel<Sum> + threadIdx.x;
    const i64 i = first_row + (i64)blockIdx.x * panel<Sum> + threadIdx.x;
    const i64 column = ((i64)blockIdx.y * PANEL_ROWS + threadIdx.y) * C;
    if (is_outside(part, i - threadIdx.x, panel<Sum>, first_column + column, C))
        return;
    Sum sum[C];
    const Sum *__restrict__ right[C]; /* columns behind the last one are read as the last one */
#pragma unroll
    for (int j = 0; j < C; j++) {
        sum[j] = zero<Sum>();
        right[j] = b + (column + j < n ? column + j : n - 1) * b_column;
    }
    for (i64 p = 0; p < k; p++) {
        const Sum left = from[p * panel<Sum>];
#pragma unroll
        for (int j = 0; j < C; j++)
            add_product(sum[j], left, right[j][p * b_row]);
    }
    const Scale times = alpha.get(), keep = beta.get();
    const bool reads = !(keep == zero<Scale>());
    Out *c = result[z];
#pragma unroll
    for (int j = 0; j < C; j++) {
        const i64 to = first_column + column + j;
        if (i < m && column + j < n && keeps(part, i, to))
            put(c[i + to * ldc], sum[j], times, keep, reads, part >= LOWER_HERMITIAN && i == to);
    }
}

constexpr int SMALL_SIDE = 16;

template <class In, class Sum, class Out, class Scale>
__global__ void __launch_bounds__(SMALL_SIDE *SMALL_SIDE)
    product_of_small(i64 m, i64 n, i64 k, scalar<Scale> alpha, operand<In> a, operand<In> b, scalar<Scale> beta,
                     batch<Out> result, i64 ldc, i64 first, i64 last)
{
    const i64 i = (i64)blockIdx.x * SMALL_SIDE + threadIdx.x, j = (i64)blockIdx.y * SMALL_SIDE + threadIdx.y;
    if (i >= m || j >= n)
        return;
    const Scale times = alpha.get(), keep = beta.get();
    for (i64 z = first + blockIdx.z; z < last; z += gridDim.z) {
        const In *left = a.matrix[z] + i * a.row, *right = b.matrix[z] + j * b.column;
        Sum sum = zero<Sum>();
        for (i64 p = 0; p < k; p++)
            add_product(sum, conjugate_if(a.conjugates, widen<Sum, In>::from(left[p * a.column])),
                        conjugate_if(b.conjugates, widen<Sum, In>::from(right[p * b.row])));
        put(result[z][i + j * ldc], sum, times, keep, !(keep == zero<Scale>()), false);
    }
}

/* ---- launches ---- */

constexpr int COLUMNS = 4; /* of a thread of `product` */

static inline i64 ceiling(i64 a, i64 b)
{
    return (a + b - 1) / b;
}
static inline i64 least(i64 a, i64 b)
{
    return a < b ? a : b;
}

/* Whether B can be read where it lies. */
template <class Sum, class In> struct is_same {
    static constexpr bool value = false;
};
template <class T> struct is_same<T, T> {
    static constexpr bool value = true;
};

template <class Sum, class Read>
static void launch_pack(cudaStream_t stream, i64 rows, i64 columns, Read read, i64 z, Sum *to)
{
    constexpr int PANEL = panel<Sum>;
    const dim3 grid((unsigned)ceiling(rows, PANEL), (unsigned)least(ceiling(columns, 16 * PANEL_ROWS), 65535));
    pack<Sum, Read><<<grid, dim3(PANEL, PANEL_ROWS), 0, stream>>>(rows, columns, read, z, to);
}

/* B in panels has many columns of op(B) side by side, which `product` cannot read: so it is packed as if it had one.
 */
template <class Sum, class Read>
__global__ void __launch_bounds__(panel<Sum> *PANEL_ROWS) lay_out(i64 rows, i64 columns, Read read, i64 z, Sum *to)
{
    const i64 p = (i64)blockIdx.x * panel<Sum> + threadIdx.x;
    for (i64 j = (i64)blockIdx.y * PANEL_ROWS + threadIdx.y; j < columns; j += (i64)gridDim.y * PANEL_ROWS)
        if (p < rows)
            to[j * rows + p] = read.template get<Sum>(z, p, j);
}

template <class Sum, class Out, class Scale> struct target {
    scalar<Scale> alpha, beta;
    batch<Out> c;
    i64 ldc;
    kept part;
};

/* Where a product's panels lie, and in which steps it is done so that MOST_PACKED suffices for them. */
struct steps {
    i64 rows, columns;
    size_t a_bytes, b_bytes;
};
static inline steps steps_of(i64 m, i64 n, i64 k, size_t element, bool packs_b)
{
    const i64 PANEL = element == 16 ? 32 : 256 / (i64)element;
    const i64 fits = (i64)(MOST_PACKED / 2 / (element * (size_t)(k > 0 ? k : 1)));
    const i64 some = fits < PANEL ? PANEL : fits / PANEL * PANEL;
    steps done{least(some, ceiling(m, PANEL) * PANEL), packs_b ? least(some, n) : n, 0, 0};
    done.a_bytes = (size_t)(done.rows * k) * element;
    done.b_bytes = packs_b ? ((size_t)(done.columns * k) * element + 255) / 256 * 256 : 0;
    return done;
}

/* Reads op(M) from a row and column on. */
template <class Read> struct shifted {
    Read read;
    i64 row, column;
    template <class Sum> __device__ Sum get(i64 z, i64 i, i64 p) const
    {
        return read.template get<Sum>(z, row + i, column + p);
    }
};

/* One product of a batch, by panels. `plain`: op(B) as it lies in memory, if it need not be laid out. */
template <class Sum, class Out, class Scale, class ReadA, class ReadB>
static cublasStatus_t by_panels(cudaStream_t stream, i64 m, i64 n, i64 k, ReadA a, ReadB b, const Sum *plain, i64 b_row,
                                i64 b_column, target<Sum, Out, Scale> to, i64 z)
{
    constexpr int C = COLUMNS, PANEL = panel<Sum>;
    const steps step = steps_of(m, n, k, sizeof(Sum), !plain);
    char *memory = nullptr;
    if (cudaError_t failed = cudaMallocAsync(&memory, step.a_bytes + step.b_bytes + 1, stream))
        return status_of(failed);
    Sum *const laid_out = (Sum *)memory, *const panels = (Sum *)(memory + step.b_bytes);
    for (i64 column = 0; column < n; column += step.columns) {
        const i64 columns = least(step.columns, n - column);
        if (!plain && k > 0)
            lay_out<Sum><<<dim3((unsigned)ceiling(k, PANEL), (unsigned)least(ceiling(columns, PANEL_ROWS), 65535)),
                           dim3(PANEL, PANEL_ROWS), 0, stream>>>(k, columns, shifted<ReadB>{b, 0, column}, z, laid_out);
        for (i64 row = 0; row < m; row += step.rows) {
            const i64 rows = least(step.rows, m - row);
            if (k > 0)
                launch_pack<Sum>(stream, rows, k, shifted<ReadA>{a, row, 0}, z, panels);
            const dim3 grid((unsigned)ceiling(rows, PANEL), (unsigned)ceiling(columns, C * PANEL_ROWS));
            product<Sum, Out, Scale, C><<<grid, dim3(PANEL, PANEL_ROWS), 0, stream>>>(
                m, columns, k, to.alpha, panels, plain ? plain + column * b_column : laid_out, plain ? b_row : 1,
                plain ? b_column : k, to.beta, to.c, z, to.ldc, row, column, to.part);
        }
    }
    const cublasStatus_t status = launched();
    cudaFreeAsync(memory, stream);
    return status;
}

template <class In, class Sum, class Out, class Scale>
static void launch_small(cudaStream_t stream, i64 m, i64 n, i64 k, operand<In> a, operand<In> b,
                         target<Sum, Out, Scale> to, i64 first, i64 last)
{
    const dim3 grid((unsigned)ceiling(m, SMALL_SIDE), (unsigned)ceiling(n, SMALL_SIDE),
                    (unsigned)least(last - first, 65535));
    product_of_small<In, Sum, Out, Scale><<<grid, dim3(SMALL_SIDE, SMALL_SIDE), 0, stream>>>(
        m, n, k, to.alpha, a, b, to.beta, to.c, to.ldc, first, last);
}

template <class Sum> static inline const Sum *same(const Sum *at)
{
    return at;
}
template <class Sum, class In> static inline const Sum *same(const In *)
{
    return nullptr;
}

/* C[z] = alpha op(A[z]) op(B[z]) + beta C[z] for z < count. */
template <class In, class Sum, class Out, class Scale>
static cublasStatus_t gemm(cudaStream_t stream, i64 m, i64 n, i64 k, operand<In> a, operand<In> b,
                           target<Sum, Out, Scale> to, i64 count)
{
    if (m == 0 || n == 0 || count == 0)
        return CUBLAS_STATUS_SUCCESS;
    if ((k == 0 || is(to.alpha, zero<Scale>())) && is(to.beta, one<Scale>()))
        return CUBLAS_STATUS_SUCCESS;
    if (is(to.alpha, zero<Scale>()))
        k = 0;
    if (k == 0 || m * n * k <= SMALL || m < 8) {
        launch_small(stream, m, n, k, a, b, to, 0, count);
        return launched();
    }
    for (i64 z = 0; z < count; z++) {
        const Sum *plain = nullptr;
        if constexpr (is_same<Sum, In>::value)
            if (!b.matrix.table && !b.conjugates && (b.row == 1 || k * b.row * (i64)sizeof(In) <= MOST_SCATTERED))
                plain = b.matrix[z];
        const cublasStatus_t status =
            by_panels<Sum>(stream, m, n, k, reader<In>{a}, reader<In>{b}, plain, b.row, b.column, to, z);
        if (status == CUBLAS_STATUS_ALLOC_FAILED)
            launch_small(stream, m, n, k, a, b, to, z, z + 1);
        else if (status)
            return status;
    }
    return launched();
}

/* ---- the API's checks ---- */

static inline bool is_operation(cublasOperation_t op)
{
    return op >= CUBLAS_OP_N && op <= CUBLAS_OP_CONJG;
}
static inline bool is_turned(cublasOperation_t op)
{
    return op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}
static inline i64 at_least_one(i64 n)
{
    return n < 1 ? 1 : n;
}

struct gemm_sizes {
    cublasOperation_t opa, opb;
    i64 m, n, k, lda, ldb, ldc;
    bool are_right() const
    {
        return is_operation(opa) && is_operation(opb) && m >= 0 && n >= 0 && k >= 0 &&
               lda >= at_least_one(is_turned(opa) ? k : m) && ldb >= at_least_one(is_turned(opb) ? n : k) &&
               ldc >= at_least_one(m);
    }
};

/* Whether the host's cuBLAS may compute it: what it is told of lies apart by strides, and factors are known here. */
template <class In, class Sum, class Out>
static bool is_for_host(cublasHandle_t handle, const gemm_sizes &size, batch<const In> a, batch<const In> b,
                        batch<Out> c, i64 count)
{
    constexpr bool is_known = data_type<In>::value >= 0 && data_type<Out>::value >= 0 && data_type<Sum>::value >= 0;
    return is_known && handle->pointer_mode == CUBLAS_POINTER_MODE_HOST && !a.table && !b.table && !c.table &&
           size.m > 0 && size.n > 0 && count > 0;
}

template <class In, class Sum, class Out, class Scale>
static bool by_host(cublasHandle_t handle, const gemm_sizes &size, Scale alpha, batch<const In> a, batch<const In> b,
                    Scale beta, batch<Out> c, i64 count)
{
    host_product product{size.opa,
                         size.opb,
                         size.m,
                         size.n,
                         size.k,
                         real_part_of(alpha),
                         imaginary_part_of(alpha),
                         a.first,
                         size.lda,
                         a.jump,
                         b.first,
                         size.ldb,
                         b.jump,
                         real_part_of(beta),
                         imaginary_part_of(beta),
                         c.first,
                         size.ldc,
                         c.jump,
                         count,
                         data_type<In>::value,
                         data_type<Out>::value,
                         is_wide<Sum>::value ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                         0};
    return host_computes(handle, product);
}

template <class In, class Sum, class Out, class Scale>
static cublasStatus_t do_gemm(cublasHandle_t handle, gemm_sizes size, const Scale *alpha, batch<const In> a,
                              batch<const In> b, const Scale *beta, batch<Out> c, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(size.are_right() && count >= 0 && alpha && beta);
    if (is_for_host<In, Sum, Out>(handle, size, a, b, c, count) &&
        by_host<In, Sum, Out>(handle, size, *alpha, a, b, *beta, c, count))
        return CUBLAS_STATUS_SUCCESS;
    const target<Sum, Out, Scale> to{scalar_of(handle, alpha), scalar_of(handle, beta), c, size.ldc, ALL};
    return gemm<In, Sum, Out, Scale>(handle->stream, size.m, size.n, size.k, operand_of<In>(size.opa, a, size.lda),
                                     operand_of<In>(size.opb, b, size.ldb), to, count);
}

} // namespace blas

/* The API's functions for one type of numbers and both widths of integers. */
#define BLAS_GEMM_SIZES {opa, opb, m, n, k, lda, ldb, ldc}
#define BLAS_GEMM(S, T, v2, suffix, I)                                                                                 \
    cublasStatus_t cublas##S##gemm##v2##suffix(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m,    \
                                               I n, I k, const T *alpha, const T *a, I lda, const T *b, I ldb,         \
                                               const T *beta, T *c, I ldc)                                             \
    {                                                                                                                  \
        using N = blas::inside<T>::type;                                                                               \
        return blas::do_gemm<N, N, N, N>(h, BLAS_GEMM_SIZES, blas::in(alpha), {blas::in(a), nullptr, 0},               \
                                         {blas::in(b), nullptr, 0}, blas::in(beta), {blas::in(c), nullptr, 0}, 1);     \
    }                                                                                                                  \
    cublasStatus_t cublas##S##gemmStridedBatched##suffix(                                                              \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k, const T *alpha, const T *a,     \
        I lda, long long jump_a, const T *b, I ldb, long long jump_b, const T *beta, T *c, I ldc, long long jump_c,    \
        I count)                                                                                                       \
    {                                                                                                                  \
        using N = blas::inside<T>::type;                                                                               \
        return blas::do_gemm<N, N, N, N>(h, BLAS_GEMM_SIZES, blas::in(alpha), {blas::in(a), nullptr, jump_a},          \
                                         {blas::in(b), nullptr, jump_b}, blas::in(beta),                               \
                                         {blas::in(c), nullptr, jump_c}, count);                                       \
    }                                                                                                                  \
    cublasStatus_t cublas##S##gemmBatched##suffix(                                                                     \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k, const T *alpha,                 \
        const T *const a[], I lda, const T *const b[], I ldb, const T *beta, T *const c[], I ldc, I count)             \
    {                                                                                                                  \
        using N = blas::inside<T>::type;                                                                               \
        return blas::do_gemm<N, N, N, N>(h, BLAS_GEMM_SIZES, blas::in(alpha), {nullptr, (const N *const *)a, 0},       \
                                         {nullptr, (const N *const *)b, 0}, blas::in(beta),                            \
                                         {nullptr, (N *const *)c, 0}, count);                                          \
    }
