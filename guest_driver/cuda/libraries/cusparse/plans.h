// Plans of triangular solves and incomplete factors: rows in levels, so that rows of a level do not wait for each
// other.
#pragma once
#include <vector>

#include "descriptors.h"

namespace vgc_sparse
{
// Entries of rows by their places among the matrix's values, on the device.
struct Structure {
    const int *order, *levels, *offsets, *columns, *places, *diagonals; // diagonals: -1 for rows that lack theirs
    int *pivot;                                                         // least row with a pivot of zero
};
struct Solve {
    Structure structure;
    const void *values;
    int unit, conjugated, conjugates_b;
    Dense b, x;
    int cols;
    Scalar alpha;
};
struct Factor {
    Structure structure;
    void *values;
    int boosted; // pivots of at most `tolerance` become `boost`
    double tolerance, boost_re, boost_im;
};
// Consecutive levels that one launch works off: in one block, unless it is a single wide level.
struct Stage {
    int first, end;
    unsigned blocks;
};
typedef cudaError_t SolveLaunch(const Solve &solve, const Stage &stage, cudaStream_t stream);
typedef cudaError_t FactorLaunch(const Factor &factor, const Stage &stage, cudaStream_t stream);
SolveLaunch solve_s, solve_d, solve_c, solve_z;
FactorLaunch lu_s, lu_d, lu_c, lu_z, cholesky_s, cholesky_d, cholesky_c, cholesky_z;

enum class Part { TRIANGLE, FACTOR };

class Plan
{
  public:
    ~Plan();
    // Reads the matrix, which the stream may still be writing. TRIANGLE: entries beside the diagonal of the triangle
    // that the descriptor names, of rows of op(A). FACTOR: all entries, in levels of the lower triangle.
    cusparseStatus_t analyse(const cusparseSpMatDescr &a, cusparseOperation_t operation, Part part,
                             cudaStream_t stream);
    bool is_for(const cusparseSpMatDescr &a, cusparseOperation_t operation) const;
    Structure structure() const;
    template <class Work, class Launch>
    cusparseStatus_t run(const Work &work, Launch *launch, cudaStream_t stream) const
    {
        for (const Stage &stage : stages_)
            TRY(status_of(launch(work, stage, stream)));
        return CUSPARSE_STATUS_SUCCESS;
    }
    cusparseStatus_t forget_pivot(cudaStream_t stream);
    // Waits, and writes the first row (or row of blocks) that lacks a pivot, else -1; by the handle's pointer mode.
    cusparseStatus_t tell_pivot(const cusparseContext &context, int *position) const;
    // Copies all values of the matrix, or those of its diagonal in the order of rows, for solves from now on.
    cusparseStatus_t update(const void *values, bool only_diagonal, cudaStream_t stream);
    // Values of the matrix that an update has put in place of the descriptor's; null without one.
    void *updated = nullptr;

  private:
    int *device_ = nullptr;
    int rows_ = -1, entries_ = 0, levels_ = 0, missing_ = 0x7fffffff, block_ = 1, base_ = 0;
    cusparseOperation_t operation_ = CUSPARSE_OPERATION_NON_TRANSPOSE;
    std::vector<Stage> stages_;
    const void *values_ = nullptr;
    size_t bytes_ = 0, element_ = 0;
    bool lacks_diagonal_ = false;
};
} // namespace vgc_sparse

// Functions of the API for an analysis, such as bsrsv2Info: made, destroyed, and asked for a zero on the diagonal.
#define INFO_FUNCTIONS(UPPER, NAME)                                                                                    \
    API cusparseStatus_t cusparseCreate##UPPER##Info(NAME##Info_t *info)                                               \
    {                                                                                                                  \
        CHECK(info, INVALID_VALUE);                                                                                    \
        *info = new (std::nothrow) NAME##Info;                                                                         \
        return *info ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;                                         \
    }                                                                                                                  \
    API cusparseStatus_t cusparseDestroy##UPPER##Info(NAME##Info_t info)                                               \
    {                                                                                                                  \
        return info ? drop(info) : CUSPARSE_STATUS_SUCCESS;                                                            \
    }                                                                                                                  \
    API cusparseStatus_t cusparseX##NAME##_zeroPivot(cusparseHandle_t handle, NAME##Info_t info, int *position)        \
    {                                                                                                                  \
        CHECK(handle, NOT_INITIALIZED);                                                                                \
        CHECK(info &&position, INVALID_VALUE);                                                                         \
        return info->plan.tell_pivot(*handle, position);                                                               \
    }
