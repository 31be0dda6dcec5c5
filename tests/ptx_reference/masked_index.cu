// A kernel that was compiled wrong: see test_three_ways.py.
#define BITS(x) ((x) != (x) ? 0x7fffffffu : __float_as_uint(x))
#define LONG_BITS(x) ((x) != (x) ? 0x7fffffffffffffffull : (unsigned long long)__double_as_longlong(x))
__constant__ unsigned table[16] = {1,           0xffffffffu, 3, 0x80000000u, 5,  0x7fffffffu, 70, 8,
                                   0x12345678u, 1000,        0, 255,         12, 65536,       14, 15};
static __device__ __noinline__ unsigned mix(unsigned a, int b, float c)
{
    return a * 31u ^ (unsigned)(b >> 3) ^ BITS(c * 0.5f);
}
static __device__ __noinline__ double blend(double a, unsigned long long b)
{
    return a * 0.75 + (double)b;
}
static __device__ __noinline__ unsigned steps(unsigned n)
{
    return n < 2u ? n : steps(n / 2u) + (n & 1u);
}
extern "C" __global__ void k24(const unsigned *in, unsigned *out, unsigned n)
{
    __shared__ unsigned shared[64];
    unsigned t = threadIdx.x, local[4] = {t, 1u, n, 3u};
    unsigned *cells = out + gridDim.x * 384u;
    in += blockIdx.x * 16u;
    unsigned u0 = (unsigned)in[(t * 3u + 117u) % 256u];
    unsigned u1 = (unsigned)in[(t * 5u + 117u) % 256u];
    unsigned u2 = (unsigned)in[(t * 7u + 117u) % 256u];
    int i0 = (int)in[(t * 3u + 105u) % 256u];
    int i1 = (int)in[(t * 5u + 105u) % 256u];
    int i2 = (int)in[(t * 7u + 105u) % 256u];
    long long l0 = (long long)(((unsigned long long)in[(t * 3u + 108u) % 256u] << 32) | in[(t * 3u + 108u) % 256u]);
    long long l1 = (long long)(((unsigned long long)in[(t * 5u + 108u) % 256u] << 32) | in[(t * 5u + 108u) % 256u]);
    unsigned long long q0 = (unsigned long long)in[(t * 3u + 113u) % 256u] * in[(t * 3u + 113u) % 256u];
    unsigned long long q1 = (unsigned long long)in[(t * 5u + 113u) % 256u] * in[(t * 5u + 113u) % 256u];
    float f0 = __uint_as_float(in[(t * 3u + 102u) % 256u]);
    float f1 = __uint_as_float(in[(t * 5u + 102u) % 256u]);
    float f2 = __uint_as_float(in[(t * 7u + 102u) % 256u]);
    double d0 = __longlong_as_double((long long)(((unsigned long long)in[(t * 3u + 100u) % 256u] << 32) | t));
    double d1 = __longlong_as_double((long long)(((unsigned long long)in[(t * 5u + 100u) % 256u] << 32) | t));
    unsigned short h0 = (unsigned short)in[(t * 3u + 104u) % 256u];
    unsigned short h1 = (unsigned short)in[(t * 5u + 104u) % 256u];
    signed char c0 = (signed char)in[(t * 3u + 99u) % 256u];
    signed char c1 = (signed char)in[(t * 5u + 99u) % 256u];
    switch (((((long long)i1) != ((long long)q1)) ? u2 : ((u2 <= u0) ? u2 : (local[u1 & 3u]))) % 7u) {
    case 1:
        f1 = fminf(fabsf(f0), f0) + 0.0f;
        break;
    }
    __syncthreads();
    shared[t] = (~(steps(u2 & 255u)));
    __syncthreads();
    u2 = shared[(t + 52u) % 64u];
    for (unsigned k0 = 0, most = t % 5u; k0 < most; k0++) {
        i1 = min((__float2int_ru(1e-42f)), (abs((int)((mix(u0, i1, f1)) >> 1))));
        u1 = __dp4a(__vadd4(u2, ((i0 > i2) ? u0 : u2)), (u2 >> ((__float2uint_rn(f0)) & 31u)),
                    __vadd4(u2, ((i0 > i2) ? u0 : u2)));
    }
    out[(blockIdx.x * 64u + t) * 6u + 0u] = u0 ^ h0;
    out[(blockIdx.x * 64u + t) * 6u + 1u] = u1 + u2;
    out[(blockIdx.x * 64u + t) * 6u + 2u] = (unsigned)(i0 ^ i1 ^ i2 ^ c0 ^ c1);
    out[(blockIdx.x * 64u + t) * 6u + 3u] = (unsigned)(q0 ^ (q1 >> 32)) ^ (unsigned)(l0 ^ (l1 >> 32)) ^ h1;
    out[(blockIdx.x * 64u + t) * 6u + 4u] = BITS(f0) ^ BITS(f1) * 3u ^ BITS(f2) * 5u;
    out[(blockIdx.x * 64u + t) * 6u + 5u] = (unsigned)(LONG_BITS(d0) >> 32) ^ (unsigned)LONG_BITS(d1);
}
