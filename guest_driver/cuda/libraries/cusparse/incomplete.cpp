// Incomplete LU and Cholesky factors of CSR and BSR. Within blocks there are no gaps, so that a factor of blocks is the
// factor of all their numbers.
#include "legacy.h"
#include "plans.h"

using namespace vgc_sparse;

namespace
{
struct Info {
    Plan plan;
    bool boosted = false;
    double tolerance = 0, re = 0, im = 0;
};
} // namespace
struct csrilu02Info : Info {
};
struct csric02Info : Info {
};
struct bsrilu02Info : Info {
};
struct bsric02Info : Info {
};

namespace
{
const ByType<FactorLaunch> LU = {lu_s, lu_d, lu_c, lu_z}, CHOLESKY = {cholesky_s, cholesky_d, cholesky_c, cholesky_z};

cusparseStatus_t check(cusparseHandle_t handle, cusparseMatDescr_t about, int rows, int nnz, const void *values,
                       const void *offsets, const void *columns, int block, const void *info)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(about && info && rows >= 0 && nnz >= 0 && block > 0, INVALID_VALUE);
    CHECK((!rows || offsets) && (!nnz || (values && columns)), INVALID_VALUE);
    CHECK(about->type == CUSPARSE_MATRIX_TYPE_GENERAL, MATRIX_TYPE_NOT_SUPPORTED);
    return CUSPARSE_STATUS_SUCCESS;
}
template <class Size> cusparseStatus_t tell_size(Size *size)
{
    CHECK(size, INVALID_VALUE);
    *size = 8; // the structure is the info's own
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t analyse(const cusparseContext &context, Info &info, const cusparseSpMatDescr &a)
{
    return info.plan.analyse(a, CUSPARSE_OPERATION_NON_TRANSPOSE, Part::FACTOR, context.stream);
}
cusparseStatus_t factor(const cusparseContext &context, Info &info, const cusparseSpMatDescr &a, FactorLaunch *launch)
{
    CHECK(info.plan.is_for(a, CUSPARSE_OPERATION_NON_TRANSPOSE), INVALID_VALUE);
    TRY(info.plan.forget_pivot(context.stream));
    Factor work = {};
    work.structure = info.plan.structure();
    work.values = a.values;
    work.boosted = info.boosted;
    work.tolerance = info.tolerance;
    work.boost_re = info.re;
    work.boost_im = info.im;
    return info.plan.run(work, launch, context.stream);
}
// By the pointer mode, as for other scalars.
cusparseStatus_t set_boost(cusparseHandle_t handle, Info *info, int enabled, const double *tolerance, cudaDataType type,
                           const void *boost)
{
    CHECK(handle, NOT_INITIALIZED);
    CHECK(info && (!enabled || (tolerance && boost)), INVALID_VALUE);
    info->boosted = enabled;
    if (!enabled)
        return CUSPARSE_STATUS_SUCCESS;
    double value[2] = {};
    TRY(status_of(cudaMemcpy(&info->tolerance, tolerance, sizeof(double), cudaMemcpyDefault)));
    TRY(status_of(cudaMemcpy(value, boost, size_of(type), cudaMemcpyDefault)));
    const cusparseContext host = {handle->stream, CUSPARSE_POINTER_MODE_HOST};
    const Scalar read = scalar_of(host, type, value);
    info->re = read.re;
    info->im = read.im;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

INFO_FUNCTIONS(Csrilu02, csrilu02)
INFO_FUNCTIONS(Csric02, csric02)
INFO_FUNCTIONS(Bsrilu02, bsrilu02)
INFO_FUNCTIONS(Bsric02, bsric02)

#define CSR_FACTOR(NAME, LAUNCHES, S, T, TYPE)                                                                         \
    API cusparseStatus_t cusparse##S##NAME##_bufferSize(cusparseHandle_t handle, int m, int nnz,                       \
                                                        const cusparseMatDescr_t about, T *values, const int *offsets, \
                                                        const int *columns, NAME##Info_t info, int *size)              \
    {                                                                                                                  \
        TRY(check(handle, about, m, nnz, values, offsets, columns, 1, info));                                          \
        return tell_size(size);                                                                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME##_bufferSizeExt(                                                            \
        cusparseHandle_t handle, int m, int nnz, const cusparseMatDescr_t about, T *values, const int *offsets,        \
        const int *columns, NAME##Info_t info, size_t *size)                                                           \
    {                                                                                                                  \
        TRY(check(handle, about, m, nnz, values, offsets, columns, 1, info));                                          \
        return tell_size(size);                                                                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME##_analysis(                                                                 \
        cusparseHandle_t handle, int m, int nnz, const cusparseMatDescr_t about, const T *values, const int *offsets,  \
        const int *columns, NAME##Info_t info, cusparseSolvePolicy_t, void *)                                          \
    {                                                                                                                  \
        TRY(check(handle, about, m, nnz, values, offsets, columns, 1, info));                                          \
        return analyse(*handle, *info, matrix_of(*about, TYPE, m, m, nnz, values, offsets, columns));                  \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME(cusparseHandle_t handle, int m, int nnz, const cusparseMatDescr_t about,    \
                                           T *values, const int *offsets, const int *columns, NAME##Info_t info,       \
                                           cusparseSolvePolicy_t, void *)                                              \
    {                                                                                                                  \
        TRY(check(handle, about, m, nnz, values, offsets, columns, 1, info));                                          \
        return factor(*handle, *info, matrix_of(*about, TYPE, m, m, nnz, values, offsets, columns), LAUNCHES[TYPE]);   \
    }
#define BSR_FACTOR(NAME, LAUNCHES, S, T, TYPE)                                                                         \
    API cusparseStatus_t cusparse##S##NAME##_bufferSize(                                                               \
        cusparseHandle_t handle, cusparseDirection_t, int mb, int nnzb, const cusparseMatDescr_t about, T *values,     \
        const int *offsets, const int *columns, int block, NAME##Info_t info, int *size)                               \
    {                                                                                                                  \
        TRY(check(handle, about, mb, nnzb, values, offsets, columns, block, info));                                    \
        return tell_size(size);                                                                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME##_bufferSizeExt(                                                            \
        cusparseHandle_t handle, cusparseDirection_t, int mb, int nnzb, const cusparseMatDescr_t about, T *values,     \
        const int *offsets, const int *columns, int block, NAME##Info_t info, size_t *size)                            \
    {                                                                                                                  \
        TRY(check(handle, about, mb, nnzb, values, offsets, columns, block, info));                                    \
        return tell_size(size);                                                                                        \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME##_analysis(cusparseHandle_t handle, cusparseDirection_t direction, int mb,  \
                                                      int nnzb, const cusparseMatDescr_t about, const T *values,       \
                                                      const int *offsets, const int *columns, int block,               \
                                                      NAME##Info_t info, cusparseSolvePolicy_t, void *)                \
    {                                                                                                                  \
        TRY(check(handle, about, mb, nnzb, values, offsets, columns, block, info));                                    \
        return analyse(*handle, *info,                                                                                 \
                       matrix_of(*about, TYPE, mb, mb, nnzb, values, offsets, columns, block, direction));             \
    }                                                                                                                  \
    API cusparseStatus_t cusparse##S##NAME(cusparseHandle_t handle, cusparseDirection_t direction, int mb, int nnzb,   \
                                           const cusparseMatDescr_t about, T *values, const int *offsets,              \
                                           const int *columns, int block, NAME##Info_t info, cusparseSolvePolicy_t,    \
                                           void *)                                                                     \
    {                                                                                                                  \
        TRY(check(handle, about, mb, nnzb, values, offsets, columns, block, info));                                    \
        return factor(*handle, *info,                                                                                  \
                      matrix_of(*about, TYPE, mb, mb, nnzb, values, offsets, columns, block, direction),               \
                      LAUNCHES[TYPE]);                                                                                 \
    }
#define BOOST(NAME, S, T, TYPE)                                                                                        \
    API cusparseStatus_t cusparse##S##NAME##_numericBoost(cusparseHandle_t handle, NAME##Info_t info, int enabled,     \
                                                          double *tolerance, T *boost)                                 \
    {                                                                                                                  \
        return set_boost(handle, info, enabled, tolerance, TYPE, boost);                                               \
    }
#define FACTORS(S, T, TYPE)                                                                                            \
    CSR_FACTOR(csrilu02, LU, S, T, TYPE)                                                                               \
    CSR_FACTOR(csric02, CHOLESKY, S, T, TYPE)                                                                          \
    BSR_FACTOR(bsrilu02, LU, S, T, TYPE)                                                                               \
    BSR_FACTOR(bsric02, CHOLESKY, S, T, TYPE)                                                                          \
    BOOST(csrilu02, S, T, TYPE)                                                                                        \
    BOOST(bsrilu02, S, T, TYPE)
SPARSE_TYPES(FACTORS)
