/* Copies between two devices of a VM: memory, rows and arrays, by every function that may name two devices. */
#include "checks.h"

static const char SOURCE[] =
    "extern \"C\" __global__ void slow(int *p, int n)\n"
    "{ int x = 0; for (int i = 0; i < n; i++) x = x * 3 + *(volatile int *)p; p[1] = x; *p = 7; }\n";
static const char slow;
static const struct cudaChannelFormatDesc BYTES = {8, 0, 0, 0, cudaChannelFormatKindUnsigned};

static unsigned char *model;
static unsigned char *found;

static unsigned char *on(int device, size_t bytes)
{
    unsigned char *memory;
    OK(cudaSetDevice(device));
    OK(cudaMalloc((void **)&memory, bytes));
    OK(cudaMemset(memory, 0xee, bytes));
    return memory;
}

static void lines(void)
{
    static const size_t SIZES[] = {1, 4097, 1 << 20, (3 << 20) + 11};
    const size_t room = (3 << 20) + 32;
    unsigned char *a = on(0, room);
    unsigned char *b = on(1, room);
    CHECK(a != b);
    OK(cudaMemcpy(a, model, room, cudaMemcpyHostToDevice)); /* to a device that is not the current one */
    for (size_t i = 0; i < sizeof(SIZES) / sizeof(SIZES[0]); i++) {
        for (int form = 0; form < 5; form++) {
            size_t size = SIZES[i];
            OK(cudaSetDevice(form & 1));
            OK(cudaMemset(b, form, room));
            OK(cudaDeviceSynchronize());
            if (form == 0)
                OK(cudaMemcpyPeer(b + 5, 1, a + 3, 0, size));
            else if (form == 1)
                OK(cudaMemcpyPeerAsync(b + 5, 1, a + 3, 0, size, NULL));
            else if (form == 2)
                OK(cudaMemcpy(b + 5, a + 3, size, cudaMemcpyDefault));
            else if (form == 3)
                OK(cudaMemcpy(b + 5, a + 3, size, cudaMemcpyDeviceToDevice));
            else
                OK(cudaMemcpyAsync(b + 5, a + 3, size, cudaMemcpyDefault, NULL));
            OK(cudaDeviceSynchronize());
            OK(cudaMemcpy(found, b, room, cudaMemcpyDeviceToHost));
            CHECK(memcmp(found + 5, model + 3, size) == 0);
            CHECK(found[4] == form && found[5 + size] == form);
        }
    }
    ENDS(cudaErrorInvalidValue, cudaMemcpyPeer(b, 0, a, 0, 4)); /* b is on device 1 */
    ENDS(cudaErrorInvalidDevice, cudaMemcpyPeer(b, 2, a, 0, 4));
    OK(cudaFree(a)); /* from the other device */
    OK(cudaFree(b));
}

static void boxes(void)
{
    enum { WIDTH = 1500, HEIGHT = 900, DEPTH = 2 };
    struct cudaExtent extent = {WIDTH, HEIGHT, DEPTH};
    struct cudaPitchedPtr a;
    struct cudaPitchedPtr b;
    cudaArray_t array;
    OK(cudaSetDevice(0));
    OK(cudaMalloc3D(&a, extent));
    OK(cudaMalloc3DArray(&array, &BYTES, extent, 0));
    OK(cudaSetDevice(1));
    OK(cudaMalloc3D(&b, extent));
    struct cudaPitchedPtr host = {model, WIDTH, WIDTH, HEIGHT};
    struct cudaPitchedPtr back = {found, WIDTH, WIDTH, HEIGHT};
    struct cudaMemcpy3DParms up = {.srcPtr = host, .dstPtr = a, .extent = extent, .kind = cudaMemcpyDefault};
    OK(cudaMemcpy3D(&up));
    struct cudaMemcpy3DPeerParms across = {.srcPtr = a, .dstPtr = b, .dstDevice = 1, .extent = extent};
    OK(cudaMemcpy3DPeer(&across));
    struct cudaMemcpy3DPeerParms home = {.srcPtr = b, .srcDevice = 1, .dstArray = array, .extent = extent};
    OK(cudaMemcpy3DPeerAsync(&home, NULL));
    struct cudaMemcpy3DParms down = {.srcArray = array, .dstPtr = back, .extent = extent, .kind = cudaMemcpyDefault};
    OK(cudaMemcpy3D(&down));
    CHECK(memcmp(found, model, (size_t)WIDTH * HEIGHT * DEPTH) == 0);
    OK(cudaMemset2D(a.ptr, a.pitch, 9, WIDTH, HEIGHT)); /* of the other device */
    OK(cudaMemcpy2D(b.ptr, b.pitch, a.ptr, a.pitch, WIDTH, HEIGHT, cudaMemcpyDefault));
    OK(cudaMemcpy2D(found, WIDTH, b.ptr, b.pitch, WIDTH, HEIGHT, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        CHECK(found[i] == 9);
    cudaTextureObject_t texture;
    struct cudaTextureDesc plain = {.filterMode = cudaFilterModePoint};
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray};
    resource.res.array.array = array;
    ENDS(cudaErrorInvalidValue, cudaCreateTextureObject(&texture, &resource, &plain, NULL)); /* is on device 0 */
    OK(cudaFree(a.ptr));
    OK(cudaFree(b.ptr));
    OK(cudaFreeArray(array));
}

/* A copy to another device begins when its stream's kernel is done. */
static void order(void)
{
    int *a = (int *)(void *)on(0, 8);
    int *b = (int *)(void *)on(1, 8);
    int rounds = 3000000;
    int result[2];
    cudaStream_t stream;
    OK(cudaSetDevice(0));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    void *arguments[] = {&a, &rounds};
    dim3 one = {1, 1, 1};
    OK(cudaLaunchKernel(&slow, one, one, arguments, 0, stream));
    OK(cudaMemcpyPeerAsync(b, 1, a, 0, 8, stream));
    OK(cudaStreamSynchronize(stream));
    OK(cudaSetDevice(1));
    OK(cudaMemcpy(result, b, 8, cudaMemcpyDeviceToHost));
    CHECK(result[0] == 7);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(a));
    OK(cudaFree(b));
}

static void access(void)
{
    int value = 1;
    OK(cudaSetDevice(0));
    OK(cudaDeviceCanAccessPeer(&value, 0, 1));
    CHECK(value == 0);
    ENDS(cudaErrorPeerAccessUnsupported, cudaDeviceEnablePeerAccess(1, 0));
    ENDS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
    for (int i = cudaDevP2PAttrPerformanceRank; i <= cudaDevP2PAttrCudaArrayAccessSupported; i++) {
        value = 1;
        OK(cudaDeviceGetP2PAttribute(&value, (enum cudaDeviceP2PAttr)i, 0, 1));
        CHECK(value == 0);
    }
    ENDS(cudaErrorInvalidValue, cudaDeviceGetP2PAttribute(&value, (enum cudaDeviceP2PAttr)9, 0, 1));
}

int main(void)
{
    int count;
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    register_kernel(register_source(SOURCE), &slow, "slow");
    model = malloc(4 << 20);
    found = malloc(4 << 20);
    for (int i = 0; i < 4 << 20; i++)
        model[i] = (unsigned char)((unsigned)i * 2654435761u >> 24);
    lines();
    boxes();
    order();
    access();
    puts("all peers are right");
    return 0;
}
