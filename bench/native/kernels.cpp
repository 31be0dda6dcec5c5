// Kernels of the compute rows (kernels/*.cu) in plain C++, over `threads` threads of equal shares, as a careful
// programmer writes them without intrinsics. Built with -O3 -march=native.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <thread>
#include <vector>

namespace
{

// Calls work(begin, end) on each of `threads` equal parts of [0, count).
template <class Work> void parallel(uint64_t count, unsigned threads, Work work)
{
    std::vector<std::thread> others;
    for (unsigned t = 1; t < threads; t++) {
        others.emplace_back(work, count * t / threads, count * (t + 1) / threads);
    }
    work(uint64_t{0}, count / threads);
    for (auto &other : others) {
        other.join();
    }
}

} // namespace

extern "C" {

void base_saxpy(uint64_t n, float a, const float *x, float *y, unsigned threads)
{
    parallel(n, threads, [=](uint64_t begin, uint64_t end) {
        for (uint64_t i = begin; i < end; i++) {
            y[i] = a * x[i] + y[i];
        }
    });
}

// Computes c = a * b, row-major n x n; the inner loop runs along rows, so it vectorises.
void base_matmul(uint64_t n, const float *a, const float *b, float *c, unsigned threads)
{
    parallel(n, threads, [=](uint64_t begin, uint64_t end) {
        for (uint64_t row = begin; row < end; row++) {
            float *out = c + row * n;
            std::fill(out, out + n, 0.0f);
            for (uint64_t k = 0; k < n; k++) {
                const float factor = a[row * n + k];
                const float *in = b + k * n;
                for (uint64_t col = 0; col < n; col++) {
                    out[col] += factor * in[col];
                }
            }
        }
    });
}

// Computes the sum of x, in 64 running sums per thread so that it vectorises without -ffast-math.
void base_reduce(uint64_t n, const float *x, float *sum, unsigned threads)
{
    constexpr unsigned LANES = 64;
    std::vector<double> parts(threads);
    std::atomic<unsigned> next{0};
    parallel(n, threads, [&](uint64_t begin, uint64_t end) {
        float lanes[LANES] = {};
        uint64_t i = begin;
        for (; i + LANES <= end; i += LANES) {
            for (unsigned lane = 0; lane < LANES; lane++) {
                lanes[lane] += x[i + lane];
            }
        }
        double total = 0;
        for (; i < end; i++) {
            total += x[i];
        }
        for (float lane : lanes) {
            total += lane;
        }
        parts[next++] = total;
    });
    double total = 0;
    for (double part : parts) {
        total += part;
    }
    *sum = static_cast<float>(total);
}

// Computes accelerations of n bodies; body[i] = {x, y, z, mass}, out[i] = {ax, ay, az, 0}.
void base_nbody(uint64_t n, const float *body, float *out, unsigned threads)
{
    // Structure of arrays, so that the inner loop vectorises.
    std::vector<float> x(n), y(n), z(n), m(n);
    for (uint64_t i = 0; i < n; i++) {
        x[i] = body[4 * i];
        y[i] = body[4 * i + 1];
        z[i] = body[4 * i + 2];
        m[i] = body[4 * i + 3];
    }
    parallel(n, threads, [&](uint64_t begin, uint64_t end) {
        constexpr unsigned LANES = 16;
        for (uint64_t i = begin; i < end; i += LANES) {
            const unsigned lanes = static_cast<unsigned>(std::min<uint64_t>(LANES, end - i));
            float px[LANES] = {}, py[LANES] = {}, pz[LANES] = {};
            float ax[LANES] = {}, ay[LANES] = {}, az[LANES] = {};
            for (unsigned lane = 0; lane < lanes; lane++) {
                px[lane] = x[i + lane];
                py[lane] = y[i + lane];
                pz[lane] = z[i + lane];
            }
            for (uint64_t j = 0; j < n; j++) {
                for (unsigned lane = 0; lane < LANES; lane++) {
                    const float dx = x[j] - px[lane], dy = y[j] - py[lane], dz = z[j] - pz[lane];
                    const float inv = 1.0f / std::sqrt(dx * dx + dy * dy + dz * dz + 1e-3f);
                    const float pull = m[j] * inv * inv * inv;
                    ax[lane] += dx * pull;
                    ay[lane] += dy * pull;
                    az[lane] += dz * pull;
                }
            }
            for (unsigned lane = 0; lane < lanes; lane++) {
                out[4 * (i + lane)] = ax[lane];
                out[4 * (i + lane) + 1] = ay[lane];
                out[4 * (i + lane) + 2] = az[lane];
                out[4 * (i + lane) + 3] = 0.0f;
            }
        }
    });
}

// Counts how often each byte occurs, in bins[256]; four private tables per thread avoid store forwarding.
void base_histogram(uint64_t n, const uint8_t *data, uint32_t *bins, unsigned threads)
{
    std::vector<std::atomic<uint32_t>> total(256);
    parallel(n, threads, [&](uint64_t begin, uint64_t end) {
        std::vector<uint32_t> counts(4 * 256);
        uint64_t i = begin;
        for (; i + 4 <= end; i += 4) {
            for (unsigned k = 0; k < 4; k++) {
                counts[k * 256 + data[i + k]]++;
            }
        }
        for (; i < end; i++) {
            counts[data[i]]++;
        }
        for (unsigned bin = 0; bin < 256; bin++) {
            total[bin] += counts[bin] + counts[256 + bin] + counts[512 + bin] + counts[768 + bin];
        }
    });
    for (unsigned bin = 0; bin < 256; bin++) {
        bins[bin] = total[bin];
    }
}
}
