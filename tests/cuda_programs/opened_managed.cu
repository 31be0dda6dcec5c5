// Rule: a library with managed variables can be opened, closed and opened again, and used once its program has room.
// build: $NVCC -shared -Xcompiler -fPIC $SOURCE/parts/managed_part.cu -o libmanaged.so
// build: $NVCC $SOURCE/opened_managed.cu -I$SOURCE -ldl -o opened_managed
#include "check.h"
#include <dlfcn.h>
#include <vector>

int main()
{
    std::vector<void *> blocks;
    void *block;
    CHECK(cudaFree(NULL));
    for (int round = 0; round < 4; round++) {
        while (round == 2 && cudaMalloc(&block, 64 << 10) == cudaSuccess)
            blocks.push_back(block);
        (void)cudaGetLastError();
        void *library = dlopen("./libmanaged.so", RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("FAIL: %s\n", dlerror());
            return 1;
        }
        int (*counted)() = (int (*)())dlsym(library, "counted");
        int before = round == 2 && counted() != -1 ? 41 : 40; /* a device may have room for programs besides */
        for (void *taken : blocks)
            CHECK(cudaFree(taken));
        blocks.clear();
        EXPECT_EQUAL(counted(), before + 1);
        EXPECT_EQUAL(counted(), before + 2);
        dlclose(library);
    }
    return finish();
}
