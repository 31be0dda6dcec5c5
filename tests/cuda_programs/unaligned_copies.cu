// Rule: copies and fills take any address and size, aligned or not, in each direction.
#include "check.h"
#include <string.h>

int main()
{
    enum { SIZE = 70000 };
    static unsigned char source[SIZE], back[SIZE], wanted[SIZE];
    unsigned char *device, *other;
    for (int i = 0; i < SIZE; i++)
        source[i] = (unsigned char)(i * 31 + i / 256);
    CHECK(cudaMalloc(&device, SIZE));
    CHECK(cudaMalloc(&other, SIZE));
    const int offsets[] = {0, 1, 3, 7, 13, 4095, 4097}, sizes[] = {1, 2, 5, 63, 4096, 65521};
    for (int offset : offsets)
        for (int size : sizes) {
            if (offset + size > SIZE)
                continue;
            CHECK(cudaMemset(device, 0xee, SIZE));
            memset(wanted, 0xee, SIZE);
            memcpy(wanted + offset, source + 1, size < SIZE - 1 ? size : SIZE - 1);
            CHECK(cudaMemcpy(device + offset, source + 1, size, cudaMemcpyHostToDevice));
            CHECK(cudaMemcpy(other, device, SIZE, cudaMemcpyDeviceToDevice));
            CHECK(cudaMemcpy(back, other, SIZE, cudaMemcpyDeviceToHost));
            EXPECT(memcmp(back, wanted, SIZE) == 0);
            memset(back, 0, SIZE);
            CHECK(cudaMemcpy(back + 3, other + offset, size < SIZE - 3 ? size : SIZE - 3, cudaMemcpyDeviceToHost));
            EXPECT(memcmp(back + 3, wanted + offset, size) == 0 && back[2] == 0);
        }
    CHECK(cudaFree(device));
    CHECK(cudaFree(other));
    return finish();
}
