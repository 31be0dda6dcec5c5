// Analysis of triangular solves and incomplete factors on the host.
#include <algorithm>

#include "plans.h"
#include "structure.h"

using namespace vgc_sparse;

namespace
{
constexpr int WIDE_LEVEL = 512, NONE = 0x7fffffff;

struct Entry {
    int row, column, place;
};
bool operator<(const Entry &x, const Entry &y)
{
    return x.row != y.row ? x.row < y.row : x.column != y.column ? x.column < y.column : x.place < y.place;
}
struct Rows {
    int count;
    bool lower;
    std::vector<Entry> entries;
    std::vector<int> diagonals, offsets;
};

cusparseStatus_t indices_of(const void *data, cusparseIndexType_t type, int64_t count, int base,
                            std::vector<long long> &wide)
{
    wide.resize((size_t)count);
    cudaError_t error = cudaSuccess;
    if (type == CUSPARSE_INDEX_64I) {
        error = cudaMemcpy(wide.data(), data, (size_t)count * 8, cudaMemcpyDeviceToHost);
    } else {
        std::vector<int> narrow((size_t)count);
        error = cudaMemcpy(narrow.data(), data, (size_t)count * 4, cudaMemcpyDeviceToHost);
        std::copy(narrow.begin(), narrow.end(), wide.begin());
    }
    for (long long &index : wide)
        index -= base;
    return status_of(error);
}

// One number of the matrix, or all those of a block.
cusparseStatus_t add(const cusparseSpMatDescr &a, long long row, long long column, long long at,
                     std::vector<Entry> &entries)
{
    CHECK(row >= 0 && row * a.block_rows < a.rows && column >= 0 && column * a.block_cols < a.cols, INVALID_VALUE);
    for (long long i = 0; i < a.block_rows; i++)
        for (long long j = 0; j < a.block_cols; j++) {
            const long long inside = a.order == CUSPARSE_ORDER_COL ? j * a.block_rows + i : i * a.block_cols + j;
            entries.push_back({(int)(row * a.block_rows + i), (int)(column * a.block_cols + j),
                               (int)(at * a.block_rows * a.block_cols + inside)});
        }
    return CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t read_slices(const cusparseSpMatDescr &a, std::vector<Entry> &entries)
{
    const int64_t slices = (a.rows + a.block_rows - 1) / a.block_rows;
    std::vector<long long> offsets, columns;
    TRY(indices_of(a.offsets, a.offset_type, slices + 1, a.base, offsets));
    TRY(indices_of(a.indices, a.index_type, a.ell_cols, a.base, columns));
    for (int64_t slice = 0; slice < slices; slice++) {
        CHECK(offsets[slice] >= 0 && offsets[slice] <= offsets[slice + 1] && offsets[slice + 1] <= a.ell_cols,
              INVALID_VALUE);
        for (long long at = offsets[slice]; at < offsets[slice + 1]; at++) {
            const long long row = slice * a.block_rows + (at - offsets[slice]) % a.block_rows;
            if (columns[at] >= 0)
                entries.push_back({(int)row, (int)columns[at], (int)at});
            CHECK(columns[at] < a.cols && (columns[at] < 0 || row < a.rows), INVALID_VALUE);
        }
    }
    return CUSPARSE_STATUS_SUCCESS;
}
// All entries of CSR, BSR, COO and SELL.
cusparseStatus_t read(const cusparseSpMatDescr &a, std::vector<Entry> &entries)
{
    if (!a.nnz)
        return CUSPARSE_STATUS_SUCCESS;
    if (a.format == CUSPARSE_FORMAT_SLICED_ELLPACK)
        return read_slices(a, entries);
    const int64_t rows = a.rows / a.block_rows;
    std::vector<long long> offsets, columns;
    TRY(indices_of(a.offsets, a.offset_type, a.format == CUSPARSE_FORMAT_COO ? a.nnz : rows + 1, a.base, offsets));
    TRY(indices_of(a.indices, a.index_type, a.nnz, a.base, columns));
    entries.reserve((size_t)(a.nnz * a.block_rows * a.block_cols));
    if (a.format == CUSPARSE_FORMAT_COO) {
        for (int64_t at = 0; at < a.nnz; at++)
            TRY(add(a, offsets[at], columns[at], at, entries));
        return CUSPARSE_STATUS_SUCCESS;
    }
    for (int64_t row = 0; row < rows; row++) {
        CHECK(offsets[row] >= 0 && offsets[row] <= offsets[row + 1] && offsets[row + 1] <= a.nnz, INVALID_VALUE);
        for (long long at = offsets[row]; at < offsets[row + 1]; at++)
            TRY(add(a, row, columns[at], at, entries));
    }
    return CUSPARSE_STATUS_SUCCESS;
}

// Leaves the entries that the part needs, in the order of rows of op(A).
void arrange(const cusparseSpMatDescr &a, bool transposed, Part part, std::vector<Entry> &all, Rows &rows)
{
    rows.count = (int)a.rows;
    rows.lower = part == Part::FACTOR || (a.fill == CUSPARSE_FILL_MODE_LOWER) != transposed;
    rows.diagonals.assign((size_t)a.rows, -1);
    for (Entry &entry : all)
        if (transposed)
            std::swap(entry.row, entry.column);
    if (!std::is_sorted(all.begin(), all.end()))
        std::sort(all.begin(), all.end());
    for (const Entry &entry : all) {
        if (entry.row == entry.column)
            rows.diagonals[entry.row] = part == Part::FACTOR ? (int)rows.entries.size() : entry.place;
        if (part == Part::FACTOR || (entry.row != entry.column && (entry.column < entry.row) == rows.lower))
            rows.entries.push_back(entry);
    }
    rows.offsets.assign((size_t)a.rows + 1, 0);
    for (const Entry &entry : rows.entries)
        rows.offsets[entry.row + 1]++;
    for (int row = 0; row < rows.count; row++)
        rows.offsets[row + 1] += rows.offsets[row];
}

// A row's level is above those of the rows that it needs. Returns where each level begins in `order`, and the end.
std::vector<int> level_rows(const Rows &rows, std::vector<int> &order)
{
    std::vector<int> level((size_t)rows.count), starts{0};
    for (int i = 0; i < rows.count; i++) {
        const int row = rows.lower ? i : rows.count - 1 - i;
        for (int at = rows.offsets[row]; at < rows.offsets[row + 1]; at++) {
            const int column = rows.entries[at].column;
            if (column != row && (column < row) == rows.lower)
                level[row] = std::max(level[row], level[column] + 1);
        }
        if (starts.size() < (size_t)level[row] + 2)
            starts.resize((size_t)level[row] + 2);
        starts[level[row] + 1]++;
    }
    for (size_t i = 1; i < starts.size(); i++)
        starts[i] += starts[i - 1];
    std::vector<int> next = starts;
    order.resize((size_t)rows.count);
    for (int row = 0; row < rows.count; row++)
        order[next[level[row]]++] = row;
    return starts;
}
std::vector<Stage> stages_of(const std::vector<int> &starts)
{
    std::vector<Stage> stages;
    for (int level = 0; level + 1 < (int)starts.size(); level++) {
        const int width = starts[level + 1] - starts[level];
        if (width > WIDE_LEVEL)
            stages.push_back({level, level + 1, blocks_for(width)});
        else if (!stages.empty() && stages.back().blocks == 1 && stages.back().end == level)
            stages.back().end = level + 1;
        else
            stages.push_back({level, level + 1, 1});
    }
    return stages;
}
} // namespace

Plan::~Plan()
{
    cudaFree(device_);
    cudaFree(updated);
}
bool Plan::is_for(const cusparseSpMatDescr &a, cusparseOperation_t operation) const
{
    return rows_ == a.rows && operation_ == operation;
}
Structure Plan::structure() const
{
    Structure made = {};
    made.order = device_;
    made.levels = made.order + rows_;
    made.offsets = made.levels + levels_ + 1;
    made.columns = made.offsets + rows_ + 1;
    made.places = made.columns + entries_;
    made.diagonals = made.places + entries_;
    made.pivot = (int *)made.diagonals + rows_;
    return made;
}

cusparseStatus_t Plan::analyse(const cusparseSpMatDescr &a, cusparseOperation_t operation, Part part,
                               cudaStream_t stream)
{
    CHECK(a.nnz * a.block_rows * a.block_cols < NONE && a.rows < NONE, NOT_SUPPORTED);
    TRY(status_of(cudaStreamSynchronize(stream)));
    std::vector<Entry> all;
    TRY(read(a, all));
    Rows rows = {};
    arrange(a, operation != CUSPARSE_OPERATION_NON_TRANSPOSE, part, all, rows);
    std::vector<int> numbers;
    const std::vector<int> starts = level_rows(rows, numbers);
    numbers.insert(numbers.end(), starts.begin(), starts.end());
    numbers.insert(numbers.end(), rows.offsets.begin(), rows.offsets.end());
    for (const Entry &entry : rows.entries)
        numbers.push_back(entry.column);
    for (const Entry &entry : rows.entries)
        numbers.push_back(entry.place);
    numbers.insert(numbers.end(), rows.diagonals.begin(), rows.diagonals.end());
    numbers.push_back(NONE);
    cudaFree(device_);
    cudaFree(updated);
    device_ = nullptr;
    updated = nullptr;
    rows_ = -1;
    if (cudaMalloc((void **)&device_, numbers.size() * sizeof(int)) != cudaSuccess) {
        cudaGetLastError();
        return CUSPARSE_STATUS_INSUFFICIENT_RESOURCES;
    }
    entries_ = (int)rows.entries.size();
    levels_ = (int)starts.size() - 1;
    stages_ = stages_of(starts);
    operation_ = operation;
    block_ = a.format == CUSPARSE_FORMAT_BSR ? (int)a.block_rows : 1;
    base_ = a.base == CUSPARSE_INDEX_BASE_ONE;
    const auto missing = std::find(rows.diagonals.begin(), rows.diagonals.end(), -1);
    const bool unit = part == Part::TRIANGLE && a.diagonal == CUSPARSE_DIAG_TYPE_UNIT;
    lacks_diagonal_ = missing != rows.diagonals.end();
    values_ = a.values;
    element_ = size_of(a.type);
    const bool is_sliced = a.format == CUSPARSE_FORMAT_SLICED_ELLPACK;
    bytes_ = (size_t)(is_sliced ? a.ell_cols : a.nnz * a.block_rows * a.block_cols) * element_;
    missing_ = unit || missing == rows.diagonals.end() ? NONE : (int)(missing - rows.diagonals.begin());
    TRY(status_of(cudaMemcpy(device_, numbers.data(), numbers.size() * sizeof(int), cudaMemcpyHostToDevice)));
    rows_ = rows.count;
    return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t Plan::forget_pivot(cudaStream_t stream)
{
    return status_of(cudaMemsetAsync(structure().pivot, 0x7f, sizeof(int), stream)); // above every row
}
cusparseStatus_t Plan::tell_pivot(const cusparseContext &context, int *position) const
{
    int pivot = NONE;
    if (rows_ >= 0) {
        TRY(status_of(cudaStreamSynchronize(context.stream)));
        TRY(status_of(cudaMemcpy(&pivot, structure().pivot, sizeof pivot, cudaMemcpyDeviceToHost)));
        pivot = std::min(pivot, missing_);
    }
    const bool found = rows_ >= 0 && pivot < rows_;
    const int told = found ? pivot / block_ + base_ : -1;
    if (context.mode == CUSPARSE_POINTER_MODE_DEVICE)
        TRY(status_of(cudaMemcpy(position, &told, sizeof told, cudaMemcpyHostToDevice)));
    else
        *position = told;
    return found ? CUSPARSE_STATUS_ZERO_PIVOT : CUSPARSE_STATUS_SUCCESS;
}
cusparseStatus_t Plan::update(const void *values, bool only_diagonal, cudaStream_t stream)
{
    CHECK(rows_ >= 0 && values && !(only_diagonal && lacks_diagonal_), INVALID_VALUE);
    if (!bytes_)
        return CUSPARSE_STATUS_SUCCESS;
    if (!updated) {
        CHECK(cudaMalloc(&updated, bytes_) == cudaSuccess, ALLOC_FAILED);
        TRY(status_of(cudaMemcpyAsync(updated, values_, bytes_, cudaMemcpyDeviceToDevice, stream)));
    }
    if (!only_diagonal)
        return status_of(cudaMemcpyAsync(updated, values, bytes_, cudaMemcpyDefault, stream));
    return status_of(
        scatter_elements(updated, values, {(void *)structure().diagonals, 0, 0}, rows_, (int)element_, stream));
}
