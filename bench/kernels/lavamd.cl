#define PARTICLES 64

/* Potential and forces between the particles of a box and those of it and its neighbours: a group per box, an item per
 * particle. particle = {x, y, z, charge}; force = {fx, fy, fz, potential}. */
__kernel __attribute__((reqd_work_group_size(PARTICLES, 1, 1)))
void lavamd(int side, float alpha, __global const float4 *restrict particles, __global float4 *restrict forces)
{
    __local float4 others[PARTICLES];
    int thread = get_local_id(0);
    int box_x = get_group_id(0), box_y = get_group_id(1), box_z = get_group_id(2);
    int me = ((box_z * side + box_y) * side + box_x) * PARTICLES + thread;
    float4 mine = particles[me];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f, potential = 0.0f;
    for (int z = max(box_z - 1, 0); z <= min(box_z + 1, side - 1); z++)
        for (int y = max(box_y - 1, 0); y <= min(box_y + 1, side - 1); y++)
            for (int x = max(box_x - 1, 0); x <= min(box_x + 1, side - 1); x++) {
                others[thread] = particles[((z * side + y) * side + x) * PARTICLES + thread];
                barrier(CLK_LOCAL_MEM_FENCE);
                for (int k = 0; k < PARTICLES; k++) {
                    float4 other = others[k];
                    float dx = mine.x - other.x, dy = mine.y - other.y, dz = mine.z - other.z;
                    float pull = other.w * exp(-alpha * (dx * dx + dy * dy + dz * dz));
                    potential += pull;
                    fx += pull * dx;
                    fy += pull * dy;
                    fz += pull * dz;
                }
                barrier(CLK_LOCAL_MEM_FENCE);
            }
    forces[me] = (float4)(fx, fy, fz, potential);
}
