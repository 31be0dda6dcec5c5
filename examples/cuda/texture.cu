// Enlarges a picture with a texture, which filters between texels.
//
//     mynvcc examples/cuda/texture.cu -o texture && ./texture
#include <cmath>
#include <cstdio>
#include <vector>

#include <cuda_runtime.h>

constexpr int WIDTH = 64, HEIGHT = 48, TIMES = 3;

__global__ void enlarge(cudaTextureObject_t picture, float *out)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < WIDTH * TIMES && y < HEIGHT * TIMES)
        out[y * WIDTH * TIMES + x] = tex2D<float>(picture, (x + 0.5f) / TIMES, (y + 0.5f) / TIMES);
}

int main()
{
    std::vector<float> picture(WIDTH * HEIGHT), large(WIDTH * HEIGHT * TIMES * TIMES);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            picture[y * WIDTH + x] = float(2 * x + 3 * y); // linear: filtering gives it exactly, away from the edges

    cudaArray_t array;
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    cudaMallocArray(&array, &format, WIDTH, HEIGHT);
    cudaMemcpy2DToArray(array, 0, 0, picture.data(), WIDTH * sizeof(float), WIDTH * sizeof(float), HEIGHT,
                        cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc sampling = {};
    sampling.addressMode[0] = sampling.addressMode[1] = cudaAddressModeClamp;
    sampling.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture;
    if (cudaCreateTextureObject(&texture, &resource, &sampling, nullptr) != cudaSuccess) {
        std::printf("no texture: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 1;
    }

    float *out;
    cudaMalloc(&out, large.size() * sizeof(float));
    enlarge<<<dim3(WIDTH * TIMES / 16, HEIGHT * TIMES / 16), dim3(16, 16)>>>(texture, out);
    cudaMemcpy(large.data(), out, large.size() * sizeof(float), cudaMemcpyDeviceToHost);

    float largest = 0;
    for (int y = TIMES; y < (HEIGHT - 1) * TIMES; y++) {
        for (int x = TIMES; x < (WIDTH - 1) * TIMES; x++) {
            float expected = 2 * ((x + 0.5f) / TIMES - 0.5f) + 3 * ((y + 0.5f) / TIMES - 0.5f);
            largest = std::fmax(largest, std::fabs(large[y * WIDTH * TIMES + x] - expected));
        }
    }
    // Filters have 8 bits between two texels [CUDA Programming Guide, texture fetching].
    std::printf("largest difference: %g\n", largest);
    cudaDestroyTextureObject(texture);
    cudaFreeArray(array);
    cudaFree(out);
    return largest < 5.0f / 256 ? 0 : 1;
}
