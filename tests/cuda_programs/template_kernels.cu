// Rule: each use of a kernel's template is a kernel of its own, whether its parameters are types, values or functors.
#include "check.h"

template <typename T> struct Add {
    __host__ __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};

template <typename T> struct Larger {
    __host__ __device__ T operator()(T a, T b) const
    {
        return a < b ? b : a;
    }
};

template <typename T, int THREADS, template <typename> class Operation>
__global__ void reduce(const T *values, T *out, Operation<T> operation)
{
    __shared__ T partial[THREADS];
    partial[threadIdx.x] = values[threadIdx.x];
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            partial[threadIdx.x] = operation(partial[threadIdx.x], partial[threadIdx.x + half]);
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = partial[0];
}

template <typename... Terms> __global__ void sum_of(float *out, Terms... terms)
{
    *out = (float(terms) + ... + 0.0f);
}

namespace
{
template <bool NEGATIVE> __global__ void sign(int *out)
{
    if constexpr (NEGATIVE)
        *out = -1;
    else
        *out = 1;
}
} // namespace

template <typename T, int THREADS, template <typename> class Operation> T reduced(void)
{
    T values[THREADS], result, *device;
    Operation<T> operation;
    for (int i = 0; i < THREADS; i++)
        values[i] = T((i * 37) % 101);
    CHECK(cudaMalloc(&device, sizeof values + sizeof(T)));
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    reduce<T, THREADS, Operation><<<1, THREADS>>>(device, device + THREADS, operation);
    CHECK(cudaMemcpy(&result, device + THREADS, sizeof result, cudaMemcpyDeviceToHost));
    T wanted = values[0];
    for (int i = 1; i < THREADS; i++)
        wanted = operation(wanted, values[i]);
    EXPECT_EQUAL(result, wanted);
    CHECK(cudaFree(device));
    return result;
}

int main()
{
    reduced<int, 64, Add>();
    reduced<float, 128, Add>();
    reduced<double, 128, Larger>();
    reduced<unsigned long long, 256, Larger>();
    float *sum, result;
    int *out, negative;
    CHECK(cudaMalloc(&sum, sizeof *sum));
    sum_of<<<1, 1>>>(sum, 1, 2.5f, (short)3, 'a');
    CHECK(cudaMemcpy(&result, sum, sizeof result, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(result, 6.5f + 'a');
    CHECK(cudaMalloc(&out, sizeof *out));
    sign<true><<<1, 1>>>(out);
    CHECK(cudaMemcpy(&negative, out, sizeof negative, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(negative, -1);
    sign<false><<<1, 1>>>(out);
    CHECK(cudaMemcpy(&negative, out, sizeof negative, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(negative, 1);
    return finish();
}
