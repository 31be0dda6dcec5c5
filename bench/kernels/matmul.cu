/* Computes one element of c = a * b per thread. */
extern "C" __global__ void matmul(unsigned long long n, const float *__restrict__ a, const float *__restrict__ b,
                                  float *__restrict__ c)
{
    unsigned long long col = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long row = (unsigned long long)blockIdx.y * blockDim.y + threadIdx.y;
    float sum = 0.0f;
    for (unsigned long long k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

constexpr unsigned TILE = 16;

/* Computes c = a * b through tiles in shared memory, with two barriers per tile. n is a multiple of TILE. */
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    matmul_tiled(unsigned long long n, const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ float tile_b[TILE][TILE];
    unsigned x = threadIdx.x;
    unsigned y = threadIdx.y;
    unsigned long long col = (unsigned long long)blockIdx.x * TILE + x;
    unsigned long long row = (unsigned long long)blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (unsigned long long tile = 0; tile < n; tile += TILE) {
        tile_a[y][x] = a[row * n + tile + x];
        tile_b[y][x] = b[(tile + y) * n + col];
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++)
            sum += tile_a[y][k] * tile_b[k][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
