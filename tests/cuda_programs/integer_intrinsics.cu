// Rule: bit and SIMD-in-a-word intrinsics compute what their definitions say.
// flags: -arch=sm_80
#include "check.h"

__global__ void work(unsigned *out)
{
    out[0] = __popc(0xf0f0);
    out[1] = __clz(1);
    out[2] = __ffs(8);
    out[3] = __brev(1);
    out[4] = __byte_perm(0x33221100, 0x77665544, 0x7410);
    out[5] = __mulhi(1 << 30, 8);
    out[6] = __umul24(0x1000001, 3);
    out[7] = __dp4a(0x01020304, 0x01010101, 5);
    out[8] = __vadd4(0x01ff0203, 0x01010101);
    out[9] = __vabsdiffu4(0x05000a01, 0x01020304);
    out[10] = __vmaxs2(0xffff0001, 0x00000000);
    out[11] = __funnelshift_l(0x80000000, 1, 1);
    out[12] = __sad(-3, 4, 10);
    out[13] = __popcll(0xff00000000ffull);
    out[14] = __float_as_int(1.0f);
    out[15] = __ldg(out + 14);
}

int main()
{
    const unsigned wanted[16] = {8,          31,         4,          0x80000000, 0x77441100, 2,  3,          15,
                                 0x02000304, 0x04020703, 0x00000001, 3,          17,         16, 0x3f800000, 0};
    unsigned got[16], *device;
    CHECK(cudaMalloc(&device, sizeof got));
    CHECK(cudaMemset(device, 0, sizeof got));
    work<<<1, 1>>>(device);
    CHECK(cudaMemcpy(got, device, sizeof got, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 15; i++)
        EXPECT_EQUAL(got[i], wanted[i]);
    return finish();
}
