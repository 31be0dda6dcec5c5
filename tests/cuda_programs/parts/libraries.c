/* Norm of a vector by cuBLAS, and a transform by cuFFT. */
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cufft.h>
#include <curand.h>
#include <cusolverDn.h>
#include <cusparse.h>

int norm_in_c(const float *numbers, int count, float *norm)
{
    cublasHandle_t handle;
    float *device;
    if (cublasCreate(&handle) != CUBLAS_STATUS_SUCCESS || cudaMalloc((void **)&device, count * sizeof *device) != 0)
        return 1;
    if (cublasSetVector(count, sizeof *device, numbers, 1, device, 1) != CUBLAS_STATUS_SUCCESS ||
        cublasSnrm2(handle, count, device, 1, norm) != CUBLAS_STATUS_SUCCESS)
        return 2;
    return cudaFree(device) != 0 || cublasDestroy(handle) != CUBLAS_STATUS_SUCCESS ? 3 : 0;
}

int transform_in_c(int count, float *first_real)
{
    cufftHandle plan;
    cufftComplex *device, host[64];
    const size_t bytes = count * sizeof *device;
    for (int i = 0; i < count; i++)
        host[i] = make_cuComplex((float)i, 0);
    if (cufftPlan1d(&plan, count, CUFFT_C2C, 1) != CUFFT_SUCCESS || cudaMalloc((void **)&device, bytes) != 0)
        return 1;
    if (cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice) != 0 ||
        cufftExecC2C(plan, device, device, CUFFT_FORWARD) != CUFFT_SUCCESS ||
        cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost) != 0)
        return 2;
    *first_real = cuCrealf(host[0]);
    return cudaFree(device) != 0 || cufftDestroy(plan) != CUFFT_SUCCESS ? 3 : 0;
}
