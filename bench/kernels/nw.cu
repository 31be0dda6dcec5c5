constexpr int TILE = 16;

/* Needleman-Wunsch alignment: score[i][j] is the best of its three neighbours above and to the left, plus `similarity`
 * (diagonally) or minus `penalty`. A launch computes one diagonal of tiles, a block of TILE threads a tile, in which
 * the threads follow the diagonals. `width` is the row length of score, whose first row and column are given. */
extern "C" __global__ void __launch_bounds__(TILE)
    nw(const int *__restrict__ similarity, int *score, int width, int penalty, int diagonal, int first_row)
{
    __shared__ int cells[TILE + 1][TILE + 1];
    __shared__ int gains[TILE][TILE];
    int thread = threadIdx.x;
    int tile_y = first_row + blockIdx.x;
    int tile_x = diagonal - tile_y;
    int corner = tile_y * TILE * width + tile_x * TILE;
    for (int row = 0; row < TILE; row++)
        gains[row][thread] = similarity[corner + (row + 1) * width + thread + 1];
    if (thread == 0)
        cells[0][0] = score[corner];
    cells[thread + 1][0] = score[corner + (thread + 1) * width];
    cells[0][thread + 1] = score[corner + thread + 1];
    __syncthreads();
    for (int step = 0; step < 2 * TILE - 1; step++) {
        int x = thread, y = step - thread;
        if (y >= 0 && y < TILE) {
            int best = cells[y][x] + gains[y][x];
            best = max(best, cells[y][x + 1] - penalty);
            cells[y + 1][x + 1] = max(best, cells[y + 1][x] - penalty);
        }
        __syncthreads();
    }
    for (int row = 0; row < TILE; row++)
        score[corner + (row + 1) * width + thread + 1] = cells[row + 1][thread + 1];
}
