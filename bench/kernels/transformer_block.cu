/* A transformer's block: normalisation, attention of several heads, normalisation, two linear layers; with residuals.
 * Activations and weights are bfloat16 if BF16 is defined; sums are floats. */
#ifdef BF16
#include <cuda_bf16.h>
typedef __nv_bfloat16 real;
#define LOAD(value) __bfloat162float(value)
#define STORE(value) __float2bfloat16(value)
#else
typedef float real;
#define LOAD(value) (value)
#define STORE(value) (value)
#endif

constexpr unsigned WIDTH = 128; /* of a token */
constexpr unsigned HEAD = 32;   /* of a token in one head */
constexpr unsigned TOKENS = 128;
constexpr unsigned TILE = 16;

/* Sum over the threads of a block, for all of them. */
__device__ float block_sum(float *parts, unsigned threads, float value)
{
    unsigned thread = threadIdx.x;
    parts[thread] = value;
    __syncthreads();
    for (unsigned half = threads / 2; half > 0; half /= 2) {
        if (thread < half)
            parts[thread] += parts[thread + half];
        __syncthreads();
    }
    float sum = parts[0];
    __syncthreads();
    return sum;
}

/* Mean 0 and variance 1 for each token: a block per token, a thread per element. */
extern "C" __global__ void __launch_bounds__(WIDTH)
    normalise(const real *__restrict__ in, const real *__restrict__ gain, real *__restrict__ out)
{
    __shared__ float parts[WIDTH];
    unsigned i = blockIdx.x * WIDTH + threadIdx.x;
    float value = LOAD(in[i]);
    float centred = value - block_sum(parts, WIDTH, value) / WIDTH;
    float variance = block_sum(parts, WIDTH, centred * centred) / WIDTH;
    out[i] = STORE(centred / sqrtf(variance + 1e-5f) * LOAD(gain[threadIdx.x]));
}

/* out = in * weights, through tiles in shared memory; `rectify` replaces negative elements by 0, `residual` is added
 * unless it is null. */
extern "C" __global__ void __launch_bounds__(TILE *TILE)
    linear(unsigned inner, unsigned columns, const real *__restrict__ in, const real *__restrict__ weights,
           const real *__restrict__ residual, unsigned adds, unsigned rectify, real *__restrict__ out)
{
    __shared__ float tile_in[TILE][TILE];
    __shared__ float tile_weights[TILE][TILE];
    unsigned x = threadIdx.x, y = threadIdx.y;
    unsigned column = blockIdx.x * TILE + x, row = blockIdx.y * TILE + y;
    float sum = 0.0f;
    for (unsigned tile = 0; tile < inner; tile += TILE) {
        tile_in[y][x] = LOAD(in[row * inner + tile + x]);
        tile_weights[y][x] = LOAD(weights[(tile + y) * columns + column]);
        __syncthreads();
        for (unsigned k = 0; k < TILE; k++)
            sum += tile_in[y][k] * tile_weights[k][x];
        __syncthreads();
    }
    if (adds)
        sum += LOAD(residual[row * columns + column]);
    if (rectify)
        sum = fmaxf(sum, 0.0f);
    out[row * columns + column] = STORE(sum);
}

/* Attention: a block per token and head, a thread per token that is attended to. A row of qkv has the queries, keys and
 * values of all heads of a token. */
extern "C" __global__ void __launch_bounds__(TOKENS) attention(const real *__restrict__ qkv, real *__restrict__ out)
{
    __shared__ float parts[TOKENS];
    __shared__ float weights[TOKENS];
    unsigned thread = threadIdx.x, token = blockIdx.x, head = blockIdx.y * HEAD;
    float score = 0.0f;
    for (unsigned k = 0; k < HEAD; k++)
        score += LOAD(qkv[token * 3 * WIDTH + head + k]) * LOAD(qkv[thread * 3 * WIDTH + WIDTH + head + k]);
    float weight = expf(score * 0.17677669f);
    weights[thread] = weight;
    float total = block_sum(parts, TOKENS, weight);
    if (thread < HEAD) {
        float sum = 0.0f;
        for (unsigned other = 0; other < TOKENS; other++)
            sum += weights[other] * LOAD(qkv[other * 3 * WIDTH + 2 * WIDTH + head + thread]);
        out[token * WIDTH + head + thread] = STORE(sum / total);
    }
}
