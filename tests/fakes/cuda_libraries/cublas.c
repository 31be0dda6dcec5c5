/* A cuBLAS without a GPU: products of matrices in memory of the fake driver, in the order of streams.
 *
 * Its rules are those of NVIDIA's documentation [cuBLAS: cublasSetStream, cublasSetWorkspace,
 * cublasGemmStridedBatchedEx]. Parameters that it does not allow are errors, as they are there; what the engine must
 * not do, such as to compute without a workspace of its own, is misuse. */
#include <stdlib.h>
#include <string.h>

#include "../../../vhost_backend/engines/cuda/cuda_libraries_abi.h"
#include "../cuda/library.h"

#define API __attribute__((visibility("default")))

enum { NOT_INITIALIZED = 1, ALLOC_FAILED = 3, INVALID_VALUE = 7, NOT_SUPPORTED = 15 };
enum { ALIGNMENT = 256, LEAST_WORKSPACE = 4096, USED_WORKSPACE = 1024, GARBAGE = 0xa5 };

struct cublasContext {
    CUcontext context;
    CUstream stream;
    char *workspace; /* NULL: the library's own */
    size_t workspace_bytes;
    bool has_math; /* a math mode was set */
};

static blas_handle live; /* the engine makes only one */

static CUcontext current(void)
{
    CUcontext context = NULL;
    return cuCtxGetCurrent(&context) ? NULL : context;
}

/* Begin of a call with a handle. */
static blas_result begin(const char *name, blas_handle handle)
{
    int injected = fake_cuda_library_call(name);
    if (injected)
        return (blas_result)injected;
    if (!handle || handle != live) {
        fake_cuda_library_misuse("a handle of cuBLAS that does not live");
        return NOT_INITIALIZED;
    }
    if (handle->context != current())
        fake_cuda_library_misuse("a handle of cuBLAS in another context than that of its making");
    return BLAS_SUCCESS;
}

API blas_result cublasCreate_v2(blas_handle *handle)
{
    int injected = fake_cuda_library_call(__func__);
    if (injected)
        return (blas_result)injected;
    if (live)
        fake_cuda_library_misuse("a second handle of cuBLAS");
    *handle = live = calloc(1, sizeof *live);
    if (!live)
        abort();
    live->context = current();
    fake_cuda_library_count(1);
    return BLAS_SUCCESS;
}

API blas_result cublasDestroy_v2(blas_handle handle)
{
    blas_result result = begin(__func__, handle);
    if (!result) {
        free(live);
        live = NULL;
        fake_cuda_library_count(-1);
    }
    return result;
}

API blas_result cublasSetMathMode(blas_handle handle, unsigned int mode)
{
    static const char *const NAMES[] = {"math_0", "math_1", "math_2", "math_3"};
    blas_result result = begin(__func__, handle);
    if (!result && mode < sizeof NAMES / sizeof *NAMES)
        fake_cuda_library_call(NAMES[mode]); /* for tests to count; modes with flags are the engine's */
    if (!result)
        handle->has_math = true;
    return result;
}

API blas_result cublasSetSmCountTarget(blas_handle handle, int count)
{
    blas_result result = begin(__func__, handle);
    return !result && count < 0 ? INVALID_VALUE : result;
}

API blas_result cublasSetStream_v2(blas_handle handle, CUstream stream)
{
    blas_result result = begin(__func__, handle);
    if (!result) {
        handle->stream = stream;
        handle->workspace = NULL; /* "unconditionally resets the cuBLAS library workspace" */
    }
    return result;
}

API blas_result cublasSetWorkspace_v2(blas_handle handle, void *workspace, size_t size)
{
    blas_result result = begin(__func__, handle);
    if (!result && (uintptr_t)workspace % ALIGNMENT)
        return INVALID_VALUE;
    if (!result) {
        handle->workspace = workspace;
        handle->workspace_bytes = size;
    }
    return result;
}

/* ---- products: matrices are columns, one behind the other ----------------------------------------------------------
 */

struct matrices {
    int64_t rows, columns, ld, stride;
    bool is_transposed;
};

struct product {
    struct matrices a, b, c;
    int64_t terms, batch;
    double alpha, beta;
    unsigned int type, c_type;
};

static size_t bytes_of(unsigned int type)
{
    return type == BLAS_R_16F || type == BLAS_R_16BF ? 2 : type == BLAS_R_32F ? 4 : 8;
}

/* A bfloat is the upper half of a float. */
static double of_bfloat(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

static uint16_t to_bfloat(double number)
{
    float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static size_t extent(const struct matrices *matrices, int64_t batch, unsigned int type)
{
    int64_t last = (batch - 1) * matrices->stride + (matrices->columns - 1) * matrices->ld + matrices->rows;
    return (size_t)last * bytes_of(type);
}

static double load(const char *from, int64_t at, unsigned int type)
{
    if (type == BLAS_R_16F)
        return (double)((const _Float16 *)(const void *)from)[at];
    if (type == BLAS_R_16BF)
        return of_bfloat(((const uint16_t *)(const void *)from)[at]);
    return type == BLAS_R_32F ? (double)((const float *)(const void *)from)[at]
                              : ((const double *)(const void *)from)[at];
}

static void store(char *to, int64_t at, unsigned int type, double value)
{
    if (type == BLAS_R_16F)
        ((_Float16 *)(void *)to)[at] = (_Float16)(float)value;
    else if (type == BLAS_R_16BF)
        ((uint16_t *)(void *)to)[at] = to_bfloat(value);
    else if (type == BLAS_R_32F)
        ((float *)(void *)to)[at] = (float)value;
    else
        ((double *)(void *)to)[at] = value;
}

static int64_t place(const struct matrices *matrices, int64_t batch, int64_t row, int64_t column)
{
    return batch * matrices->stride +
           (matrices->is_transposed ? column + row * matrices->ld : row + column * matrices->ld);
}

static void compute(void *data, char *const *bytes)
{
    const struct product *p = data;
    memset(bytes[3], GARBAGE, USED_WORKSPACE);
    for (int64_t i = 0; i < p->batch; i++)
        for (int64_t column = 0; column < p->c.columns; column++)
            for (int64_t row = 0; row < p->c.rows; row++) {
                int64_t to = place(&p->c, i, row, column);
                double sum = 0, before = p->beta == 0 ? 0 : p->beta * load(bytes[2], to, p->c_type);
                for (int64_t term = 0; term < p->terms; term++)
                    sum += load(bytes[0], place(&p->a, i, row, term), p->type) *
                           load(bytes[1], place(&p->b, i, term, column), p->type);
                store(bytes[2], to, p->c_type, p->alpha * sum + before);
            }
}

static bool is_allowed(const struct product *p, unsigned int compute_type)
{
    bool is_real = p->type <= BLAS_R_16F || p->type == BLAS_R_16BF;
    if (compute_type != (p->type == BLAS_R_64F ? BLAS_COMPUTE_64F : BLAS_COMPUTE_32F) || !is_real)
        return false;
    return p->a.ld >= p->a.rows && p->b.ld >= p->b.rows && p->c.ld >= p->c.rows && p->c.rows > 0 && p->c.columns > 0 &&
           p->terms > 0 && p->batch > 0;
}

static blas_result submit(const struct cublasContext *handle, const struct product *p, const void *a, const void *b,
                          void *c)
{
    struct fake_library_range ranges[] = {
        {(CUdeviceptr)(uintptr_t)a, extent(&p->a, p->batch, p->type)},
        {(CUdeviceptr)(uintptr_t)b, extent(&p->b, p->batch, p->type)},
        {(CUdeviceptr)(uintptr_t)c, extent(&p->c, p->batch, p->c_type)},
        {(CUdeviceptr)(uintptr_t)handle->workspace, handle->workspace_bytes},
    };
    return fake_cuda_library_submit(handle->stream, compute, p, sizeof *p, ranges, 4) ? BLAS_EXECUTION_FAILED
                                                                                      : BLAS_SUCCESS;
}

static struct matrices stored(bool is_transposed, int64_t rows, int64_t columns, int64_t ld, long long stride)
{
    return (struct matrices){is_transposed ? columns : rows, is_transposed ? rows : columns, ld, stride, is_transposed};
}

API blas_result cublasGemmStridedBatchedEx_64(blas_handle handle, unsigned int transpose_a, unsigned int transpose_b,
                                              int64_t m, int64_t n, int64_t k, const void *alpha, const void *a,
                                              unsigned int a_type, int64_t lda, long long stride_a, const void *b,
                                              unsigned int b_type, int64_t ldb, long long stride_b, const void *beta,
                                              void *c, unsigned int c_type, int64_t ldc, long long stride_c,
                                              int64_t batch, unsigned int compute_type, int algorithm)
{
    blas_result result = begin(__func__, handle);
    if (result)
        return result;
    bool is_widened = c_type == BLAS_R_32F && (a_type == BLAS_R_16F || a_type == BLAS_R_16BF);
    if (a_type != b_type || (a_type != c_type && !is_widened) || algorithm != BLAS_GEMM_DEFAULT)
        return NOT_SUPPORTED;
    bool is_double = compute_type == BLAS_COMPUTE_64F;
    struct product p = {
        .a = stored(transpose_a == BLAS_OP_T, m, k, lda, stride_a),
        .b = stored(transpose_b == BLAS_OP_T, k, n, ldb, stride_b),
        .c = stored(false, m, n, ldc, stride_c),
        .terms = k,
        .batch = batch,
        .alpha = is_double ? *(const double *)alpha : (double)*(const float *)alpha,
        .beta = is_double ? *(const double *)beta : (double)*(const float *)beta,
        .type = a_type,
        .c_type = c_type,
    };
    if (!is_allowed(&p, compute_type))
        return INVALID_VALUE;
    if (!handle->has_math)
        fake_cuda_library_misuse("products in a math mode that may sum halves as halves, or floats as TF32");
    if (!handle->workspace) {
        fake_cuda_library_misuse("a product in the library's own workspace");
        return ALLOC_FAILED;
    }
    return handle->workspace_bytes < LEAST_WORKSPACE ? NOT_SUPPORTED : submit(handle, &p, a, b, c);
}
