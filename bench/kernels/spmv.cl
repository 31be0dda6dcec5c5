/* Product of a sparse matrix and a vector, an item per row; row i has the elements starts[i] to starts[i + 1] - 1. */
__kernel void spmv(uint rows, __global const uint *restrict starts, __global const uint *restrict columns,
                   __global const float *restrict values, __global const float *restrict x,
                   __global float *restrict y)
{
    uint row = get_global_id(0);
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (uint k = starts[row]; k < starts[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
