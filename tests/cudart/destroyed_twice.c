/* Threads that destroy the same handle at the same time: one does, the others get the error of a wrong handle. */
#include <nvJitLink.h>
#include <nvrtc.h>
#include <pthread.h>

#include "driver_checks.h"

enum { THREADS = 4, ROUNDS = 400, NEXT = 8 };

struct kind {
    const char *name;
    void *(*make)(void);
    int (*destroy)(void *handle);
    int refused; /* what destroy() ends with then */
};

static void *make_module(void)
{
    CUmodule module;
    OK(cuModuleLoadData(&module, SCALE));
    return module;
}

static int destroy_module(void *handle)
{
    return (int)cuModuleUnload(handle);
}

static void *make_link(void)
{
    CUlinkState state;
    OK(cuLinkCreate(0, NULL, NULL, &state));
    OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, (void *)SCALE, sizeof(SCALE), "it", 0, NULL, NULL));
    return state;
}

static int destroy_link(void *handle)
{
    return (int)cuLinkDestroy(handle);
}

static void *make_linker(void)
{
    nvJitLinkHandle handle;
    const char *options[] = {"-arch=sm_80"};
    CHECK(nvJitLinkCreate(&handle, 1, options) == NVJITLINK_SUCCESS);
    CHECK(nvJitLinkAddData(handle, NVJITLINK_INPUT_PTX, SCALE, sizeof(SCALE), "it") == NVJITLINK_SUCCESS);
    return handle;
}

static int destroy_linker(void *handle)
{
    nvJitLinkHandle own = handle;
    return (int)nvJitLinkDestroy(&own);
}

static void *make_program(void)
{
    nvrtcProgram program;
    CHECK(nvrtcCreateProgram(&program, "__global__ void k() {}", "k.cu", 0, NULL, NULL) == NVRTC_SUCCESS);
    return program;
}

static int destroy_program(void *handle)
{
    nvrtcProgram own = handle;
    return (int)nvrtcDestroyProgram(&own);
}

static void *make_stream(void)
{
    CUstream stream;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static int destroy_stream(void *handle)
{
    return (int)cuStreamDestroy(handle);
}

static void *make_event(void)
{
    CUevent event;
    OK(cuEventCreate(&event, 0));
    return event;
}

static int destroy_event(void *handle)
{
    return (int)cuEventDestroy(handle);
}

static const struct kind KINDS[] = {
    {"module", make_module, destroy_module, CUDA_ERROR_INVALID_HANDLE},
    {"link", make_link, destroy_link, CUDA_ERROR_INVALID_HANDLE},
    {"linker", make_linker, destroy_linker, NVJITLINK_ERROR_INVALID_INPUT},
    {"program", make_program, destroy_program, NVRTC_ERROR_INVALID_PROGRAM},
    {"stream", make_stream, destroy_stream, CUDA_ERROR_INVALID_HANDLE},
    {"event", make_event, destroy_event, CUDA_ERROR_INVALID_HANDLE},
};

static pthread_barrier_t barrier;
static CUcontext context;
static const struct kind *kind;
static void *handle;
static int results[THREADS];

static void *destroy_all(void *number)
{
    OK(cuCtxSetCurrent(context));
    for (int round = 0; round < ROUNDS; round++) {
        (void)pthread_barrier_wait(&barrier); /* it is made */
        results[(intptr_t)number] = kind->destroy(handle);
        (void)pthread_barrier_wait(&barrier); /* it is destroyed */
    }
    return NULL;
}

static void check_results(int round)
{
    int destroyed = 0, refused = 0;
    for (int i = 0; i < THREADS; i++) {
        destroyed += results[i] == 0;
        refused += results[i] == kind->refused;
    }
    if (destroyed != 1 || refused != THREADS - 1) {
        printf("%s, round %d: %d of %d threads have destroyed it\n", kind->name, round, destroyed, THREADS);
        exit(1);
    }
}

/* Handles that are made later are handles of their own. */
static void check_next(void)
{
    void *next[NEXT];
    for (int i = 0; i < NEXT; i++) {
        next[i] = kind->make();
        for (int k = 0; k < i; k++)
            CHECK(next[i] != next[k]);
    }
    for (int i = 0; i < NEXT; i++)
        CHECK(kind->destroy(next[i]) == 0);
}

static void check(const struct kind *checked)
{
    pthread_t threads[THREADS];
    kind = checked;
    for (intptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, destroy_all, (void *)i) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        handle = kind->make();
        (void)pthread_barrier_wait(&barrier);
        (void)pthread_barrier_wait(&barrier);
        check_results(round);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    check_next();
}

int main(void)
{
    context = begin();
    CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++)
        check(&KINDS[i]);
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
