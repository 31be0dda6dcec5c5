constexpr int TILE = 32;
constexpr int ROWS = 8;

/* Transposes an n x n matrix through tiles in shared memory, which have a column more than they need, so that a GPU's
 * banks do not collide; a block of TILE x ROWS threads. */
extern "C" __global__ void __launch_bounds__(TILE *ROWS)
    transpose(int n, const float *__restrict__ in, float *__restrict__ out)
{
    __shared__ float tile[TILE][TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE, row = blockIdx.y * TILE;
    for (int k = 0; k < TILE; k += ROWS)
        tile[y + k][x] = in[(row + y + k) * n + column + x];
    __syncthreads();
    for (int k = 0; k < TILE; k += ROWS)
        out[(column + y + k) * n + row + x] = tile[x][y + k];
}
