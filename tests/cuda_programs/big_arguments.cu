// Rule: a kernel takes up to 4096 bytes of arguments, structs by value among them, each at its own alignment.
#include "check.h"

struct Big {
    int values[1000];
};

struct __align__(16) Small {
    char tag;
    double weight;
};

__global__ void sum(char first, Big big, short second, Small small, int *out)
{
    int total = 0;
    for (int value : big.values)
        total += value;
    *out = total + first + second + (int)small.weight + small.tag;
}

struct Whole {
    int values[1022];
};

__global__ void full(Whole whole, int *out)
{
    *out = whole.values[0] + whole.values[1021];
}

int main()
{
    Big big;
    Whole whole;
    int *device, value;
    for (int i = 0; i < 1000; i++)
        big.values[i] = i;
    for (int i = 0; i < 1022; i++)
        whole.values[i] = i + 7;
    CHECK(cudaMalloc(&device, sizeof value));
    sum<<<1, 1>>>(1, big, 2, Small{3, 4.5}, device);
    big.values[0] = 1000000; /* the launch has its own copy */
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 499500 + 1 + 2 + 4 + 3);
    static_assert(sizeof(Whole) + sizeof(int *) == 4096, "all there is");
    full<<<1, 1>>>(whole, device);
    CHECK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    EXPECT_EQUAL(value, 7 + 1028);
    return finish();
}
