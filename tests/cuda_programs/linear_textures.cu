// Rule: textures over device memory read elements by index, of vectors too, and as normalized floats; beyond
// the end of their memory, should they be made longer, they read 0.
#include "check.h"

__global__ void read(cudaTextureObject_t ints, cudaTextureObject_t vectors, cudaTextureObject_t bytes, int *a,
                     float4 *b, float *c)
{
    int i = threadIdx.x;
    a[i] = tex1Dfetch<int>(ints, 31 - i);
    b[i] = tex1Dfetch<float4>(vectors, i);
    c[i] = tex1Dfetch<float>(bytes, i);
}

__global__ void read_beyond(cudaTextureObject_t ints, int index, int *a)
{
    a[0] = tex1Dfetch<int>(ints, index - 1);
    a[1] = tex1Dfetch<int>(ints, index);
}

static cudaTextureObject_t over(void *memory, size_t size, cudaChannelFormatDesc format, cudaTextureReadMode mode)
{
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = memory;
    resource.res.linear.desc = format;
    resource.res.linear.sizeInBytes = size;
    cudaTextureDesc description = {};
    description.readMode = mode;
    cudaTextureObject_t texture = 0;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, NULL));
    cudaResourceDesc got;
    CHECK(cudaGetTextureObjectResourceDesc(&got, texture));
    EXPECT(got.resType == cudaResourceTypeLinear && got.res.linear.devPtr == memory);
    return texture;
}

int main()
{
    int ints[32], *device_ints, *a, got_a[32];
    float4 vectors[32], *device_vectors, *b, got_b[32];
    unsigned char bytes[32], *device_bytes;
    float *c, got_c[32];
    for (int i = 0; i < 32; i++) {
        ints[i] = i * i;
        vectors[i] = make_float4(i, i + 0.25f, i + 0.5f, -i);
        bytes[i] = i * 8;
    }
    CHECK(cudaMalloc(&device_ints, sizeof ints));
    CHECK(cudaMalloc(&device_vectors, sizeof vectors));
    CHECK(cudaMalloc(&device_bytes, sizeof bytes));
    CHECK(cudaMalloc(&a, sizeof got_a));
    CHECK(cudaMalloc(&b, sizeof got_b));
    CHECK(cudaMalloc(&c, sizeof got_c));
    CHECK(cudaMemcpy(device_ints, ints, sizeof ints, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_vectors, vectors, sizeof vectors, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(device_bytes, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    cudaTextureObject_t of_ints = over(device_ints, sizeof ints, cudaCreateChannelDesc<int>(), cudaReadModeElementType);
    cudaTextureObject_t of_vectors =
        over(device_vectors, sizeof vectors, cudaCreateChannelDesc<float4>(), cudaReadModeElementType);
    cudaTextureObject_t of_bytes =
        over(device_bytes, sizeof bytes, cudaCreateChannelDesc<unsigned char>(), cudaReadModeNormalizedFloat);
    read<<<1, 32>>>(of_ints, of_vectors, of_bytes, a, b, c);
    CHECK(cudaMemcpy(got_a, a, sizeof got_a, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got_b, b, sizeof got_b, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(got_c, c, sizeof got_c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 32; i++) {
        EXPECT_EQUAL(got_a[i], ints[31 - i]);
        EXPECT(got_b[i].x == i && got_b[i].z == i + 0.5f && got_b[i].w == -i);
        EXPECT_NEAR(got_c[i], bytes[i] / 255.0, 1e-6);
    }
    cudaTextureObject_t longer =
        over(device_ints + 16, sizeof ints, cudaCreateChannelDesc<int>(), cudaReadModeElementType);
    read_beyond<<<1, 1>>>(longer, 16, a);
    CHECK(cudaMemcpy(got_a, a, sizeof got_a, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(got_a[0], ints[31]);
    EXPECT_EQUAL(got_a[1], 0);
    CHECK(cudaDestroyTextureObject(longer));
    CHECK(cudaDestroyTextureObject(of_ints));
    CHECK(cudaDestroyTextureObject(of_vectors));
    CHECK(cudaDestroyTextureObject(of_bytes));
    return finish();
}
