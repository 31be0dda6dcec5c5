// Rule: __shfl_sync and its forms move values between the lanes of a warp, within parts of the given width.
#include "check.h"

__global__ void shuffles(int *out, double *sums)
{
    int lane = threadIdx.x % 32;
    int *mine = out + threadIdx.x * 6;
    mine[0] = __shfl_sync(0xffffffff, lane * 10, 5);
    mine[1] = __shfl_up_sync(0xffffffff, lane, 3);
    mine[2] = __shfl_down_sync(0xffffffff, lane, 3);
    mine[3] = __shfl_xor_sync(0xffffffff, lane, 6);
    mine[4] = __shfl_sync(0xffffffff, lane, 1, 8);
    mine[5] = __shfl_down_sync(0xffffffff, lane, 4, 8);
    double value = threadIdx.x + 0.5;
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffff, value, offset);
    if (lane == 0)
        sums[threadIdx.x / 32] = value;
    if (lane < 16) {
        long long wide = (long long)lane << 40;
        wide = __shfl_xor_sync(0x0000ffff, wide, 1);
        if (wide != (long long)(lane ^ 1) << 40)
            mine[0] = -1;
    }
    __syncwarp();
}

int main()
{
    int results[64][6], *device;
    double sums[2], *device_sums;
    CHECK(cudaMalloc(&device, sizeof results));
    CHECK(cudaMalloc(&device_sums, sizeof sums));
    shuffles<<<1, 64>>>(device, device_sums);
    CHECK(cudaMemcpy(results, device, sizeof results, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(sums, device_sums, sizeof sums, cudaMemcpyDeviceToHost));
    for (int thread = 0; thread < 64; thread++) {
        int lane = thread % 32, *mine = results[thread];
        EXPECT_EQUAL(mine[0], 50);
        EXPECT_EQUAL(mine[1], lane < 3 ? lane : lane - 3);
        EXPECT_EQUAL(mine[2], lane > 28 ? lane : lane + 3);
        EXPECT_EQUAL(mine[3], lane ^ 6);
        EXPECT_EQUAL(mine[4], lane / 8 * 8 + 1);
        EXPECT_EQUAL(mine[5], lane % 8 < 4 ? lane + 4 : lane);
    }
    EXPECT_EQUAL(sums[0], 31 * 16 + 16);
    EXPECT_EQUAL(sums[1], 31 * 16 + 32 * 32 + 16);
    return finish();
}
