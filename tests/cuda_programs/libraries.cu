// Rule: kernels of static and shared libraries run as those of the program; static variables stay apart.
// build: $NVCC -c $SOURCE/parts/library_part.cu -DNAME=archived -DFACTOR=3 -o archived.o
// build: ar rcs libarchived.a archived.o
// build: $NVCC -shared -Xcompiler -fPIC $SOURCE/parts/library_part.cu -DNAME=shared -DFACTOR=5 -o libshared.so
// build: $NVCC $SOURCE/libraries.cu -I$SOURCE -L. -larchived -lshared -Xlinker -rpath=. -o libraries
#include "check.h"

extern "C" int archived(int *device);
extern "C" int shared(int *device);

__global__ void work(int *value)
{
    *value += 1;
}

int main()
{
    int *device, value = 10;
    CHECK(cudaMalloc(&device, sizeof value));
    CHECK(cudaMemcpy(device, &value, sizeof value, cudaMemcpyHostToDevice));
    work<<<1, 1>>>(device);
    EXPECT_EQUAL(archived(device), 1);
    EXPECT_EQUAL(shared(device), 1);
    EXPECT_EQUAL(shared(device), 2);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 11 * 3 * 5 * 5);
    return finish();
}
