constexpr unsigned GROUP = 256;

/* Inclusive prefix sums within blocks, by doubling distances in shared memory; each block's total into `totals`. */
extern "C" __global__ void __launch_bounds__(GROUP)
    scan_blocks(const unsigned *__restrict__ in, unsigned *__restrict__ out, unsigned *__restrict__ totals)
{
    __shared__ unsigned sums[2][GROUP];
    unsigned thread = threadIdx.x;
    unsigned i = blockIdx.x * GROUP + thread;
    unsigned from = 0;
    sums[0][thread] = in[i];
    __syncthreads();
    for (unsigned distance = 1; distance < GROUP; distance *= 2) {
        unsigned sum = sums[from][thread];
        if (thread >= distance)
            sum += sums[from][thread - distance];
        sums[1 - from][thread] = sum;
        from = 1 - from;
        __syncthreads();
    }
    out[i] = sums[from][thread];
    if (thread == GROUP - 1)
        totals[blockIdx.x] = sums[from][thread];
}

/* Adds to each block the sum of all blocks before it. */
extern "C" __global__ void scan_add(unsigned *__restrict__ out, const unsigned *__restrict__ totals)
{
    if (blockIdx.x > 0)
        out[blockIdx.x * GROUP + threadIdx.x] += totals[blockIdx.x - 1];
}
