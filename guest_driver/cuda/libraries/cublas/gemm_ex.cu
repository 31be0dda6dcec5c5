/* Products of matrices whose types are told at run time. */
#include "mixed.h"

namespace
{

using namespace blas;

enum precision { NONE, OF_16F, OF_32F, OF_64F, OF_32I };

precision precision_of(cublasComputeType_t type)
{
    switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
        return OF_16F;
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return OF_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return OF_64F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return OF_32I;
    default:
        return NONE;
    }
}

struct types {
    cudaDataType a, b, c;
    cublasComputeType_t compute;
};

mixed_gemm *function_of(types asked)
{
    static const struct {
        precision sums;
        cudaDataType in, out;
        mixed_gemm *function;
    } all[] = {
        {OF_16F, CUDA_R_16F, CUDA_R_16F, half_gemm},
        {OF_32F, CUDA_R_16F, CUDA_R_16F, half_gemm},
        {OF_32F, CUDA_R_16F, CUDA_R_32F, half_to_float_gemm},
        {OF_32F, CUDA_R_16BF, CUDA_R_16BF, bfloat_gemm},
        {OF_32F, CUDA_R_16BF, CUDA_R_32F, bfloat_to_float_gemm},
        {OF_32F, CUDA_R_8I, CUDA_R_32F, char_to_float_gemm},
        {OF_32F, CUDA_R_32F, CUDA_R_32F, float_gemm},
        {OF_32F, CUDA_C_32F, CUDA_C_32F, complex_gemm},
        {OF_64F, CUDA_R_64F, CUDA_R_64F, double_gemm},
        {OF_64F, CUDA_C_64F, CUDA_C_64F, double_complex_gemm},
        {OF_32I, CUDA_R_8I, CUDA_R_32I, char_to_int_gemm},
    };
    if (asked.a == asked.b)
        for (const auto &one : all)
            if (one.sums == precision_of(asked.compute) && one.in == asked.a && one.out == asked.c)
                return one.function;
    return nullptr;
}

struct factors {
    const void *alpha, *beta;
};

cublasStatus_t run(cublasHandle_t handle, types asked, const gemm_sizes &size, factors by, any_batch a, any_batch b,
                   any_batch c, i64 count)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(by.alpha && by.beta);
    mixed_gemm *const function = function_of(asked);
    if (!function)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (precision_of(asked.compute) != OF_16F)
        return function(handle, size, by.alpha, a, b, by.beta, c, count);
    if (handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) /* the kernel reads floats */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const float alpha = __half2float(*(const __half *)by.alpha), beta = __half2float(*(const __half *)by.beta);
    return function(handle, size, &alpha, a, b, &beta, c, count);
}

/* Arrays of the host with an element for each group, but for the tables, which have one for each matrix. */
template <class I> struct groups {
    const cublasOperation_t *opa, *opb;
    const I *m, *n, *k, *lda, *ldb, *ldc;
    I count;
    const I *sizes;
    gemm_sizes size_of(I group) const
    {
        return {opa[group], opb[group], m[group], n[group], k[group], lda[group], ldb[group], ldc[group]};
    }
    bool are_there() const
    {
        return count >= 0 && (count == 0 || (opa && opb && m && n && k && lda && ldb && ldc && sizes));
    }
};

size_t factor_bytes(types asked)
{
    switch (precision_of(asked.compute)) {
    case OF_16F:
        return sizeof(__half);
    case OF_64F:
        return asked.c == CUDA_C_64F ? sizeof(cuDoubleComplex) : sizeof(double);
    default:
        return asked.c == CUDA_C_32F ? sizeof(cuComplex) : sizeof(float);
    }
}

template <class I>
cublasStatus_t run_groups(cublasHandle_t handle, types asked, const groups<I> &all, factors by, const void *const *a,
                          const void *const *b, const void *const *c)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(all.are_there() && by.alpha && by.beta);
    for (I group = 0; group < all.count; group++) /* before any product is begun */
        BLAS_CHECK(all.sizes[group] >= 0 && all.size_of(group).are_right());
    const size_t bytes = factor_bytes(asked);
    for (I group = 0, first = 0; group < all.count; first += all.sizes[group++]) {
        const factors own = {(const char *)by.alpha + group * bytes, (const char *)by.beta + group * bytes};
        const cublasStatus_t status = run(handle, asked, all.size_of(group), own, {nullptr, a + first, 0},
                                          {nullptr, b + first, 0}, {nullptr, c + first, 0}, all.sizes[group]);
        if (status != CUBLAS_STATUS_SUCCESS)
            return status;
    }
    return CUBLAS_STATUS_SUCCESS;
}

} // namespace

#define BLAS_GEMM_EX(w, I)                                                                                             \
    cublasStatus_t cublasGemmEx##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,      \
                                   const void *alpha, const void *a, cudaDataType ta, I lda, const void *b,            \
                                   cudaDataType tb, I ldb, const void *beta, void *c, cudaDataType tc, I ldc,          \
                                   cublasComputeType_t compute, cublasGemmAlgo_t)                                      \
    {                                                                                                                  \
        return run(h, {ta, tb, tc, compute}, BLAS_GEMM_SIZES, {alpha, beta}, {a, nullptr, 0}, {b, nullptr, 0},         \
                   {c, nullptr, 0}, 1);                                                                                \
    }                                                                                                                  \
    cublasStatus_t cublasGemmStridedBatchedEx##w(                                                                      \
        cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k, const void *alpha,              \
        const void *a, cudaDataType ta, I lda, long long jump_a, const void *b, cudaDataType tb, I ldb,                \
        long long jump_b, const void *beta, void *c, cudaDataType tc, I ldc, long long jump_c, I count,                \
        cublasComputeType_t compute, cublasGemmAlgo_t)                                                                 \
    {                                                                                                                  \
        return run(h, {ta, tb, tc, compute}, BLAS_GEMM_SIZES, {alpha, beta}, {a, nullptr, jump_a},                     \
                   {b, nullptr, jump_b}, {c, nullptr, jump_c}, count);                                                 \
    }                                                                                                                  \
    cublasStatus_t cublasGemmBatchedEx##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n,    \
                                          I k, const void *alpha, const void *const a[], cudaDataType ta, I lda,       \
                                          const void *const b[], cudaDataType tb, I ldb, const void *beta,             \
                                          void *const c[], cudaDataType tc, I ldc, I count,                            \
                                          cublasComputeType_t compute, cublasGemmAlgo_t)                               \
    {                                                                                                                  \
        return run(h, {ta, tb, tc, compute}, BLAS_GEMM_SIZES, {alpha, beta}, {nullptr, a, 0}, {nullptr, b, 0},         \
                   {nullptr, (const void *const *)c, 0}, count);                                                       \
    }                                                                                                                  \
    cublasStatus_t cublasSgemmEx##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,     \
                                    const float *alpha, const void *a, cudaDataType ta, I lda, const void *b,          \
                                    cudaDataType tb, I ldb, const float *beta, void *c, cudaDataType tc, I ldc)        \
    {                                                                                                                  \
        return run(h, {ta, tb, tc, CUBLAS_COMPUTE_32F}, BLAS_GEMM_SIZES, {alpha, beta}, {a, nullptr, 0},               \
                   {b, nullptr, 0}, {c, nullptr, 0}, 1);                                                               \
    }                                                                                                                  \
    cublasStatus_t cublasHgemm##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n, I k,       \
                                  const __half *alpha, const __half *a, I lda, const __half *b, I ldb,                 \
                                  const __half *beta, __half *c, I ldc)                                                \
    {                                                                                                                  \
        return run(h, {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F}, BLAS_GEMM_SIZES, {alpha, beta},        \
                   {a, nullptr, 0}, {b, nullptr, 0}, {c, nullptr, 0}, 1);                                              \
    }                                                                                                                  \
    cublasStatus_t cublasHgemmBatched##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m, I n,     \
                                         I k, const __half *alpha, const __half *const a[], I lda,                     \
                                         const __half *const b[], I ldb, const __half *beta, __half *const c[], I ldc, \
                                         I count)                                                                      \
    {                                                                                                                  \
        return run(h, {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F}, BLAS_GEMM_SIZES, {alpha, beta},        \
                   {nullptr, (const void *const *)a, 0}, {nullptr, (const void *const *)b, 0},                         \
                   {nullptr, (const void *const *)c, 0}, count);                                                       \
    }                                                                                                                  \
    cublasStatus_t cublasHgemmStridedBatched##w(cublasHandle_t h, cublasOperation_t opa, cublasOperation_t opb, I m,   \
                                                I n, I k, const __half *alpha, const __half *a, I lda,                 \
                                                long long jump_a, const __half *b, I ldb, long long jump_b,            \
                                                const __half *beta, __half *c, I ldc, long long jump_c, I count)       \
    {                                                                                                                  \
        return run(h, {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_16F}, BLAS_GEMM_SIZES, {alpha, beta},        \
                   {a, nullptr, jump_a}, {b, nullptr, jump_b}, {c, nullptr, jump_c}, count);                           \
    }
BLAS_GEMM_EX(, int)
BLAS_GEMM_EX(_64, int64_t)

#define BLAS_TABLES (const void *const *)a, (const void *const *)b, (const void *const *)c
#define BLAS_GROUPS {opa, opb, m, n, k, lda, ldb, ldc, count, sizes}
#define BLAS_GEMM_GROUPED(S, T, TYPE, COMPUTE, w, I)                                                                   \
    cublasStatus_t cublas##S##gemmGroupedBatched##w(                                                                   \
        cublasHandle_t h, const cublasOperation_t opa[], const cublasOperation_t opb[], const I m[], const I n[],      \
        const I k[], const T alpha[], const T *const a[], const I lda[], const T *const b[], const I ldb[],            \
        const T beta[], T *const c[], const I ldc[], I count, const I sizes[])                                         \
    {                                                                                                                  \
        return run_groups<I>(h, {TYPE, TYPE, TYPE, COMPUTE}, BLAS_GROUPS, {alpha, beta}, BLAS_TABLES);                 \
    }
#define BLAS_GEMM_GROUPED_EX(w, I)                                                                                     \
    BLAS_GEMM_GROUPED(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F, w, I)                                                  \
    BLAS_GEMM_GROUPED(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F, w, I)                                                 \
    cublasStatus_t cublasGemmGroupedBatchedEx##w(                                                                      \
        cublasHandle_t h, const cublasOperation_t opa[], const cublasOperation_t opb[], const I m[], const I n[],      \
        const I k[], const void *alpha, const void *const a[], cudaDataType ta, const I lda[], const void *const b[],  \
        cudaDataType tb, const I ldb[], const void *beta, void *const c[], cudaDataType tc, const I ldc[], I count,    \
        const I sizes[], cublasComputeType_t compute)                                                                  \
    {                                                                                                                  \
        return run_groups<I>(h, {ta, tb, tc, compute}, BLAS_GROUPS, {alpha, beta}, BLAS_TABLES);                       \
    }
BLAS_GEMM_GROUPED_EX(, int)
BLAS_GEMM_GROUPED_EX(_64, int64_t)
