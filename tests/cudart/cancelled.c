/* Threads that pthread_cancel() ends while they wait for the device, and for a host function: others go on. */
#include <pthread.h>
#include <semaphore.h>

#include "driver_checks.h"

static CUcontext context;
static CUstream stream;
static sem_t waits, goes_on;
static CUresult (*wait_for)(CUstream stream);

static void hold(void *unused)
{
    (void)unused;
    (void)sem_post(&waits);
    (void)sem_wait(&goes_on);
}

static void *wait_there(void *returned)
{
    OK(cuCtxSetCurrent(context));
    OK(wait_for(stream));
    *(bool *)returned = true;
    pthread_testcancel();
    return NULL;
}

static CUresult synchronize_all(CUstream unused)
{
    (void)unused;
    return cuCtxSynchronize();
}

static CUresult copy(CUstream unused)
{
    unsigned value;
    CUdeviceptr memory;
    (void)unused;
    const CUresult result = cuMemAlloc(&memory, sizeof(value));
    return result != CUDA_SUCCESS ? result : cuMemcpyDtoH(&value, memory, sizeof(value));
}

/* The thread is cancelled when it waits, or before; whichever it is, it has done what it was asked for by then. */
static void cancel_one(CUresult (*in)(CUstream stream))
{
    pthread_t thread;
    void *result;
    bool has_returned = false;
    wait_for = in;
    OK(cuLaunchHostFunc(stream, hold, NULL));
    CHECK(sem_wait(&waits) == 0);
    CHECK(pthread_create(&thread, NULL, wait_there, &has_returned) == 0);
    CHECK(pthread_cancel(thread) == 0);
    CHECK(sem_post(&goes_on) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED && has_returned);
    OK(cuStreamSynchronize(stream));
}

int main(void)
{
    context = begin();
    CHECK(sem_init(&waits, 0, 0) == 0 && sem_init(&goes_on, 0, 0) == 0);
    OK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (int i = 0; i < 50; i++) {
        cancel_one(cuStreamSynchronize);
        cancel_one(synchronize_all);
        cancel_one(copy);
    }
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
