// Rule: what kernels print comes out at synchronisation, formatted as in C, in order within a thread.
// expect: stdout: thread 3 of block 1 says    7, 2.50, x, text, 0xff, 12345678901
// expect: stdout: returned 3
#include "check.h"

__global__ void speak(int number, double real, long long wide)
{
    if (threadIdx.x == 3 && blockIdx.x == 1) {
        printf("thread %d of block %u says %4d, %.2f, %c, %s, %#x, %lld\n", threadIdx.x, blockIdx.x, number, real, 'x',
               "text", 255, wide);
        int arguments = printf("%d%%, %5s|%-3d|\n", 1, "ab", 2);
        printf("returned %d\n", arguments);
    }
}

int main()
{
    size_t size = 0;
    CHECK(cudaDeviceGetLimit(&size, cudaLimitPrintfFifoSize));
    EXPECT(size > 0);
    speak<<<2, 32>>>(7, 2.5, 12345678901ll);
    CHECK(cudaDeviceSynchronize());
    return finish();
}
