/* Texture and surface objects and references: what kernels read through them, compared with what the processor computes
 * by the rules of CUDA's programming guide. */
#include <math.h>

#include "checks.h"

static const char SOURCE[] =
    "extern \"C\" __global__ void at2d(cudaTextureObject_t t, const float2 *p, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex2D<float>(t, p[i].x, p[i].y); }\n"
    "extern \"C\" __global__ void at1d(cudaTextureObject_t t, const float2 *p, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex1D<float>(t, p[i].x); }\n"
    "extern \"C\" __global__ void at3d(cudaTextureObject_t t, int w, int h, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex3D<float>(t, i % w + 0.5f, i / w % h + 0.5f, i / w / h + 0.5f); }\n"
    "extern \"C\" __global__ void layer1d(cudaTextureObject_t t, int w, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex1DLayered<float>(t, i % w + 0.5f, i / w); }\n"
    "extern \"C\" __global__ void layer2d(cudaTextureObject_t t, int w, int h, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex2DLayered<float>(t, i % w + 0.5f, i / w % h + 0.5f, i / w / h); }\n"
    "extern \"C\" __global__ void cube(cudaTextureObject_t t, float *out)\n"
    "{ const float3 d[] = {{1, 0, 0}, {-1, 0, 0}, {0, 1, 0}, {0, -1, 0}, {0, 0, 1}, {0, 0, -1}};\n"
    "  int i = threadIdx.x; out[i] = texCubemap<float>(t, d[i].x, d[i].y, d[i].z); }\n"
    "extern \"C\" __global__ void level(cudaTextureObject_t t, const float2 *p, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex2DLod<float>(t, 0.5f, 0.5f, p[i].x); }\n"
    "extern \"C\" __global__ void gather(cudaTextureObject_t t, float4 *out) { *out = tex2Dgather<float4>(t, 2, 2, 0); "
    "}\n"
    "extern \"C\" __global__ void bytes(cudaTextureObject_t t, uchar4 *out)\n"
    "{ int i = threadIdx.x; out[i] = tex1Dfetch<uchar4>(t, i); }\n"
    "extern \"C\" __global__ void shorts(cudaTextureObject_t t, float2 *out)\n"
    "{ int i = threadIdx.x; out[i] = tex1Dfetch<float2>(t, i); }\n"
    "extern \"C\" __global__ void ints(cudaTextureObject_t t, int *out)\n"
    "{ int i = threadIdx.x; out[i] = tex1Dfetch<int>(t, i); }\n"
    "extern \"C\" __global__ void twice(cudaSurfaceObject_t s, int w)\n"
    "{ int x = threadIdx.x % w, y = threadIdx.x / w; float f; surf2Dread(&f, s, 4 * x, y); surf2Dwrite(2 * f, s, 4 * "
    "x, y); }\n"
    "texture<float, 2> plane;\n"
    "texture<unsigned char, 1, cudaReadModeNormalizedFloat> line;\n"
    "surface<void, 2> paper;\n"
    "extern \"C\" __global__ void by_plane(const float2 *p, float *out)\n"
    "{ int i = threadIdx.x; out[i] = tex2D(plane, p[i].x, p[i].y); }\n"
    "extern \"C\" __global__ void by_line(float *out) { int i = threadIdx.x; out[i] = tex1Dfetch(line, i); }\n"
    "extern \"C\" __global__ void by_paper(int w)\n"
    "{ int x = threadIdx.x % w, y = threadIdx.x / w; surf2Dwrite(100.0f * y + x, paper, 4 * x, y); }\n";

#define KERNELS(each)                                                                                                  \
    each(at2d) each(at1d) each(at3d) each(layer1d) each(layer2d) each(cube) each(level) each(gather) each(bytes)       \
        each(shorts) each(ints) each(twice) each(by_plane) each(by_line) each(by_paper)
#define STUB(name) static const char name;
KERNELS(STUB)

static struct textureReference plane = {.filterMode = cudaFilterModePoint,
                                        .addressMode = {cudaAddressModeClamp, cudaAddressModeClamp}};
static struct textureReference line;
static struct surfaceReference paper;

cudaError_t cudaBindTexture(size_t *offset, const struct textureReference *reference, const void *memory,
                            const struct cudaChannelFormatDesc *format, size_t bytes);
cudaError_t cudaBindTexture2D(size_t *offset, const struct textureReference *reference, const void *memory,
                              const struct cudaChannelFormatDesc *format, size_t width, size_t height, size_t pitch);
cudaError_t cudaBindTextureToArray(const struct textureReference *reference, cudaArray_const_t array,
                                   const struct cudaChannelFormatDesc *format);
cudaError_t cudaUnbindTexture(const struct textureReference *reference);
cudaError_t cudaGetTextureAlignmentOffset(size_t *offset, const struct textureReference *reference);
cudaError_t cudaGetTextureReference(const struct textureReference **reference, const void *symbol);
cudaError_t cudaBindSurfaceToArray(const struct surfaceReference *reference, cudaArray_const_t array,
                                   const struct cudaChannelFormatDesc *format);
cudaError_t cudaGetSurfaceReference(const struct surfaceReference **reference, const void *symbol);

enum { WIDTH = 8, HEIGHT = 4, MOST = 256 };
static const struct cudaChannelFormatDesc FLOATS = {32, 0, 0, 0, cudaChannelFormatKindFloat};
static float texels[MOST];
static float2 points[MOST];
static float *out;    /* of the device */
static float2 *spots; /* of the device */
static float found[MOST];

static void register_all(void)
{
    void **handle = register_source(SOURCE);
#define REGISTER(name) register_kernel(handle, &name, #name);
    KERNELS(REGISTER)
    __cudaRegisterTexture(handle, &plane, NULL, "plane", 2, 0, 0);
    __cudaRegisterTexture(handle, &line, NULL, "line", 1, 1, 0);
    __cudaRegisterSurface(handle, &paper, NULL, "paper", 2, 0);
}

static void run(const void *stub, unsigned threads, void **arguments)
{
    OK(launch(stub, threads, arguments));
    OK(cudaMemcpy(found, out, sizeof(found), cudaMemcpyDeviceToHost));
}

static cudaArray_t new_array(size_t width, size_t height, size_t depth, unsigned flags)
{
    cudaArray_t array;
    struct cudaExtent extent = {width, height, depth};
    size_t rows = height > 0 ? height : 1;
    OK(cudaMalloc3DArray(&array, &FLOATS, extent, flags));
    struct cudaMemcpy3DParms copy = {.srcPtr = {texels, width * 4, width, rows},
                                     .dstArray = array,
                                     .extent = {width, rows, depth > 0 ? depth : 1},
                                     .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&copy));
    return array;
}

static struct cudaResourceDesc of_array(cudaArray_t array)
{
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeArray};
    resource.res.array.array = array;
    return resource;
}

static cudaTextureObject_t texture_of(cudaArray_t array, const struct cudaTextureDesc *sampling)
{
    static const struct cudaTextureDesc PLAIN;
    struct cudaResourceDesc resource = of_array(array);
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &resource, sampling != NULL ? sampling : &PLAIN, NULL));
    return texture;
}

/* ---- every address mode and filter ---------------------------------------------------------- */

static float texel_at(int x, int y, int width, int height, const struct cudaTextureDesc *sampling)
{
    int at[2] = {x, y};
    const int size[2] = {width, height};
    for (int i = 0; i < 2; i++) {
        int mode = (int)sampling->addressMode[i];
        if (!sampling->normalizedCoords && (mode == cudaAddressModeWrap || mode == cudaAddressModeMirror))
            mode = cudaAddressModeClamp;
        bool outside = at[i] < 0 || at[i] >= size[i];
        if (outside && mode == cudaAddressModeBorder)
            return sampling->borderColor[0];
        if (mode == cudaAddressModeWrap) {
            at[i] = ((at[i] % size[i]) + size[i]) % size[i];
        } else if (mode == cudaAddressModeMirror) {
            int around = ((at[i] % (2 * size[i])) + 2 * size[i]) % (2 * size[i]);
            at[i] = around < size[i] ? around : 2 * size[i] - 1 - around;
        } else {
            at[i] = at[i] < 0 ? 0 : at[i] >= size[i] ? size[i] - 1 : at[i];
        }
    }
    return texels[at[1] * width + at[0]];
}

static float sample(float2 point, const struct cudaTextureDesc *sampling, int height)
{
    float x = sampling->normalizedCoords ? point.x * WIDTH : point.x;
    float y = sampling->normalizedCoords ? point.y * (float)height : point.y;
    if (height == 1)
        y = 0.5f;
    if (sampling->filterMode == cudaFilterModePoint)
        return texel_at((int)floorf(x), (int)floorf(y), WIDTH, height, sampling);
    float left = floorf(x - 0.5f);
    float top = floorf(y - 0.5f);
    float a = x - 0.5f - left;
    float b = y - 0.5f - top;
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        float weight = (i & 1 ? a : 1 - a) * (i & 2 ? b : 1 - b);
        if (weight != 0)
            sum += weight * texel_at((int)left + (i & 1), (int)top + (i >> 1), WIDTH, height, sampling);
    }
    return sum;
}

static void check_samples(const struct cudaTextureDesc *sampling, int height)
{
    for (int i = 0; i < MOST; i++) {
        float expected = sample(points[i], sampling, height);
        if (fabsf(found[i] - expected) > 1e-3f) {
            printf("at (%g, %g), modes %d and %d, filter %d, normalised %d, height %d: %g, not %g\n", points[i].x,
                   points[i].y, (int)sampling->addressMode[0], (int)sampling->addressMode[1], (int)sampling->filterMode,
                   sampling->normalizedCoords, height, found[i], expected);
            exit(1);
        }
    }
}

static void place_points(bool normalised)
{
    for (int i = 0; i < MOST; i++) { /* quarters of texels, which filters weigh exactly */
        float x = (float)(i % 16 * 7 - 40) / 4;
        float y = (float)(i / 16 * 3 - 20) / 4;
        points[i] = normalised ? (float2){x / WIDTH, y / HEIGHT} : (float2){x + 0.125f, y + 0.125f};
        if (normalised)
            points[i] = (float2){(x + 0.125f) / WIDTH, (y + 0.125f) / HEIGHT};
    }
    OK(cudaMemcpy(spots, points, sizeof(points), cudaMemcpyHostToDevice));
}

static void sample_rows(const struct cudaTextureDesc *sampling)
{
    size_t pitch;
    void *rows;
    cudaTextureObject_t texture;
    OK(cudaMallocPitch(&rows, &pitch, WIDTH * 4, HEIGHT));
    OK(cudaMemcpy2D(rows, pitch, texels, WIDTH * 4, WIDTH * 4, HEIGHT, cudaMemcpyHostToDevice));
    struct cudaResourceDesc resource = {.resType = cudaResourceTypePitch2D};
    resource.res.pitch2D.devPtr = rows;
    resource.res.pitch2D.desc = FLOATS;
    resource.res.pitch2D.width = WIDTH;
    resource.res.pitch2D.height = HEIGHT;
    resource.res.pitch2D.pitchInBytes = pitch;
    OK(cudaCreateTextureObject(&texture, &resource, sampling, NULL));
    void *arguments[] = {&texture, &spots, &out};
    run(&at2d, MOST, arguments);
    check_samples(sampling, HEIGHT);
    OK(cudaFree(rows)); /* before the object */
    OK(cudaDestroyTextureObject(texture));
}

static void sample_everywhere(void)
{
    cudaArray_t image = new_array(WIDTH, HEIGHT, 0, 0);
    cudaArray_t row = new_array(WIDTH, 0, 0, 0);
    for (int form = 0; form < 4 * 4 * 2 * 2; form++) {
        struct cudaTextureDesc sampling = {
            .addressMode = {(enum cudaTextureAddressMode)(form % 4), (enum cudaTextureAddressMode)(form / 4 % 4)},
            .filterMode = (enum cudaTextureFilterMode)(form / 16 % 2),
            .normalizedCoords = form / 32,
            .borderColor = {-5, 0, 0, 0}};
        place_points(sampling.normalizedCoords != 0);
        cudaTextureObject_t texture = texture_of(image, &sampling);
        void *arguments[] = {&texture, &spots, &out};
        run(&at2d, MOST, arguments);
        check_samples(&sampling, HEIGHT);
        OK(cudaDestroyTextureObject(texture));
        texture = texture_of(row, &sampling);
        run(&at1d, MOST, arguments);
        check_samples(&sampling, 1);
        OK(cudaDestroyTextureObject(texture));
        sample_rows(&sampling);
    }
    OK(cudaFreeArray(image));
    OK(cudaFreeArray(row));
}

/* ---- kinds of arrays ------------------------------------------------------------------------ */

static void expect_texels(size_t count)
{
    for (size_t i = 0; i < count; i++)
        CHECK(found[i] == texels[i]);
}

static void read_kinds(void)
{
    int w = 5;
    int h = 4;
    cudaTextureObject_t texture;
    void *sized[] = {&texture, &w, &h, &out};
    void *flat[] = {&texture, &w, &out};
    cudaArray_t array = new_array(5, 4, 3, 0);
    texture = texture_of(array, NULL);
    run(&at3d, 60, sized);
    expect_texels(60);
    OK(cudaFreeArray(array)); /* the object keeps it */
    run(&at3d, 60, sized);
    expect_texels(60);
    OK(cudaDestroyTextureObject(texture));
    array = new_array(5, 4, 3, cudaArrayLayered);
    texture = texture_of(array, NULL);
    run(&layer2d, 60, sized);
    expect_texels(60);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFreeArray(array));
    array = new_array(5, 0, 7, cudaArrayLayered);
    texture = texture_of(array, NULL);
    run(&layer1d, 35, flat);
    expect_texels(35);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFreeArray(array));
    array = new_array(1, 1, 6, cudaArrayCubemap);
    struct cudaTextureDesc normalised = {.normalizedCoords = 1};
    texture = texture_of(array, &normalised);
    void *only[] = {&texture, &out};
    run(&cube, 6, only);
    expect_texels(6);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFreeArray(array));
    array = new_array(4, 4, 0, cudaArrayTextureGather);
    texture = texture_of(array, NULL);
    run(&gather, 1, only);
    CHECK(found[0] == texels[9] && found[1] == texels[10] && found[2] == texels[6] && found[3] == texels[5]);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFreeArray(array));
}

static void read_levels(void)
{
    cudaMipmappedArray_t mipmap;
    cudaArray_t array;
    cudaTextureObject_t texture;
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent;
    unsigned flags;
    OK(cudaMallocMipmappedArray(&mipmap, &FLOATS, (struct cudaExtent){8, 4, 0}, 99, cudaArraySurfaceLoadStore));
    for (unsigned i = 0; i < 4; i++) {
        OK(cudaGetMipmappedArrayLevel(&array, mipmap, i));
        OK(cudaArrayGetInfo(&format, &extent, &flags, array));
        CHECK(extent.width == 8u >> i && extent.height == (i < 2 ? 4u >> i : 1) && extent.depth == 0);
        CHECK(format.x == 32 && format.y == 0 && format.f == cudaChannelFormatKindFloat);
        CHECK(flags == cudaArraySurfaceLoadStore);
        float level[32];
        for (int k = 0; k < 32; k++)
            level[k] = (float)(10 * i);
        OK(cudaMemcpy2DToArray(array, 0, 0, level, extent.width * 4, extent.width * 4, extent.height,
                               cudaMemcpyHostToDevice));
    }
    ENDS(cudaErrorInvalidValue, cudaGetMipmappedArrayLevel(&array, mipmap, 4));
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeMipmappedArray};
    resource.res.mipmap.mipmap = mipmap;
    struct cudaTextureDesc sampling = {
        .normalizedCoords = 1, .mipmapFilterMode = cudaFilterModeLinear, .maxMipmapLevelClamp = 3};
    for (int i = 0; i < 16; i++)
        points[i].x = (float)i / 4;
    OK(cudaMemcpy(spots, points, sizeof(points), cudaMemcpyHostToDevice));
    OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
    void *arguments[] = {&texture, &spots, &out};
    run(&level, 16, arguments);
    for (int i = 0; i < 16; i++)
        CHECK(found[i] == 10 * fminf(points[i].x, 3));
    OK(cudaDestroyTextureObject(texture));
    struct cudaResourceViewDesc view = {.firstMipmapLevel = 1, .lastMipmapLevel = 2};
    OK(cudaCreateTextureObject(&texture, &resource, &sampling, &view));
    run(&level, 16, arguments);
    for (int i = 0; i < 16; i++)
        CHECK(found[i] == 10 + 10 * fminf(points[i].x, 1));
    struct cudaResourceViewDesc same;
    OK(cudaGetTextureObjectResourceViewDesc(&same, texture));
    CHECK(same.firstMipmapLevel == 1 && same.lastMipmapLevel == 2);
    OK(cudaFreeMipmappedArray(mipmap));
    ENDS(cudaErrorInvalidValue, cudaFreeMipmappedArray(mipmap));
    OK(cudaDestroyTextureObject(texture));
}

/* ---- formats -------------------------------------------------------------------------------- */

static void read_formats(void)
{
    short numbers[64];
    unsigned char bytes_found[128];
    void *memory;
    cudaTextureObject_t texture;
    OK(cudaMalloc(&memory, sizeof(numbers)));
    for (int i = 0; i < 64; i++)
        numbers[i] = (short)(i * 1111 - 32768);
    OK(cudaMemcpy(memory, numbers, sizeof(numbers), cudaMemcpyHostToDevice));
    struct cudaResourceDesc resource = {.resType = cudaResourceTypeLinear};
    struct cudaTextureDesc sampling = {.readMode = cudaReadModeElementType};
    resource.res.linear.devPtr = memory;
    resource.res.linear.sizeInBytes = sizeof(numbers);
    resource.res.linear.desc = cudaCreateChannelDesc(8, 8, 8, 8, cudaChannelFormatKindUnsigned);
    OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
    void *arguments[] = {&texture, &out};
    run(&bytes, 32, arguments);
    memcpy(bytes_found, found, sizeof(bytes_found));
    CHECK(memcmp(bytes_found, numbers, sizeof(numbers)) == 0);
    OK(cudaDestroyTextureObject(texture));
    resource.res.linear.desc = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindSigned);
    OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
    run(&ints, 32, arguments);
    CHECK(memcmp(found, numbers, sizeof(numbers)) == 0);
    OK(cudaDestroyTextureObject(texture));
    sampling.readMode = cudaReadModeNormalizedFloat;
    resource.res.linear.desc = cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindSigned);
    OK(cudaCreateTextureObject(&texture, &resource, &sampling, NULL));
    run(&shorts, 32, arguments);
    for (int i = 0; i < 64; i++)
        CHECK(fabsf(found[i] - fmaxf((float)numbers[i] / 32767, -1)) < 1e-6f);
    struct cudaResourceDesc same;
    struct cudaTextureDesc same_sampling;
    struct cudaResourceViewDesc view;
    OK(cudaGetTextureObjectResourceDesc(&same, texture));
    OK(cudaGetTextureObjectTextureDesc(&same_sampling, texture));
    CHECK(same.resType == cudaResourceTypeLinear && same.res.linear.devPtr == memory && same.res.linear.desc.y == 16);
    CHECK(same_sampling.readMode == cudaReadModeNormalizedFloat);
    ENDS(cudaErrorInvalidValue, cudaGetTextureObjectResourceViewDesc(&view, texture));
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFree(memory));
}

/* ---- surfaces ------------------------------------------------------------------------------- */

static void write_surfaces(void)
{
    cudaArray_t array = new_array(5, 4, 0, cudaArraySurfaceLoadStore);
    struct cudaResourceDesc resource = of_array(array);
    struct cudaResourceDesc same;
    cudaSurfaceObject_t surface;
    int w = 5;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    OK(cudaGetSurfaceObjectResourceDesc(&same, surface));
    CHECK(same.resType == cudaResourceTypeArray && same.res.array.array == array);
    void *arguments[] = {&surface, &w};
    run(&twice, 20, arguments);
    OK(cudaMemcpy2DFromArray(found, 20, array, 0, 0, 20, 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 20; i++)
        CHECK(found[i] == 2 * texels[i]);
    OK(cudaDestroySurfaceObject(surface));
    ENDS(cudaErrorInvalidValue, cudaDestroySurfaceObject(surface));
    OK(cudaFreeArray(array));
}

/* ---- references ----------------------------------------------------------------------------- */

static void read_references(void)
{
    cudaArray_t array = new_array(WIDTH, HEIGHT, 0, cudaArraySurfaceLoadStore);
    struct cudaTextureDesc sampling = {.addressMode = {cudaAddressModeClamp, cudaAddressModeClamp}};
    const struct textureReference *reference;
    const struct surfaceReference *surface;
    size_t offset = 7;
    int w = WIDTH;
    void *arguments[] = {&spots, &out};
    place_points(false);
    OK(cudaGetTextureReference(&reference, &plane));
    CHECK(reference == &plane);
    ENDS(cudaErrorInvalidTextureBinding, cudaGetTextureAlignmentOffset(&offset, &plane));
    OK(cudaBindTextureToArray(&plane, array, &FLOATS));
    run(&by_plane, MOST, arguments);
    check_samples(&sampling, HEIGHT);
    plane.filterMode = sampling.filterMode = cudaFilterModeLinear; /* counts from the next binding on */
    plane.addressMode[0] = sampling.addressMode[0] = cudaAddressModeBorder;
    OK(cudaBindTextureToArray(&plane, array, &FLOATS));
    run(&by_plane, MOST, arguments);
    check_samples(&sampling, HEIGHT);
    float *rows;
    OK(cudaMalloc((void **)&rows, WIDTH * HEIGHT * 4));
    OK(cudaMemcpy(rows, texels, WIDTH * HEIGHT * 4, cudaMemcpyHostToDevice));
    OK(cudaBindTexture2D(&offset, &plane, rows, &FLOATS, WIDTH, HEIGHT, WIDTH * 4));
    CHECK(offset == 0);
    run(&by_plane, MOST, arguments);
    check_samples(&sampling, HEIGHT);
    OK(cudaUnbindTexture(&plane));
    ENDS(cudaErrorInvalidTextureBinding, cudaGetTextureAlignmentOffset(&offset, &plane));
    struct cudaChannelFormatDesc byte = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
    OK(cudaBindTexture(&offset, &line, rows, &byte, 0xffffffffu)); /* all that lies there */
    void *only[] = {&out};
    run(&by_line, WIDTH * HEIGHT * 4, only);
    for (int i = 0; i < WIDTH * HEIGHT * 4; i++)
        CHECK(fabsf(found[i] - (float)((unsigned char *)texels)[i] / 255) < 1e-6f);
    OK(cudaUnbindTexture(&line));
    OK(cudaGetSurfaceReference(&surface, &paper));
    OK(cudaBindSurfaceToArray(surface, array, &FLOATS));
    void *width[] = {&w};
    run(&by_paper, WIDTH * HEIGHT, width);
    OK(cudaMemcpyFromArray(found, array, 0, 0, WIDTH * HEIGHT * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        CHECK(found[i] == (float)(100 * (i / WIDTH) + i % WIDTH));
    ENDS(cudaErrorInvalidTexture, cudaUnbindTexture((struct textureReference *)(void *)&paper));
    ENDS(cudaErrorInvalidSurface, cudaGetSurfaceReference(&surface, &plane));
    OK(cudaFree(rows));
    OK(cudaFreeArray(array));
}

/* ---- what is given back --------------------------------------------------------------------- */

static void give_back(void)
{
    size_t before;
    size_t after;
    size_t total;
    OK(cudaMemGetInfo(&before, &total));
    for (int i = 0; i < 2000; i++) { /* more than can exist at once */
        cudaArray_t array;
        OK(cudaMallocArray(&array, &FLOATS, 64, 64, cudaArraySurfaceLoadStore));
        cudaTextureObject_t texture = texture_of(array, NULL);
        OK(cudaFreeArray(array));
        OK(cudaDestroyTextureObject(texture));
    }
    OK(cudaMemGetInfo(&after, &total));
    CHECK(before == after);
}

int main(void)
{
    register_all();
    OK(cudaMalloc((void **)&out, sizeof(found)));
    OK(cudaMalloc((void **)&spots, sizeof(points)));
    for (int i = 0; i < MOST; i++)
        texels[i] = (float)(i * i % 97);
    sample_everywhere();
    read_kinds();
    read_levels();
    read_formats();
    write_surfaces();
    read_references();
    give_back();
    puts("all textures are right");
    return 0;
}
