#pragma once
#if __has_include_next(<cub/device/device_spmv.cuh>)
#include_next <cub/device/device_spmv.cuh>
#else
#include <cub/config.cuh>
CUB_NAMESPACE_BEGIN
/* A row of a sparse matrix and thread. */
template <class T>
__global__ void __vgc_spmv(const T *values, const int *row_offsets, const int *columns, const T *x, T *y, int rows)
{
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    T sum = T();
    for (int at = row_offsets[row]; at < row_offsets[row + 1]; at++)
        sum += values[at] * x[columns[at]];
    y[row] = sum;
}

struct DeviceSpmv {
    /* y = A x, of a matrix of compressed rows. */
    template <class T>
    static cudaError_t CsrMV(void *temporary, size_t &temporary_bytes, const T *values, const int *row_offsets,
                             const int *columns, const T *x, T *y, int rows, int, int, cudaStream_t stream = 0) {
        if (temporary == nullptr) {
            temporary_bytes = 1;
            return cudaSuccess;
        }
        if (rows > 0)
            __vgc_spmv<<<(rows + 127) / 128, 128, 0, stream>>>(values, row_offsets, columns, x, y, rows);
        return cudaGetLastError();
    }
};
CUB_NAMESPACE_END
#endif
