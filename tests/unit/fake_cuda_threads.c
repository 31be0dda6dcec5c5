/* Six threads at once in the fake CUDA driver, with streams of their own, one pool, and one event that all record and
 * wait for. Exits with 0 if every stream kept its order; for ThreadSanitizer. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi.h"

CUresult cuInit(unsigned int flags);
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device);
CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult cuCtxSetCurrent(CUcontext context);
CUresult cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult cuStreamDestroy_v2(CUstream stream);
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags);
CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned int flags);
CUresult cuEventCreate(CUevent *event, unsigned int flags);
CUresult cuEventRecord(CUevent event, CUstream stream);
CUresult cuEventDestroy_v2(CUevent event);
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool, CUstream stream);
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream);
CUresult cuMemHostAlloc(void **host, size_t size, unsigned int flags);
CUresult cuMemsetD32Async(CUdeviceptr address, unsigned int value, size_t count, CUstream stream);
CUresult cuMemcpyDtoHAsync_v2(void *host, CUdeviceptr address, size_t size, CUstream stream);
size_t fake_cuda_misuses(char *buffer, size_t size);

enum { THREADS = 6, ROUNDS = 300, WORDS = 100 };

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        CUresult result = (call);                                                                                      \
        if (result) {                                                                                                  \
            fprintf(stderr, "%s: %d\n", #call, (int)result);                                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static CUcontext context;
static CUmemoryPool pool;
static CUevent shared;

static void one_round(CUstream stream, unsigned int round, uint32_t *host)
{
    CUdeviceptr address;
    CUevent event;
    unsigned int found = round;
    OK(cuMemAllocFromPoolAsync(&address, WORDS * sizeof found, pool, stream));
    OK(cuMemsetD32Async(address, round, WORDS, stream));
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, stream));
    OK(cuStreamWaitEvent(stream, shared, 0));
    if (round % 10 == 0)
        OK(cuMemcpyDtoHAsync_v2(&found, address, sizeof found, stream));
    if (found != round)
        abort();
    OK(cuMemFreeAsync(address, stream));
    OK(cuEventRecord(shared, stream));
    OK(cuEventDestroy_v2(event));
    OK(cuStreamWriteValue32_v2(stream, (CUdeviceptr)host, round, 0));
}

static void *work(void *unused)
{
    CUstream stream;
    uint32_t *host;
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemHostAlloc((void **)&host, sizeof *host, 0));
    *host = 0;
    for (unsigned int round = 1; round <= ROUNDS; round++)
        one_round(stream, round, host);
    while (__atomic_load_n(host, __ATOMIC_ACQUIRE) != ROUNDS)
        ;
    OK(cuStreamDestroy_v2(stream));
    return unused;
}

int main(void)
{
    CUmemPoolProps props;
    pthread_t threads[THREADS];
    char misuse[2000] = "";
    memset(&props, 0, sizeof props);
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuEventCreate(&shared, 0));
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL))
            abort();
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    fake_cuda_misuses(misuse, sizeof misuse);
    fputs(misuse, stderr);
    return *misuse != 0;
}
