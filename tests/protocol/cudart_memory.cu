/* Scenes of test_cudart_memory.py: each shows one rule of memory that both sides use. */
#include <cuda_runtime.h>
#include <errno.h>
#include <initializer_list>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != cudaSuccess) {                                                                                   \
            printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf("line %d: not %s\n", __LINE__, #condition);                                                         \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)
#define REFUSED(call, error)                                                                                           \
    do {                                                                                                               \
        cudaError_t error_ = (call);                                                                                   \
        if (error_ != (error)) {                                                                                       \
            printf("line %d: %s: %s\n", __LINE__, #call, cudaGetErrorName(error_));                                    \
            exit(1);                                                                                                   \
        }                                                                                                              \
        (void)cudaGetLastError();                                                                                      \
    } while (0)

enum { MIB = 1 << 20 };

struct Node {
    int value;
    Node *next;
};

__global__ void raise_list(Node *node)
{
    for (; node; node = node->next)
        node->value += 100;
}

__global__ void add(unsigned *values, size_t n, unsigned value)
{
    size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step)
        values[i] += value;
}

__global__ void add_at(unsigned *values, size_t stride, size_t n, unsigned value)
{
    for (size_t i = threadIdx.x; i < n; i += blockDim.x)
        values[i * stride] += value;
}

__global__ void wait_then_set(unsigned *value, long long rounds)
{
    unsigned x = *value;
    for (long long i = 0; i < rounds; i++)
        x = x * 1664525u + 1013904223u;
    *value = x == 0x12345u ? 1 : 7;
}

static unsigned *managed(size_t n)
{
    unsigned *memory;
    CHECK(cudaMallocManaged(&memory, n * sizeof(unsigned)));
    return memory;
}

/* A list that the host builds, the device changes, the host lengthens, the device changes again. */
static void list()
{
    Node *nodes;
    CHECK(cudaMallocManaged(&nodes, 2000 * sizeof(Node)));
    for (int i = 0; i < 1000; i++)
        nodes[i] = {i, i < 999 ? &nodes[i + 1] : NULL};
    raise_list<<<1, 1>>>(nodes);
    CHECK(cudaDeviceSynchronize());
    for (int i = 0; i < 1000; i++)
        EXPECT(nodes[i].value == i + 100);
    nodes[999].next = &nodes[1999];
    nodes[1999] = {5, NULL};
    raise_list<<<1, 1>>>(nodes);
    CHECK(cudaDeviceSynchronize());
    EXPECT(nodes[0].value == 200 && nodes[999].value == 1199 && nodes[1999].value == 105);
    CHECK(cudaFree(nodes));
}

/* Both sides change parts of the same pages, in turns. */
static void parts()
{
    for (size_t n : {(size_t)5000, (size_t)3 * MIB}) {
        unsigned *values = managed(n);
        for (size_t i = 0; i < n; i++)
            values[i] = (unsigned)i;
        for (unsigned round = 1; round <= 3; round++) {
            add_at<<<1, 256>>>(values, 7, n / 7, 1000000);
            CHECK(cudaDeviceSynchronize());
            for (size_t i = 3; i < n; i += 1013)
                values[i] += 5;
        }
        add<<<8, 256>>>(values, n, 1);
        CHECK(cudaDeviceSynchronize());
        for (size_t i = 0; i < n; i++) {
            unsigned wanted = (unsigned)i + 1 + (i % 7 == 0 && i / 7 < n / 7 ? 3000000 : 0) + (i % 1013 == 3 ? 15 : 0);
            EXPECT(values[i] == wanted);
        }
        CHECK(cudaFree(values));
    }
}

/* Memory that nobody wrote is zero on both sides. */
static void fresh()
{
    size_t n = 2 * MIB;
    unsigned *values = managed(n);
    values[n / 2] = 9;
    add<<<4, 256>>>(values, n, 1);
    CHECK(cudaDeviceSynchronize());
    for (size_t i = 0; i < n; i++)
        EXPECT(values[i] == (i == n / 2 ? 10u : 1u));
    CHECK(cudaFree(values));
}

/* The host looks without a synchronisation: it waits for the kernel. */
static void early()
{
    unsigned *value = managed(1);
    *value = 3;
    wait_then_set<<<1, 1>>>(value, 50000000);
    EXPECT(*value == 7);
    CHECK(cudaFree(value));
}

static void copies()
{
    size_t n = 1 * MIB;
    unsigned *a = managed(n), *b = managed(n), *device, *host = (unsigned *)malloc(n * 4);
    CHECK(cudaMalloc(&device, n * 4));
    for (size_t i = 0; i < n; i++)
        a[i] = (unsigned)i;
    add<<<4, 256>>>(a, n, 1); /* newest on the device */
    CHECK(cudaMemcpy(b + 10, a, (n - 10) * 4, cudaMemcpyHostToHost));
    EXPECT(b[10] == 1 && b[n - 1] == n - 10);
    b[11] = 77; /* newest on the host */
    CHECK(cudaMemcpy(device, b, n * 4, cudaMemcpyDefault));
    CHECK(cudaMemcpy(host, device, n * 4, cudaMemcpyDeviceToHost));
    EXPECT(host[11] == 77 && host[12] == 3 && host[9] == 0);
    CHECK(cudaMemcpy(host, b, n * 4, cudaMemcpyDeviceToHost));
    EXPECT(host[11] == 77 && host[n - 1] == n - 10);
    host[0] = 4;
    CHECK(cudaMemcpy(a + 1, host, 4, cudaMemcpyHostToDevice));
    EXPECT(a[0] == 1 && a[1] == 4 && a[2] == 3);
    a[3] = 5;
    CHECK(cudaMemset(a + 4, 0xff, 8));
    CHECK(cudaDeviceSynchronize());
    EXPECT(a[3] == 5 && a[4] == 0xffffffff && a[5] == 0xffffffff && a[6] == 7);
    CHECK(cudaFree(a));
    CHECK(cudaFree(b));
}

/* Kernels in several streams find what the host wrote last. */
static void streams()
{
    enum { STREAMS = 3, N = 100000 };
    cudaStream_t stream[STREAMS];
    unsigned *values[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamNonBlocking));
        values[i] = managed(N);
    }
    for (unsigned round = 0; round < 20; round++) {
        for (int i = 0; i < STREAMS; i++)
            for (int j = 0; j < N; j += 1000)
                values[i][j] = round;
        for (int i = 0; i < STREAMS; i++)
            add<<<2, 128, 0, stream[i]>>>(values[i], N, (unsigned)i + 1);
        for (int i = 0; i < STREAMS; i++)
            CHECK(cudaStreamSynchronize(stream[i]));
        for (int i = 0; i < STREAMS; i++)
            EXPECT(values[i][2000] == round + i + 1 && values[i][1] == (round + 1) * (i + 1));
    }
}

static void *use(void *number)
{
    enum { N = 50000 };
    unsigned mine = (unsigned)(size_t)number, *values = managed(N);
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (unsigned round = 0; round < 30; round++) {
        for (int i = 0; i < N; i += 100)
            values[i] = mine;
        add<<<2, 128, 0, stream>>>(values, N, 1);
        CHECK(cudaStreamSynchronize(stream));
        for (int i = 0; i < N; i += 100)
            EXPECT(values[i] == mine + 1 && values[i + 1] == round + 1);
    }
    CHECK(cudaFree(values));
    return NULL;
}

static void threads()
{
    pthread_t thread[4];
    for (size_t i = 0; i < 4; i++)
        pthread_create(&thread[i], NULL, use, (void *)(i * 1000));
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* System calls take managed memory after a synchronisation. */
static void system_calls()
{
    unsigned *values = managed(1000), got[1000];
    int ends[2];
    EXPECT(pipe(ends) == 0);
    for (int i = 0; i < 1000; i++)
        values[i] = (unsigned)i;
    add<<<1, 128>>>(values, 1000, 5);
    CHECK(cudaDeviceSynchronize());
    EXPECT(write(ends[1], values, 4000) == 4000);
    EXPECT(read(ends[0], got, 4000) == 4000 && got[999] == 1004);
}

static void advice()
{
    size_t bytes = 4 * MIB;
    char *memory;
    int device = 5, list[3];
    CHECK(cudaMallocManaged(&memory, bytes));
    CHECK(cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributePreferredLocation, memory, bytes));
    EXPECT(device == cudaInvalidDeviceId);
    CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, cudaCpuDeviceId));
    CHECK(cudaMemAdvise(memory, bytes / 2, cudaMemAdviseSetReadMostly, 0));
    CHECK(cudaMemAdvise(memory, bytes, cudaMemAdviseSetAccessedBy, 0));
    CHECK(cudaMemPrefetchAsync(memory, bytes, 0, 0));
    CHECK(cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributePreferredLocation, memory, bytes));
    EXPECT(device == cudaCpuDeviceId);
    CHECK(cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributeReadMostly, memory, bytes));
    EXPECT(device == 0);
    CHECK(cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributeReadMostly, memory, bytes / 2));
    EXPECT(device == 1);
    CHECK(cudaMemRangeGetAttribute(list, sizeof list, cudaMemRangeAttributeAccessedBy, memory, bytes));
    EXPECT(list[0] == 0 && list[1] == cudaInvalidDeviceId && list[2] == cudaInvalidDeviceId);
    CHECK(cudaMemRangeGetAttribute(&device, sizeof device, cudaMemRangeAttributeLastPrefetchLocation, memory, bytes));
    EXPECT(device == 0);
    REFUSED(cudaMemAdvise(memory, bytes + 1, cudaMemAdviseSetReadMostly, 0), cudaErrorInvalidValue);
    REFUSED(cudaMemAdvise(memory, bytes, cudaMemAdviseSetPreferredLocation, 7), cudaErrorInvalidDevice);
    REFUSED(cudaMemPrefetchAsync(&device, sizeof device, 0, 0), cudaErrorInvalidValue);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamAttachMemAsync(stream, memory, 0, cudaMemAttachSingle));
    REFUSED(cudaStreamAttachMemAsync(stream, memory + 1, 0, cudaMemAttachSingle), cudaErrorInvalidValue);
}

/* ---- faults --------------------------------------------------------------------------------- */

static void wild()
{
    unsigned *values = managed(100);
    add<<<1, 100>>>(values, 100, 1);
    CHECK(cudaDeviceSynchronize());
    *(volatile int *)16 = 1;
}

static sigjmp_buf back;
static volatile sig_atomic_t seen;

static void on_fault(int, siginfo_t *info, void *)
{
    seen = info->si_addr == (void *)32;
    siglongjmp(back, 1);
}

/* The program's own handler gets its own faults, whether it was set before or after. */
static void own_handler()
{
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    for (int round = 0; round < 2; round++) {
        sigaction(SIGSEGV, &action, NULL);
        size_t n = 2 * MIB;
        unsigned *values = managed(n);
        add<<<4, 256>>>(values, n, 1);
        EXPECT(values[n - 1] == 1);
        seen = 0;
        if (sigsetjmp(back, 1) == 0)
            *(volatile int *)32 = 1;
        EXPECT(seen);
        CHECK(cudaFree(values));
    }
}

static void child()
{
    unsigned *values = managed(100);
    values[0] = 3;
    pid_t pid = fork();
    if (pid == 0)
        _exit(*(volatile unsigned *)values == 3 ? 1 : 2);
    int status;
    EXPECT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    add<<<1, 100>>>(values, 100, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(values[0] == 4);
}

/* ---- page-locked memory --------------------------------------------------------------------- */

static void pinned()
{
    unsigned *memory, *seen_at, flags;
    cudaPointerAttributes attributes;
    CHECK(cudaMallocHost(&memory, 100000));
    CHECK(cudaHostGetDevicePointer(&seen_at, memory, 0));
    EXPECT(seen_at == memory && (size_t)memory % 4096 == 0);
    memory[7] = 1;
    add<<<1, 256>>>(memory, 25000, 4);
    CHECK(cudaDeviceSynchronize());
    EXPECT(memory[7] == 5 && memory[24999] == 4);
    CHECK(cudaPointerGetAttributes(&attributes, memory + 3));
    EXPECT(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == memory + 3 &&
           attributes.devicePointer == memory + 3 && attributes.device == 0);
    CHECK(cudaHostGetFlags(&flags, memory));
    REFUSED(cudaFree(memory), cudaErrorInvalidValue);
    CHECK(cudaFreeHost(memory));
    REFUSED(cudaFreeHost(memory), cudaErrorInvalidValue);
    REFUSED(cudaHostAlloc(&memory, 100, 64), cudaErrorInvalidValue);
    int local;
    CHECK(cudaPointerGetAttributes(&attributes, &local));
    EXPECT(attributes.type == cudaMemoryTypeUnregistered);
}

/* More than the region has: copies are right, mapped memory is moved. */
static void large_pinned()
{
    size_t bytes = (size_t)atol(getenv("REGION")) + MIB, n = 2 * MIB;
    unsigned *large, *mapped, *device;
    CHECK(cudaMallocHost(&large, bytes));
    CHECK(cudaMalloc(&device, 8 * MIB));
    size_t last = bytes / 4 - n;
    for (size_t i = 0; i < n; i++)
        large[last + i] = (unsigned)i;
    CHECK(cudaMemcpyAsync(device, large + last, n * 4, cudaMemcpyHostToDevice, 0));
    add<<<4, 256>>>(device, n, 2);
    CHECK(cudaMemcpyAsync(large, device, n * 4, cudaMemcpyDeviceToHost, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT(large[0] == 2 && large[n - 1] == n + 1);
    CHECK(cudaFreeHost(large));
    bytes = (size_t)atol(getenv("REGION")) / 2 + MIB;
    CHECK(cudaHostAlloc(&mapped, bytes, cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&device, mapped, 0));
    EXPECT(device == mapped);
    mapped[bytes / 4 - 1] = 6;
    add<<<4, 256>>>(mapped, bytes / 4, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(mapped[0] == 1 && mapped[bytes / 4 - 1] == 7);
    cudaPointerAttributes attributes;
    CHECK(cudaPointerGetAttributes(&attributes, mapped));
    EXPECT(attributes.type == cudaMemoryTypeHost);
    CHECK(cudaFreeHost(mapped));
}

/* Copies of sixteen times the region, waited for, in a stream, and of rows. */
static void beyond()
{
    const size_t bytes = 16 * (size_t)atol(getenv("REGION")), n = bytes / 4, rows = 1000, width = bytes / rows - 4;
    unsigned *device, *host = (unsigned *)malloc(bytes), *back = (unsigned *)malloc(bytes);
    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMalloc(&device, bytes));
    for (size_t i = 0; i < n; i++)
        host[i] = (unsigned)i * 2654435761u;
    CHECK(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice));
    add<<<4, 256>>>(device, n, 1);
    CHECK(cudaMemcpy(back, device, bytes, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < n; i++)
        EXPECT(back[i] == host[i] + 1);
    CHECK(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
    add<<<4, 256, 0, stream>>>(device, n, 2);
    CHECK(cudaMemcpyAsync(back, device, bytes, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    for (size_t i = 0; i < n; i++)
        EXPECT(back[i] == host[i] + 2);
    CHECK(cudaMemset(device, 0, bytes));
    CHECK(cudaMemcpy2D(device, width + 4, host, width, width, rows, cudaMemcpyHostToDevice));
    memset(back, 0, bytes);
    CHECK(cudaMemcpy2D(back, width, device, width + 4, width, rows, cudaMemcpyDeviceToHost));
    EXPECT(memcmp(back, host, width * rows) == 0);
}

static void registered()
{
    enum { N = 10000 };
    static unsigned values[N], constants[N];
    unsigned *seen_at, *constant;
    for (int i = 0; i < N; i++)
        values[i] = constants[i] = (unsigned)i;
    CHECK(cudaHostRegister(values, sizeof values, cudaHostRegisterMapped));
    CHECK(cudaHostRegister(constants, sizeof constants, cudaHostRegisterMapped | cudaHostRegisterReadOnly));
    CHECK(cudaHostGetDevicePointer(&seen_at, values, 0));
    CHECK(cudaHostGetDevicePointer(&constant, constants, 0));
    add<<<1, 256>>>(seen_at, N / 2, 10);
    values[N - 1] = 1; /* the host's own half, while the kernel works */
    CHECK(cudaDeviceSynchronize());
    EXPECT(values[0] == 10 && values[N / 2 - 1] == N / 2 + 9 && values[N / 2] == N / 2 && values[N - 1] == 1);
    values[0] = 50;
    add<<<1, 256>>>(seen_at, N, 1);
    CHECK(cudaDeviceSynchronize());
    EXPECT(values[0] == 51 && values[1] == 12 && values[N - 1] == 2);
    unsigned got;
    CHECK(cudaMemcpy(&got, constant + 5, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 0 || got == 5);
    add<<<1, 1>>>(seen_at, 1, 0);
    CHECK(cudaMemcpy(&got, constant + 5, 4, cudaMemcpyDeviceToHost));
    EXPECT(got == 5);
    REFUSED(cudaHostRegister(values + 4, 8, 0), cudaErrorHostMemoryAlreadyRegistered);
    CHECK(cudaHostUnregister(values));
    REFUSED(cudaHostUnregister(values), cudaErrorHostMemoryNotRegistered);
    REFUSED(cudaHostRegister(values, 8, cudaHostRegisterIoMemory), cudaErrorNotSupported);
}

/* ---- quota, pools --------------------------------------------------------------------------- */

static size_t free_bytes()
{
    size_t now, total;
    CHECK(cudaMemGetInfo(&now, &total));
    return now;
}

static void quota()
{
    unsigned *first = managed(1), *large; /* the program's image counts, too */
    add<<<1, 1>>>(first, 1, 1);
    CHECK(cudaDeviceSynchronize());
    size_t before = free_bytes();
    unsigned *memory = managed(5 * MIB / 4);
    EXPECT(before - free_bytes() == 5 * MIB);
    REFUSED(cudaMallocManaged(&large, before - 5 * MIB + 1), cudaErrorMemoryAllocation);
    CHECK(cudaFree(memory));
    EXPECT(free_bytes() == before);
    CHECK(cudaMallocManaged(&memory, before));
    EXPECT(free_bytes() == 0);
    CHECK(cudaFree(memory));
    EXPECT(free_bytes() == before);
    for (int i = 0; i < 200; i++)
        CHECK(cudaFree(managed(1000)));
    EXPECT(free_bytes() == before);
}

static uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr what)
{
    uint64_t value = 0;
    CHECK(cudaMemPoolGetAttribute(pool, what, &value));
    return value;
}

static void pools()
{
    cudaMemPool_t pool;
    cudaStream_t stream, other;
    unsigned *a, *b, *c;
    uint64_t threshold = UINT64_MAX;
    CHECK(cudaDeviceGetDefaultMemPool(&pool, 0));
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&a, MIB));
    add<<<1, 256>>>(a, MIB / 4, 1); /* the program's image counts, too */
    CHECK(cudaFree(a));
    size_t before = free_bytes();
    CHECK(cudaMallocAsync(&a, MIB, stream));
    CHECK(cudaFreeAsync(a, stream));
    REFUSED(cudaFreeAsync(a, stream), cudaErrorInvalidValue);
    CHECK(cudaMallocAsync(&b, MIB, stream));
    EXPECT(a == b); /* the same stream */
    CHECK(cudaFreeAsync(b, stream));
    CHECK(cudaMallocAsync(&c, MIB, other));
    EXPECT(c != a); /* a second stream, without a wait */
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == 2 * MIB);
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemCurrent) == MIB);
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == MIB); /* beyond the threshold of 0 */
    EXPECT(before - free_bytes() == MIB);
    CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    CHECK(cudaFreeAsync(c, other));
    CHECK(cudaDeviceSynchronize());
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemCurrent) == MIB); /* kept now, and for any stream */
    CHECK(cudaMallocAsync(&a, MIB, stream));
    EXPECT(a == c);
    add<<<1, 256, 0, stream>>>(a, MIB / 4, 1);
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(free_bytes() == before);
    EXPECT(attribute(pool, cudaMemPoolAttrUsedMemHigh) == MIB);
    EXPECT(attribute(pool, cudaMemPoolAttrReservedMemHigh) == 2 * MIB);
    /* What pools keep does not count as spent. */
    CHECK(cudaMallocAsync(&a, before / 2 / 512 * 512, stream));
    CHECK(cudaFreeAsync(a, stream));
    CHECK(cudaMallocAsync(&b, before / 4 * 3 / 512 * 512, other));
    CHECK(cudaFreeAsync(b, other));
    CHECK(cudaMemPoolTrimTo(pool, 0));
    EXPECT(free_bytes() == before);
    cudaMemPoolProps properties = {};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
    REFUSED(cudaMemPoolCreate(&pool, &properties), cudaErrorNotSupported);
}

int main(int, char **argv)
{
    static const struct {
        const char *name;
        void (*run)();
    } scenes[] = {{"list", list},
                  {"parts", parts},
                  {"fresh", fresh},
                  {"early", early},
                  {"copies", copies},
                  {"streams", streams},
                  {"threads", threads},
                  {"system_calls", system_calls},
                  {"advice", advice},
                  {"wild", wild},
                  {"own_handler", own_handler},
                  {"child", child},
                  {"pinned", pinned},
                  {"large_pinned", large_pinned},
                  {"beyond", beyond},
                  {"registered", registered},
                  {"quota", quota},
                  {"pools", pools}};
    for (const auto &scene : scenes) {
        if (strcmp(scene.name, argv[1]) == 0) {
            scene.run();
            puts("PASS");
            return 0;
        }
    }
    return 2;
}
