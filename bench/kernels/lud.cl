#define TILE 16

/* LU decomposition in place, tile by tile along the diagonal; `at` is the first row and column of the diagonal's tile,
 * which this kernel decomposes with a group of TILE items. */
__kernel __attribute__((reqd_work_group_size(TILE, 1, 1)))
void lud_diagonal(__global float *a, int n, int at)
{
    __local float tile[TILE][TILE];
    int thread = get_local_id(0);
    for (int row = 0; row < TILE; row++)
        tile[row][thread] = a[(at + row) * n + at + thread];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int step = 0; step < TILE - 1; step++) {
        if (thread > step) {
            float factor = tile[thread][step] / tile[step][step];
            tile[thread][step] = factor;
            for (int column = step + 1; column < TILE; column++)
                tile[thread][column] -= factor * tile[step][column];
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    for (int row = 0; row < TILE; row++)
        a[(at + row) * n + at + thread] = tile[row][thread];
}

/* Tiles right of the diagonal's (the group's first TILE items, a column each) and below it (the others, a row each). */
__kernel __attribute__((reqd_work_group_size(2 * TILE, 1, 1)))
void lud_perimeter(__global float *a, int n, int at)
{
    __local float diagonal[TILE][TILE];
    __local float right[TILE][TILE];
    __local float below[TILE][TILE];
    int lane = get_local_id(0) % TILE;
    bool is_right = get_local_id(0) < TILE;
    int to = at + (get_group_id(0) + 1) * TILE;
    for (int row = 0; row < TILE; row++)
        if (is_right) {
            diagonal[row][lane] = a[(at + row) * n + at + lane];
            right[row][lane] = a[(at + row) * n + to + lane];
        } else {
            below[row][lane] = a[(to + row) * n + at + lane];
        }
    barrier(CLK_LOCAL_MEM_FENCE);
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
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int row = 0; row < TILE; row++)
        if (is_right)
            a[(at + row) * n + to + lane] = right[row][lane];
        else
            a[(to + row) * n + at + lane] = below[row][lane];
}

/* The other tiles: minus the product of the tile to the left, below the diagonal's, and the one above, right of it. */
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void lud_inner(__global float *a, int n, int at)
{
    __local float left[TILE][TILE];
    __local float above[TILE][TILE];
    int x = get_local_id(0), y = get_local_id(1);
    int row = at + (get_group_id(1) + 1) * TILE + y;
    int column = at + (get_group_id(0) + 1) * TILE + x;
    left[y][x] = a[row * n + at + x];
    above[y][x] = a[(at + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    float sum = 0.0f;
    for (int k = 0; k < TILE; k++)
        sum += left[y][k] * above[k][x];
    a[row * n + column] -= sum;
}
