// Rule: cudaMalloc3D and cudaMemcpy3D keep boxes with pitched rows, and copy parts of them at positions.
#include "check.h"

__global__ void mark(cudaPitchedPtr box, int depth)
{
    int x = threadIdx.x, y = threadIdx.y, z = blockIdx.x;
    int *row = (int *)((char *)box.ptr + (z * box.ysize + y) * box.pitch);
    if (z < depth)
        row[x] += z * 100 + y * 10 + x;
}

int main()
{
    enum { X = 7, Y = 5, Z = 4 };
    static int cells[Z][Y][X], part[2][3][4];
    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, make_cudaExtent(X * sizeof(int), Y, Z)));
    EXPECT(box.ysize == Y && box.xsize == X * sizeof(int));
    CHECK(cudaMemset3DAsync(box, 0, make_cudaExtent(X * sizeof(int), Y, Z), 0));
    mark<<<Z, dim3(X, Y)>>>(box, Z);
    cudaMemcpy3DParms all = {};
    all.srcPtr = box;
    all.dstPtr = make_cudaPitchedPtr(cells, X * sizeof(int), X, Y);
    all.extent = make_cudaExtent(X * sizeof(int), Y, Z);
    all.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&all));
    for (int z = 0; z < Z; z++)
        for (int y = 0; y < Y; y++)
            for (int x = 0; x < X; x++)
                EXPECT_EQUAL(cells[z][y][x], z * 100 + y * 10 + x);
    cudaMemcpy3DParms some = {};
    some.srcPtr = box;
    some.srcPos = make_cudaPos(2 * sizeof(int), 1, 2);
    some.dstPtr = make_cudaPitchedPtr(part, 4 * sizeof(int), 4, 3);
    some.extent = make_cudaExtent(4 * sizeof(int), 3, 2);
    some.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3DAsync(&some, 0));
    CHECK(cudaDeviceSynchronize());
    EXPECT_EQUAL(part[0][0][0], 212);
    EXPECT_EQUAL(part[1][2][3], 335);
    CHECK(cudaFree(box.ptr));
    return finish();
}
