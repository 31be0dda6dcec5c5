// Rule: one row of an array is copied whole, however wide it is: such copies go in parts.
#include "check.h"

#define MOST 65536

static unsigned char source[MOST], back[MOST];

static void copy(size_t width, size_t height)
{
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<unsigned char>();
    memset(back, 0, sizeof back);
    CHECK(cudaMallocArray(&array, &format, width, height));
    CHECK(cudaMemcpy2DToArray(array, 0, 0, source, width, width, 1, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy2DFromArray(back, width, array, 0, 0, width, 1, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(source, back, width) == 0);
    CHECK(cudaFreeArray(array));
}

int main()
{
    for (int i = 0; i < MOST; i++)
        source[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t width = 100; width <= MOST; width = width * 3 + 1) {
        copy(width, 0);
        copy(width, 3);
    }
    copy(MOST, 0);
    return finish();
}
