// Rule: one kernel may run on either side. Arguments tell what is done with it:
//   launches N: launches it N times;   order: in streams with events and host functions;   fault: it goes astray;
//   divide: it divides by zero;        table: prints the local functions;
//   exhaust MIB [async, managed, mapped]: with memory beyond the allotment;
//   host MIB: the host uses managed memory beyond it;      pools MIB: memory comes and goes in the order of a stream;
//   graph MIB: graphs are given such memory;               refused MIB: what must be the device's;
//   lost 0 WHERE FIRST: the device is lost, with data WHERE (managed, adopted, spare, streams, device), and the
//   first call after that is FIRST (kernel, copy, malloc, free, fill, wait);
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

static cudaError_t allocate(const char *how, int **memory, size_t bytes)
{
    if (strcmp(how, "async") == 0)
        return cudaMallocAsync(reinterpret_cast<void **>(memory), bytes, 0);
    if (strcmp(how, "managed") == 0)
        return cudaMallocManaged(memory, bytes);
    if (strcmp(how, "mapped") == 0)
        return cudaHostAlloc(reinterpret_cast<void **>(memory), bytes, cudaHostAllocMapped);
    return cudaMalloc(memory, bytes);
}

// More memory than the allotment has.
static void exhaust(size_t mib, const char *how)
{
    const size_t bytes = mib << 20, count = bytes / sizeof(int);
    int *first, *second, ends[2];
    CHECK(cudaMalloc(&first, 1024 * sizeof(int)));
    CHECK(cudaMemset(first, 1, 1024 * sizeof(int)));
    add<<<8, 128>>>(first, 1);
    cudaError_t error = allocate(how, &second, bytes);
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
    CHECK(strcmp(how, "mapped") == 0 ? cudaFreeHost(second) : cudaFree(second));
    on_device<<<1, 1024>>>(first);
    CHECK(cudaMemcpy(&ends[0], first, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaDeviceSynchronize());
    printf(" %d\n", ends[0]);
}

// The host and kernels use managed memory in turn.
static void host(size_t mib)
{
    const size_t count = (mib << 20) / sizeof(int);
    int *numbers, *small;
    long long sum = 0;
    CHECK(cudaMallocManaged(&numbers, mib << 20));
    CHECK(cudaMallocManaged(&small, 1024 * sizeof(int)));
    for (size_t i = 0; i < count; i++)
        numbers[i] = i % 1000;
    small[3] = 4;
    CHECK(cudaMemPrefetchAsync(numbers, mib << 20, 0));
    CHECK(cudaMemAdvise(numbers, mib << 20, cudaMemAdviseSetReadMostly, 0));
    for (int round = 0; round < 3; round++) {
        add<<<count / 128, 128>>>(numbers, round);
        add<<<8, 128>>>(small, round);
        CHECK(cudaDeviceSynchronize());
        numbers[round] += small[3];
    }
    for (size_t i = 0; i < count; i += 997)
        sum += numbers[i] + small[i % 1024];
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, numbers + 5));
    CHECK(cudaFree(numbers));
    printf("host %lld %d\n", sum, attributes.type == cudaMemoryTypeManaged);
}

// Pieces are freed while kernels that use them may still wait for their turn.
static void pools(size_t mib)
{
    cudaStream_t stream;
    int *last, sum = 0;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMallocHost(&last, 4 * sizeof(int)));
    for (int i = 0; i < 4; i++) {
        const size_t bytes = (mib + 8 * i) << 20, count = bytes / sizeof(int);
        int *numbers;
        CHECK(cudaMallocAsync(&numbers, bytes, stream));
        CHECK(cudaMemsetAsync(numbers, 0, bytes, stream));
        add<<<count / 128, 128, 0, stream>>>(numbers, i);
        add<<<count / 128, 128, 0, stream>>>(numbers, 1);
        CHECK(cudaMemcpyAsync(last + i, numbers + count - 1, sizeof(int), cudaMemcpyDeviceToHost, stream));
        CHECK(cudaFreeAsync(numbers, stream));
    }
    CHECK(cudaStreamSynchronize(stream));
    for (int i = 0; i < 4; i++)
        sum += last[i];
    cudaMemPool_t pool;
    size_t held;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &held));
    printf("pools %d %zu\n", sum, held);
}

// Copies and fills of a graph go on; a kernel of one is the device's.
static void graph(size_t mib)
{
    cudaStream_t stream;
    cudaGraph_t made;
    cudaGraphExec_t exec;
    int *numbers, *small, ends[2];
    CHECK(cudaMalloc(&small, 1024 * sizeof(int)));
    CHECK(cudaMalloc(&numbers, mib << 20));
    CHECK(cudaMemset(numbers, 0, mib << 20));
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    CHECK(cudaMemsetAsync(small, 2, 1024 * sizeof(int), stream));
    CHECK(cudaMemcpyAsync(numbers + 1024, small, 1024 * sizeof(int), cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaMemsetAsync(numbers + 4096, 1, 64, stream));
    CHECK(cudaMemcpyAsync(numbers, numbers + 4096, 64, cudaMemcpyDeviceToDevice, stream));
    CHECK(cudaStreamEndCapture(stream, &made));
    CHECK(cudaGraphInstantiate(&exec, made, 0));
    CHECK(cudaGraphLaunch(exec, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaMemcpy(&ends[0], numbers + 15, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&ends[1], numbers + 1500, sizeof(int), cudaMemcpyDeviceToHost));
    int by = 1;
    void *arguments[] = {&numbers, &by};
    cudaKernelNodeParams params = {};
    params.func = reinterpret_cast<void *>(add);
    params.gridDim = params.blockDim = dim3(1);
    params.kernelParams = arguments;
    cudaGraphNode_t node;
    printf("graph %#x %#x %s\n", ends[0], ends[1],
           cudaGetErrorName(cudaGraphAddKernelNode(&node, made, nullptr, 0, &params)));
}

#ifdef VARIABLE // which only the device has
__device__ int factor = 1;
__global__ void scale(int *numbers)
{
    numbers[threadIdx.x] *= factor;
}
#endif

static void first_call(const char *first, int **numbers, size_t count)
{
    int *more = nullptr, value;
    for (int i = 0; i < 20 && strcmp(first, "kernel") == 0; i++) { // calls go on while the loss is found behind them
        add<<<count / 128, 128>>>(*numbers, 5);
        CHECK(cudaPeekAtLastError());
    }
    if (strcmp(first, "copy") == 0)
        CHECK(cudaMemcpy(&value, *numbers, sizeof(value), cudaMemcpyDefault));
    if (strcmp(first, "malloc") == 0)
        CHECK(cudaMalloc(&more, 4096));
    if (strcmp(first, "fill") == 0)
        CHECK(cudaMemsetAsync(*numbers, 0, 4096));
    if (strcmp(first, "free") == 0) {
        CHECK(cudaFree(*numbers));
        CHECK(cudaMallocManaged(numbers, count * sizeof(int)));
        memset(*numbers, 0, count * sizeof(int));
    }
    CHECK(cudaDeviceSynchronize());
}

// What the host has is enough to go on with, or it is not.
static void lost(const char *where, const char *first)
{
    const size_t count = 1 << 18;
    int *numbers, *other, ends[2], *ballast = nullptr;
    cudaStream_t stream = nullptr;
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
    if (strcmp(where, "streams") == 0)
        CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    if (strcmp(where, "spare") == 0)
        CHECK(cudaMalloc(&ballast, 60 << 20));
    if (strcmp(where, "managed") == 0)
        CHECK(cudaMallocManaged(&numbers, count * sizeof(int)));
    else
        CHECK(cudaMalloc(&numbers, count * sizeof(int)));
    CHECK(cudaMemset(numbers, 0, count * sizeof(int)));
    if (ballast != nullptr) {
        CHECK(cudaMalloc(&other, 8 << 20));
        CHECK(cudaMemset(other, 0, 8 << 20));
        add<<<(8 << 20) / 512, 128>>>(other, 1);
        CHECK(cudaFree(ballast));
    }
    add<<<count / 128, 128, 0, stream>>>(numbers, 1);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaDeviceSynchronize());
    if (strcmp(where, "device") == 0)
        CHECK(cudaMemset(numbers, 0, 4));
    add<<<count / 128, 128, 0, stream>>>(numbers, 1);
    CHECK(cudaDeviceSynchronize());
    if (strcmp(where, "device") == 0)
        CHECK(cudaMemset(numbers + count - 4, 0, 16));
    CHECK(cudaDeviceSynchronize());
    printf("ready\n");
    fflush(stdout);
    (void)getchar();
    first_call(first, &numbers, count);
    CHECK(cudaEventSynchronize(event));
    add<<<count / 128, 128, 0, stream>>>(numbers, 2);
    CHECK(cudaEventRecord(event, stream));
    CHECK(cudaEventSynchronize(event));
    CHECK(cudaMemcpyAsync(&ends[0], numbers + 2000, sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaMemcpyAsync(&ends[1], numbers + count - 1, sizeof(int), cudaMemcpyDefault, stream));
    CHECK(cudaDeviceSynchronize());
    printf("lost %d %d", ends[0], ends[1]);
    CHECK(cudaMalloc(&other, 4096));
    CHECK(cudaMemset(other, 0, 4096));
    add<<<8, 128>>>(other, 3);
    CHECK(cudaMemcpy(&ends[0], other + 1023, sizeof(int), cudaMemcpyDeviceToHost));
    on_device<<<1, 1>>>(numbers);
    printf(" %d %s", ends[0], cudaGetErrorName(cudaGetLastError()));
    if (strcmp(first, "copy") != 0)
        CHECK(cudaFree(numbers));
    CHECK(cudaFree(other));
    CHECK(cudaMalloc(&other, 4096));
    CHECK(cudaMemset(other, 0, 4096));
    on_device<<<1, 1024>>>(other);
    CHECK(cudaMemcpy(&ends[0], other + 1023, sizeof(int), cudaMemcpyDeviceToHost));
    printf(" %d\n", ends[0]);
    CHECK(cudaDeviceReset());
    launches(2);
}

static void refused(size_t mib)
{
    cudaArray_t array;
    cudaChannelFormatDesc floats = cudaCreateChannelDesc<float>();
    printf("refused %s", cudaGetErrorName(cudaMallocArray(&array, &floats, 1024, mib << 8)));
    void *seen, *own = malloc(mib << 20);
    CHECK(cudaHostRegister(own, mib << 20, cudaHostRegisterMapped));
    printf(" %s", cudaGetErrorName(cudaHostGetDevicePointer(&seen, own, 0)));
    cudaResourceDesc resource = {};
    cudaTextureDesc sampling = {};
    cudaTextureObject_t texture;
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.desc = floats;
    resource.res.linear.sizeInBytes = 4096;
    CHECK(cudaMalloc(&resource.res.linear.devPtr, mib << 20));
    printf(" %s\n", cudaGetErrorName(cudaCreateTextureObject(&texture, &resource, &sampling, nullptr)));
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
        exhaust(number, argc > 3 ? argv[3] : "malloc");
    else if (strcmp(what, "host") == 0)
        host(number);
    else if (strcmp(what, "pools") == 0)
        pools(number);
    else if (strcmp(what, "graph") == 0)
        graph(number);
    else if (strcmp(what, "lost") == 0)
        lost(argv[3], argv[4]);
    else if (strcmp(what, "refused") == 0)
        refused(number);
    return 0;
}
