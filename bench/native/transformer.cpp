// A transformer's block (kernels/transformer_block.cu) in plain C++, in float and bfloat16. Built with -O3
// -march=native.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "team.h"

namespace
{

constexpr unsigned WIDTH = 128, HEAD = 32, TOKENS = 128;

float load(float value)
{
    return value;
}

float load(uint16_t bits)
{
    return std::bit_cast<float>(uint32_t(bits) << 16);
}

void store(float *to, float value)
{
    *to = value;
}

void store(uint16_t *to, float value)
{
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    *to = uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class Real> struct Model {
    const Real *in, *gain, *to_qkv, *to_out, *to_hidden, *from_hidden;
    Real *normal, *qkv, *attended, *middle, *hidden, *out;
};

template <class Real> void normalise(Member &member, const Real *in, const Real *gain, Real *out)
{
    member.each(0, TOKENS, [&](uint64_t token) {
        float value[WIDTH], mean = 0.0f, variance = 0.0f;
        for (unsigned i = 0; i < WIDTH; i++) {
            value[i] = load(in[token * WIDTH + i]);
            mean += value[i] / WIDTH;
        }
        for (float &each : value) {
            each -= mean;
            variance += each * each / WIDTH;
        }
        const float scale = 1.0f / std::sqrt(variance + 1e-5f);
        for (unsigned i = 0; i < WIDTH; i++) {
            store(&out[token * WIDTH + i], value[i] * scale * load(gain[i]));
        }
    });
}

// Computes whole rows, 4 at a time, with the innermost loop along them.
template <class Real>
void linear(Member &member, unsigned inner, unsigned columns, const Real *in, const Real *weights, const Real *residual,
            bool rectify, Real *out)
{
    constexpr unsigned ROWS = 4, SPAN = 128;
    member.each(0, TOKENS / ROWS, [&](uint64_t group) {
        const uint64_t row = group * ROWS;
        for (unsigned at = 0; at < columns; at += SPAN) {
            float sums[ROWS][SPAN] = {};
            for (unsigned k = 0; k < inner; k++) {
                const Real *weight = weights + k * columns + at;
                for (unsigned r = 0; r < ROWS; r++) {
                    const float factor = load(in[(row + r) * inner + k]);
                    for (unsigned column = 0; column < SPAN; column++) {
                        sums[r][column] += factor * load(weight[column]);
                    }
                }
            }
            for (unsigned r = 0; r < ROWS; r++) {
                for (unsigned column = 0; column < SPAN; column++) {
                    const uint64_t i = (row + r) * columns + at + column;
                    float sum = sums[r][column] + (residual == nullptr ? 0.0f : load(residual[i]));
                    store(&out[i], rectify ? std::max(sum, 0.0f) : sum);
                }
            }
        }
    });
}

template <class Real> void attend(Member &member, const Real *qkv, Real *out)
{
    member.each(0, TOKENS * (WIDTH / HEAD), [&](uint64_t work) {
        const uint64_t token = work % TOKENS, head = work / TOKENS * HEAD;
        float weights[TOKENS], sums[HEAD] = {}, total = 0.0f;
        for (unsigned other = 0; other < TOKENS; other++) {
            const Real *query = qkv + token * 3 * WIDTH + head, *key = qkv + other * 3 * WIDTH + WIDTH + head;
            float score = 0.0f;
            for (unsigned k = 0; k < HEAD; k++) {
                score += load(query[k]) * load(key[k]);
            }
            weights[other] = std::exp(score * 0.17677669f);
            total += weights[other];
        }
        for (unsigned other = 0; other < TOKENS; other++) {
            const Real *value = qkv + other * 3 * WIDTH + 2 * WIDTH + head;
            for (unsigned k = 0; k < HEAD; k++) {
                sums[k] += weights[other] * load(value[k]);
            }
        }
        for (unsigned k = 0; k < HEAD; k++) {
            store(&out[token * WIDTH + head + k], sums[k] / total);
        }
    });
}

template <class Real> void run(const Model<Real> &model, unsigned threads)
{
    const Real *none = nullptr;
    team(threads, [&](Member &member) {
        normalise(member, model.in, model.gain, model.normal);
        linear(member, WIDTH, 3 * WIDTH, model.normal, model.to_qkv, none, false, model.qkv);
        attend(member, model.qkv, model.attended);
        linear(member, WIDTH, WIDTH, model.attended, model.to_out, model.in, false, model.middle);
        normalise(member, model.middle, model.gain, model.normal);
        linear(member, WIDTH, 4 * WIDTH, model.normal, model.to_hidden, none, true, model.hidden);
        linear(member, 4 * WIDTH, WIDTH, model.hidden, model.from_hidden, static_cast<const Real *>(model.middle),
               false, model.out);
    });
}

} // namespace

extern "C" {

void base_transformer_block(const float *in, const float *gain, const float *to_qkv, const float *to_out,
                            const float *to_hidden, const float *from_hidden, float *normal, float *qkv,
                            float *attended, float *middle, float *hidden, float *out, unsigned threads)
{
    run(Model<float>{in, gain, to_qkv, to_out, to_hidden, from_hidden, normal, qkv, attended, middle, hidden, out},
        threads);
}

void base_transformer_block_bf16(const uint16_t *in, const uint16_t *gain, const uint16_t *to_qkv,
                                 const uint16_t *to_out, const uint16_t *to_hidden, const uint16_t *from_hidden,
                                 uint16_t *normal, uint16_t *qkv, uint16_t *attended, uint16_t *middle,
                                 uint16_t *hidden, uint16_t *out, unsigned threads)
{
    run(Model<uint16_t>{in, gain, to_qkv, to_out, to_hidden, from_hidden, normal, qkv, attended, middle, hidden, out},
        threads);
}
}
