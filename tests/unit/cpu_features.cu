// clang-format off: a kernel in a line or two is read at a glance
// One kernel per feature of the language; tests/unit/test_cpu_engine.py launches them and checks what they compute.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

#define EXPORT extern "C" __global__ void
#define INDEX (blockIdx.x * blockDim.x + threadIdx.x)

// ---- position, parameters, templates --------------------------------------------------------------------------

EXPORT saxpy(int n, float a, const float *x, float *y) {
    int i = INDEX;
    if (i < n) y[i] = a * x[i] + y[i];
}

EXPORT positions(unsigned *out) {
    unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block << 16 | threadIdx.z << 12 | threadIdx.y << 8 | threadIdx.x;
}

EXPORT shadowed_names(unsigned *out) {
    dim3 gridDim(7, 8, 9);
    uint3 copy = threadIdx;
    out[copy.x] = gridDim.x * 100 + gridDim.y * 10 + gridDim.z + copy.x;
}

struct Pair { float a, b, c; };
struct Big { double d[5]; char c; };
struct Empty {};
struct NonTrivial { int v; __device__ NonTrivial(const NonTrivial &o) : v(o.v) {} };
enum Colour : unsigned char { RED = 3 };
EXPORT struct_params(char c, Pair p, Empty, float4 q, Big b, bool flag, NonTrivial n, Colour e, double *out) {
    b.d[0] += threadIdx.x; // a thread's own copy
    double values[] = {double(c), p.a, p.b, p.c, q.x, q.w, b.d[0], b.d[4], double(b.c), double(flag), double(n.v), double(e)};
    for (int i = 0; i < 12; i++) out[threadIdx.x * 12 + i] = values[i];
}

template <class T, int N> __global__ void scale(T *x) { x[INDEX] *= N; }
template __global__ void scale<float, 3>(float *);
template <class T> struct Square { __device__ T operator()(T x) const { return x * x; } };
template <class T, class F> __global__ void apply(T *x, F f) { x[INDEX] = f(x[INDEX]); }
template __global__ void apply<int, Square<int>>(int *, Square<int>);

__global__ void __launch_bounds__(128, 2) bounded(int *out) { out[INDEX] = 1; }

// ---- memory spaces --------------------------------------------------------------------------------------------

__constant__ float coefficients[4] = {1, 2, 3, 4};
__device__ int counter = 5;
static __device__ int hidden = 6;
EXPORT variables(float *out) {
    out[threadIdx.x] = coefficients[threadIdx.x % 4] + hidden;
    if (threadIdx.x == 0) atomicAdd(&counter, 10);
}

EXPORT reverse_static(int *x) {
    __shared__ int tile[256];
    tile[threadIdx.x] = x[INDEX];
    __syncthreads();
    x[INDEX] = tile[blockDim.x - 1 - threadIdx.x];
}

EXPORT reverse_dynamic(int *x) {
    extern __shared__ int tile_dynamic[];
    __shared__ int first;
    if (threadIdx.x == 0) first = x[INDEX];
    tile_dynamic[threadIdx.x] = x[INDEX];
    __syncthreads();
    x[INDEX] = tile_dynamic[blockDim.x - 1 - threadIdx.x] + 1000 * first;
}

__device__ int *shared_counter() { __shared__ int cell; return &cell; }
EXPORT shared_in_function(int *out) {
    if (threadIdx.x == 0) *shared_counter() = 0;
    __syncthreads();
    atomicAdd(shared_counter(), 1);
    __syncthreads();
    out[INDEX] = *shared_counter();
}

EXPORT local_array(const int *in, int *out, int rounds) {
    int mine[16];
    __shared__ int any;
    for (int i = 0; i < 16; i++) mine[i] = in[threadIdx.x] + i;
    for (int round = 0; round < rounds; round++) {
        any = 0;
        __syncthreads();
        mine[(in[threadIdx.x] + round) % 16] += 100;
        __syncthreads();
    }
    int sum = any;
    for (int i = 0; i < 16; i++) sum += mine[i] * (i + 1);
    out[threadIdx.x] = sum;
}

// ---- barriers -------------------------------------------------------------------------------------------------

EXPORT scan(int *x) { // Hillis-Steele: a barrier in a loop
    __shared__ int buffer[2][1024];
    int in = 0, t = threadIdx.x;
    buffer[0][t] = x[t];
    __syncthreads();
    for (int d = 1; d < blockDim.x; d *= 2) {
        buffer[1 - in][t] = buffer[in][t] + (t >= d ? buffer[in][t - d] : 0);
        in = 1 - in;
        __syncthreads();
    }
    x[t] = buffer[in][t];
}

EXPORT early_exit(int *x, int n) {
    if (INDEX >= n) return;
    __shared__ int tile[256];
    tile[threadIdx.x] = x[INDEX];
    __syncthreads();
    x[INDEX] = tile[threadIdx.x ^ 1] * 2;
}

EXPORT scattered_exit(int *x) {
    __shared__ int sum;
    if (threadIdx.x == 1) sum = 0;
    __syncthreads();
    if (threadIdx.x % 3 == 0) return;
    atomicAdd(&sum, 1);
    __syncthreads();
    x[threadIdx.x] = sum;
}

EXPORT barrier_votes(const int *x, int *out) {
    int p = x[threadIdx.x];
    int count = __syncthreads_count(p), all = __syncthreads_and(p), any = __syncthreads_or(p);
    out[threadIdx.x] = count * 100 + (all != 0) * 10 + (any != 0);
}

EXPORT barrier_in_branches(int *x) { // different barriers meet, as on a GPU
    __shared__ int tile[64];
    tile[threadIdx.x] = threadIdx.x;
    if (threadIdx.x < 32) __syncthreads();
    else __syncthreads();
    x[threadIdx.x] = tile[63 - threadIdx.x];
}

EXPORT matmul(const float *a, const float *b, float *c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float acc = 0;
    for (int m = 0; m < n / 16; m++) {
        as[ty][tx] = a[row * n + m * 16 + tx];
        bs[ty][tx] = b[(m * 16 + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < 16; k++) acc += as[ty][k] * bs[k][tx];
        __syncthreads();
    }
    c[row * n + col] = acc;
}

EXPORT nbody(const float4 *p, float4 *acc, int n) {
    __shared__ float4 tile[64];
    float4 me = p[INDEX];
    float ax = 0, ay = 0, az = 0;
    for (int t = 0; t < n; t += 64) {
        tile[threadIdx.x] = p[t + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 64; j++) {
            float dx = tile[j].x - me.x, dy = tile[j].y - me.y, dz = tile[j].z - me.z;
            float inv = rsqrtf(dx * dx + dy * dy + dz * dz + 1e-3f), s = tile[j].w * inv * inv * inv;
            ax += dx * s; ay += dy * s; az += dz * s;
        }
        __syncthreads();
    }
    acc[INDEX] = make_float4(ax, ay, az, 0);
}

// loops whose trip count is the same for all threads, depends on the thread, or ends early
EXPORT uniform_loop(const float *x, float *out, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) sum += x[k] * (INDEX + 1);
    out[INDEX] = sum;
}
EXPORT varying_loop(int *out) {
    int sum = 0;
    for (int k = 0; k <= (int)threadIdx.x; k++) sum += k;
    out[INDEX] = sum;
}
EXPORT breaking_loop(const int *x, int *out, int n) {
    int k = 0;
    while (k < n) { if (x[k] == (int)INDEX) break; k++; }
    out[INDEX] = k;
}
EXPORT nested_loops(float *out, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++)
        for (int j = i; j < n; j++) sum += i * 3 + j + threadIdx.x;
    out[INDEX] = sum;
}
EXPORT loop_over_own_memory(int *x, int n) { // iterations depend on memory that the thread itself writes
    int *mine = x + INDEX * n;
    for (int k = 1; k < n; k++) mine[k] += mine[k - 1];
}
EXPORT left_neighbours(const int *x, int *out, int n) { // an unsigned index that wraps in thread 0
    int sum = 0;
    for (int k = 0; k < n; k++)
        if (threadIdx.x > 0) sum += x[threadIdx.x - 1] * k;
    out[INDEX] = sum;
}
EXPORT wild_in_loop(int *x, int who) {
    for (int k = 0; k < 4; k++) x[INDEX == who && k == 2 ? 1 << 28 : INDEX] += k;
}
EXPORT grid_stride(const float *x, float *y, int n) {
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) y[i] = 2 * x[i];
}

// ---- warps ----------------------------------------------------------------------------------------------------

EXPORT shuffles(int *out) {
    int lane = threadIdx.x % 32, v = threadIdx.x * 10, *mine = out + threadIdx.x * 8;
    mine[0] = __shfl_sync(~0u, v, 5);
    mine[1] = __shfl_up_sync(~0u, v, 3);
    mine[2] = __shfl_down_sync(~0u, v, 3);
    mine[3] = __shfl_xor_sync(~0u, v, 7);
    mine[4] = __shfl_sync(~0u, v, lane + 1, 8);
    mine[5] = __shfl_up_sync(~0u, v, 1, 4);
    mine[6] = __shfl_down_sync(~0u, v, 1, 4);
    mine[7] = (int)(__shfl_xor_sync(~0u, (double)v + 0.5, 16) * 2);
}

EXPORT warp_reduce(const float *x, float *out) {
    float v = x[INDEX];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) out[INDEX / 32] = v;
}

EXPORT block_reduce(const float *x, float *out, int n) {
    __shared__ float part[32];
    float v = 0;
    for (int i = INDEX; i < n; i += gridDim.x * blockDim.x) v += x[i];
    for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    if (threadIdx.x < 32) { // one warp goes on alone
        v = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1) v += __shfl_down_sync(~0u, v, o);
        if (threadIdx.x == 0) out[blockIdx.x] = v;
    }
}

EXPORT votes(const int *x, unsigned *out) {
    int p = x[threadIdx.x];
    unsigned *mine = out + threadIdx.x * 6;
    mine[0] = __ballot_sync(~0u, p);
    mine[1] = __any_sync(~0u, p);
    mine[2] = __all_sync(~0u, p);
    mine[3] = __match_any_sync(~0u, threadIdx.x % 3);
    int agreed;
    mine[4] = __match_all_sync(~0u, p, &agreed);
    mine[5] = agreed;
}

EXPORT masked_shuffle(int *out) { // halves of a warp in different branches
    int v = threadIdx.x;
    if (threadIdx.x % 2 == 0) v += __shfl_xor_sync(0x55555555u, v, 2);
    else v += 1000 + __shfl_xor_sync(0xaaaaaaaau, v, 4);
    __syncwarp();
    out[threadIdx.x] = v;
}

EXPORT active_lanes(unsigned *out) {
    unsigned all = __activemask(), some = 0;
    if (threadIdx.x % 4 == 1) some = __activemask();
    out[threadIdx.x * 2] = all;
    out[threadIdx.x * 2 + 1] = some;
}

EXPORT warp_sums(int *out) {
    out[threadIdx.x * 3] = __reduce_add_sync(~0u, (int)threadIdx.x);
    out[threadIdx.x * 3 + 1] = __reduce_max_sync(~0u, (int)threadIdx.x);
    out[threadIdx.x * 3 + 2] = (int)__reduce_xor_sync(~0u, threadIdx.x);
}

EXPORT tiles(int *out) {
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    int sum = cg::reduce(tile, (int)threadIdx.x, cg::plus<int>());
    block.sync();
    out[block.thread_rank()] = sum * 100 + tile.thread_rank();
}

// ---- atomics --------------------------------------------------------------------------------------------------

EXPORT atomics(int *i, unsigned *u, unsigned long long *l, float *f, double *d) {
    unsigned t = INDEX;
    atomicAdd(&i[0], 1); atomicSub(&i[1], 1); atomicMin(&i[2], -(int)t); atomicMax(&i[3], (int)t);
    atomicAdd_block(&i[4], 2); atomicAdd_system(&i[5], 3);
    atomicAnd(&u[0], ~(1u << t % 32)); atomicOr(&u[1], 1u << t % 32); atomicXor(&u[2], t);
    atomicInc(&u[3], 9); atomicDec(&u[4], 9);
    unsigned old, seen = u[5];
    do { old = seen; seen = atomicCAS(&u[5], old, old + 2); } while (seen != old);
    atomicAdd(&l[0], 1ull << 33); atomicMax(&l[1], (unsigned long long)t << 32); atomicExch(&l[2], 77ull);
    atomicAdd(&f[0], 0.5f); atomicAdd(&d[0], 0.25);
}

EXPORT last_block(const int *x, int *out, unsigned *done) { // threadfence reduction
    __shared__ bool last;
    __shared__ int sum;
    if (threadIdx.x == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, x[INDEX]);
    __syncthreads();
    if (threadIdx.x == 0) {
        out[1 + blockIdx.x] = sum;
        __threadfence();
        last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int b = 0; b < gridDim.x; b++) total += out[1 + b];
        out[0] = total;
    }
}

// ---- math -----------------------------------------------------------------------------------------------------

EXPORT math(const float *x, float *out, int n) {
    int i = INDEX;
    if (i >= n) return;
    float v = x[i], s, c;
    sincosf(v, &s, &c);
    float r[] = {sinf(v), cosf(v), expf(v), logf(v), sqrtf(v), rsqrtf(v), powf(v, 1.5f), atan2f(v, 2), tanhf(v), fminf(v, 1),
                 floorf(v), s + c, erff(v), exp2f(v), cbrtf(v), fmodf(v, 0.3f), __saturatef(v), fmaf(v, v, 1), hypotf(v, 1), log1pf(v)};
    for (int k = 0; k < 20; k++) out[k * n + i] = r[k];
}
EXPORT math_double(const double *x, double *out, int n) {
    int i = INDEX;
    double v = x[i];
    double r[] = {sin(v), exp(v), log(v), sqrt(v), pow(v, 2.5), atan(v), erf(v), tgamma(v), cbrt(v), fmod(v, 0.3)};
    for (int k = 0; k < 10; k++) out[k * n + i] = r[k];
}

EXPORT integers(unsigned long long *out) {
    unsigned x = 0x12345678u + threadIdx.x, y = 0x9abcdef0u;
    unsigned long long r[] = {(unsigned long long)__popc(x), (unsigned long long)__clz((int)x), (unsigned long long)__ffs((int)x),
        __brev(x), __umulhi(x, y), (unsigned)__mulhi((int)x, (int)y), __byte_perm(x, y, 0x2165), __funnelshift_l(x, y, 8),
        __umul24(x, y), __usad(x, y, 1), __umul64hi(0x123456789abcdefull, 0xfedcba987654321ull), (unsigned)min((int)x, -5),
        max(x, y), (unsigned)abs(-7)};
    for (int k = 0; k < 14; k++) out[threadIdx.x * 14 + k] = r[k];
}

EXPORT conversions(const float *x, int *out, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    out[i] = (int)x[i]; out[n + i] = (int)(unsigned)x[i]; out[2 * n + i] = __float2int_rn(x[i]);
    out[3 * n + i] = __float2int_rd(x[i]); out[4 * n + i] = __float2int_ru(x[i]); out[5 * n + i] = __float_as_int(x[i]);
}

EXPORT rounding(const float *a, const float *b, float *out, int n) {
    int i = INDEX;
    if (i >= n) return;
    out[i] = __fadd_rd(a[i], b[i]); out[n + i] = __fadd_ru(a[i], b[i]); out[2 * n + i] = __fmul_rd(a[i], b[i]);
    out[3 * n + i] = __fmul_ru(a[i], b[i]); out[4 * n + i] = __fdiv_rd(a[i], b[i]); out[5 * n + i] = __fdiv_ru(a[i], b[i]);
    out[6 * n + i] = __fsqrt_rd(fabsf(a[i])); out[7 * n + i] = __fsqrt_ru(fabsf(a[i]));
    out[8 * n + i] = __fadd_rz(a[i], b[i]); out[9 * n + i] = __fmaf_rd(a[i], b[i], 1.0f);
}

EXPORT halves(const half *a, const half *b, half *out, half2 *pairs, float *wide) {
    int i = threadIdx.x, n = blockDim.x;
    out[i] = a[i] + b[i]; out[n + i] = __hmul(a[i], b[i]); out[2 * n + i] = __hfma(a[i], b[i], a[i]);
    out[3 * n + i] = hsqrt(a[i]); out[4 * n + i] = __float2half(__half2float(a[i]) * 3);
    pairs[i] = __hadd2(__halves2half2(a[i], b[i]), __float2half2_rn(1.0f));
    wide[i] = (float)a[i] + (a[i] < b[i]);
}

EXPORT vectors(const float4 *in, float4 *out, const uchar4 *c, int2 *sum) {
    float4 v = in[INDEX];
    out[INDEX] = make_float4(v.w, v.z, v.y, v.x);
    uchar4 p = c[INDEX];
    sum[INDEX] = make_int2(p.x + p.y, p.z - p.w);
}

// ---- the rest -------------------------------------------------------------------------------------------------

EXPORT timers(unsigned long long *out) {
    long long a = clock64();
    unsigned long long g = __globaltimer(), h;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(h));
    unsigned sm, lane;
    asm("mov.u32 %0, %%smid;" : "=r"(sm));
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    out[threadIdx.x * 4] = clock64() >= a;
    out[threadIdx.x * 4 + 1] = h >= g && g > 1500000000000000000ull;
    out[threadIdx.x * 4 + 2] = sm;
    out[threadIdx.x * 4 + 3] = lane;
}

EXPORT prints(int n) {
    if (threadIdx.x < n) printf("thread %d of block %u: %.2f %s\n", threadIdx.x, blockIdx.x, threadIdx.x * 0.5, "ok");
}

EXPORT asserts(int limit) { assert(threadIdx.x < limit); }
EXPORT traps() { if (threadIdx.x == 3) __trap(); }

EXPORT x86_assembly(unsigned long long *out) {
    unsigned long long r = threadIdx.x;
    asm volatile("addq $41, %0" : "+r"(r));
    out[threadIdx.x] = r;
}

__device__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
EXPORT recursion(int *out) { out[INDEX] = fibonacci(threadIdx.x); }
__device__ int deep(int n) { volatile int pad[64]; pad[n % 64] = n; return deep(n + 1) + pad[(n + 1) % 64]; }
EXPORT overflow(int *out) { out[0] = deep(threadIdx.x); }

struct Shape { __device__ virtual int area(int x) const = 0; };
struct Box : Shape { __device__ int area(int x) const override { return x * x; } };
struct Line : Shape { __device__ int area(int x) const override { return (int)threadIdx.x - x; } };
EXPORT virtual_call(int *out, int which) {
    Box box; Line line;
    const Shape *shape = which ? (const Shape *)&box : &line;
    out[threadIdx.x] = shape->area(threadIdx.x + 2);
}
__device__ int twice(int x) { return 2 * x; }
__device__ int shift(int x) { return x + (int)threadIdx.x; }
__device__ int (*functions[])(int) = {twice, shift};
EXPORT function_pointer(int *out) { out[threadIdx.x] = functions[threadIdx.x % 2](threadIdx.x); }

EXPORT deadlock(int *out) {
    if (threadIdx.x < 16) out[threadIdx.x] = __shfl_sync(~0u, 1, 0);
    else __syncthreads();
}
EXPORT out_of_bounds(int *x, int who) { x[INDEX == who ? 1 << 28 : INDEX] = 1; }
EXPORT just_past(int *x, int n) { x[INDEX] = n; }
EXPORT page_before(int *x, int n) { x[(int)INDEX - n] = 1; }
EXPORT divide(int *x, int by) { // the processor's instruction: C's division by zero is no fault
    int quotient = 7, rest = 0;
    asm("idivl %2" : "+a"(quotient), "+d"(rest) : "r"(by - (int)threadIdx.x));
    x[INDEX] = quotient;
}
EXPORT forever(int *x) { while (atomicAdd(x, 0) == 0) { } }
EXPORT illegal() { if (threadIdx.x == 2) asm volatile("ud2"); }
EXPORT shared_overrun() { __shared__ volatile int s[4]; s[threadIdx.x * 4096] = 1; }
