constexpr int TILE = 16;

/* LU decomposition in place, tile by tile along the diagonal; `at` is the first row and column of the diagonal's tile,
 * which this kernel decomposes with a block of TILE threads. */
extern "C" __global__ void __launch_bounds__(TILE) lud_diagonal(float *a, int n, int at)
{
    __shared__ float tile[TILE][TILE];
    int thread = threadIdx.x;
    for (int row = 0; row < TILE; row++)
        tile[row][thread] = a[(at + row) * n + at + thread];
    __syncthreads();
    for (int step = 0; step < TILE - 1; step++) {
        if (thread > step) {
            float factor = tile[thread][step] / tile[step][step];
            tile[thread][step] = factor;
            for (int column = step + 1; column < TILE; column++)
                tile[thread][column] -= factor * tile[step][column];
        }
        __syncthreads();
    }
    for (int row = 0; row < TILE; row++)
        a[(at + row) * n + at + thread] = tile[row][thread];
}

/* Tiles right of the diagonal's (the block's first TILE threads, a column each) and below it (the others, a row each).
 */
extern "C" __global__ void __launch_bounds__(2 * TILE) lud_perimeter(float *a, int n, int at)
{
    __shared__ float diagonal[TILE][TILE];
    __shared__ float right[TILE][TILE];
    __shared__ float below[TILE][TILE];
    int lane = threadIdx.x % TILE;
    bool is_right = threadIdx.x < TILE;
    int to = at + (blockIdx.x + 1) * TILE;
    for (int row = 0; row < TILE; row++)
        if (is_right) {
            diagonal[row][lane] = a[(at + row) * n + at + lane];
            right[row][lane] = a[(at + row) * n + to + lane];
        } else {
            below[row][lane] = a[(to + row) * n + at + lane];
        }
    __syncthreads();
    if (is_right) {
        for (int row = 1; row < TILE; row++)
            for (int k = 0; k < row; k++)
                right[row][lane] -= diagonal[row][k] * right[k][lane];
    } else {
        for (int column = 0; column < TILE; column++) {
            for (int k = 0; k < column; k++)
                below[lane][column] -= below[lane][k] * diagonal[k][column];
            below[lane][column] /= diagonal[column][column];
        }
    }
    __syncthreads();
    for (int row = 0; row < TILE; row++)
        if (is_right)
            a[(at + row) * n + to + lane] = right[row][lane];
        else
            a[(to + row) * n + at + lane] = below[row][lane];
}

/* The other tiles: minus the product of the tile to the left, below the diagonal's, and the one above, right of it. */
extern "C" __global__ void __launch_bounds__(TILE *TILE) lud_inner(float *a, int n, int at)
{
    __shared__ float left[TILE][TILE];
    __shared__ float above[TILE][TILE];
    int x = threadIdx.x, y = threadIdx.y;
    int row = at + (blockIdx.y + 1) * TILE + y;
    int column = at + (blockIdx.x + 1) * TILE + x;
    left[y][x] = a[row * n + at + x];
    above[y][x] = a[(at + y) * n + column];
    __syncthreads();
    float sum = 0.0f;
    for (int k = 0; k < TILE; k++)
        sum += left[y][k] * above[k][x];
    a[row * n + column] -= sum;
}
