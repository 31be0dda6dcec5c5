// Rule: prints the bits of what kernels compute, so that two builds of the same compiler can be compared byte by byte.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

enum { N = 4096, SIZE = 64 };

static void check(cudaError_t error, int line)
{
    if (error == cudaSuccess)
        return;
    printf("line %d: %s\n", line, cudaGetErrorString(error));
    exit(1);
}
#define CHECK(call) check(call, __LINE__)

/* Prints a hash of all words, and the first of them. */
static void show(const char *name, const void *data, size_t words)
{
    uint64_t hash = 0xcbf29ce484222325;
    std::vector<uint32_t> bits(words);
    memcpy(bits.data(), data, 4 * words);
    for (uint32_t word : bits)
        hash = (hash ^ word) * 0x100000001b3;
    printf("%-12s %016llx %08x %08x %08x %08x\n", name, (unsigned long long)hash, bits[0], bits[1], bits[2], bits[3]);
}

__device__ float input(int i)
{
    unsigned bits = 0x3d800000u + (unsigned)i * 40503u * 7u % 0x04000000u; // 0.06 to 13
    return __uint_as_float(bits);
}

__global__ void functions(float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = input(i);
    float y = input(N - i);
    float *to = out + 12 * i;
    to[0] = sinf(x);
    to[1] = expf(-x);
    to[2] = logf(x);
    to[3] = powf(x, y);
    to[4] = x / y;
    to[5] = sqrtf(x) + rsqrtf(y);
    to[6] = x * y + to[4];
    to[7] = __sinf(x);
    to[8] = __expf(y);
    to[9] = erff(x);
    to[10] = tgammaf(y);
    to[11] = __fdividef(x, y);
}

__global__ void doubles(double *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    double x = input(i);
    out[4 * i] = sin(x);
    out[4 * i + 1] = exp(-x) * cbrt(x);
    out[4 * i + 2] = pow(x, 1.7) / 3;
    out[4 * i + 3] = fma(x, x, 1 / x);
}

__global__ void halves(uint32_t *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half2 x = __floats2half2_rn(input(i), input(N - i));
    __half2 y = __hfma2(x, x, __float2half2_rn(0.25f));
    memcpy(out + i, &y, 4);
}

__global__ void sums(float *out)
{
    __shared__ float part[32];
    float x = input(blockIdx.x * blockDim.x + threadIdx.x);
    for (int step = 16; step > 0; step /= 2)
        x += __shfl_down_sync(0xffffffff, x, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = x;
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    float sum = 0;
    for (unsigned i = 0; i < blockDim.x / 32; i++)
        sum += part[i];
    out[blockIdx.x] = sum;
}

__global__ void counts(unsigned *bins)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(bins + __float_as_uint(input(i)) % 64, 1u);
    atomicXor(bins + 64 + i % 64, __brev((unsigned)i) ^ __popc((unsigned)i));
    atomicMax(bins + 128 + i % 64, __umulhi((unsigned)i * 2654435761u, 4099u));
}

__global__ void samples(cudaTextureObject_t texture, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = tex2D<float>(texture, input(i) * 4, input(N - i) * 4);
}

__global__ void marks(cudaSurfaceObject_t surface)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    surf2Dwrite(input(x * 7 + (int)blockIdx.y), surface, x * 4, blockIdx.y);
}

template <class T> static T *device(size_t count)
{
    T *made = nullptr;
    CHECK(cudaMalloc((void **)&made, count * sizeof(T)));
    CHECK(cudaMemset(made, 0, count * sizeof(T)));
    return made;
}

template <class T> static void bring(const char *name, const T *from, size_t count)
{
    std::vector<T> here(count);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(here.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost));
    show(name, here.data(), count * sizeof(T) / 4);
}

static void textures(cudaTextureFilterMode filter, const char *name)
{
    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    CHECK(cudaMallocArray(&array, &format, SIZE, SIZE, cudaArraySurfaceLoadStore));
    cudaResourceDesc from = {};
    from.resType = cudaResourceTypeArray;
    from.res.array.array = array;
    cudaSurfaceObject_t surface;
    CHECK(cudaCreateSurfaceObject(&surface, &from));
    marks<<<dim3(SIZE / 32, SIZE), 32>>>(surface);
    cudaTextureDesc how = {};
    how.filterMode = filter;
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &from, &how, nullptr));
    float *out = device<float>(N);
    samples<<<N / 128, 128>>>(texture, out);
    bring(name, out, N);
    std::vector<float> texels(SIZE * SIZE);
    CHECK(cudaMemcpy2DFromArray(texels.data(), SIZE * 4, array, 0, 0, SIZE * 4, SIZE, cudaMemcpyDeviceToHost));
    show("texels", texels.data(), texels.size());
}

int main()
{
    float *floats = device<float>(12 * N);
    functions<<<N / 128, 128>>>(floats);
    bring("functions", floats, 12 * N);
    double *wide = device<double>(4 * N);
    doubles<<<N / 128, 128>>>(wide);
    bring("doubles", wide, 4 * N);
    uint32_t *narrow = device<uint32_t>(N);
    halves<<<N / 128, 128>>>(narrow);
    bring("halves", narrow, N);
    sums<<<N / 256, 256>>>(floats);
    bring("sums", floats, N / 256);
    unsigned *bins = device<unsigned>(192);
    counts<<<N / 128, 128>>>(bins);
    bring("counts", bins, 192);
    textures(cudaFilterModePoint, "nearest");
    textures(cudaFilterModeLinear, "linear");
    puts("PASS");
}
