#include "check.h"

#include <vector>

template <typename T> void add_on_device(T *sums, const T *terms, int n, cudaStream_t stream);

template <typename T> static void run(cudaStream_t stream)
{
    const int n = 1000;
    const size_t bytes = n * sizeof(T);
    std::vector<T> sums(n), terms(n);
    T *device_sums, *device_terms;
    for (int i = 0; i < n; i++) {
        sums[i] = T(i);
        terms[i] = T(7 * i + 1);
    }
    CHECK(cudaMalloc(&device_sums, bytes));
    CHECK(cudaMallocManaged(&device_terms, bytes));
    CHECK(cudaMemcpyAsync(device_sums, sums.data(), bytes, cudaMemcpyHostToDevice, stream));
    CHECK(cudaMemcpyAsync(device_terms, terms.data(), bytes, cudaMemcpyDefault, stream));
    add_on_device(device_sums, device_terms, n, stream);
    CHECK(cudaMemcpyAsync(sums.data(), device_sums, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < n; i++)
        EXPECT_EQUAL(sums[i], 8 * i + 1);
    CHECK(cudaFree(device_sums));
    CHECK(cudaFree(device_terms));
}

int main()
{
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    float4 corner = make_float4(1, 2, 3, 4);
    dim3 grid(2, 3);
    EXPECT(corner.w == 4 && grid.z == 1);
    run<float>(stream);
    run<long>(stream);
    return finish();
}
