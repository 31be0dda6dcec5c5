// Rule: curand_kernel.h gives each thread its own sequence; equal seeds give equal numbers, uniform and normal.
// needs: curand
#include "check.h"
#include <curand_kernel.h>

template <typename State> __global__ void seed(State *states, unsigned long long start)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(start, i, 0, &states[i]);
}

template <typename State> __global__ void draw(State *states, float *uniform, float *normal, int each)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    State state = states[i];
    for (int k = 0; k < each; k++) {
        uniform[i * each + k] = curand_uniform(&state);
        normal[i * each + k] = curand_normal(&state);
    }
    states[i] = state;
}

template <typename State> void sample(float *uniform, float *normal, int threads, int each)
{
    State *states;
    float *device;
    size_t bytes = threads * each * sizeof(float);
    CHECK(cudaMalloc((void **)&states, threads * sizeof(State)));
    CHECK(cudaMalloc(&device, 2 * bytes));
    seed<<<threads / 64, 64>>>(states, 1234ull);
    draw<<<threads / 64, 64>>>(states, device, device + threads * each, each);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(uniform, device, bytes, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(normal, device + threads * each, bytes, cudaMemcpyDeviceToHost));
    double sum = 0, squares = 0;
    for (int i = 0; i < threads * each; i++) {
        EXPECT(uniform[i] > 0 && uniform[i] <= 1);
        sum += uniform[i];
        squares += normal[i] * normal[i];
    }
    EXPECT_NEAR(sum / (threads * each), 0.5, 0.02);
    EXPECT_NEAR(squares / (threads * each), 1, 0.1);
    CHECK(cudaFree(states));
    CHECK(cudaFree(device));
}

int main()
{
    static float uniform[2][4096], normal[2][4096];
    sample<curandState>(uniform[0], normal[0], 256, 16);
    sample<curandState>(uniform[1], normal[1], 256, 16);
    for (int i = 0; i < 4096; i++)
        EXPECT(uniform[0][i] == uniform[1][i] && normal[0][i] == normal[1][i]);
    sample<curandStatePhilox4_32_10_t>(uniform[1], normal[1], 256, 16);
    EXPECT(uniform[0][0] != uniform[1][0]);
    return finish();
}
