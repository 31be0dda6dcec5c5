// Rule: NVTX functions tell how deep ranges are nested in a thread and a domain, and ranges may begin and end anywhere.
#include <cstdio>
#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#include <nvtx3/nvtx3.hpp>

__global__ void twice(int *x)
{
    x[threadIdx.x] *= 2;
}

struct solver {
    static constexpr char const *name{"solver"};
};

static int failures;
#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            std::printf("line %d: %s\n", __LINE__, #condition);                                                        \
            failures++;                                                                                                \
        }                                                                                                              \
    } while (0)

static void named_function()
{
    NVTX3_FUNC_RANGE();
}

int main()
{
    int *x;
    EXPECT(cudaMalloc(&x, 32 * sizeof(int)) == cudaSuccess);
    nvtxDomainHandle_t domain = nvtxDomainCreateA("io");
    nvtxNameCategoryA(7, "upload");
    EXPECT(nvtxRangePushA("outer") == 0);
    EXPECT(nvtxRangePushW(L"größer") == 1);
    nvtxEventAttributes_t event = {};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.category = 7;
    event.colorType = NVTX_COLOR_ARGB;
    event.color = 0xff00ff00;
    event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
    event.payload.llValue = -5;
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = nvtxDomainRegisterStringA(domain, "registered");
    EXPECT(nvtxDomainRangePushEx(domain, &event) == 0);
    nvtxRangeId_t loose = nvtxRangeStartA("loose");
    EXPECT(loose != 0);
    twice<<<1, 32>>>(x);
    EXPECT(cudaDeviceSynchronize() == cudaSuccess);
    nvtxMarkA("tick\n");
    EXPECT(nvtxDomainRangePop(domain) == 0);
    EXPECT(nvtxDomainRangePop(domain) == NVTX_NO_PUSH_POP_TRACKING);
    EXPECT(nvtxRangePop() == 1);
    nvtxRangeEnd(loose);
    nvtxRangeEnd(loose); // it has ended: nothing happens
    EXPECT(nvtxRangePop() == 0);
    EXPECT(nvtxRangePop() < 0);
    {
        nvtx3::scoped_range range{"scoped", nvtx3::rgb{255, 0, 0}, nvtx3::payload{1.5}};
        nvtx3::scoped_range_in<solver> inner{"in a domain", nvtx3::category{3}};
        nvtx3::unique_range unique{"unique"};
        nvtx3::mark("instant");
    }
    named_function();
    if (failures == 0)
        std::printf("PASS\n");
    return failures != 0;
}
