/* Products of matrices with descriptors: cuBLAS makes the sums, and the kernels of finish.h what follows. */
#include <mutex>
#include <new>

#include "descriptors.h"
#include "finish.h"
#include "widen.h"

namespace
{

using namespace lt;

constexpr uint32_t LT_MAGIC = 0x744c4c42;

/* The types of one product: of A and B, of sums, factors, and C and D. */
struct kind {
    cudaDataType in, sums, scale, out;
    cublasComputeType_t compute; /* of the sums, by cuBLAS */
    size_t sum_bytes;
    finisher *finish;
};

bool is_half(cublasComputeType_t type)
{
    return type == CUBLAS_COMPUTE_16F || type == CUBLAS_COMPUTE_16F_PEDANTIC;
}
/* The precision of sums; half precision is summed in single precision, too. */
cublasComputeType_t precision_of(int32_t type)
{
    switch (type) {
    case CUBLAS_COMPUTE_16F:
    case CUBLAS_COMPUTE_16F_PEDANTIC:
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
    case CUBLAS_COMPUTE_32F_FAST_16F:
    case CUBLAS_COMPUTE_32F_FAST_16BF:
    case CUBLAS_COMPUTE_32F_FAST_TF32:
        return CUBLAS_COMPUTE_32F;
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
        return CUBLAS_COMPUTE_64F;
    case CUBLAS_COMPUTE_32I:
    case CUBLAS_COMPUTE_32I_PEDANTIC:
        return CUBLAS_COMPUTE_32I;
    default:
        return (cublasComputeType_t)-1;
    }
}

/* One type for both of A and B; of 8-bit floating point, one of them at least has E4M3. */
cudaDataType common_type(uint32_t a, uint32_t b)
{
    if (a != b && is_eight_bits(a) && is_eight_bits(b))
        return CUDA_R_8F_E4M3;
    return a == b ? (cudaDataType)a : (cudaDataType)-1;
}

const kind *kind_of(const matmul &how, cudaDataType in, uint32_t out)
{
    static const kind all[] = {
        {CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, finish_float},
        {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 4, finish_half},
        {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, finish_float},
        {CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 4, finish_bfloat},
        {CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, finish_float},
        {CUDA_R_8I, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, finish_float},
        {CUDA_R_8F_E4M3, CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUBLAS_COMPUTE_32F, 4, finish_half},
        {CUDA_R_8F_E4M3, CUDA_R_32F, CUDA_R_32F, CUDA_R_16BF, CUBLAS_COMPUTE_32F, 4, finish_bfloat},
        {CUDA_R_8F_E4M3, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, 4, finish_float},
        {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, 8, finish_double},
        {CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, CUDA_R_32I, CUBLAS_COMPUTE_32I, 4, finish_int},
        {CUDA_R_8I, CUDA_R_32I, CUDA_R_32F, CUDA_R_8I, CUBLAS_COMPUTE_32I, 4, finish_char},
        {CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, CUDA_C_32F, CUBLAS_COMPUTE_32F, 8, finish_complex},
        {CUDA_C_64F, CUDA_C_64F, CUDA_C_64F, CUDA_C_64F, CUBLAS_COMPUTE_64F, 16, finish_double_complex},
    };
    const bool halves = is_half((cublasComputeType_t)how.compute) && how.scale == CUDA_R_16F;
    for (const kind &one : all)
        if (one.in == in && one.out == (cudaDataType)out && one.compute == precision_of(how.compute) &&
            (one.scale == (cudaDataType)how.scale || (halves && one.out == CUDA_R_16F)))
            return &one;
    return nullptr;
}

struct operation {
    const matmul *how;
    const layout *a, *b, *c, *d;
    i64 m, n, k;
};

bool is_layout(const layout *one)
{
    const uint64_t lines = one->order == CUBLASLT_ORDER_ROW ? one->columns : one->rows;
    return one->count >= 1 && one->ld >= 0 && (uint64_t)one->ld >= lines;
}
bool is_ordered(const layout *one)
{
    return one->order == CUBLASLT_ORDER_COL || one->order == CUBLASLT_ORDER_ROW;
}
bool is_function(uint32_t epilogue)
{
    switch (epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
        return true;
    default:
        return false;
    }
}
bool has_epilogue(uint32_t epilogue, uint32_t flag)
{
    return epilogue != CUBLASLT_EPILOGUE_DEFAULT && (epilogue & flag);
}

/* Sizes that fit each other. */
cublasStatus_t check_sizes(operation &of)
{
    const cublasOperation_t opa = (cublasOperation_t)of.how->opa, opb = (cublasOperation_t)of.how->opb;
    BLAS_CHECK(is_operation(opa) && is_operation(opb));
    of.m = (i64)(is_turned(opa) ? of.a->columns : of.a->rows);
    of.k = (i64)(is_turned(opa) ? of.a->rows : of.a->columns);
    of.n = (i64)(is_turned(opb) ? of.b->rows : of.b->columns);
    BLAS_CHECK((i64)(is_turned(opb) ? of.b->columns : of.b->rows) == of.k);
    for (const layout *one : {of.c, of.d})
        BLAS_CHECK((i64)one->rows == of.m && (i64)one->columns == of.n && one->count == of.d->count);
    for (const layout *one : {of.a, of.b, of.c, of.d})
        BLAS_CHECK(is_layout(one) && (one->count == of.d->count || one->count == 1));
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t check_product(operation &of, const kind *&types)
{
    BLAS_CHECK(of.how && of.a && of.b && of.c && of.d);
    for (const layout *one : {of.a, of.b, of.c, of.d})
        if (!is_ordered(one))
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if (cublasStatus_t failed = check_sizes(of))
        return failed;
    const bool is_real = of.d->type != CUDA_C_32F && of.d->type != CUDA_C_64F && of.d->type != CUDA_R_32I;
    types = of.c->type == of.d->type ? kind_of(*of.how, common_type(of.a->type, of.b->type), of.d->type) : nullptr;
    const int32_t bias = of.how->bias_type;
    const bool has_bias = has_epilogue(of.how->epilogue, CUBLASLT_EPILOGUE_BIAS);
    if (!types || of.how->opc != CUBLAS_OP_N || of.how->fill != CUBLAS_FILL_MODE_FULL ||
        !is_function(of.how->epilogue) ||
        (!is_real && of.how->epilogue != CUBLASLT_EPILOGUE_DEFAULT && of.how->epilogue != CUBLASLT_EPILOGUE_BIAS) ||
        (has_bias && bias != SAME_TYPE && bias != (int32_t)of.d->type))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    const bool needs_aux = has_epilogue(of.how->epilogue, 128);
    BLAS_CHECK(!has_bias || of.how->bias);
    BLAS_CHECK(!needs_aux || (of.how->aux && of.how->aux_ld >= of.m));
    return CUBLAS_STATUS_SUCCESS;
}

/* A factor of the host's; those of half precision are read as numbers of single precision. */
factors of_host(const void *at, int32_t type)
{
    switch (type) {
    case CUDA_R_16F:
        return {__half2float(*(const __half *)at), 0, nullptr, 0, 0};
    case CUDA_R_32F:
        return {*(const float *)at, 0, nullptr, 0, 0};
    case CUDA_R_32I:
        return {(double)*(const int *)at, 0, nullptr, 0, 0};
    case CUDA_R_64F:
        return {*(const double *)at, 0, nullptr, 0, 0};
    case CUDA_C_32F:
        return {((const float *)at)[0], ((const float *)at)[1], nullptr, 0, 0};
    default:
        return {((const double *)at)[0], ((const double *)at)[1], nullptr, 0, 0};
    }
}
cublasStatus_t factors_of(int32_t mode, int32_t type, const void *alpha, const void *beta, i64 jump, ending &to)
{
    const factors none{0, 0, nullptr, 0, 0};
    const bool is_vector = mode >= CUBLASLT_POINTER_MODE_DEVICE_VECTOR;
    BLAS_CHECK(mode >= CUBLASLT_POINTER_MODE_HOST && mode <= CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST);
    BLAS_CHECK(alpha && (beta || mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO));
    if (mode == CUBLASLT_POINTER_MODE_HOST) {
        to.alpha = of_host(alpha, type);
        to.beta = of_host(beta, type);
        return CUBLAS_STATUS_SUCCESS;
    }
    if (type == CUDA_R_16F) /* the kernels read floats */
        return CUBLAS_STATUS_NOT_SUPPORTED;
    to.alpha = {0, 0, alpha, is_vector, jump};
    if (mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_ZERO)
        to.beta = none;
    else if (mode == CUBLASLT_POINTER_MODE_ALPHA_DEVICE_VECTOR_BETA_HOST)
        to.beta = of_host(beta, type);
    else
        to.beta = {0, 0, beta, is_vector, is_vector ? jump : 0};
    return CUBLAS_STATUS_SUCCESS;
}

place place_of(const void *first, const layout &of, bool turned)
{
    const bool by_rows = (of.order == CUBLASLT_ORDER_ROW) != turned;
    return {(void *)first, by_rows ? (i64)of.ld : 1, by_rows ? 1 : (i64)of.ld, of.count == 1 ? 0 : (i64)of.jump};
}

/* A matrix by rows is the transposed one by columns. */
cublasOperation_t by_columns(int32_t op, const layout &of)
{
    static const cublasOperation_t turned[] = {CUBLAS_OP_T, CUBLAS_OP_N, CUBLAS_OP_CONJG, CUBLAS_OP_C};
    return of.order == CUBLASLT_ORDER_ROW ? turned[op] : (cublasOperation_t)op;
}

cublasStatus_t sums_of(cublasLtHandle_t handle, const operation &of, const kind &types, const void *a, const void *b,
                       void *sums, cudaStream_t stream)
{
    static const double one[] = {1, 0}, nothing[] = {0, 0};
    static const float single_one[] = {1, 0};
    static const int whole_one = 1;
    const bool is_double = types.compute == CUBLAS_COMPUTE_64F;
    const void *factor = is_double                             ? (const void *)one
                         : types.compute == CUBLAS_COMPUTE_32I ? (const void *)&whole_one
                                                               : single_one;
    const std::lock_guard<std::mutex> locked(*(std::mutex *)handle->lock);
    if (cublasStatus_t failed = cublasSetStream(handle->blas, stream))
        return failed;
    return cublasGemmStridedBatchedEx_64(
        handle->blas, by_columns(of.how->opa, *of.a), by_columns(of.how->opb, *of.b), of.m, of.n, of.k, factor, a,
        types.in, of.a->ld, of.a->count == 1 ? 0 : of.a->jump, b, types.in, of.b->ld, of.b->count == 1 ? 0 : of.b->jump,
        nothing, sums, types.sums, of.m, of.m * of.n, of.d->count, types.compute, CUBLAS_GEMM_DEFAULT);
}

cublasStatus_t sums_of_eight_bits(cublasLtHandle_t handle, const operation &given, const kind &types, const void *a,
                                  const void *b, void *sums, cudaStream_t stream)
{
    wide first, second;
    operation of = given;
    kind halves = types;
    halves.in = CUDA_R_16F;
    cublasStatus_t status = to_half(a, *of.a, stream, first);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = to_half(b, *of.b, stream, second);
    of.a = &first.of;
    of.b = &second.of;
    if (status == CUBLAS_STATUS_SUCCESS)
        status = sums_of(handle, of, halves, first.numbers, second.numbers, sums, stream);
    for (void *const numbers : {first.numbers, second.numbers})
        if (numbers)
            cudaFreeAsync(numbers, stream);
    return status;
}

ending ending_of(const operation &of, const void *sums, const void *c, void *d)
{
    const matmul &how = *of.how;
    ending to{};
    to.rows = of.m;
    to.columns = of.n;
    to.count = of.d->count;
    to.sums = sums;
    to.c = place_of(c, *of.c, false);
    to.d = place_of(d, *of.d, false);
    if (has_epilogue(how.epilogue, 128))
        to.aux = {how.aux, 1, (i64)how.aux_ld, (i64)how.aux_jump};
    if (has_epilogue(how.epilogue, CUBLASLT_EPILOGUE_BIAS)) {
        to.bias = how.bias;
        to.bias_jump = how.bias_jump;
    }
    to.how = has_epilogue(how.epilogue, CUBLASLT_EPILOGUE_RELU)   ? RELU
             : has_epilogue(how.epilogue, CUBLASLT_EPILOGUE_GELU) ? GELU
             : how.epilogue == CUBLASLT_EPILOGUE_DGELU            ? GELU_GRADIENT
                                                                  : NOTHING;
    const float *const scales[] = {how.a_scale, how.b_scale, how.c_scale, how.d_scale};
    for (int i = 0; i < 4; i++)
        to.scales[i] = scales[i];
    return to;
}

bool is_handle(cublasLtHandle_t handle)
{
    return handle && handle->magic == LT_MAGIC;
}

constexpr int MOST_DEVICES = 64;

/* A handle of cuBLAS holds one of cuBLASLt, so programs pass it in its place. Its stream and modes are its own: what is
 * computed here has a handle that all those of a device share, until the process ends. */
cublasLtHandle_t within(cublasHandle_t blas)
{
    static std::mutex lock;
    static cublasLtHandle_t made[MOST_DEVICES];
    const std::lock_guard<std::mutex> locked(lock);
    if (blas->device < 0 || blas->device >= MOST_DEVICES)
        return nullptr;
    cublasLtHandle_t &one = made[blas->device];
    if (!one && cublasLtCreate(&one) != CUBLAS_STATUS_SUCCESS)
        return nullptr;
    return one;
}

/* The handle that a call is made with; NULL: the given one does not live. */
cublasLtHandle_t own(cublasLtHandle_t handle)
{
    if (!is_handle(handle) && blas::is_handle((cublasHandle_t)handle))
        return within((cublasHandle_t)handle);
    return is_handle(handle) ? handle : nullptr;
}

} // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    BLAS_CHECK(handle);
    *handle = nullptr;
    cublasLtContext made{LT_MAGIC, nullptr, nullptr};
    if (cublasStatus_t failed = cublasCreate(&made.blas))
        return failed;
    made.lock = new (std::nothrow) std::mutex;
    cublasLtContext *const kept = new (std::nothrow) cublasLtContext(made);
    if (made.lock && kept) {
        *handle = kept;
        return CUBLAS_STATUS_SUCCESS;
    }
    delete (std::mutex *)made.lock;
    delete kept;
    cublasDestroy(made.blas);
    return CUBLAS_STATUS_ALLOC_FAILED;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    if (!is_handle(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const cublasStatus_t status = cublasDestroy(handle->blas);
    delete (std::mutex *)handle->lock;
    handle->magic = 0;
    delete handle;
    return status;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t of_a, const void *b, cublasLtMatrixLayout_t of_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t of_c, void *d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t *, void *, size_t, cudaStream_t stream)
{
    if (!(handle = own(handle)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    operation of{inside_of<matmul>(how),
                 inside_of<layout>(of_a),
                 inside_of<layout>(of_b),
                 inside_of<layout>(of_c),
                 inside_of<layout>(of_d),
                 0,
                 0,
                 0};
    const kind *types = nullptr;
    if (cublasStatus_t failed = check_product(of, types))
        return failed;
    ending to = ending_of(of, nullptr, c, d);
    if (cublasStatus_t failed = factors_of(of.how->pointers, of.how->scale, alpha, beta, of.how->alpha_jump, to))
        return failed;
    if (of.m == 0 || of.n == 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool reads_c = to.beta.address || to.beta.value != 0 || to.beta.imaginary != 0;
    BLAS_CHECK(a && b && d && (c || !reads_c));
    void *sums;
    const size_t bytes = types->sum_bytes * (size_t)(of.m * of.n * of.d->count);
    if (cudaError_t failed = cudaMallocAsync(&sums, bytes, stream))
        return status_of(failed);
    to.sums = sums;
    const auto product = is_eight_bits(types->in) && of.k > 0 ? sums_of_eight_bits : sums_of;
    cublasStatus_t status = product(handle, of, *types, a, b, sums, stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = types->finish(stream, to);
    cudaFreeAsync(sums, stream);
    return status;
}

/* The only algorithm, if it computes this. */
static cublasStatus_t judge(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
                            cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                            cublasLtMatmulHeuristicResult_t *found)
{
    operation of{inside_of<matmul>(how),
                 inside_of<layout>(of_a),
                 inside_of<layout>(of_b),
                 inside_of<layout>(of_c),
                 inside_of<layout>(of_d),
                 0,
                 0,
                 0};
    const kind *types = nullptr;
    matmul later = *of.how; /* pointers may be set after the heuristics */
    later.bias = later.bias ? later.bias : &later;
    later.aux = later.aux ? later.aux : &later;
    of.how = &later;
    if (cublasStatus_t failed = check_product(of, types))
        return failed;
    *found = {};
    inside_of<algorithm>(&found->algo)->id = ONLY_ALGORITHM;
    inside_of<algorithm>(&found->algo)->splits = 1;
    found->state = CUBLAS_STATUS_SUCCESS;
    found->wavesCount = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                              cublasLtMatrixLayout_t of_a, cublasLtMatrixLayout_t of_b,
                                              cublasLtMatrixLayout_t of_c, cublasLtMatrixLayout_t of_d,
                                              cublasLtMatmulPreference_t preference, int most,
                                              cublasLtMatmulHeuristicResult_t found[], int *count)
{
    if (!(handle = own(handle)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    BLAS_CHECK(how && preference && most > 0 && found && count);
    *count = 0;
    if (cublasStatus_t failed = judge(how, of_a, of_b, of_c, of_d, &found[0]))
        return failed;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType, cudaDataType,
                                      cudaDataType, cudaDataType, cudaDataType, int id, cublasLtMatmulAlgo_t *to)
{
    if (!(handle = own(handle)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    BLAS_CHECK(to && id == ONLY_ALGORITHM);
    *to = {};
    inside_of<algorithm>(to)->id = ONLY_ALGORITHM;
    inside_of<algorithm>(to)->splits = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t of_a,
                                       cublasLtMatrixLayout_t of_b, cublasLtMatrixLayout_t of_c,
                                       cublasLtMatrixLayout_t of_d, const cublasLtMatmulAlgo_t *given,
                                       cublasLtMatmulHeuristicResult_t *found)
{
    if (!(handle = own(handle)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    BLAS_CHECK(how && given && found && inside_of<const algorithm>(given)->id == ONLY_ALGORITHM);
    return judge(how, of_a, of_b, of_c, of_d, found);
}

/* ---- transforms ---- */

cublasStatus_t cublasLtMatrixTransform(cublasLtHandle_t handle, cublasLtMatrixTransformDesc_t how, const void *alpha,
                                       const void *a, cublasLtMatrixLayout_t of_a, const void *beta, const void *b,
                                       cublasLtMatrixLayout_t of_b, void *c, cublasLtMatrixLayout_t of_c,
                                       cudaStream_t stream)
{
    static const struct {
        cudaDataType type, scale;
        adder *function;
    } all[] = {
        {CUDA_R_32F, CUDA_R_32F, add_float},   {CUDA_R_16F, CUDA_R_32F, add_half},
        {CUDA_R_16BF, CUDA_R_32F, add_bfloat}, {CUDA_R_64F, CUDA_R_64F, add_double},
        {CUDA_R_32I, CUDA_R_32I, add_int},     {CUDA_R_8I, CUDA_R_32F, add_char},
        {CUDA_C_32F, CUDA_C_32F, add_complex}, {CUDA_C_64F, CUDA_C_64F, add_double_complex},
    };
    if (!(handle = own(handle)))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    BLAS_CHECK(how && of_c && c && (of_a || of_b) && (!a || of_a) && (!b || of_b));
    const transform &by = *inside_of<transform>(how);
    const layout &to = *inside_of<layout>(of_c);
    const cublasOperation_t ops[] = {(cublasOperation_t)by.opa, (cublasOperation_t)by.opb};
    const cublasLtMatrixLayout_t layouts[] = {of_a, of_b};
    BLAS_CHECK(is_operation(ops[0]) && is_operation(ops[1]) && is_layout(&to));
    if (!is_ordered(&to))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    ending read{};
    if (cublasStatus_t failed = factors_of(by.pointers, by.scale, alpha ? alpha : &by, beta ? beta : &by, 0, read))
        return failed;
    sum_of_two sum{
        (i64)to.rows,          (i64)to.columns,      to.count, read.alpha, read.beta, {}, {}, place_of(c, to, false),
        ops[0] >= CUBLAS_OP_C, ops[1] >= CUBLAS_OP_C};
    place *const places[] = {&sum.a, &sum.b};
    const void *const firsts[] = {alpha ? a : nullptr, beta ? b : nullptr};
    for (int i = 0; i < 2; i++) {
        if (!firsts[i])
            continue;
        const layout &from = *inside_of<layout>(layouts[i]);
        const bool turned = is_turned(ops[i]);
        BLAS_CHECK(is_layout(&from) && from.rows == (turned ? to.columns : to.rows) &&
                   from.columns == (turned ? to.rows : to.columns) && from.count == to.count);
        if (!is_ordered(&from) || from.type != to.type)
            return CUBLAS_STATUS_NOT_SUPPORTED;
        *places[i] = place_of(firsts[i], from, turned);
    }
    if (sum.rows == 0 || sum.columns == 0)
        return CUBLAS_STATUS_SUCCESS;
    for (const auto &one : all)
        if (one.type == (cudaDataType)to.type && one.scale == (cudaDataType)by.scale)
            return one.function(stream, sum);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- versions and words: those of cuBLAS ---- */

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}
size_t cublasLtGetCudartVersion(void)
{
    return cublasGetCudartVersion();
}
cublasStatus_t cublasLtGetProperty(libraryPropertyType type, int *value)
{
    return cublasGetProperty(type, value);
}
const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return cublasGetStatusName(status);
}
const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasGetStatusString(status);
}
