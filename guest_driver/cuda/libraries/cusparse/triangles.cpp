// Triangular solves. The analysis, on the host, puts rows that do not wait for each other into one level.
#include <algorithm>
#include <new>
#include <vector>

#include "descriptors.h"

using namespace vgc_sparse;

struct cusparseSpSVDescr {
    int *structure; // on the device: order, levels, offsets, columns, places, diagonals
    int rows, level_count, entries;
    cusparseOperation_t operation;
};

namespace
{
std::vector<long long> indices_of(const void *data, cusparseIndexType_t type, int64_t count, int base,
                                  cudaError_t &error)
{
    std::vector<long long> wide((size_t)count);
    if (type == CUSPARSE_INDEX_64I) {
        error = error ? error : cudaMemcpy(wide.data(), data, (size_t)count * 8, cudaMemcpyDeviceToHost);
    } else {
        std::vector<int> narrow((size_t)count);
        error = error ? error : cudaMemcpy(narrow.data(), data, (size_t)count * 4, cudaMemcpyDeviceToHost);
        std::copy(narrow.begin(), narrow.end(), wide.begin());
    }
    for (long long &index : wide)
        index -= base;
    return wide;
}

struct Entry {
    int row, column, place;
};

// Entries of the triangle without its diagonal, in the order of the rows of op(A).
struct Triangle {
    int rows;
    bool lower;
    std::vector<Entry> entries;
    std::vector<int> diagonals, offsets;
};

cusparseStatus_t read(const cusparseSpMatDescr &a, bool transposed, Triangle &triangle)
{
    cudaError_t error = cudaSuccess;
    const auto offsets = indices_of(a.offsets, a.offset_type, a.rows + 1, a.base, error);
    const auto columns = indices_of(a.indices, a.index_type, a.nnz, a.base, error);
    if (error != cudaSuccess)
        return CUSPARSE_STATUS_EXECUTION_FAILED;
    triangle.rows = (int)a.rows;
    triangle.lower = (a.fill == CUSPARSE_FILL_MODE_LOWER) != transposed;
    triangle.diagonals.assign((size_t)a.rows, -1);
    for (int row = 0; row < a.rows; row++) {
        if (offsets[row] < 0 || offsets[row + 1] < offsets[row] || offsets[row + 1] > a.nnz)
            return CUSPARSE_STATUS_INVALID_VALUE;
        for (long long place = offsets[row]; place < offsets[row + 1]; place++) {
            const long long column = columns[(size_t)place];
            if (column < 0 || column >= a.cols)
                return CUSPARSE_STATUS_INVALID_VALUE;
            if (column == row)
                triangle.diagonals[row] = (int)place;
            else if ((column < row) == (a.fill == CUSPARSE_FILL_MODE_LOWER))
                triangle.entries.push_back(transposed ? Entry{(int)column, row, (int)place}
                                                      : Entry{row, (int)column, (int)place});
        }
    }
    std::sort(triangle.entries.begin(), triangle.entries.end(),
              [](const Entry &x, const Entry &y) { return x.row != y.row ? x.row < y.row : x.place < y.place; });
    triangle.offsets.assign((size_t)a.rows + 1, 0);
    for (const Entry &entry : triangle.entries)
        triangle.offsets[entry.row + 1]++;
    for (int row = 0; row < a.rows; row++)
        triangle.offsets[row + 1] += triangle.offsets[row];
    return CUSPARSE_STATUS_SUCCESS;
}

// A row's level is above those of the rows that it needs. Returns where each level begins in `order`, and the end.
std::vector<int> level_rows(const Triangle &triangle, std::vector<int> &order)
{
    std::vector<int> level((size_t)triangle.rows), starts{0};
    for (int i = 0; i < triangle.rows; i++) {
        const int row = triangle.lower ? i : triangle.rows - 1 - i;
        for (int at = triangle.offsets[row]; at < triangle.offsets[row + 1]; at++)
            level[row] = std::max(level[row], level[triangle.entries[at].column] + 1);
        if (starts.size() < (size_t)level[row] + 2)
            starts.resize((size_t)level[row] + 2);
        starts[level[row] + 1]++;
    }
    for (size_t i = 1; i < starts.size(); i++)
        starts[i] += starts[i - 1];
    std::vector<int> next = starts;
    order.resize((size_t)triangle.rows);
    for (int row = 0; row < triangle.rows; row++)
        order[next[level[row]]++] = row;
    return starts;
}

cusparseStatus_t analyse(cusparseSpSVDescr &plan, const cusparseSpMatDescr &a, cusparseOperation_t operation)
{
    Triangle triangle = {};
    if (const cusparseStatus_t status = read(a, operation != CUSPARSE_OPERATION_NON_TRANSPOSE, triangle))
        return status;
    std::vector<int> structure;
    const std::vector<int> starts = level_rows(triangle, structure);
    structure.insert(structure.end(), starts.begin(), starts.end());
    structure.insert(structure.end(), triangle.offsets.begin(), triangle.offsets.end());
    for (const Entry &entry : triangle.entries)
        structure.push_back(entry.column);
    for (const Entry &entry : triangle.entries)
        structure.push_back(entry.place);
    structure.insert(structure.end(), triangle.diagonals.begin(), triangle.diagonals.end());
    cudaFree(plan.structure);
    plan.structure = nullptr;
    if (cudaMalloc((void **)&plan.structure, structure.size() * sizeof(int)) != cudaSuccess) {
        cudaGetLastError();
        return CUSPARSE_STATUS_INSUFFICIENT_RESOURCES;
    }
    plan.rows = triangle.rows;
    plan.level_count = (int)starts.size() - 1;
    plan.entries = (int)triangle.entries.size();
    plan.operation = operation;
    return status_of(
        cudaMemcpy(plan.structure, structure.data(), structure.size() * sizeof(int), cudaMemcpyHostToDevice));
}

cusparseStatus_t check(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                       cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x, cusparseDnVecDescr_t y,
                       cudaDataType type, cusparseSpSVDescr_t plan)
{
    if (!handle)
        return CUSPARSE_STATUS_NOT_INITIALIZED;
    if (!alpha || !a || !x || !y || !plan || !is_operation(operation) || a->rows != a->cols || x->size != a->rows ||
        y->size != a->rows)
        return CUSPARSE_STATUS_INVALID_VALUE;
    if (a->format != CUSPARSE_FORMAT_CSR || a->type != type || x->type != type || y->type != type ||
        a->nnz > 0x7fffffff || a->rows >= 0x7fffffff)
        return CUSPARSE_STATUS_NOT_SUPPORTED;
    return CUSPARSE_STATUS_SUCCESS;
}
} // namespace

API cusparseStatus_t cusparseSpSV_createDescr(cusparseSpSVDescr_t *plan)
{
    if (!plan)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *plan = new (std::nothrow) cusparseSpSVDescr{};
    return *plan ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_ALLOC_FAILED;
}
API cusparseStatus_t cusparseSpSV_destroyDescr(cusparseSpSVDescr_t plan)
{
    if (!plan)
        return CUSPARSE_STATUS_INVALID_VALUE;
    cudaFree(plan->structure);
    delete plan;
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                             cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                             cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                             cusparseSpSVDescr_t plan, size_t *size)
{
    if (const cusparseStatus_t status = check(handle, operation, alpha, a, x, y, type, plan))
        return status;
    if (!size)
        return CUSPARSE_STATUS_INVALID_VALUE;
    *size = 8; // the structure is the descriptor's own
    return CUSPARSE_STATUS_SUCCESS;
}
API cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                           cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                           cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                           cusparseSpSVDescr_t plan, void *)
{
    if (const cusparseStatus_t status = check(handle, operation, alpha, a, x, y, type, plan))
        return status;
    if (cudaStreamSynchronize(handle->stream) != cudaSuccess) // which may still be writing the matrix
        return CUSPARSE_STATUS_EXECUTION_FAILED;
    return analyse(*plan, *a, operation);
}
API cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t handle, cusparseOperation_t operation, const void *alpha,
                                        cusparseConstSpMatDescr_t a, cusparseConstDnVecDescr_t x,
                                        cusparseDnVecDescr_t y, cudaDataType type, cusparseSpSVAlg_t,
                                        cusparseSpSVDescr_t plan)
{
    if (const cusparseStatus_t status = check(handle, operation, alpha, a, x, y, type, plan))
        return status;
    if (!plan->structure || plan->rows != a->rows || plan->operation != operation)
        return CUSPARSE_STATUS_INVALID_VALUE;
    Solve solve = {};
    solve.values = a->values;
    solve.order = plan->structure;
    solve.levels = solve.order + plan->rows;
    solve.offsets = solve.levels + plan->level_count + 1;
    solve.columns = solve.offsets + plan->rows + 1;
    solve.places = solve.columns + plan->entries;
    solve.diagonals = solve.places + plan->entries;
    solve.level_count = plan->level_count;
    solve.unit = a->diagonal == CUSPARSE_DIAG_TYPE_UNIT;
    solve.conjugated = operation == CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE && is_complex(type);
    solve.b = {x->values, 1, x->size};
    solve.x = {y->values, 1, y->size};
    solve.cols = 1;
    solve.alpha = scalar_of(*handle, type, alpha);
    return status_of(launches_of(type)->solve(solve, handle->stream));
}
