constexpr unsigned GROUP = 256;

/* Counts how often each byte occurs, in a table per block in shared memory, added to the totals at the end. */
extern "C" __global__ void __launch_bounds__(GROUP)
    histogram(unsigned long long n, const unsigned char *__restrict__ data, unsigned *__restrict__ bins)
{
    __shared__ unsigned counts[GROUP];
    unsigned thread = threadIdx.x;
    counts[thread] = 0;
    __syncthreads();
    unsigned long long stride = (unsigned long long)gridDim.x * GROUP;
    for (unsigned long long i = (unsigned long long)blockIdx.x * GROUP + thread; i < n; i += stride)
        atomicAdd(&counts[data[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[thread], counts[thread]);
}
