// Kernels that run on either side: blocks, barriers, shared memory, warps, atomics, variables, kinds of arguments and
// of memory. Prints numbers that are the same on both sides.
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>
#include <vgc_either.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error = call;                                                                                      \
        if (error != cudaSuccess) {                                                                                    \
            printf("%s: %s\n", #call, cudaGetErrorString(error));                                                      \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

struct Node {
    Node *next;
    int value;
};
struct Empty {
    __host__ __device__ int operator()(int x) const
    {
        return x + 1;
    }
};
struct Small {
    char a;
    float b;
};
struct Large {
    double x[5];
};

static __device__ int counter = 100;
__constant__ int scales[4];

__host__ __device__ int twice(int x)
{
    return 2 * x;
}

// Each block's sum by a tree in shared memory.
__vgc_either__ __global__ void sum(const int *in, int *out)
{
    __shared__ int tile[128];
    tile[threadIdx.x] = in[blockIdx.x * 128 + threadIdx.x];
    for (int half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            tile[threadIdx.x] += tile[threadIdx.x + half];
    }
    if (threadIdx.x == 0)
        out[blockIdx.x] = tile[0];
}

// Reverses each block's part in memory whose size the launch tells.
template <class T> __vgc_either__ __global__ void reverse(T *data)
{
    extern __shared__ unsigned char room[];
    T *mine = reinterpret_cast<T *>(room);
    const unsigned i = threadIdx.y * blockDim.x + threadIdx.x, n = blockDim.x * blockDim.y;
    T *part = data + (blockIdx.y * gridDim.x + blockIdx.x) * n;
    mine[i] = part[i];
    __syncthreads();
    part[i] = mine[n - 1 - i];
}

__global__ __vgc_either__ void warps(unsigned *out)
{
    unsigned sum = threadIdx.x;
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, offset);
    const unsigned odd = __ballot_sync(0xffffffff, threadIdx.x & 1);
    unsigned half = 0;
    if (threadIdx.x % 32 < 16)
        half = __reduce_add_sync(0xffff, threadIdx.x);
    const unsigned same = __match_any_sync(0xffffffff, threadIdx.x % 4);
    const int count = __syncthreads_count(threadIdx.x % 3 == 0);
    out[threadIdx.x] = sum + odd + half + same + count + __shfl_xor_sync(0xffffffff, threadIdx.x, 5, 8);
}

__vgc_either__ __global__ void count(int *total, unsigned long long *largest)
{
    atomicAdd(total, scales[threadIdx.x % 4]);
    atomicAdd(&counter, 1);
    atomicMax(largest, (unsigned long long)(blockIdx.x * blockDim.x + threadIdx.x));
}

template <class F>
__vgc_either__ __global__ void mixed(F function, double *out, Small small, Large large, char c, bool flag, float4 v,
                                     short s, Empty, unsigned long long big)
{
    large.x[1] += threadIdx.x;
    out[threadIdx.x] = function(small.a) + small.b + large.x[1] + large.x[4] + c + flag + v.x + v.w + s + big;
}

// Follows a list: addresses that no argument tells.
__vgc_either__ __global__ void walk(Node *first, int by)
{
    for (Node *at = first; at != nullptr; at = at->next)
        at->value = twice(at->value) + by;
}

static void test_sum(int *device)
{
    static int in[128 * 50], out[50];
    for (int i = 0; i < 128 * 50; i++)
        in[i] = i * i % 1000;
    CHECK(cudaMemcpy(device, in, sizeof(in), cudaMemcpyHostToDevice));
    sum<<<50, 128>>>(device, device + 128 * 50);
    CHECK(cudaMemcpy(out, device + 128 * 50, sizeof(out), cudaMemcpyDeviceToHost));
    long total = 0;
    for (int i = 0; i < 50; i++)
        total += out[i] * (i + 1L);
    printf("sum %ld\n", total);
}

static void test_reverse()
{
    double *data;
    float *pinned;
    CHECK(cudaMallocManaged(&data, 6 * 64 * sizeof(double)));
    CHECK(cudaMallocHost(&pinned, 64 * sizeof(float)));
    for (int i = 0; i < 6 * 64; i++)
        data[i] = i / 8.0;
    for (int i = 0; i < 64; i++)
        pinned[i] = i;
    reverse<<<dim3(3, 2), dim3(16, 4), 64 * sizeof(double)>>>(data);
    reverse<<<1, 64, 64 * sizeof(float)>>>(pinned);
    CHECK(cudaDeviceSynchronize());
    printf("reverse %.3f %.3f %.3f %.1f\n", data[0], data[65], data[383], pinned[3]);
    CHECK(cudaFree(data));
    CHECK(cudaFreeHost(pinned));
}

static void test_warps(unsigned *device)
{
    unsigned out[96], sum = 0;
    warps<<<1, 96>>>(device);
    CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 96; i++)
        sum = sum * 31 + (i % 32 == 0 ? out[i] : out[i] & 0xff);
    printf("warps %u %u\n", out[0], out[95]);
}

static void test_count(int *device)
{
    const int values[4] = {1, 10, 100, 1000};
    int total, seen;
    unsigned long long largest;
    CHECK(cudaMemcpyToSymbol(scales, values, sizeof(values)));
    CHECK(cudaMemset(device, 0, 16));
    count<<<10, 100>>>(device, reinterpret_cast<unsigned long long *>(device + 2));
    CHECK(cudaMemcpy(&total, device, sizeof(total), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&largest, device + 2, sizeof(largest), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpyFromSymbol(&seen, counter, sizeof(seen)));
    printf("count %d %llu %d\n", total, largest, seen);
}

static void test_mixed(double *device)
{
    const int captured = 7;
    auto lambda = [=] __device__(int x) { return x * captured; };
    const Large large = {{1, 2, 3, 4, 5}};
    double out[32];
    mixed<<<1, 32>>>(lambda, device, Small{3, 0.5f}, large, -4, true, make_float4(1, 2, 3, 0.25f), -9, Empty(),
                     1ull << 33);
    CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
    printf("mixed %.2f %.2f\n", out[0], out[31]);
    mixed<<<1, 32>>>(Empty(), device, Small{3, 0.5f}, large, -4, false, make_float4(1, 2, 3, 0.25f), -9, Empty(), 5);
    CHECK(cudaMemcpy(out, device, sizeof(out), cudaMemcpyDeviceToHost));
    printf("mixed %.2f %.2f\n", out[0], out[31]);
}

// Allocations of 16 bytes, which share pages, and one that is large.
static void test_walk()
{
    const int length = 40;
    Node *nodes[length], *apart, host;
    CHECK(cudaMalloc(&apart, 3 << 20));
    for (int i = length - 1; i >= 0; i--) {
        nodes[i] = i == 20 ? apart + 100000 : nullptr;
        if (i != 20)
            CHECK(cudaMalloc(&nodes[i], sizeof(Node)));
        host = {i + 1 < length ? nodes[i + 1] : nullptr, i};
        CHECK(cudaMemcpy(nodes[i], &host, sizeof(Node), cudaMemcpyHostToDevice));
    }
    long total = 0;
    walk<<<1, 1>>>(nodes[0], 1);
    for (int i = 0; i < length; i += 3) {
        CHECK(cudaMemcpy(&host, nodes[i], sizeof(Node), cudaMemcpyDeviceToHost));
        host.value += 1000;
        CHECK(cudaMemcpy(nodes[i], &host, sizeof(Node), cudaMemcpyHostToDevice));
        if (i % 2 == 0)
            walk<<<1, 1>>>(nodes[0], i);
    }
    CHECK(cudaFree(nodes[39]));
    CHECK(cudaMalloc(&nodes[39], 64));
    for (int i = 0; i < 39; i++) {
        CHECK(cudaMemcpy(&host, nodes[i], sizeof(Node), cudaMemcpyDeviceToHost));
        total += (host.value % 100003) * (i + 1L);
    }
    printf("walk %ld\n", total);
}

int main()
{
    int *device;
    CHECK(cudaMalloc(&device, 1 << 16));
    test_sum(device);
    test_reverse();
    test_warps(reinterpret_cast<unsigned *>(device));
    test_count(device);
    test_mixed(reinterpret_cast<double *>(device));
    test_walk();
    CHECK(cudaDeviceSynchronize());
    printf("done\n");
}
