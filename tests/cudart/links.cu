// A unit for linkers (links.c): FACTOR is an option of its compilation.
extern "C" __device__ int twice(int x)
{
    return FACTOR * x;
}

extern "C" __global__ void alone(int *x)
{
    *x = twice(*x);
}
