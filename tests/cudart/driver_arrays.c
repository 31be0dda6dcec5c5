/* Arrays, their copies, texture and surface objects, and references. The argument is the module of driver_arrays.cu. */
#include "driver_checks.h"

enum { WIDTH = 8, HEIGHT = 4, TEXELS = WIDTH * HEIGHT, DEPTH = 3 };

static CUmodule module;
static CUdeviceptr out;
static float texels[TEXELS];

static void launch(const char *name, unsigned threads, void **parameters)
{
    CUfunction function;
    OK(cuModuleGetFunction(&function, module, name));
    OK(cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, NULL, parameters, NULL));
    OK(cuCtxSynchronize());
}

static float result(void)
{
    float value;
    OK(cuMemcpyDtoH(&value, out, sizeof(value)));
    return value;
}

static CUarray make_array(size_t width, size_t height, CUarray_format format)
{
    CUarray array;
    const CUDA_ARRAY_DESCRIPTOR description = {width, height, format, 1};
    OK(cuArrayCreate(&array, &description));
    return array;
}

/* Rows of floats from the host to an array, or back. */
static CUDA_MEMCPY2D rows(CUarray array, float *host, int is_back)
{
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = WIDTH * sizeof(float),
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = WIDTH * sizeof(float),
                          .Height = HEIGHT};
    if (is_back)
        copy = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                               .srcArray = array,
                               .dstMemoryType = CU_MEMORYTYPE_HOST,
                               .dstHost = host,
                               .dstPitch = WIDTH * sizeof(float),
                               .WidthInBytes = WIDTH * sizeof(float),
                               .Height = HEIGHT};
    return copy;
}

static void descriptions(void)
{
    CUarray array;
    CUDA_ARRAY_DESCRIPTOR flat = {WIDTH, HEIGHT, CU_AD_FORMAT_SIGNED_INT16, 2};
    CUDA_ARRAY3D_DESCRIPTOR deep = {WIDTH, HEIGHT, DEPTH, CU_AD_FORMAT_HALF, 4, CUDA_ARRAY3D_SURFACE_LDST};
    OK(cuArrayCreate(&array, &flat));
    memset(&flat, 0, sizeof(flat));
    OK(cuArrayGetDescriptor(&flat, array));
    CHECK(flat.Width == WIDTH && flat.Height == HEIGHT && flat.Format == CU_AD_FORMAT_SIGNED_INT16);
    CHECK(flat.NumChannels == 2);
    OK(cuArrayDestroy(array));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(array));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor(&flat, array));
    OK(cuArray3DCreate(&array, &deep));
    memset(&deep, 0, sizeof(deep));
    OK(cuArray3DGetDescriptor(&deep, array));
    CHECK(deep.Depth == DEPTH && deep.Format == CU_AD_FORMAT_HALF && deep.NumChannels == 4);
    CHECK(deep.Flags == CUDA_ARRAY3D_SURFACE_LDST);
    OK(cuArrayDestroy(array));
    deep.NumChannels = 3;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &deep));
    deep.NumChannels = 1;
    deep.Format = CU_AD_FORMAT_NV12;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &deep));
    deep.Format = CU_AD_FORMAT_FLOAT;
    deep.Flags = CUDA_ARRAY3D_SPARSE;
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuArray3DCreate(&array, &deep));
    deep.Flags = 0;
    deep.Width = 0;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuArray3DCreate(&array, &deep));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuArrayCreate(&array, NULL));
}

static void lines_of_bytes(void)
{
    CUarray a = make_array(64, 0, CU_AD_FORMAT_FLOAT), b = make_array(64, 0, CU_AD_FORMAT_FLOAT);
    CUstream stream;
    float host[64], back[64] = {0};
    for (int i = 0; i < 64; i++)
        host[i] = (float)(3 * i);
    OK(cuMemcpyHtoA(a, 0, host, sizeof(host)));
    OK(cuMemcpyAtoA(b, 8, a, 16, 40));
    OK(cuMemcpyAtoD(out, b, 8, 40));
    OK(cuMemcpyDtoH(back, out, 40));
    CHECK(memcmp(back, host + 4, 40) == 0);
    OK(cuMemcpyDtoA(b, 128, out, 40));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemcpyHtoAAsync(b, 168, host, 4, stream));
    OK(cuMemcpyAtoHAsync(back, b, 128, 44, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(memcmp(back, host + 4, 40) == 0 && back[10] == 0);
    OK(cuStreamDestroy(stream));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA(a, 4, host, sizeof(host)));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpyHtoA(a, 2, host, 4));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA(NULL, 0, host, 4));
    OK(cuArrayDestroy(a));
    OK(cuArrayDestroy(b));
}

static void boxes(void)
{
    CUarray array, flat = make_array(WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT);
    const CUDA_ARRAY3D_DESCRIPTOR deep = {WIDTH, HEIGHT, DEPTH, CU_AD_FORMAT_FLOAT, 1, 0};
    float host[DEPTH][HEIGHT][WIDTH], back[2][2][WIDTH] = {{{0}}};
    for (int i = 0; i < DEPTH * TEXELS; i++)
        (&host[0][0][0])[i] = (float)i;
    OK(cuArray3DCreate(&array, &deep));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = host,
                          .srcPitch = sizeof(host[0][0]),
                          .srcHeight = HEIGHT,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = sizeof(host[0][0]),
                          .Height = HEIGHT,
                          .Depth = DEPTH};
    OK(cuMemcpy3D(&copy));
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = array,
                           .srcXInBytes = 8,
                           .srcY = 1,
                           .srcZ = 1,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = (CUdeviceptr)(uintptr_t)back,
                           .dstXInBytes = 4,
                           .dstPitch = sizeof(back[0][0]),
                           .dstHeight = 2,
                           .WidthInBytes = 12,
                           .Height = 2,
                           .Depth = 2};
    OK(cuMemcpy3DAsync(&copy, NULL));
    OK(cuCtxSynchronize());
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < WIDTH; x++)
                CHECK(back[z][y][x] == (x >= 1 && x < 4 ? host[z + 1][y + 1][x + 1] : 0));
    CUDA_MEMCPY2D slice = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = array,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = flat,
                           .dstXInBytes = 4,
                           .WidthInBytes = 8,
                           .Height = 1};
    OK(cuMemcpy2D(&slice));
    OK(cuMemcpyAtoH(back, flat, 4, 8));
    CHECK(back[0][0][0] == 0 && back[0][0][1] == 1);

    copy.srcXInBytes = 6;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    copy.srcXInBytes = 8;
    copy.WidthInBytes = 10;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    copy.WidthInBytes = 28; /* beyond the row */
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    copy.WidthInBytes = 12;
    copy.srcLOD = 1;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    copy.srcLOD = 0;
    copy.srcMemoryType = (CUmemorytype)9;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(&copy));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMemcpy3D(NULL));
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                               .srcArray = array,
                               .srcZ = 2,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = out,
                               .dstPitch = 4,
                               .WidthInBytes = 4,
                               .Height = 2,
                               .Depth = 1};
    ENDS(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&peer));
    OK(cuCtxGetCurrent(&peer.srcContext));
    OK(cuCtxGetCurrent(&peer.dstContext));
    OK(cuMemcpy3DPeer(&peer));
    CHECK(result() == host[2][0][0]);
    OK(cuArrayDestroy(array));
    OK(cuArrayDestroy(flat));
}

static void textures(void)
{
    CUtexObject texture;
    int width = WIDTH;
    float found[TEXELS];
    CUarray array = make_array(WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT);
    const CUDA_MEMCPY2D there = rows(array, texels, 0);
    OK(cuMemcpy2D(&there));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = array;
    CUDA_TEXTURE_DESC sampling = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP, CU_TR_ADDRESS_MODE_CLAMP},
                                  .borderColor = {5}};
    OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    void *parameters[] = {&texture, &width, &out};
    launch("by_object", TEXELS, parameters);
    OK(cuMemcpyDtoH(found, out, sizeof(found)));
    CHECK(memcmp(found, texels, sizeof(found)) == 0);

    CUDA_RESOURCE_VIEW_DESC view;
    memset(&resource, 0, sizeof(resource));
    memset(&sampling, 0, sizeof(sampling));
    OK(cuTexObjectGetResourceDesc(&resource, texture));
    OK(cuTexObjectGetTextureDesc(&sampling, texture));
    CHECK(resource.resType == CU_RESOURCE_TYPE_ARRAY && resource.res.array.hArray == array);
    CHECK(sampling.addressMode[1] == CU_TR_ADDRESS_MODE_CLAMP && sampling.flags == 0 && sampling.borderColor[0] == 5);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceViewDesc(&view, texture));
    OK(cuTexObjectDestroy(texture));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
    sampling.flags = 0x8000;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    sampling.flags = 0;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, NULL, NULL));
    resource.flags = 1;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    resource.flags = 0;
    OK(cuArrayDestroy(array));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuTexObjectCreate(&texture, &resource, &sampling, NULL));
}

/* Integers of linear memory are read as they are, or as floats from 0 to 1 that a filter may be laid over. */
static void integers(void)
{
    CUtexObject texture;
    CUdeviceptr memory;
    const unsigned char host[4] = {0, 51, 102, 255};
    unsigned char found[4];
    CUarray array = make_array(4, 0, CU_AD_FORMAT_UNSIGNED_INT8);
    OK(cuMemAlloc(&memory, 4));
    OK(cuMemcpyHtoD(memory, host, 4));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    resource.res.linear.devPtr = memory;
    resource.res.linear.format = CU_AD_FORMAT_UNSIGNED_INT8;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = 4;
    CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_READ_AS_INTEGER};
    OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    void *fetched[] = {&texture, &out};
    launch("bytes", 4, fetched);
    OK(cuMemcpyDtoH(found, out, 4));
    CHECK(memcmp(host, found, 4) == 0);
    OK(cuTexObjectGetResourceDesc(&resource, texture));
    CHECK(resource.res.linear.format == CU_AD_FORMAT_UNSIGNED_INT8 && resource.res.linear.numChannels == 1);
    OK(cuTexObjectGetTextureDesc(&sampling, texture));
    CHECK(sampling.flags == CU_TRSF_READ_AS_INTEGER);
    OK(cuTexObjectDestroy(texture));

    float x = 2; /* between texels 1 and 2 */
    OK(cuMemcpyHtoA(array, 0, host, 4));
    resource = (CUDA_RESOURCE_DESC){.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = array;
    sampling.flags = 0;
    sampling.filterMode = CU_TR_FILTER_MODE_LINEAR;
    OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    void *filtered[] = {&texture, &x, &out};
    launch("between", 1, filtered);
    CHECK(result() > 0.299f && result() < 0.301f);
    OK(cuTexObjectDestroy(texture));
    sampling.flags = CU_TRSF_READ_AS_INTEGER;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    OK(cuArrayDestroy(array));
    OK(cuMemFree(memory));
}

static void mipmaps(void)
{
    CUmipmappedArray mipmap;
    CUarray level;
    CUtexObject texture;
    CUDA_ARRAY3D_DESCRIPTOR description = {4, 4, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    OK(cuMipmappedArrayCreate(&mipmap, &description, 3));
    for (unsigned i = 0; i < 3; i++) {
        float host[16];
        for (int j = 0; j < 16; j++)
            host[j] = (float)(10 * (i + 1));
        OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
        OK(cuMemcpyHtoA(level, 0, host, 4 * (16 >> (2 * i))));
    }
    OK(cuArray3DGetDescriptor(&description, level));
    CHECK(description.Width == 1 && description.Height == 1);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuMipmappedArrayGetLevel(&level, mipmap, 3));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY};
    resource.res.mipmap.hMipmappedArray = mipmap;
    const CUDA_TEXTURE_DESC sampling = {.flags = CU_TRSF_NORMALIZED_COORDINATES, .maxMipmapLevelClamp = 2};
    CUDA_RESOURCE_VIEW_DESC view = {
        .format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 2, .height = 2, .firstMipmapLevel = 1, .lastMipmapLevel = 2};
    float at = 0;
    OK(cuTexObjectCreate(&texture, &resource, &sampling, &view));
    void *parameters[] = {&texture, &at, &out};
    launch("level", 1, parameters);
    CHECK(result() == 20);
    at = 1;
    launch("level", 1, parameters);
    CHECK(result() == 30);
    OK(cuTexObjectGetResourceViewDesc(&view, texture));
    CHECK(view.format == CU_RES_VIEW_FORMAT_FLOAT_1X32 && view.firstMipmapLevel == 1 && view.lastMipmapLevel == 2);
    view.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC7;
    ENDS(CUDA_ERROR_NOT_SUPPORTED, cuTexObjectCreate(&texture, &resource, &sampling, &view));
    OK(cuMipmappedArrayDestroy(mipmap));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
}

static void surfaces(void)
{
    CUsurfObject surface;
    CUarray array;
    int width = WIDTH;
    float found[TEXELS];
    const CUDA_ARRAY3D_DESCRIPTOR description = {WIDTH, HEIGHT, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    OK(cuArray3DCreate(&array, &description));
    CUDA_MEMCPY2D copy = rows(array, texels, 0);
    OK(cuMemcpy2D(&copy));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = array;
    OK(cuSurfObjectCreate(&surface, &resource));
    void *parameters[] = {&surface, &width};
    launch("twice", TEXELS, parameters);
    copy = rows(array, found, 1);
    OK(cuMemcpy2D(&copy));
    for (int i = 0; i < TEXELS; i++)
        CHECK(found[i] == 2 * texels[i]);
    memset(&resource, 0, sizeof(resource));
    OK(cuSurfObjectGetResourceDesc(&resource, surface));
    CHECK(resource.res.array.hArray == array);
    OK(cuSurfObjectDestroy(surface));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectDestroy(surface));
    OK(cuArrayDestroy(array));
    array = make_array(WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT); /* not for surfaces */
    resource.res.array.hArray = array;
    ENDS(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &resource));
    OK(cuArrayDestroy(array));
}

static float read_plane(float x, float y)
{
    void *parameters[] = {&x, &y, &out};
    launch("by_plane", 1, parameters);
    return result();
}

static void references(void)
{
    CUtexref plane, line, again, own;
    CUsurfref paper;
    CUarray array, got;
    CUfunction function;
    CUaddress_mode mode;
    CUfilter_mode filter;
    CUarray_format format;
    CUdeviceptr memory, address;
    int components, width = WIDTH;
    float found[TEXELS], color[4] = {1, 2, 3, 4};
    OK(cuModuleGetTexRef(&plane, module, "plane"));
    OK(cuModuleGetTexRef(&again, module, "plane"));
    CHECK(plane == again);
    ENDS(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&again, module, "nothing"));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&got, plane)); /* nothing is bound yet */

    /* An array; how it is read may change between two launches. */
    array = make_array(WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT);
    CUDA_MEMCPY2D copy = rows(array, texels, 0);
    OK(cuMemcpy2D(&copy));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(plane, array, 0));
    OK(cuTexRefSetArray(plane, array, CU_TRSA_OVERRIDE_FORMAT));
    CHECK(read_plane(2.5f, 1.5f) == texels[WIDTH + 2]);
    OK(cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_LINEAR));
    CHECK(read_plane(2, 1.5f) == (texels[WIDTH + 1] + texels[WIDTH + 2]) / 2);
    OK(cuTexRefSetAddressMode(plane, 0, CU_TR_ADDRESS_MODE_CLAMP));
    OK(cuTexRefSetAddressMode(plane, 1, CU_TR_ADDRESS_MODE_CLAMP));
    OK(cuTexRefSetFilterMode(plane, CU_TR_FILTER_MODE_POINT));
    OK(cuTexRefSetFlags(plane, CU_TRSF_NORMALIZED_COORDINATES));
    CHECK(read_plane(0.99f, 2) == texels[TEXELS - 1]);
    OK(cuTexRefGetArray(&got, plane));
    OK(cuTexRefGetAddressMode(&mode, plane, 1));
    OK(cuTexRefGetFilterMode(&filter, plane));
    OK(cuTexRefGetFormat(&format, &components, plane));
    CHECK(got == array && mode == CU_TR_ADDRESS_MODE_CLAMP && filter == CU_TR_FILTER_MODE_POINT);
    CHECK(format == CU_AD_FORMAT_FLOAT && components == 1);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddressMode(plane, 3, CU_TR_ADDRESS_MODE_CLAMP));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFilterMode(plane, (CUfilter_mode)2));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(plane, 0x8000));
    OK(cuTexRefSetBorderColor(plane, color));
    memset(color, 0, sizeof(color));
    OK(cuTexRefGetBorderColor(color, plane));
    CHECK(color[3] == 4);

    /* Rows of memory in its place. */
    size_t pitch;
    OK(cuMemAllocPitch(&memory, &pitch, WIDTH * sizeof(float), HEIGHT, 4));
    OK(cuMemsetD2D32(memory, pitch, 0x40e00000, WIDTH, HEIGHT)); /* 7 */
    const CUDA_ARRAY_DESCRIPTOR shape = {WIDTH, HEIGHT, CU_AD_FORMAT_FLOAT, 1};
    OK(cuTexRefSetFlags(plane, 0));
    OK(cuTexRefSetAddress2D(plane, &shape, memory, pitch));
    CHECK(read_plane(3.5f, 3.5f) == 7);
    OK(cuTexRefGetAddress(&address, plane));
    CHECK(address == memory);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&got, plane));
    OK(cuArrayDestroy(array));

    /* Bytes of linear memory, whose format is said after it is bound. */
    size_t offset = 99;
    OK(cuMemsetD8(memory, 51, 16));
    OK(cuModuleGetTexRef(&line, module, "line"));
    OK(cuTexRefSetAddress(&offset, line, memory, 16));
    OK(cuTexRefSetFormat(line, CU_AD_FORMAT_UNSIGNED_INT8, 1));
    void *lined[] = {&out};
    launch("by_line", 16, lined);
    CHECK(offset == 0 && result() > 0.199f && result() < 0.201f);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress(&offset, line, 0, 16));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFormat(line, CU_AD_FORMAT_FLOAT, 3));

    /* What cannot be bound is an error of the launch, and can be set right. */
    OK(cuModuleGetFunction(&function, module, "by_line"));
    OK(cuTexRefSetAddress(NULL, line, (CUdeviceptr)(uintptr_t)&offset, 8));
    ENDS(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, lined, NULL));
    OK(cuTexRefSetAddress(NULL, line, memory, 16));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, lined, NULL));
    OK(cuParamSetTexRef(function, CU_PARAM_TR_DEFAULT, line));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuParamSetTexRef(function, 0, line));

    OK(cuModuleGetSurfRef(&paper, module, "paper"));
    const CUDA_ARRAY3D_DESCRIPTOR description = {WIDTH, HEIGHT, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    OK(cuArray3DCreate(&array, &description));
    OK(cuSurfRefSetArray(paper, array, 0));
    void *written[] = {&width};
    launch("by_paper", TEXELS, written);
    copy = rows(array, found, 1);
    OK(cuMemcpy2D(&copy));
    CHECK(found[0] == 0 && found[TEXELS - 1] == 100 * (HEIGHT - 1) + WIDTH - 1);
    OK(cuSurfRefGetArray(&got, paper));
    CHECK(got == array);
    ENDS(CUDA_ERROR_INVALID_VALUE, cuSurfRefSetArray(paper, array, 1));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags((CUtexref)paper, 0)); /* of the other kind */

    OK(cuTexRefCreate(&own));
    OK(cuTexRefSetMaxAnisotropy(own, 4));
    OK(cuTexRefGetMaxAnisotropy(&components, own));
    CHECK(components == 4);
    OK(cuTexRefDestroy(own));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(own));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(plane));
    OK(cuMemFree(memory));
}

static size_t free_bytes(void)
{
    size_t left, total;
    OK(cuMemGetInfo(&left, &total));
    return left;
}

int main(int count, char **arguments)
{
    CUcontext context = begin(), second;
    size_t width;
    CHECK(count == 2);
    for (int i = 0; i < TEXELS; i++)
        texels[i] = (float)(i * i);
    OK(cuMemAlloc(&out, 4096));
    OK(cuModuleLoad(&module, arguments[1]));
    OK(cuDeviceGetTexture1DLinearMaxWidth(&width, CU_AD_FORMAT_FLOAT, 4, 0));
    CHECK(width >= 1 << 20);
    descriptions();
    lines_of_bytes();
    boxes();
    textures();
    integers();
    mipmaps();
    surfaces();
    references();

    /* Arrays and objects go with their context. */
    const size_t before = free_bytes();
    OK(cuCtxCreate(&second, 0, 0));
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = make_array(512, 512, CU_AD_FORMAT_FLOAT);
    const CUDA_TEXTURE_DESC sampling = {.flags = 0};
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &resource, &sampling, NULL));
    OK(cuCtxDestroy(second));
    ENDS(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(resource.res.array.hArray));
    ENDS(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
    CHECK(free_bytes() == before);
    OK(cuModuleUnload(module));
    OK(cuCtxDestroy(context));
    puts("PASS");
    return 0;
}
