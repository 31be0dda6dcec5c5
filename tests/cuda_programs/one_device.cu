// Rule: with one device there are no peers: programs for several find that out; copies "between" 0 and 0 work.
#include "check.h"

int main()
{
    int count, able = -1, *first, *second, value = 17;
    CHECK(cudaGetDeviceCount(&count));
    if (count > 1) {
        puts("PASS (several devices)");
        return 0;
    }
    CHECK(cudaDeviceCanAccessPeer(&able, 0, 0));
    EXPECT_EQUAL(able, 0);
    EXPECT_ERROR(cudaDeviceCanAccessPeer(&able, 0, 1), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaDeviceEnablePeerAccess(1, 0), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaDeviceEnablePeerAccess(0, 0), cudaErrorInvalidDevice);
    EXPECT_ERROR(cudaDeviceDisablePeerAccess(1), cudaErrorInvalidDevice);
    CHECK(cudaMalloc(&first, sizeof value));
    CHECK(cudaMalloc(&second, sizeof value));
    CHECK(cudaMemcpy(first, &value, sizeof value, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyPeer(second, 0, first, 0, sizeof value));
    value = 0;
    CHECK(cudaMemcpy(&value, second, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 17);
    CHECK(cudaMemset(second, 0, sizeof value));
    CHECK(cudaMemcpyPeerAsync(second, 0, first, 0, sizeof value, 0));
    CHECK(cudaMemcpy(&value, second, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 17);
    EXPECT_ERROR(cudaMemcpyPeer(second, 1, first, 0, sizeof value), cudaErrorInvalidDevice);
    return finish();
}
