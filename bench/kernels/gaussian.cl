/* Gaussian elimination without pivoting, a column per pair of launches: the factors of the rows below `step`. */
__kernel void gaussian_factors(int n, int step, __global const float *a, __global float *factors)
{
    int row = step + 1 + get_global_id(0);
    if (row < n)
        factors[row] = a[row * n + step] / a[step * n + step];
}

/* Subtracts row `step` from the rows below it, in groups of few items. */
__kernel void gaussian_rows(int n, int step, __global float *a, __global float *b, __global const float *factors)
{
    int column = step + get_global_id(0);
    int row = step + 1 + get_global_id(1);
    if (row >= n || column >= n)
        return;
    a[row * n + column] -= factors[row] * a[step * n + column];
    if (column == step)
        b[row] -= factors[row] * b[step];
}
