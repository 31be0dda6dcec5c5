// Rule: CUB reduces within warps and blocks, and over the whole device with temporary memory that it asks for.
// flags: -std=c++17
// needs: cccl
#include "check.h"
#include <cub/cub.cuh>
#include <vector>

__global__ void blocks(const int *in, int *sums, int *scanned)
{
    typedef cub::BlockReduce<int, 128> Reduce;
    typedef cub::BlockScan<int, 128> Scan;
    __shared__ union {
        Reduce::TempStorage reduce;
        Scan::TempStorage scan;
    } storage;
    int value = in[blockIdx.x * 128 + threadIdx.x], sum = Reduce(storage.reduce).Sum(value), before;
    __syncthreads();
    Scan(storage.scan).ExclusiveSum(value, before);
    scanned[blockIdx.x * 128 + threadIdx.x] = before;
    if (threadIdx.x == 0)
        sums[blockIdx.x] = sum;
}

int main()
{
    const int n = 512;
    std::vector<int> in(n), scanned(n);
    int *device, *device_scanned, *sums, got[4], total;
    for (int i = 0; i < n; i++)
        in[i] = i % 10;
    CHECK(cudaMalloc(&device, n * sizeof(int)));
    CHECK(cudaMalloc(&device_scanned, n * sizeof(int)));
    CHECK(cudaMalloc(&sums, 4 * sizeof(int)));
    CHECK(cudaMemcpy(device, in.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    blocks<<<4, 128>>>(device, sums, device_scanned);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(scanned.data(), device_scanned, n * sizeof(int), cudaMemcpyDeviceToHost));
    int all = 0;
    for (int block = 0, sum; block < 4; block++, all += sum) {
        sum = 0;
        for (int i = 0; i < 128; sum += in[block * 128 + i++])
            EXPECT_EQUAL(scanned[block * 128 + i], sum);
        EXPECT_EQUAL(got[block], sum);
    }
    void *scratch = NULL;
    size_t bytes = 0;
    CHECK(cub::DeviceReduce::Sum(scratch, bytes, device, sums, n));
    CHECK(cudaMalloc(&scratch, bytes));
    CHECK(cub::DeviceReduce::Sum(scratch, bytes, device, sums, n));
    CHECK(cudaMemcpy(&total, sums, sizeof total, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(total, all);
    return finish();
}
