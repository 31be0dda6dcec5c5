// Rule: a library with kernels can be opened by dlopen() after CUDA was used, closed, and opened again.
// build: $NVCC -shared -Xcompiler -fPIC $SOURCE/parts/library_part.cu -DNAME=opened -DFACTOR=7 -o libopened.so
// build: $NVCC $SOURCE/opened_library.cu -I$SOURCE -ldl -o opened_library
#include "check.h"
#include <dlfcn.h>

__global__ void put(int *out, int value)
{
    *out = value;
}

int main()
{
    int *device, value;
    CHECK(cudaMalloc(&device, sizeof value));
    put<<<1, 1>>>(device, 2);
    CHECK(cudaDeviceSynchronize());
    for (int round = 0; round < 2; round++) {
        void *library = dlopen("./libopened.so", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("FAIL: %s\n", dlerror());
            return 1;
        }
        int (*opened)(int *) = (int (*)(int *))dlsym(library, "opened");
        EXPECT_EQUAL(opened(device), 1);
        EXPECT_EQUAL(opened(device), 2);
        CHECK(cudaDeviceSynchronize());
        dlclose(library);
    }
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 2 * 7 * 7 * 7 * 7);
    return finish();
}
