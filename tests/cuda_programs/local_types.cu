// Rule: types without linkage, which device code cannot name elsewhere, are allocated and copied: structs of functions,
// unnamed ones, lambdas.
#include "check.h"

static __constant__ struct {
    int width;
    float bias;
} settings;
static __device__ struct {
    int count;
} state;

template <class Function> __global__ void apply(Function function, int *result)
{
    *result = function(settings.width);
}

int main()
{
    struct Pair {
        int a, b;
    };
    Pair *device, *managed, *pinned, *mapped, *rows, *pooled;
    size_t pitch, bytes;
    CHECK(cudaMalloc(&device, sizeof(Pair)));
    CHECK(cudaMallocManaged(&managed, sizeof(Pair)));
    CHECK(cudaHostAlloc(&pinned, sizeof(Pair), cudaHostAllocMapped));
    CHECK(cudaHostGetDevicePointer(&mapped, pinned, 0));
    CHECK(cudaMallocPitch(&rows, &pitch, sizeof(Pair), 2));
    CHECK(cudaMallocAsync(&pooled, sizeof(Pair), cudaStream_t(0)));

    struct {
        int width;
        float bias;
    } values = {30, .5f};
    CHECK(cudaMemcpyToSymbol(settings, &values, sizeof(values)));
    values.width = 0;
    CHECK(cudaMemcpyFromSymbol(&values, settings, sizeof(values)));
    EXPECT(values.width == 30 && values.bias == .5f);
    CHECK(cudaGetSymbolSize(&bytes, state));
    EXPECT(bytes == sizeof(int));

    auto add = [factor = 4] __device__(int width) { return width + 3 * factor; };
    int blocks, block_size;
    cudaFuncAttributes attributes;
    CHECK(cudaFuncGetAttributes(&attributes, apply<decltype(add)>));
    CHECK(cudaOccupancyMaxPotentialBlockSize(&blocks, &block_size, apply<decltype(add)>));
    apply<<<1, 1>>>(add, &managed->b);
    CHECK(cudaDeviceSynchronize());
    EXPECT(managed->b == 42);
    return finish();
}
