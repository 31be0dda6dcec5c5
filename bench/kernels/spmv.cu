/* Product of a sparse matrix and a vector, a thread per row; row i has the elements starts[i] to starts[i + 1] - 1. */
extern "C" __global__ void spmv(unsigned rows, const unsigned *__restrict__ starts,
                                const unsigned *__restrict__ columns, const float *__restrict__ values,
                                const float *__restrict__ x, float *__restrict__ y)
{
    unsigned row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows)
        return;
    float sum = 0.0f;
    for (unsigned k = starts[row]; k < starts[row + 1]; k++)
        sum += values[k] * x[columns[k]];
    y[row] = sum;
}
