// Products of a sparse matrix, in compressed rows, and a vector. Some lanes of a warp take a row. Each index of the
// VM's is read once and checked.
#include "common.cuh"

namespace vgc
{
/* Sum of the elements of a row that this lane takes. A wrong index counts as column 0, and is reported. */
template <class T, class Index> __device__ T sum_row(const spmv_call &call, u64 begin, u64 end)
{
    const T *values = at<const T>(call.values), *x = at<const T>(call.x);
    T sum = 0;
    for (u64 i = begin + threadIdx.x % call.lanes; i < end; i += call.lanes) {
        auto column = static_cast<u64>(read_once(at<const Index>(call.indices) + i));
        if (column >= call.columns) {
            fail(call.status, WRONG_COLUMN);
            column = 0;
        }
        sum += values[i] * x[column];
    }
    return sum;
}

/* Elements of a row; none if there is something wrong with it, which is reported. */
template <class Index> __device__ u64 elements_of(const spmv_call &call, u64 row, u64 *begin)
{
    const Index *starts = at<const Index>(call.row_starts) + row;
    *begin = static_cast<u64>(read_once(starts));
    auto end = static_cast<u64>(read_once(starts + 1));
    bool is_wrong = *begin > end || end > call.nonzeros;
    if (is_wrong)
        fail(call.status, WRONG_ROW);
    else if (*begin < end && call.columns == 0)
        fail(call.status, WRONG_COLUMN);
    else
        return end - *begin;
    return 0;
}

template <class T, class Index> __device__ void multiply(const spmv_call &call)
{
    u32 lanes = call.lanes;
    auto alpha = static_cast<T>(call.alpha), beta = static_cast<T>(call.beta);
    u64 padded = divide_up(call.rows, THREADS / lanes) * (THREADS / lanes); /* so that warps stay together */
    for (u64 row = first_item() / lanes; row < padded; row += all_threads() / lanes) {
        u64 begin = 0, count = row < call.rows ? elements_of<Index>(call, row, &begin) : 0;
        T sum = count > 0 ? sum_row<T, Index>(call, begin, begin + count) : T(0);
        for (u32 width = lanes / 2; width > 0; width /= 2)
            sum += __shfl_down_sync(ALL_LANES, sum, width, lanes);
        if (row < call.rows && threadIdx.x % lanes == 0) {
            T *y = at<T>(call.y) + row;
            *y = (beta == 0 ? T(0) : beta * *y) + (count > 0 ? alpha * sum : T(0));
        }
    }
}
} // namespace vgc

KERNEL sparse_clear(const spmv_call call)
{
    if (threadIdx.x == 0)
        *vgc::at<u32>(call.status) = 0;
}

KERNEL sparse_spmv_f32_i32(const spmv_call call)
{
    vgc::multiply<float, i32>(call);
}
KERNEL sparse_spmv_f32_i64(const spmv_call call)
{
    vgc::multiply<float, i64>(call);
}
KERNEL sparse_spmv_f64_i32(const spmv_call call)
{
    vgc::multiply<double, i32>(call);
}
KERNEL sparse_spmv_f64_i64(const spmv_call call)
{
    vgc::multiply<double, i64>(call);
}
