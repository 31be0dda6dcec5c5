/* Names that the units of separate_units.cu share. */
#pragma once

#ifdef __CUDACC__
extern __device__ int shared_total;
__device__ int other_twice(int value);
__device__ void add_to_total(int value);
#endif
void store_of_other(int *device);
int host_sum(const int *values, int count);
