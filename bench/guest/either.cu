/* Measures what the choice of a side adds to the launch of a kernel that has a CPU version, in turn with a kernel that
 * has none.
 *
 *     either ROUNDS
 *
 * Prints lines "NAME SUBJECT NANOSECONDS", one per round, subject and figure; SUBJECT is either or plain; NAME is call
 * (the launch alone) or launch (and the wait for it). */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <vgc_either.h>

#include "clock.h"

__vgc_either__ __global__ void either()
{
}

__global__ void plain()
{
}

namespace
{

constexpr int TIMES = 500;

void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}

uint64_t median(std::vector<uint64_t> &taken)
{
    std::nth_element(taken.begin(), taken.begin() + TIMES / 2, taken.end());
    return taken[TIMES / 2];
}

void measure(void (*kernel)(), const char *subject)
{
    std::vector<uint64_t> calls(TIMES), launches(TIMES);
    for (int i = 0; i < TIMES; i++) {
        const uint64_t start = vgcb_now_ns();
        kernel<<<1, 1>>>();
        calls[i] = vgcb_now_ns() - start;
        must(cudaDeviceSynchronize(), subject);
        launches[i] = vgcb_now_ns() - start;
    }
    std::printf("call %s %llu\n", subject, (unsigned long long)median(calls));
    std::printf("launch %s %llu\n", subject, (unsigned long long)median(launches));
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s ROUNDS\n", argv[0]);
        return 2;
    }
    for (int i = 0; i < std::atoi(argv[1]); i++) {
        measure(either, "either");
        measure(plain, "plain");
    }
    return 0;
}
