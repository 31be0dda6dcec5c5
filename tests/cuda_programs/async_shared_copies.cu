// Rule: cooperative_groups::memcpy_async brings tiles into shared memory, which wait() makes visible.
// flags: -std=c++17 -arch=sm_80
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>

namespace cg = cooperative_groups;

__global__ void running(const int *in, int *out, int tiles)
{
    __shared__ int tile[2][64];
    cg::thread_block block = cg::this_thread_block();
    int sum = 0;
    cg::memcpy_async(block, tile[0], in, sizeof tile[0]);
    for (int i = 0; i < tiles; i++) {
        if (i + 1 < tiles) {
            cg::memcpy_async(block, tile[(i + 1) % 2], in + (i + 1) * 64, sizeof tile[0]);
            cg::wait_prior<1>(block);
        } else {
            cg::wait(block);
        }
        sum += tile[i % 2][63 - threadIdx.x];
        block.sync();
    }
    out[threadIdx.x] = sum;
}

int main()
{
    int in[512], out[64], *device, *device_out;
    for (int i = 0; i < 512; i++)
        in[i] = i * 3;
    CHECK(cudaMalloc(&device, sizeof in));
    CHECK(cudaMalloc(&device_out, sizeof out));
    CHECK(cudaMemcpy(device, in, sizeof in, cudaMemcpyHostToDevice));
    running<<<1, 64>>>(device, device_out, 8);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(out, device_out, sizeof out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        EXPECT_EQUAL(out[i], 3 * (8 * (63 - i) + 64 * 28));
    return finish();
}
