/* A transformer's block: normalisation, attention of several heads, normalisation, two linear layers; with residuals.
 * Activations and weights are bfloat16 if BF16 is defined; sums are floats. */
#ifdef BF16
typedef ushort real;
#define LOAD(value) as_float((uint)(value) << 16)
#define STORE(value) rounded(value)

/* The nearest bfloat16 to a number, as bits. */
ushort rounded(float value)
{
    uint bits = as_uint(value);
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
#else
typedef float real;
#define LOAD(value) (value)
#define STORE(value) (value)
#endif

#define WIDTH 128 /* of a token */
#define HEAD 32   /* of a token in one head */
#define TOKENS 128
#define TILE 16

/* Sum over the items of a group, for all of them. */
float group_sum(__local float *parts, uint items, float value)
{
    uint thread = get_local_id(0);
    parts[thread] = value;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint near = items / 2; near > 0; near /= 2) {
        if (thread < near)
            parts[thread] += parts[thread + near];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    float sum = parts[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    return sum;
}

/* Mean 0 and variance 1 for each token: a group per token, an item per element. */
__kernel __attribute__((reqd_work_group_size(WIDTH, 1, 1)))
void normalise(__global const real *restrict in, __global const real *restrict gain, __global real *restrict out)
{
    __local float parts[WIDTH];
    uint i = get_group_id(0) * WIDTH + get_local_id(0);
    float value = LOAD(in[i]);
    float centred = value - group_sum(parts, WIDTH, value) / WIDTH;
    float variance = group_sum(parts, WIDTH, centred * centred) / WIDTH;
    out[i] = STORE(centred / sqrt(variance + 1e-5f) * LOAD(gain[get_local_id(0)]));
}

/* out = in * weights, through tiles in local memory; `rectify` replaces negative elements by 0, `residual` is added
 * unless it is null. */
__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))
void linear(uint inner, uint columns, __global const real *restrict in, __global const real *restrict weights,
            __global const real *restrict residual, uint adds, uint rectify, __global real *restrict out)
{
    __local float tile_in[TILE][TILE];
    __local float tile_weights[TILE][TILE];
    uint x = get_local_id(0), y = get_local_id(1);
    uint column = get_group_id(0) * TILE + x, row = get_group_id(1) * TILE + y;
    float sum = 0.0f;
    for (uint tile = 0; tile < inner; tile += TILE) {
        tile_in[y][x] = LOAD(in[row * inner + tile + x]);
        tile_weights[y][x] = LOAD(weights[(tile + y) * columns + column]);
        barrier(CLK_LOCAL_MEM_FENCE);
        for (uint k = 0; k < TILE; k++)
            sum += tile_in[y][k] * tile_weights[k][x];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (adds)
        sum += LOAD(residual[row * columns + column]);
    if (rectify)
        sum = fmax(sum, 0.0f);
    out[row * columns + column] = STORE(sum);
}

/* Attention: a group per token and head, an item per token that is attended to. A row of qkv has the queries, keys and
 * values of all heads of a token. */
__kernel __attribute__((reqd_work_group_size(TOKENS, 1, 1)))
void attention(__global const real *restrict qkv, __global real *restrict out)
{
    __local float parts[TOKENS];
    __local float weights[TOKENS];
    uint thread = get_local_id(0), token = get_group_id(0), head = get_group_id(1) * HEAD;
    float score = 0.0f;
    for (uint k = 0; k < HEAD; k++)
        score += LOAD(qkv[token * 3 * WIDTH + head + k]) * LOAD(qkv[thread * 3 * WIDTH + WIDTH + head + k]);
    float weight = exp(score * 0.17677669f);
    weights[thread] = weight;
    float total = group_sum(parts, TOKENS, weight);
    if (thread < HEAD) {
        float sum = 0.0f;
        for (uint other = 0; other < TOKENS; other++)
            sum += weights[other] * LOAD(qkv[other * 3 * WIDTH + 2 * WIDTH + head + thread]);
        out[token * WIDTH + head + thread] = STORE(sum / total);
    }
}
