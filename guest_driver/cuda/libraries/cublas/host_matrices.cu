/* cuBLASXt: products of the host's matrices, block by block. */
#include <cublasXt.h>
#include <stdlib.h>

#include "context.h"

struct cublasXtContext {
    uint32_t magic;
    int rows; /* of a block */
    cublasXtPinnedMemMode_t pinning;
    cublasHandle_t blas; /* NULL until the device is chosen */
    int device;
};

namespace
{

using namespace blas;

constexpr uint32_t XT_MAGIC = 0x58424c42;
constexpr int BLOCK_ROWS = 2048;

bool is_handle(cublasXtHandle_t handle)
{
    return handle && handle->magic == XT_MAGIC;
}

#define XT_CHECK_HANDLE(handle)                                                                                        \
    if (!is_handle(handle))                                                                                            \
    return CUBLAS_STATUS_NOT_INITIALIZED

template <class T> struct matrix {
    T *first;
    size_t ld;
};

/* A block of the host's matrix on the device, column behind column. */
template <class T>
cublasStatus_t bring(matrix<const T> from, size_t row, size_t column, size_t rows, size_t columns, T *to)
{
    return status_of(cudaMemcpy2D(to, rows * sizeof(T), from.first + row + column * from.ld, from.ld * sizeof(T),
                                  rows * sizeof(T), columns, cudaMemcpyDefault));
}
template <class T>
cublasStatus_t bring_back(const T *from, matrix<T> to, size_t row, size_t column, size_t rows, size_t columns)
{
    return status_of(cudaMemcpy2D(to.first + row + column * to.ld, to.ld * sizeof(T), from, rows * sizeof(T),
                                  rows * sizeof(T), columns, cudaMemcpyDefault));
}

size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}
bool turns(cublasOperation_t op)
{
    return op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n, i64 k,
                    const float *alpha, const float *a, i64 lda, const float *b, i64 ldb, const float *beta, float *c)
{
    return cublasSgemm_64(h, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, m);
}
cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n, i64 k,
                    const double *alpha, const double *a, i64 lda, const double *b, i64 ldb, const double *beta,
                    double *c)
{
    return cublasDgemm_64(h, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, m);
}
cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n, i64 k,
                    const cuComplex *alpha, const cuComplex *a, i64 lda, const cuComplex *b, i64 ldb,
                    const cuComplex *beta, cuComplex *c)
{
    return cublasCgemm_64(h, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, m);
}
cublasStatus_t gemm(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, i64 m, i64 n, i64 k,
                    const cuDoubleComplex *alpha, const cuDoubleComplex *a, i64 lda, const cuDoubleComplex *b, i64 ldb,
                    const cuDoubleComplex *beta, cuDoubleComplex *c)
{
    return cublasZgemm_64(h, opa, opb, m, n, k, alpha, a, lda, b, ldb, beta, c, m);
}

template <class T> struct product {
    cublasOperation_t opa, opb;
    size_t m, n, k;
    const T *alpha, *beta;
    matrix<const T> a, b;
    matrix<T> c;
};

/* One block of C: the sum of the products of the blocks of op(A) in its rows with those of op(B) in its columns. */
template <class T>
cublasStatus_t make_block(cublasXtHandle_t handle, const product<T> &of, T *memory, size_t row, size_t column)
{
    const size_t side = (size_t)handle->rows, m = least(side, of.m - row), n = least(side, of.n - column);
    T *const a = memory, *const b = a + side * side, *const c = b + side * side;
    typedef typename inside<T>::type element;
    const element keep = one<element>();
    const bool reads = !(*in(of.beta) == zero<element>());
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (reads)
        status = bring<T>({of.c.first, of.c.ld}, row, column, m, n, c);
    for (size_t p = 0; (p < of.k || p == 0) && !status; p += side) {
        const size_t k = least(side, of.k - p);
        const bool turns_a = turns(of.opa), turns_b = turns(of.opb);
        if (k > 0)
            status = bring(of.a, turns_a ? p : row, turns_a ? row : p, turns_a ? k : m, turns_a ? m : k, a);
        if (k > 0 && !status)
            status = bring(of.b, turns_b ? column : p, turns_b ? p : column, turns_b ? n : k, turns_b ? k : n, b);
        if (!status)
            status = gemm(handle->blas, of.opa, of.opb, (i64)m, (i64)n, (i64)k, of.alpha, a,
                          (i64)(turns_a ? (k ? k : 1) : m), b,
                          (i64)(turns_b ? n
                                : k     ? k
                                        : 1),
                          p ? (const T *)&keep : of.beta, c);
    }
    return status ? status : bring_back(c, of.c, row, column, m, n);
}

template <class T> cublasStatus_t multiply(cublasXtHandle_t handle, const product<T> &of)
{
    XT_CHECK_HANDLE(handle);
    if (!handle->blas)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const auto lines = [](size_t n) { return n ? n : 1; };
    BLAS_CHECK(of.alpha && of.beta && of.a.ld >= lines(turns(of.opa) ? of.k : of.m) &&
               of.b.ld >= lines(turns(of.opb) ? of.n : of.k) && of.c.ld >= lines(of.m));
    int before;
    T *memory = nullptr;
    const size_t side = (size_t)handle->rows;
    cudaGetDevice(&before);
    cudaSetDevice(handle->device);
    cublasStatus_t status = status_of(cudaMalloc(&memory, 3 * side * side * sizeof(T)));
    for (size_t column = 0; column < of.n && !status; column += side)
        for (size_t row = 0; row < of.m && !status; row += side)
            status = make_block(handle, of, memory, row, column);
    cudaFree(memory);
    cudaSetDevice(before);
    return status;
}

} // namespace

cublasStatus_t cublasXtCreate(cublasXtHandle_t *handle)
{
    BLAS_CHECK(handle);
    *handle = (cublasXtHandle_t)malloc(sizeof(cublasXtContext));
    if (!*handle)
        return CUBLAS_STATUS_ALLOC_FAILED;
    **handle = {XT_MAGIC, BLOCK_ROWS, CUBLASXT_PINNING_DISABLED, nullptr, 0};
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasXtDestroy(cublasXtHandle_t handle)
{
    XT_CHECK_HANDLE(handle);
    const cublasStatus_t status = handle->blas ? cublasDestroy(handle->blas) : CUBLAS_STATUS_SUCCESS;
    handle->magic = 0;
    free(handle);
    return status;
}
cublasStatus_t cublasXtMaxBoards(int *count)
{
    BLAS_CHECK(count);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasXtDeviceSelect(cublasXtHandle_t handle, int count, int devices[])
{
    XT_CHECK_HANDLE(handle);
    BLAS_CHECK(count > 0 && devices);
    if (count > 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (handle->blas)
        cublasDestroy(handle->blas);
    handle->blas = nullptr;
    handle->device = devices[0];
    int before;
    cudaGetDevice(&before);
    BLAS_CHECK(cudaSetDevice(handle->device) == cudaSuccess);
    const cublasStatus_t status = cublasCreate(&handle->blas);
    cudaSetDevice(before);
    return status;
}

#define XT_MODE(Name, type, member, is_allowed)                                                                        \
    cublasStatus_t cublasXtSet##Name(cublasXtHandle_t handle, type mode)                                               \
    {                                                                                                                  \
        XT_CHECK_HANDLE(handle);                                                                                       \
        BLAS_CHECK(is_allowed);                                                                                        \
        handle->member = mode;                                                                                         \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }                                                                                                                  \
    cublasStatus_t cublasXtGet##Name(cublasXtHandle_t handle, type *mode)                                              \
    {                                                                                                                  \
        XT_CHECK_HANDLE(handle);                                                                                       \
        BLAS_CHECK(mode);                                                                                              \
        *mode = handle->member;                                                                                        \
        return CUBLAS_STATUS_SUCCESS;                                                                                  \
    }
XT_MODE(BlockDim, int, rows, mode > 0)
XT_MODE(PinningMemMode, cublasXtPinnedMemMode_t, pinning,
        mode == CUBLASXT_PINNING_DISABLED || mode == CUBLASXT_PINNING_ENABLED)

#define XT_GEMM(S, T)                                                                                                  \
    cublasStatus_t cublasXt##S##gemm(cublasXtHandle_t handle, cublasOperation_t opa, cublasOperation_t opb, size_t m,  \
                                     size_t n, size_t k, const T *alpha, const T *a, size_t lda, const T *b,           \
                                     size_t ldb, const T *beta, T *c, size_t ldc)                                      \
    {                                                                                                                  \
        return multiply<T>(handle, {opa, opb, m, n, k, alpha, beta, {a, lda}, {b, ldb}, {c, ldc}});                    \
    }
XT_GEMM(S, float)
XT_GEMM(D, double)
XT_GEMM(C, cuComplex)
XT_GEMM(Z, cuDoubleComplex)
