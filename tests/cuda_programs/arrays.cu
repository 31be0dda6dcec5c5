// Rule: CUDA arrays know their format and extent, and are copied by rows and columns to and from memory and each other.
#include "check.h"

int main()
{
    enum { WIDTH = 12, HEIGHT = 6 };
    short source[HEIGHT][WIDTH], back[HEIGHT][WIDTH];
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            source[y][x] = y * 100 + x;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<short>(), found;
    EXPECT(format.x == 16 && format.y == 0 && format.f == cudaChannelFormatKindSigned);
    cudaArray_t array, copy;
    cudaExtent extent;
    unsigned flags;
    CHECK(cudaMallocArray(&array, &format, WIDTH, HEIGHT));
    CHECK(cudaMallocArray(&copy, &format, WIDTH, HEIGHT));
    CHECK(cudaArrayGetInfo(&found, &extent, &flags, array));
    EXPECT(extent.width == WIDTH && extent.height == HEIGHT && extent.depth == 0 && found.x == 16 && flags == 0);
    CHECK(cudaGetChannelDesc(&found, array));
    EXPECT_EQUAL(found.f, cudaChannelFormatKindSigned);
    CHECK(cudaMemcpy2DToArray(array, 0, 0, source, sizeof source[0], sizeof source[0], HEIGHT, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DArrayToArray(copy, 0, 0, array, 0, 0, WIDTH * sizeof(short), HEIGHT, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpy2DFromArray(back, sizeof back[0], copy, 0, 0, sizeof back[0], HEIGHT, cudaMemcpyDeviceToHost));
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            EXPECT_EQUAL(back[y][x], source[y][x]);
    short patch[2][3] = {{-1, -2, -3}, {-4, -5, -6}};
    CHECK(cudaMemcpy2DToArrayAsync(array, 4 * sizeof(short), 3, patch, sizeof patch[0], sizeof patch[0], 2,
                                   cudaMemcpyHostToDevice, 0));
    CHECK(cudaMemcpy2DFromArrayAsync(back, sizeof back[0], array, 0, 0, sizeof back[0], HEIGHT, cudaMemcpyDeviceToHost,
                                     0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(back[3][4] == -1 && back[4][6] == -6 && back[4][7] == 407);
    EXPECT_ERROR(cudaMemcpy2DToArray(array, 20 * sizeof(short), 0, patch, 6, 6, 2, cudaMemcpyHostToDevice),
                 cudaErrorInvalidValue);
    CHECK(cudaFreeArray(array));
    CHECK(cudaFreeArray(copy));
    CHECK(cudaFreeArray(NULL));
    return finish();
}
