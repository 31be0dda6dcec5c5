// Products of a sparse matrix, in compressed rows, and a vector. Each index of the VM's is read once and checked.
#include "planners.h"
#include "read_once.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

namespace vgc
{
namespace
{
constexpr double ELEMENT_NS = 1.2;
constexpr const char *WRONG_ROW = "row_starts fall, or leave the elements of the matrix";
constexpr const char *WRONG_COLUMN = "an index is not a column of the matrix";

struct Call {
    vgc_spmv_params p;
    Head *head;
    Split split;
};

/* Sum of the elements of a row. A wrong index counts as column 0, and is reported. */
template <class T, class Index> T sum_row(const vgc_spmv_params &p, uint64_t begin, uint64_t end, bool *is_wrong)
{
    const Index *indices = at<const Index>(p.indices);
    const T *values = at<const T>(p.values), *x = at<const T>(p.x);
    auto columns = static_cast<uint64_t>(p.columns);
    T sum = 0;
    for (uint64_t i = begin; i < end; i++) {
        auto column = static_cast<uint64_t>(read_once(&indices[i]));
        bool is_column = column < columns;
        *is_wrong |= !is_column;
        sum += values[i] * x[is_column ? column : 0];
    }
    return sum;
}

template <class T, class Index> void run_rows(const Call &call, uint64_t block)
{
    const vgc_spmv_params &p = call.p;
    const Index *starts = at<const Index>(p.row_starts);
    auto alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
    auto nonzeros = static_cast<uint64_t>(p.nonzeros);
    bool is_wrong = false;
    auto begin = static_cast<uint64_t>(read_once(&starts[call.split.begin(block)]));
    for (uint64_t row = call.split.begin(block); row < call.split.end(block); row++) {
        auto end = static_cast<uint64_t>(read_once(&starts[row + 1]));
        if (begin > end || end > nonzeros)
            return fail(call.head, WRONG_ROW);
        if (begin < end && p.columns == 0)
            return fail(call.head, WRONG_COLUMN);
        T *y = at<T>(p.y) + row;
        T old = beta == T(0) ? T(0) : beta * *y;
        *y = old + (begin == end ? T(0) : alpha * sum_row<T, Index>(p, begin, end, &is_wrong));
        begin = end;
    }
    if (is_wrong)
        fail(call.head, WRONG_COLUMN);
}

template <class T, class Index> void plan_spmv(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_spmv_params *>(params);
    if (p.rows == 0)
        return;
    double row_ns = 3 + ELEMENT_NS * static_cast<double>(p.nonzeros) / static_cast<double>(p.rows);
    plan.expect(row_ns * static_cast<double>(p.rows));
    Call call = {p, plan.head(), plan.split(static_cast<uint64_t>(p.rows), row_ns)};
    plan.add<run_rows<T, Index>>(call.split.blocks(), plan.keep(call));
}
} // namespace

Planner sparse_planner(uint32_t function, uint32_t type)
{
    if (function == VGC_FN_SPMV_I32)
        return type == VGC_TYPE_F32 ? plan_spmv<float, int32_t> : plan_spmv<double, int32_t>;
    return type == VGC_TYPE_F32 ? plan_spmv<float, int64_t> : plan_spmv<double, int64_t>;
}
} // namespace vgc
