constexpr int TILE = 16;

/* Temperatures of a chip one time step later, from its power and the temperatures around, through tiles in shared
 * memory with a rim of one cell; a block of TILE x TILE threads computes as many cells. */
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    hotspot(int n, const float *__restrict__ power, const float *__restrict__ from, float *__restrict__ to)
{
    __shared__ float tile[TILE + 2][TILE + 2];
    int x = threadIdx.x, y = threadIdx.y;
    int column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    tile[y + 1][x + 1] = from[row * n + column];
    if (y == 0)
        tile[0][x + 1] = from[max(row - 1, 0) * n + column];
    if (y == TILE - 1)
        tile[TILE + 1][x + 1] = from[min(row + 1, n - 1) * n + column];
    if (x == 0)
        tile[y + 1][0] = from[row * n + max(column - 1, 0)];
    if (x == TILE - 1)
        tile[y + 1][TILE + 1] = from[row * n + min(column + 1, n - 1)];
    __syncthreads();
    float here = tile[y + 1][x + 1];
    float vertical = tile[y][x + 1] + tile[y + 2][x + 1] - 2.0f * here;
    float horizontal = tile[y + 1][x] + tile[y + 1][x + 2] - 2.0f * here;
    to[row * n + column] =
        here + 0.1f * power[row * n + column] + 0.2f * vertical + 0.15f * horizontal + 0.01f * (80.0f - here);
}
