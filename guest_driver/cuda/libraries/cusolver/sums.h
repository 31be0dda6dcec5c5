/* Sums over the threads of a block, and the reflectors made of them. */
#pragma once
#include "context.h"

namespace solver
{
/* The sum of all threads' numbers, in all of them. `sums` may be used again behind it. */
template <class T> __device__ T sum_of_threads(T own, T *sums)
{
    __syncthreads();
    sums[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half)
            sums[threadIdx.x] += sums[threadIdx.x + half];
        __syncthreads();
    }
    return sums[0];
}
template <class R> __device__ R greatest_of_threads(R own, R *sizes)
{
    __syncthreads();
    sizes[threadIdx.x] = own;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if ((int)threadIdx.x < half && sizes[threadIdx.x + half] > sizes[threadIdx.x])
            sizes[threadIdx.x] = sizes[threadIdx.x + half];
        __syncthreads();
    }
    return sizes[0];
}

/* H^H x = beta e_1 for H = I - tau v v^H, where v begins with 1; beta is real. */
template <class T> struct reflector {
    T tau, scale; /* scale: what the rest of x is multiplied by to be that of v */
    real_of<T> beta;
};
/* Scaled by the greatest part, so that squares neither overflow nor underflow. */
template <class T> __device__ reflector<T> reflector_of(i64 n, const T *x, real_of<T> *reals)
{
    typedef real_of<T> R;
    const T first = x[0];
    R size = 0;
    for (i64 i = 1 + threadIdx.x; i < n; i += THREADS) {
        const R own = magnitude(x[i]);
        size = own > size ? own : size;
    }
    size = greatest_of_threads(size, reals);
    R sum = 0;
    const bool vanishes = !(size >= precision<R>::smallest); /* whose reciprocal would be infinite */
    const R inverse = vanishes ? 0 : 1 / size;
    for (i64 i = 1 + threadIdx.x; i < n; i += THREADS)
        sum += square(inverse * x[i]);
    sum = sum_of_threads(sum, reals);
    const R length = longer(absolute(first), size * root(sum));
    if ((vanishes && im(first) == 0) || length < precision<R>::smallest)
        return {zero<T>(), one<T>(), re(first)};
    const R beta = re(first) > 0 ? -length : length;
    const T difference = first - from_real<T>(beta);
    return {(1 / beta) * (from_real<T>(beta) - first), one<T>() / difference, beta};
}
/* v behind its 1, in place of x; the caller writes beta into the first element, once all have done with it. */
template <class T> __device__ reflector<T> reflect(i64 n, T *x, real_of<T> *reals)
{
    const reflector<T> made = reflector_of(n, (const T *)x, reals);
    for (i64 i = 1 + threadIdx.x; i < n; i += THREADS)
        x[i] = made.scale * x[i];
    __syncthreads();
    return made;
}
} // namespace solver
