// Rule: cudaMemset and its forms for rows, boxes and streams set bytes, and nothing beside them.
#include "check.h"
#include <string.h>

int main()
{
    unsigned char *device, host[4096];
    CHECK(cudaMalloc(&device, sizeof host));
    CHECK(cudaMemset(device, 0x11, sizeof host));
    CHECK(cudaMemset(device + 100, 0x1ff, 57)); /* the value is a byte: 0xff */
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 4096; i++)
        EXPECT_EQUAL(host[i], i >= 100 && i < 157 ? 0xff : 0x11);

    CHECK(cudaMemset2D(device + 3, 64, 0x22, 10, 5));
    CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
    for (int row = 0; row < 6; row++) {
        EXPECT_EQUAL(host[3 + row * 64] == 0x22, row < 5);
        EXPECT(host[3 + row * 64 + 10] != 0x22);
    }

    cudaPitchedPtr box;
    CHECK(cudaMalloc3D(&box, make_cudaExtent(20, 4, 3)));
    EXPECT(box.pitch >= 20);
    CHECK(cudaMemset3D(box, 0x33, make_cudaExtent(20, 4, 3)));
    CHECK(cudaMemset3D(box, 0x44, make_cudaExtent(5, 2, 1)));
    unsigned char cells[3][4][20];
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = box;
    copy.dstPtr = make_cudaPitchedPtr(cells, 20, 20, 4);
    copy.extent = make_cudaExtent(20, 4, 3);
    copy.kind = cudaMemcpyDeviceToHost;
    CHECK(cudaMemcpy3D(&copy));
    for (int z = 0; z < 3; z++)
        for (int y = 0; y < 4; y++)
            for (int x = 0; x < 20; x++)
                EXPECT_EQUAL(cells[z][y][x], z < 1 && y < 2 && x < 5 ? 0x44 : 0x33);

    cudaStream_t stream;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaMemsetAsync(device, 0x55, sizeof host, stream));
    CHECK(cudaMemcpyAsync(host, device, sizeof host, cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(host[0] == 0x55 && host[4095] == 0x55);
    CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(box.ptr));
    CHECK(cudaFree(device));
    return finish();
}
