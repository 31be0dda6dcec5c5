// Rule: vector types have CUDA's sizes, alignments and make_ functions, on host and device alike.
#include "check.h"
#include <cuComplex.h>

struct Layout {
    char tag;
    float3 three;
    float4 four;
    double2 two;
    short4 shorts;
    dim3 size;
};

__global__ void work(Layout *layouts, size_t *size, cuFloatComplex *product)
{
    Layout layout = layouts[threadIdx.x];
    layout.four = make_float4(layout.three.x, layout.three.y, layout.three.z, layout.tag);
    layout.two.y += layout.two.x;
    layout.shorts.w = layout.shorts.x + layout.shorts.y;
    layout.size.z = layout.size.x * layout.size.y;
    layouts[threadIdx.x] = layout;
    *size = sizeof(Layout) + alignof(float4) * 1000 + alignof(float3) * 100000;
    *product = cuCmulf(make_cuFloatComplex(1, 2), make_cuFloatComplex(3, -1));
}

int main()
{
    Layout layouts[4], *device;
    size_t *size, got;
    cuFloatComplex *product, value;
    for (int i = 0; i < 4; i++)
        layouts[i] = Layout{
            (char)i,   make_float3(i, 2, 3), make_float4(0, 0, 0, 0), make_double2(i, 0.5), make_short4(i, 10, 0, 0),
            dim3(i, 7)};
    CHECK(cudaMalloc(&device, sizeof layouts));
    CHECK(cudaMalloc(&size, sizeof *size));
    CHECK(cudaMalloc(&product, sizeof *product));
    CHECK(cudaMemcpy(device, layouts, sizeof layouts, cudaMemcpyHostToDevice));
    work<<<1, 4>>>(device, size, product);
    CHECK(cudaMemcpy(layouts, device, sizeof layouts, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&got, size, sizeof got, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&value, product, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(got, sizeof(Layout) + alignof(float4) * 1000 + alignof(float3) * 100000);
    EXPECT_EQUAL(alignof(float4), 16);
    EXPECT(cuCrealf(value) == 5 && cuCimagf(value) == 5);
    for (int i = 0; i < 4; i++) {
        EXPECT(layouts[i].four.x == i && layouts[i].four.z == 3 && layouts[i].four.w == i);
        EXPECT_EQUAL(layouts[i].two.y, i + 0.5);
        EXPECT_EQUAL(layouts[i].shorts.w, i + 10);
        EXPECT_EQUAL(layouts[i].size.z, i * 7);
    }
    return finish();
}
