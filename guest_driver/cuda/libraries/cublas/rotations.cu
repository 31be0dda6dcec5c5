/* Rotations: made from two numbers, and those that spare a square root. */
#include "vectors.h"

namespace
{

using namespace blas;

template <class R> __host__ __device__ void make_rotation(R *a, R *b, R *c, R *s)
{
    const R larger = magnitude(*a) > magnitude(*b) ? *a : *b, scale = magnitude(*a) + magnitude(*b);
    if (scale == 0) {
        *c = 1;
        *s = *a = *b = 0;
        return;
    }
    const R left = *a / scale, right = *b / scale;
    const R size = scale * sqrt(left * left + right * right), r = larger < 0 ? -size : size;
    *c = *a / r;
    *s = *b / r;
    *b = magnitude(*a) > magnitude(*b) ? *s : *c != 0 ? 1 / *c : 1;
    *a = r;
}
template <class R> __host__ __device__ R length(complex<R> x)
{
    return hypot(x.x, x.y);
}
template <class R> __host__ __device__ void make_rotation(complex<R> *a, complex<R> *b, R *c, complex<R> *s)
{
    const R left = length(*a), right = length(*b);
    if (left == 0) {
        *c = 0;
        *s = one<complex<R>>();
        *a = *b;
        return;
    }
    const R norm = hypot(left, right);
    const complex<R> direction = (1 / left) * *a;
    *c = left / norm;
    *s = (1 / norm) * (direction * conjugate(*b));
    *a = norm * direction;
}

/* Meaning of rotm's parameters: x' = h11 x + h12 y, y' = h21 x + h22 y. */
template <class R> struct modified {
    R flag, h11, h21, h12, h22;
};
template <class R> __host__ __device__ modified<R> complete(const R *parameters)
{
    modified<R> h{parameters[0], parameters[1], parameters[2], parameters[3], parameters[4]};
    if (h.flag == -2) {
        h.h11 = h.h22 = 1;
        h.h21 = h.h12 = 0;
    } else if (h.flag == 0) {
        h.h11 = h.h22 = 1;
    } else if (h.flag == 1) {
        h.h12 = 1;
        h.h21 = -1;
    }
    return h;
}

/* Keeps d within [1 / 4096^2, 4096^2], and the row of H that belongs to it as it was. */
template <class R> __host__ __device__ void rescale(R &d, R &first, R &second, R *x)
{
    constexpr R SIDE = 4096, LARGEST = SIDE * SIDE, SMALLEST = 1 / LARGEST;
    while (d != 0 && magnitude(d) <= SMALLEST) {
        d *= LARGEST;
        first /= SIDE;
        second /= SIDE;
        if (x)
            *x /= SIDE;
    }
    while (magnitude(d) >= LARGEST) {
        d /= LARGEST;
        first *= SIDE;
        second *= SIDE;
        if (x)
            *x *= SIDE;
    }
}
/* Whether H has to be written whole after the scaling. */
template <class R> __host__ __device__ bool is_in_range(R d)
{
    constexpr R LARGEST = 4096.0f * 4096.0f;
    return d == 0 || (magnitude(d) > 1 / LARGEST && magnitude(d) < LARGEST);
}

template <class R> __host__ __device__ modified<R> make_modified(R *d1, R *d2, R *x1, R y1)
{
    modified<R> h{-1, 0, 0, 0, 0};
    const R p2 = *d2 * y1, p1 = *d1 * *x1, q2 = p2 * y1, q1 = p1 * *x1;
    if (*d1 < 0) {
        *d1 = *d2 = *x1 = 0;
        return h;
    }
    if (p2 == 0)
        return {-2, 0, 0, 0, 0};
    if (magnitude(q1) > magnitude(q2)) {
        h = {0, 1, -y1 / *x1, p2 / p1, 1};
        const R u = 1 - h.h12 * h.h21;
        *d1 /= u;
        *d2 /= u;
        *x1 *= u;
    } else {
        if (q2 < 0) {
            *d1 = *d2 = *x1 = 0;
            return h;
        }
        h = {1, p1 / p2, -1, 1, *x1 / y1};
        const R u = 1 + h.h11 * h.h22, first = *d2 / u;
        *d2 = *d1 / u;
        *d1 = first;
        *x1 = y1 * u;
    }
    if (!is_in_range(*d1) || !is_in_range(*d2))
        h.flag = -1;
    rescale(*d1, h.h11, h.h12, x1);
    rescale(*d2, h.h21, h.h22, (R *)nullptr);
    return h;
}
/* Writes the parameters that the flag does not imply. */
template <class R> __host__ __device__ void leave(modified<R> h, R *parameters)
{
    parameters[0] = h.flag;
    if (h.flag == -1 || h.flag == 1)
        parameters[1] = h.h11;
    if (h.flag == -1 || h.flag == 0)
        parameters[2] = h.h21;
    if (h.flag == -1 || h.flag == 0)
        parameters[3] = h.h12;
    if (h.flag == -1 || h.flag == 1)
        parameters[4] = h.h22;
}

template <class T, class R> __global__ void rotg(T *a, T *b, R *c, T *s)
{
    make_rotation(a, b, c, s);
}
template <class R> __global__ void rotmg(R *d1, R *d2, R *x1, const R *y1, R *parameters)
{
    leave(make_modified(d1, d2, x1, *y1), parameters);
}
template <class R> __global__ void rotm(i64 n, vector<R> x, vector<R> y, modified<R> given, const R *parameters)
{
    const modified<R> h = parameters ? complete(parameters) : given;
    BLAS_EACH(i, n)
    {
        const R left = x[i], right = y[i];
        x[i] = h.h11 * left + h.h12 * right;
        y[i] = h.h21 * left + h.h22 * right;
    }
}

template <class T, class R> cublasStatus_t do_rotg(cublasHandle_t handle, T *a, T *b, R *c, T *s)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(a && b && c && s);
    if (handle->pointer_mode != CUBLAS_POINTER_MODE_DEVICE) {
        make_rotation(a, b, c, s);
        return CUBLAS_STATUS_SUCCESS;
    }
    rotg<T, R><<<1, 1, 0, handle->stream>>>(a, b, c, s);
    return launched();
}
template <class R>
cublasStatus_t do_rotm(cublasHandle_t handle, i64 n, R *x, i64 incx, R *y, i64 incy, const R *parameters)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(parameters);
    if (n <= 0)
        return CUBLAS_STATUS_SUCCESS;
    const bool on_device = handle->pointer_mode == CUBLAS_POINTER_MODE_DEVICE;
    const modified<R> given = on_device ? modified<R>{} : complete(parameters);
    rotm<R><<<BLAS_GRID(n)>>>(n, vector_of(x, n, incx), vector_of(y, n, incy), given, on_device ? parameters : nullptr);
    return launched();
}
template <class R> cublasStatus_t do_rotmg(cublasHandle_t handle, R *d1, R *d2, R *x1, const R *y1, R *parameters)
{
    BLAS_CHECK_HANDLE(handle);
    BLAS_CHECK(d1 && d2 && x1 && y1 && parameters);
    if (handle->pointer_mode != CUBLAS_POINTER_MODE_DEVICE) {
        leave(make_modified(d1, d2, x1, *y1), parameters);
        return CUBLAS_STATUS_SUCCESS;
    }
    rotmg<R><<<1, 1, 0, handle->stream>>>(d1, d2, x1, y1, parameters);
    return launched();
}

} // namespace

#define BLAS_ROTG(name, T, R)                                                                                          \
    cublasStatus_t cublas##name##_v2(cublasHandle_t h, T *a, T *b, R *c, T *s)                                         \
    {                                                                                                                  \
        return do_rotg(h, in(a), in(b), c, in(s));                                                                     \
    }
#define BLAS_ROTM(S, R, w, I)                                                                                          \
    cublasStatus_t cublas##S##rotm_v2##w(cublasHandle_t h, I n, R *x, I incx, R *y, I incy, const R *parameters)       \
    {                                                                                                                  \
        return do_rotm(h, n, x, incx, y, incy, parameters);                                                            \
    }
#define BLAS_ROTMG(S, R)                                                                                               \
    cublasStatus_t cublas##S##rotmg_v2(cublasHandle_t h, R *d1, R *d2, R *x1, const R *y1, R *parameters)              \
    {                                                                                                                  \
        return do_rotmg(h, d1, d2, x1, y1, parameters);                                                                \
    }
BLAS_ROTG(Srotg, float, float)
BLAS_ROTG(Drotg, double, double)
BLAS_ROTG(Crotg, cuComplex, float)
BLAS_ROTG(Zrotg, cuDoubleComplex, double)
BLAS_ROTM(S, float, , int)
BLAS_ROTM(S, float, _64, int64_t)
BLAS_ROTM(D, double, , int)
BLAS_ROTM(D, double, _64, int64_t)
BLAS_ROTMG(S, float)
BLAS_ROTMG(D, double)
