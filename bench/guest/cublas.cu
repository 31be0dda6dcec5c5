/* Measures cublasSgemm() in a guest: C = A B of N rows and columns each, from the call to the end of the work.
 *
 *     cublas N...
 *
 * Each line that it reads starts a round; for each N it prints a line "N NANOSECONDS". Ends with its input, or with
 * status 1 when a product is wrong. */
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>

#include "clock.h"

namespace
{

void must(cudaError_t error, const char *what)
{
    if (error == cudaSuccess)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(1);
}
void must(cublasStatus_t status, const char *what)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return;
    std::fprintf(stderr, "%s: %s\n", what, cublasGetStatusName(status));
    std::exit(1);
}

/* Square matrices by columns; element (i, j) of A is (i + j) % 7, of B (i * j) % 5. */
struct Matrices {
    int n;
    float *a, *b, *c;

    explicit Matrices(int rows) : n(rows)
    {
        std::vector<float> left((size_t)n * n), right(left.size());
        for (int j = 0; j < n; j++)
            for (int i = 0; i < n; i++) {
                left[(size_t)j * n + i] = (float)((i + j) % 7);
                right[(size_t)j * n + i] = (float)(i * (j % 5) % 5);
            }
        const size_t bytes = left.size() * sizeof(float);
        for (float **one : {&a, &b, &c})
            must(cudaMalloc(one, bytes), "malloc");
        must(cudaMemcpy(a, left.data(), bytes, cudaMemcpyHostToDevice), "copy");
        must(cudaMemcpy(b, right.data(), bytes, cudaMemcpyHostToDevice), "copy");
    }

    uint64_t multiply(cublasHandle_t handle) const
    {
        const float one = 1, nothing = 0;
        const uint64_t start = vgcb_now_ns();
        must(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &one, a, n, b, n, &nothing, c, n), "sgemm");
        must(cudaDeviceSynchronize(), "sgemm");
        return vgcb_now_ns() - start;
    }

    /* Compares some elements with sums made here, which are whole numbers and exact. */
    void check() const
    {
        for (int i = 0; i < n; i += n / 3 + 1)
            for (int j = 0; j < n; j += n / 5 + 1) {
                float got, wanted = 0;
                for (int k = 0; k < n; k++)
                    wanted += (float)((i + k) % 7) * (float)(k * (j % 5) % 5);
                must(cudaMemcpy(&got, c + (size_t)j * n + i, sizeof(got), cudaMemcpyDeviceToHost), "copy");
                if (got != wanted) {
                    std::fprintf(stderr, "element (%d, %d) is %g, not %g\n", i, j, got, wanted);
                    std::exit(1);
                }
            }
    }
};

} // namespace

int main(int argc, char **argv)
{
    cublasHandle_t handle;
    must(cublasCreate(&handle), "create");
    std::vector<Matrices> all;
    for (int i = 1; i < argc; i++) {
        all.emplace_back(std::atoi(argv[i]));
        all.back().multiply(handle); /* compiles the kernels */
        all.back().check();
    }
    char line[16];
    while (std::fgets(line, sizeof(line), stdin)) {
        for (const Matrices &one : all)
            std::printf("%d %llu\n", one.n, (unsigned long long)one.multiply(handle));
        std::fflush(stdout);
    }
    return 0;
}
