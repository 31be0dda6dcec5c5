// Rule: kernels launch kernels, whose results are there when the launch from the host has ended.
// flags: -rdc=true -lcudadevrt
#include "check.h"

__global__ void leaf(int *out, int base)
{
    out[base + threadIdx.x] = base + threadIdx.x;
}

__global__ void tree(int *out, int base, int size)
{
    if (size == 32)
        leaf<<<1, 32>>>(out, base);
    else
        tree<<<1, 1>>>(out, base + threadIdx.x * size / 2, size / 2);
}

__global__ void start(int *out, int size)
{
    if (threadIdx.x < 2)
        tree<<<1, 2>>>(out, threadIdx.x * size / 2, size / 2);
}

template <typename T> __global__ void sort(T *values, int low, int high)
{
    int i = low, j = high;
    T middle = values[(low + high) / 2];
    while (i <= j) {
        while (values[i] < middle)
            i++;
        while (middle < values[j])
            j--;
        if (i <= j) {
            T kept = values[i];
            values[i++] = values[j];
            values[j--] = kept;
        }
    }
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (low < j)
        sort<<<1, 1, 0, stream>>>(values, low, j);
    if (i < high)
        sort<<<1, 1, 0, stream>>>(values, i, high);
    cudaStreamDestroy(stream);
}

int main()
{
    int *device, values[128];
    CHECK(cudaMalloc(&device, sizeof values));
    CHECK(cudaMemset(device, 0xff, sizeof values));
    start<<<1, 32>>>(device, 128);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    int written = 0;
    for (int i = 0; i < 128; i++)
        written += values[i] == i;
    EXPECT_EQUAL(written, 128);
    for (int i = 0; i < 128; i++)
        values[i] = (i * 53 + 7) % 128;
    CHECK(cudaMemcpy(device, values, sizeof values, cudaMemcpyHostToDevice));
    sort<<<1, 1>>>(device, 0, 127);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(values, device, sizeof values, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 128; i++)
        EXPECT_EQUAL(values[i], i);
    return finish();
}
