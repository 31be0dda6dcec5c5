// Rule: inline PTX computes with C++ variables, reads special registers, and has predicates, labels and own registers.
#include "check.h"

__device__ unsigned lane_id()
{
    unsigned id;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(id));
    return id;
}

__global__ void work(int *out, unsigned long long *wide, float *real)
{
    int i = threadIdx.x, sum, chosen;
    asm("add.s32 %0, %1, %2;" : "=r"(sum) : "r"(i), "r"(100));
    asm("{\n\t"
        ".reg .pred p;\n\t"
        "setp.gt.s32 p, %1, 15;\n\t"
        "selp.s32 %0, 1, -1, p;\n\t"
        "}"
        : "=r"(chosen)
        : "r"(i));
    unsigned long long product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(i + 3000000000u), "r"(5u));
    float root;
    asm("sqrt.rn.f32 %0, %1;" : "=f"(root) : "f"((float)(i * i)));
    unsigned reversed, merged;
    asm("brev.b32 %0, %1;" : "=r"(reversed) : "r"(i));
    asm("prmt.b32 %0, %1, %2, 0x3210;" : "=r"(merged) : "r"(reversed), "r"(0));
    int loaded;
    asm volatile("st.global.s32 [%0], %1;" ::"l"(out + 4 * i + 3), "r"(sum) : "memory");
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(loaded) : "l"(out + 4 * i + 3) : "memory");
    out[4 * i] = sum;
    out[4 * i + 1] = chosen;
    out[4 * i + 2] = lane_id();
    out[4 * i + 3] = loaded - sum + (__brev(merged) == i);
    wide[i] = product;
    real[i] = root;
}

int main()
{
    int out[32][4], *device;
    unsigned long long wide[32], *device_wide;
    float real[32], *device_real;
    CHECK(cudaMalloc(&device, sizeof out));
    CHECK(cudaMalloc(&device_wide, sizeof wide));
    CHECK(cudaMalloc(&device_real, sizeof real));
    work<<<1, 32>>>(device, device_wide, device_real);
    CHECK(cudaMemcpy(out, device, sizeof out, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(wide, device_wide, sizeof wide, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(real, device_real, sizeof real, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {
        EXPECT_EQUAL(out[i][0], i + 100);
        EXPECT_EQUAL(out[i][1], i > 15 ? 1 : -1);
        EXPECT_EQUAL(out[i][2], i);
        EXPECT_EQUAL(out[i][3], 1);
        EXPECT_EQUAL(wide[i], (i + 3000000000ull) * 5);
        EXPECT_EQUAL(real[i], i);
    }
    return finish();
}
