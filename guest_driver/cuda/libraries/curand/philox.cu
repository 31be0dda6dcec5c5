// Philox draws four integers at once.
#include "pseudo.h"

namespace vgc_rand
{
namespace
{
inline unsigned group_of_blocks(int shape)
{
    return shape == UNIFORM_DOUBLE || shape == NORMAL_DOUBLE || shape == LOG_NORMAL_DOUBLE ? 2 : 4;
}

__device__ void put_four(const Draw &draw, size_t at, float4 x)
{
    put(draw, at, x.x);
    put(draw, at + 1, x.y);
    put(draw, at + 2, x.z);
    put(draw, at + 3, x.w);
}
template <> __device__ void group_at(const Draw &draw, curandStatePhilox4_32_10_t *state, size_t at)
{
    const float mean = (float)draw.mean, deviation = (float)draw.deviation;
    if (draw.shape == BITS || draw.shape == POISSON || draw.shape == DISCRETE) {
        const uint4 x = draw.shape == BITS      ? curand4(state)
                        : draw.shape == POISSON ? curand_poisson4(state, draw.mean)
                                                : curand_discrete4(state, draw.distribution);
        put(draw, at, x.x);
        put(draw, at + 1, x.y);
        put(draw, at + 2, x.z);
        put(draw, at + 3, x.w);
    } else if (draw.shape == UNIFORM)
        put_four(draw, at, curand_uniform4(state));
    else if (draw.shape == NORMAL || draw.shape == LOG_NORMAL) {
        float4 x = curand_normal4(state);
        x = make_float4(mean + deviation * x.x, mean + deviation * x.y, mean + deviation * x.z, mean + deviation * x.w);
        put_four(draw, at, draw.shape == NORMAL ? x : make_float4(expf(x.x), expf(x.y), expf(x.z), expf(x.w)));
    } else {
        const bool uniform = draw.shape == UNIFORM_DOUBLE;
        double2 x = uniform ? curand_uniform2_double(state) : curand_normal2_double(state);
        if (!uniform)
            x = make_double2(draw.mean + draw.deviation * x.x, draw.mean + draw.deviation * x.y);
        put(draw, at, draw.shape == LOG_NORMAL_DOUBLE ? exp(x.x) : x.x);
        put(draw, at + 1, draw.shape == LOG_NORMAL_DOUBLE ? exp(x.y) : x.y);
    }
}
template <>
__device__ void start_stream(curandStatePhilox4_32_10_t *states, unsigned streams, unsigned long long seed,
                             unsigned long long offset)
{
    const unsigned s = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned long long blocks = offset / 4;
    if (s < streams)
        curand_init(seed, s, 4 * (blocks / streams + (s < blocks % streams)), &states[s]);
}
} // namespace
} // namespace vgc_rand

VGC_RAND_FAMILY(philox, curandStatePhilox4_32_10_t, 65536, 65536, group_of_blocks)
