constexpr unsigned GROUP = 256;

/* Every block sums a share of x with a stride of the whole grid, then its threads' sums in a tree; the first
 * thread writes the block's sum. */
extern "C" __global__ void __launch_bounds__(GROUP)
    reduce(unsigned long long n, const float *__restrict__ x, float *__restrict__ sums)
{
    __shared__ float parts[GROUP];
    unsigned thread = threadIdx.x;
    float sum = 0.0f;
    unsigned long long stride = (unsigned long long)gridDim.x * GROUP;
    for (unsigned long long i = (unsigned long long)blockIdx.x * GROUP + thread; i < n; i += stride)
        sum += x[i];
    parts[thread] = sum;
    __syncthreads();
    for (unsigned half = GROUP / 2; half > 0; half /= 2) {
        if (thread < half)
            parts[thread] += parts[thread + half];
        __syncthreads();
    }
    if (thread == 0)
        sums[blockIdx.x] = parts[0];
}
