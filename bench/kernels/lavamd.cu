constexpr int PARTICLES = 64;

/* Potential and forces between the particles of a box and those of it and its neighbours: a block per box, a thread per
 * particle. particle = {x, y, z, charge}; force = {fx, fy, fz, potential}. */
extern "C" __global__ void __launch_bounds__(PARTICLES)
    lavamd(int side, float alpha, const float4 *__restrict__ particles, float4 *__restrict__ forces)
{
    __shared__ float4 others[PARTICLES];
    int thread = threadIdx.x;
    int box_x = blockIdx.x, box_y = blockIdx.y, box_z = blockIdx.z;
    int me = ((box_z * side + box_y) * side + box_x) * PARTICLES + thread;
    float4 mine = particles[me];
    float fx = 0.0f, fy = 0.0f, fz = 0.0f, potential = 0.0f;
    for (int z = max(box_z - 1, 0); z <= min(box_z + 1, side - 1); z++)
        for (int y = max(box_y - 1, 0); y <= min(box_y + 1, side - 1); y++)
            for (int x = max(box_x - 1, 0); x <= min(box_x + 1, side - 1); x++) {
                others[thread] = particles[((z * side + y) * side + x) * PARTICLES + thread];
                __syncthreads();
                for (int k = 0; k < PARTICLES; k++) {
                    float4 other = others[k];
                    float dx = mine.x - other.x, dy = mine.y - other.y, dz = mine.z - other.z;
                    float pull = other.w * expf(-alpha * (dx * dx + dy * dy + dz * dz));
                    potential += pull;
                    fx += pull * dx;
                    fy += pull * dy;
                    fz += pull * dz;
                }
                __syncthreads();
            }
    forces[me] = make_float4(fx, fy, fz, potential);
}
