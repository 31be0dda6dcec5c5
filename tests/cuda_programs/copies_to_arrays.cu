// Rule: cudaMemcpyToArray and cudaMemcpyFromArray, deprecated but used, fill arrays byte after byte.
// flags: -Wno-deprecated-declarations
// needs: CUDA 12
#include "check.h"

int main()
{
    float source[4][8], back[4][8];
    for (int i = 0; i < 32; i++)
        source[i / 8][i % 8] = i * 0.5f;
    cudaArray *array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    CHECK(cudaMallocArray(&array, &format, 8, 4));
    CHECK(cudaMemcpyToArray(array, 0, 0, source, sizeof source, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyFromArray(back, array, 0, 0, sizeof back, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++)
        EXPECT_EQUAL(back[i / 8][i % 8], i * 0.5);
    CHECK(cudaThreadSynchronize());
    CHECK(cudaFreeArray(array));
    CHECK(cudaThreadExit());
    return finish();
}
