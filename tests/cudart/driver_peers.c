/* Two devices: copies of boxes between their contexts, and textures that may have the same number on both. */
#include "driver_checks.h"

enum { WIDTH = 4, HEIGHT = 3 };

static CUcontext contexts[2];
static CUarray arrays[2];
static CUtexObject textures[2];

static CUDA_MEMCPY3D_PEER between(int from, int to)
{
    return (CUDA_MEMCPY3D_PEER){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                                .srcArray = arrays[from],
                                .srcContext = contexts[from],
                                .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                                .dstArray = arrays[to],
                                .dstContext = contexts[to],
                                .WidthInBytes = WIDTH * sizeof(float),
                                .Height = HEIGHT,
                                .Depth = 1};
}

static void make(int device)
{
    const CUDA_ARRAY_DESCRIPTOR shape = {WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT, 1};
    const CUDA_TEXTURE_DESC sampling = {.flags = 0};
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    OK(cuCtxCreate(&contexts[device], 0, device));
    OK(cuArrayCreate(&arrays[device], &shape));
    resource.res.array.hArray = arrays[device];
    OK(cuTexObjectCreate(&textures[device], &resource, &sampling, NULL));
}

int main(void)
{
    float host[HEIGHT * WIDTH], back[HEIGHT * WIDTH] = {0};
    CUDA_RESOURCE_DESC resource;
    CUdeviceptr memory;
    OK(cuInit(0));
    make(0);
    make(1);
    for (int i = 0; i < HEIGHT * WIDTH; i++)
        host[i] = (float)(i * i);
    OK(cuMemcpyHtoA(arrays[1], 0, host, sizeof(host)));
    CUDA_MEMCPY3D_PEER copy = between(1, 0);
    OK(cuMemcpy3DPeer(&copy));
    OK(cuMemcpyAtoH(back, arrays[0], 0, sizeof(back)));
    CHECK(memcmp(host, back, sizeof(host)) == 0);

    /* An array of one device and memory of the other, as work of the current context. */
    OK(cuMemAlloc(&memory, sizeof(host)));
    copy = between(0, 1);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = WIDTH * sizeof(float);
    OK(cuMemcpy3DPeerAsync(&copy, NULL));
    OK(cuCtxSynchronize());
    memset(back, 0, sizeof(back));
    OK(cuMemcpyDtoH(back, memory, sizeof(back)));
    CHECK(memcmp(host, back, sizeof(host)) == 0);

    /* The context of another device is an error, as is one that was destroyed. */
    copy.srcContext = contexts[1];
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3DPeer(&copy));

    /* The first device's texture goes with its context, the second's stays. */
    OK(cuCtxDestroy(contexts[0]));
    OK(cuTexObjectGetResourceDesc(&resource, textures[1]));
    CHECK(resource.res.array.hArray == arrays[1]);
    OK(cuTexObjectDestroy(textures[1]));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(textures[1]));
    copy = between(1, 0);
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&copy));
    OK(cuCtxDestroy(contexts[1]));
    puts("PASS");
    return 0;
}
