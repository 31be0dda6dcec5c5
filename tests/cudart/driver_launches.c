/* Launches: with a list of parameters, with a buffer, with attributes, in parts; streams, events, occupancy. */
#include "driver_checks.h"

static CUfunction scale, report;
static CUdeviceptr memory;

static void set_all(unsigned value)
{
    OK(cuMemsetD32(memory, value, COUNT));
}

static void expect(unsigned first, unsigned last)
{
    unsigned host[COUNT];
    OK(cuMemcpyDtoH(host, memory, sizeof(host)));
    CHECK(host[0] == first && host[COUNT - 1] == last);
}

static void forms(void)
{
    unsigned count = COUNT;
    void *list[] = {&memory, &count};
    set_all(1);
    OK(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, list, NULL));
    expect(3, 3);

    struct {
        CUdeviceptr p;
        unsigned n;
    } buffer = {memory, COUNT - 1};
    size_t size = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_END};
    OK(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    expect(9, 3);
    size = 11;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, list, extra));
    void *wrong[] = {(void *)7, &size, CU_LAUNCH_PARAM_END};
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, wrong));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 0, 1, 1, 32, 1, 1, 0, NULL, list, NULL));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuLaunchKernel(scale, 1, 1, 1, 2048, 1, 1, 0, NULL, list, NULL));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, list, NULL));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel((CUfunction)&size, 1, 1, 1, 1, 1, 1, 0, NULL, list, NULL));
    expect(9, 3);

    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    const CUlaunchConfig config = {.gridDimX = 2,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 50,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .attrs = &attribute,
                                   .numAttrs = 1};
    OK(cuLaunchKernelEx(&config, scale, list, NULL));
    expect(27, 9);
    OK(cuLaunchCooperativeKernel(scale, 2, 1, 1, 50, 1, 1, 0, NULL, list));
    expect(81, 27);
    ENDS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
         cuLaunchCooperativeKernel(scale, 1 << 20, 1, 1, 1024, 1, 1, 0, NULL, list));
}

static void parts(void)
{
    set_all(2);
    OK(cuFuncSetBlockShape(scale, 50, 1, 1));
    OK(cuParamSetv(scale, 0, &memory, sizeof(memory)));
    OK(cuParamSeti(scale, 8, COUNT));
    OK(cuParamSetSize(scale, 12));
    OK(cuLaunchGrid(scale, 2, 1));
    expect(6, 6);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuFuncSetBlockShape(scale, 0, 1, 1));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuParamSetv(scale, 4090, &memory, sizeof(memory)));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuParamSetSize(scale, 5000));
}

static void count_call(void *number)
{
    ++*(int *)number;
}

static void order(void)
{
    CUstream stream;
    CUevent begin_event, end_event;
    float milliseconds = -1;
    int calls = 0, priority;
    unsigned flags, count = COUNT;
    void *list[] = {&memory, &count};
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    OK(cuStreamGetFlags(stream, &flags));
    OK(cuStreamGetPriority(stream, &priority));
    CHECK(flags == CU_STREAM_NON_BLOCKING);
    OK(cuEventCreate(&begin_event, CU_EVENT_DEFAULT));
    OK(cuEventCreate(&end_event, CU_EVENT_DEFAULT));
    set_all(1);
    OK(cuEventRecord(begin_event, stream));
    OK(cuLaunchKernel(scale, 4, 1, 1, 32, 1, 1, 0, stream, list, NULL));
    OK(cuLaunchHostFunc(stream, count_call, &calls));
    OK(cuEventRecord(end_event, stream));
    OK(cuStreamWaitEvent(NULL, end_event, 0));
    OK(cuEventSynchronize(end_event));
    OK(cuEventQuery(end_event));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamQuery(stream));
    OK(cuEventElapsedTime(&milliseconds, begin_event, end_event));
    CHECK(milliseconds >= 0 && calls == 1);
    expect(3, 3);
    OK(cuEventDestroy(begin_event));
    OK(cuEventDestroy(end_event));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(end_event, stream));
    OK(cuStreamDestroy(stream));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(stream));
}

static size_t shared_of(int threads)
{
    return (size_t)threads * 16;
}

static void occupancy(void)
{
    int blocks, min_grid, block;
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, report, 128, 0));
    CHECK(blocks > 0);
    OK(cuOccupancyMaxPotentialBlockSize(&min_grid, &block, report, NULL, 0, 0));
    CHECK(min_grid > 0 && block > 0 && block <= 1024);
    OK(cuOccupancyMaxPotentialBlockSize(&min_grid, &block, report, shared_of, 0, 100));
    CHECK(block > 0 && block <= 100);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, report, 128, 0));
}

int main(void)
{
    CUmodule module;
    CUcontext context = begin();
    OK(cuModuleLoadData(&module, SCALE));
    OK(cuModuleGetFunction(&scale, module, "scale"));
    OK(cuModuleGetFunction(&report, module, "report"));
    OK(cuMemAlloc(&memory, COUNT * sizeof(unsigned)));
    forms();
    parts();
    order();
    occupancy();
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
