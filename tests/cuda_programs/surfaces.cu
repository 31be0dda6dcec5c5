// Rule: kernels write arrays through surfaces, at byte offsets in x, and read them back through surfaces and textures.
#include "check.h"

enum { WIDTH = 16, HEIGHT = 8 };

__global__ void write(cudaSurfaceObject_t surface)
{
    int x = threadIdx.x, y = threadIdx.y;
    surf2Dwrite(make_uchar4(x, y, x + y, 255), surface, x * (int)sizeof(uchar4), y);
}

__global__ void swap_halves(cudaSurfaceObject_t surface, cudaSurfaceObject_t to)
{
    int x = threadIdx.x, y = threadIdx.y;
    uchar4 pixel = surf2Dread<uchar4>(surface, ((x + WIDTH / 2) % WIDTH) * sizeof(uchar4), y);
    pixel.w = 1;
    surf2Dwrite<uchar4>(pixel, to, x * sizeof(uchar4), y, cudaBoundaryModeTrap);
}

int main()
{
    cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
    cudaResourceDesc first = {}, second = {};
    cudaSurfaceObject_t from, to;
    uchar4 pixels[HEIGHT][WIDTH];
    first.resType = second.resType = cudaResourceTypeArray;
    CHECK(cudaMallocArray(&first.res.array.array, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
    CHECK(cudaMallocArray(&second.res.array.array, &format, WIDTH, HEIGHT, cudaArraySurfaceLoadStore));
    CHECK(cudaCreateSurfaceObject(&from, &first));
    CHECK(cudaCreateSurfaceObject(&to, &second));
    write<<<1, dim3(WIDTH, HEIGHT)>>>(from);
    swap_halves<<<1, dim3(WIDTH, HEIGHT)>>>(from, to);
    CHECK(cudaMemcpy2DFromArray(pixels, sizeof pixels[0], second.res.array.array, 0, 0, sizeof pixels[0], HEIGHT,
                                cudaMemcpyDeviceToHost));
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++) {
            int from_x = (x + WIDTH / 2) % WIDTH;
            EXPECT(pixels[y][x].x == from_x && pixels[y][x].y == y && pixels[y][x].z == from_x + y &&
                   pixels[y][x].w == 1);
        }
    CHECK(cudaDestroySurfaceObject(from));
    CHECK(cudaDestroySurfaceObject(to));
    CHECK(cudaFreeArray(first.res.array.array));
    CHECK(cudaFreeArray(second.res.array.array));
    return finish();
}
