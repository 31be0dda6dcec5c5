/* Computes one element of c = a * b per work-item. */
__kernel void matmul(ulong n, __global const float *a, __global const float *b, __global float *c)
{
    ulong col = get_global_id(0);
    ulong row = get_global_id(1);
    float sum = 0.0f;
    for (ulong k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

#define TILE 16

/* Computes c = a * b through tiles in local memory, with two barriers per tile. n is a multiple of TILE. */
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void matmul_tiled(ulong n, __global const float *a, __global const float *b, __global float *c)
{
    __local float tile_a[TILE][TILE];
    __local float tile_b[TILE][TILE];
    uint x = get_local_id(0);
    uint y = get_local_id(1);
    ulong col = get_global_id(0);
    ulong row = get_global_id(1);
    float sum = 0.0f;
    for (ulong tile = 0; tile < n; tile += TILE) {
        tile_a[y][x] = a[row * n + tile + x];
        tile_b[y][x] = b[(tile + y) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TILE; k++)
            sum += tile_a[y][k] * tile_b[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[row * n + col] = sum;
}
