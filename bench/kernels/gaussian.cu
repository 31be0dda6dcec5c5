/* Gaussian elimination without pivoting, a column per pair of launches: the factors of the rows below `step`. */
extern "C" __global__ void gaussian_factors(int n, int step, const float *a, float *factors)
{
    int row = step + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    if (row < n)
        factors[row] = a[row * n + step] / a[step * n + step];
}

/* Subtracts row `step` from the rows below it, in blocks of few threads. */
extern "C" __global__ void gaussian_rows(int n, int step, float *a, float *b, const float *factors)
{
    int column = step + blockIdx.x * blockDim.x + threadIdx.x;
    int row = step + 1 + blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || column >= n)
        return;
    a[row * n + column] -= factors[row] * a[step * n + column];
    if (column == step)
        b[row] -= factors[row] * b[step];
}
