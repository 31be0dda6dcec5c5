#define TILE 32
#define ROWS 8

/* Transposes an n x n matrix through tiles in local memory, which have a column more than they need, so that a GPU's
 * banks do not collide; a group of TILE x ROWS items. */
__kernel __attribute__((reqd_work_group_size(TILE, ROWS, 1)))
void transpose(int n, __global const float *restrict in, __global float *restrict out)
{
    __local float tile[TILE][TILE + 1];
    int x = get_local_id(0), y = get_local_id(1);
    int column = get_group_id(0) * TILE, row = get_group_id(1) * TILE;
    for (int k = 0; k < TILE; k += ROWS)
        tile[y + k][x] = in[(row + y + k) * n + column + x];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int k = 0; k < TILE; k += ROWS)
        out[(column + y + k) * n + row + x] = tile[x][y + k];
}
