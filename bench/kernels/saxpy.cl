__kernel void saxpy(ulong n, float a, __global const float *x, __global float *y)
{
    ulong i = get_global_id(0);
    if (i < n)
        y[i] = a * x[i] + y[i];
}
