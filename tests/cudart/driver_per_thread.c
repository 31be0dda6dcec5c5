/* Default streams: that of the process, or with CUDA_API_PER_THREAD_DEFAULT_STREAM the calling thread's own. */
#include <pthread.h>

#include "driver_checks.h"

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
enum { IS_PER_THREAD = 1 };
#else
enum { IS_PER_THREAD = 0 };
#endif

typedef CUresult get_id(CUstream stream, unsigned long long *id);

static unsigned long long id_of(CUstream stream)
{
    unsigned long long id = 0;
    OK(cuStreamGetId(stream, &id));
    return id;
}

static get_id *find(int flags)
{
    void *function = NULL;
    CUdriverProcAddressQueryResult result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    OK(cuGetProcAddress("cuStreamGetId", &function, 12000, flags, &result));
    CHECK(result == CU_GET_PROC_ADDRESS_SUCCESS);
    return (get_id *)function;
}

static void *in_another_thread(void *context)
{
    static unsigned long long id;
    OK(cuCtxSetCurrent(context));
    OK(find(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)(NULL, &id));
    return &id;
}

int main(void)
{
    CUcontext context = begin();
    pthread_t thread;
    unsigned long long legacy, own;
    void *others, *function, *same;
    CHECK(id_of(CU_STREAM_LEGACY) != id_of(CU_STREAM_PER_THREAD));
    CHECK(id_of(NULL) == id_of(IS_PER_THREAD ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY));
    OK(find(CU_GET_PROC_ADDRESS_LEGACY_STREAM)(NULL, &legacy));
    OK(find(CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)(NULL, &own));
    CHECK(legacy == id_of(CU_STREAM_LEGACY) && own == id_of(CU_STREAM_PER_THREAD));
    CHECK(find(CU_GET_PROC_ADDRESS_DEFAULT) ==
          find(IS_PER_THREAD ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM));
    CHECK(pthread_create(&thread, NULL, in_another_thread, context) == 0 && pthread_join(thread, &others) == 0);
    CHECK(*(unsigned long long *)others != own && *(unsigned long long *)others != legacy);
    OK(cuGetProcAddress("cuCtxGetCurrent", &function, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL));
    OK(cuGetProcAddress("cuCtxGetCurrent", &same, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, NULL));
    CHECK(function == same); /* it has one form */

    /* A thread's own stream can be captured, that of the process cannot. */
    CUgraph graph;
    if (!IS_PER_THREAD) {
        ENDS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    } else {
        OK(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK(cuStreamEndCapture(NULL, &graph));
        OK(cuGraphDestroy(graph));
    }

    /* Work of all kinds in the default stream keeps its order. */
    CUmodule module;
    CUfunction scale;
    CUdeviceptr memory;
    unsigned n = COUNT, host[COUNT], back[COUNT] = {0};
    void *parameters[] = {&memory, &n};
    for (unsigned i = 0; i < COUNT; i++)
        host[i] = i;
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    OK(cuMemAlloc(&memory, sizeof(host)));
    OK(cuMemcpyHtoDAsync(memory, host, sizeof(host), NULL));
    OK(cuLaunchKernel(scale, 1, 1, 1, COUNT, 1, 1, 0, NULL, parameters, NULL));
    OK(cuMemsetD32Async(memory, 77, 1, NULL));
    OK(cuMemcpyDtoH(back, memory, sizeof(back)));
    CHECK(back[0] == 77 && back[1] == 3 && back[COUNT - 1] == 3 * (COUNT - 1));
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
