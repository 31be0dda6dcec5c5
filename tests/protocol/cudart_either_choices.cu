// Rule: one kernel may run on either side. Arguments tell what is done with it:
//   launches N: launches it N times;   order: in streams with events and host functions;   fault: it goes astray;
//   divide: it divides by zero;        table: prints the local functions;
//   exhaust MIB: with memory beyond the allotment;
#include <cstdio>
#include <cstdlib>
#include <cstring>
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

__host__ __device__ int twice(int x)
{
    return 2 * x;
}

template <class T> __host__ __device__ T half(T x)
{
    return x / 2;
}

__host__ __device__ int own_thread()
{
#ifdef __CUDA_ARCH__
    return threadIdx.x;
#else
    return 0;
#endif
}

__vgc_either__ __global__ void add(int *numbers, int by)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    numbers[i] = twice(numbers[i]) + half(2 * by) + own_thread() - threadIdx.x;
}

__vgc_either__ __global__ void divide(int *numbers, int by)
{
    numbers[threadIdx.x] /= by;
}

__global__ void on_device(int *numbers)
{
    numbers[threadIdx.x] += 1;
}

#ifdef BIG // more than the allotment: the device has no room for this file's program
__device__ char big[100 << 20];
__global__ void fill_big()
{
    big[threadIdx.x] = 1;
}
#endif

static void launches(int count)
{
    int *numbers, first;
    CHECK(cudaMalloc(&numbers, 1024 * sizeof(int)));
    CHECK(cudaMemset(numbers, 0, 1024 * sizeof(int)));
    for (int i = 0; i < count; i++)
        add<<<8, 128>>>(numbers, i);
    CHECK(cudaMemcpy(&first, numbers + 1023, sizeof(first), cudaMemcpyDeviceToHost));
    printf("last %d\n", first);
}

static void note(void *data)
{
    *static_cast<int *>(data) *= 3;
}

// Work on both sides and of the host, one behind the other.
static void order()
{
    int *numbers, host = 1, *pinned;
    cudaStream_t one, two;
    cudaEvent_t event, begin;
    CHECK(cudaStreamCreate(&one));
    CHECK(cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&event));
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaMalloc(&numbers, 1024 * sizeof(int)));
    CHECK(cudaMallocHost(&pinned, 1024 * sizeof(int)));
    CHECK(cudaMemset(numbers, 0, 1024 * sizeof(int)));
    for (int i = 0; i < 5; i++) {
        on_device<<<1, 1024, 0, one>>>(numbers);
        add<<<8, 128, 0, one>>>(numbers, i);
        CHECK(cudaLaunchHostFunc(one, note, &host));
        CHECK(cudaEventRecord(event, one));
        CHECK(cudaStreamWaitEvent(two, event, 0));
        add<<<4, 256, 0, two>>>(numbers, 7);
        CHECK(cudaMemcpyAsync(pinned, numbers, 1024 * sizeof(int), cudaMemcpyDeviceToHost, two));
        add<<<4, 256, 0, two>>>(pinned, 1);
        CHECK(cudaEventRecord(begin, two));
        CHECK(cudaStreamWaitEvent(one, begin, 0));
    }
    CHECK(cudaDeviceSynchronize());
    int last;
    CHECK(cudaMemcpy(&last, numbers + 500, sizeof(last), cudaMemcpyDeviceToHost));
    printf("order %d %d %d\n", last, pinned[500], host);
}

static void fault()
{
    add<<<1, 1>>>(reinterpret_cast<int *>(0x10), 1);
    printf("fault %s", cudaGetErrorName(cudaDeviceSynchronize()));
    printf(" %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    CHECK(cudaDeviceReset());
    launches(2);
}

static void division()
{
    int *numbers;
    CHECK(cudaMallocManaged(&numbers, 64));
    divide<<<1, 1>>>(numbers, 0);
    printf("divide %s\n", cudaGetErrorName(cudaDeviceSynchronize()));
}

static void print(const char *name, const char *source_name, void *address, void *)
{
    printf("%s %s %s\n", address != nullptr ? "function" : "kernel", source_name, name);
}

static void table()
{
    vgc_local_functions(print, nullptr);
    auto *function = reinterpret_cast<int (*)(int)>(vgc_local_function("twice"));
    printf("twice %d %d\n", function(21), vgc_local_function("none") == nullptr);
}

// More memory than the allotment has.
static void exhaust(size_t mib)
{
    const size_t bytes = mib << 20, count = bytes / sizeof(int);
    int *first, *second, ends[2];
    CHECK(cudaMalloc(&first, 1024 * sizeof(int)));
    CHECK(cudaMemset(first, 1, 1024 * sizeof(int)));
    add<<<8, 128>>>(first, 1);
    cudaError_t error = cudaMalloc(&second, bytes);
    printf("exhaust %s", cudaGetErrorName(error));
    if (error != cudaSuccess) {
        printf("\n");
        return;
    }
    CHECK(cudaMemset(second, 0, bytes));
    CHECK(cudaMemcpy(second + count - 1024, first, 1024 * sizeof(int), cudaMemcpyDeviceToDevice));
    add<<<count / 128, 128>>>(second, 5);
    add<<<8, 128>>>(first, 2);
    CHECK(cudaMemcpy(&ends[0], second + 17, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&ends[1], second + count - 1, sizeof(int), cudaMemcpyDeviceToHost));
    printf(" %d %d", ends[0], ends[1]);
    on_device<<<1, 1>>>(second);
    printf(" %s", cudaGetErrorName(cudaGetLastError()));
    CHECK(cudaFree(second));
    on_device<<<1, 1024>>>(first);
    CHECK(cudaMemcpy(&ends[0], first, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    printf(" %d\n", ends[0]);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "launches";
    const int number = argc > 2 ? atoi(argv[2]) : 1;
    if (strcmp(what, "launches") == 0)
        launches(number);
    else if (strcmp(what, "order") == 0)
        order();
    else if (strcmp(what, "fault") == 0)
        fault();
    else if (strcmp(what, "divide") == 0)
        division();
    else if (strcmp(what, "table") == 0)
        table();
    else if (strcmp(what, "exhaust") == 0)
        exhaust(number);
    return 0;
}
