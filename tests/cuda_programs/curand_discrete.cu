// Rule: A Poisson distribution that the host has made gives kernels numbers of that distribution, with every generator.
// flags: -lcurand
#include <cmath>
#include <cstdio>
#include <curand.h>
#include <curand_kernel.h>

const int THREADS = 256, EACH = 400;

template <class State> __global__ void draw(curandDiscreteDistribution_t distribution, unsigned *out)
{
    State state;
    curand_init(7, blockIdx.x * blockDim.x + threadIdx.x, 0, &state);
    for (int i = 0; i < EACH; i++)
        out[threadIdx.x * EACH + i] = curand_discrete(&state, distribution);
}

static unsigned *numbers;

template <class State> static bool is_right(double lambda, curandDiscreteDistribution_t distribution)
{
    draw<State><<<1, THREADS>>>(distribution, numbers);
    if (cudaDeviceSynchronize() != cudaSuccess)
        return false;
    double sum = 0, squares = 0;
    for (int i = 0; i < THREADS * EACH; i++) {
        sum += numbers[i];
        squares += (numbers[i] - lambda) * (numbers[i] - lambda);
    }
    const double count = THREADS * EACH, mean = sum / count, variance = squares / count;
    if (std::fabs(mean / lambda - 1) < 0.02 && std::fabs(variance / lambda - 1) < 0.04)
        return true;
    std::printf("lambda %g: mean %g, variance %g\n", lambda, mean, variance);
    return false;
}

int main()
{
    cudaMallocManaged(&numbers, sizeof(unsigned) * THREADS * EACH);
    bool right = true;
    for (double lambda : {0.5, 30.0, 100000.0}) {
        curandDiscreteDistribution_t distribution;
        if (curandCreatePoissonDistribution(lambda, &distribution) != CURAND_STATUS_SUCCESS)
            return 2;
        right &= is_right<curandStateXORWOW_t>(lambda, distribution);
        right &= is_right<curandStateMRG32k3a_t>(lambda, distribution);
        right &= is_right<curandStatePhilox4_32_10_t>(lambda, distribution);
        if (curandDestroyDistribution(distribution) != CURAND_STATUS_SUCCESS)
            return 3;
    }
    if (right)
        std::printf("PASS\n");
    return !right;
}
