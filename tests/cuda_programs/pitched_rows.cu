// Rule: cudaMallocPitch aligns rows; cudaMemcpy2D copies the part of each row that was asked for.
#include "check.h"
#include <stdint.h>

__global__ void add_row(float *image, size_t pitch, int width, int height)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < width && y < height) {
        float *row = (float *)((char *)image + y * pitch);
        row[x] += 1000 * y;
    }
}

int main()
{
    enum { WIDTH = 37, HEIGHT = 19 };
    static float image[HEIGHT][WIDTH + 3], back[HEIGHT][WIDTH];
    float *device, *other;
    size_t pitch, second;
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH + 3; x++)
            image[y][x] = x < WIDTH ? x : -1;
    CHECK(cudaMallocPitch(&device, &pitch, WIDTH * sizeof(float), HEIGHT));
    CHECK(cudaMallocPitch((void **)&other, &second, WIDTH * sizeof(float), HEIGHT));
    EXPECT(pitch >= WIDTH * sizeof(float) && pitch % 32 == 0 && (uintptr_t)device % 256 == 0);
    CHECK(cudaMemcpy2D(device, pitch, image, sizeof image[0], WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    add_row<<<dim3(3, 3), dim3(16, 8)>>>(device, pitch, WIDTH, HEIGHT);
    CHECK(cudaMemcpy2D(other, second, device, pitch, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DAsync(back, sizeof back[0], other, second, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaStreamSynchronize(0));
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            EXPECT_EQUAL(back[y][x], x + 1000 * y);
    EXPECT_ERROR(cudaMemcpy2D(back, 4, device, pitch, WIDTH * 4, HEIGHT, cudaMemcpyDeviceToHost),
                 cudaErrorInvalidPitchValue);
    // one row has no pitch
    CHECK(cudaMemcpy2D(device, 4, image, 4, WIDTH * 4, 1, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2D(back[1], 0, device, 0, WIDTH * 4, 1, cudaMemcpyDeviceToHost));
    for (int x = 0; x < WIDTH; x++)
        EXPECT_EQUAL(back[1][x], x);
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    return finish();
}
