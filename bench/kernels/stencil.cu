/* Computes a step of a five-point stencil over n x n floats: the mean of the neighbours inside; the rim stays. */
extern "C" __global__ void stencil(unsigned long long n, const float *__restrict__ in, float *__restrict__ out)
{
    unsigned long long x = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long y = (unsigned long long)blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n)
        return;
    unsigned long long i = y * n + x;
    bool inside = x > 0 && y > 0 && x < n - 1 && y < n - 1;
    out[i] = inside ? 0.25f * (in[i - n] + in[i - 1] + in[i + 1] + in[i + n]) : in[i];
}
