// Rule: __host__ __device__ code computes the same on both sides; __CUDA_ARCH__ tells them apart.
// flags: -std=c++17 --expt-relaxed-constexpr
#include "check.h"
#include <algorithm>

constexpr int power(int base, int exponent)
{
    return exponent == 0 ? 1 : base * power(base, exponent - 1);
}

__host__ __device__ bool on_device()
{
#ifdef __CUDA_ARCH__
    return true;
#else
    return false;
#endif
}

class Matrix
{
  public:
    __host__ __device__ Matrix(float diagonal) : a{diagonal, 0, 0, diagonal}
    {
    }
    __host__ __device__ Matrix operator*(const Matrix &other) const
    {
        Matrix product(0);
        for (int row = 0; row < 2; row++)
            for (int column = 0; column < 2; column++)
                product.a[row * 2 + column] = a[row * 2] * other.a[column] + a[row * 2 + 1] * other.a[2 + column];
        return product;
    }
    float a[4];
};

__global__ void work(Matrix *matrices, int *flags)
{
    Matrix &mine = matrices[threadIdx.x];
    mine.a[1] = threadIdx.x;
    mine = mine * mine;
    flags[0] = on_device();
    flags[1] = power(3, 4) + std::max(5, (int)blockDim.x);
}

int main()
{
    int flags[2], *device_flags;
    Matrix *device;
    Matrix host[8] = {0, 1, 2, 3, 4, 5, 6, 7}, back[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    CHECK(cudaMalloc((void **)&device, sizeof host));
    CHECK(cudaMalloc(&device_flags, sizeof flags));
    CHECK(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
    work<<<1, 8>>>(device, device_flags);
    CHECK(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(flags, device_flags, sizeof flags, cudaMemcpyDeviceToHost));
    EXPECT(flags[0] == 1 && !on_device());
    EXPECT_EQUAL(flags[1], 89);
    for (int i = 0; i < 8; i++) {
        host[i].a[1] = i;
        host[i] = host[i] * host[i];
        for (int k = 0; k < 4; k++)
            EXPECT_EQUAL(back[i].a[k], host[i].a[k]);
    }
    return finish();
}
