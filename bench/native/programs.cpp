// Programs of the rows in bench/rows/programs.py (kernels/*.cu) in plain C++, as a careful programmer writes them
// without intrinsics. Built with -O3 -march=native.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <vector>

#include "team.h"

extern "C" {

// Distances from the node of distance 0; -1 where there is no path.
void base_bfs(uint32_t nodes, const uint32_t *starts, const uint32_t *targets, int32_t *distance, unsigned threads)
{
    std::vector<std::vector<uint32_t>> found(threads);
    std::vector<uint32_t> frontier;
    for (uint32_t node = 0; node < nodes; node++) {
        if (distance[node] == 0) {
            frontier.push_back(node);
        }
    }
    team(threads, [&](Member &member) {
        for (int32_t level = 1; !frontier.empty(); level++) {
            std::vector<uint32_t> &mine = found[member.number()];
            mine.clear();
            member.each(0, frontier.size(), [&](uint64_t i) {
                for (uint32_t edge = starts[frontier[i]]; edge < starts[frontier[i] + 1]; edge++) {
                    std::atomic_ref<int32_t> target(distance[targets[edge]]);
                    int32_t unknown = -1;
                    if (target.load(std::memory_order_relaxed) == -1 &&
                        target.compare_exchange_strong(unknown, level)) {
                        mine.push_back(targets[edge]);
                    }
                }
            });
            if (member.number() == 0) {
                frontier.clear();
                for (const auto &part : found) {
                    frontier.insert(frontier.end(), part.begin(), part.end());
                }
            }
            member.wait();
        }
    });
}

// Needleman-Wunsch, in tiles along their diagonals. Within a tile the two candidates that do not depend on the left
// neighbour are computed first, so that this vectorises.
void base_nw(const int32_t *similarity, int32_t *score, int32_t width, int32_t penalty, unsigned threads)
{
    constexpr int64_t TILE = 64;
    const int64_t tiles = (width - 1) / TILE;
    team(threads, [&](Member &member) {
        for (int64_t diagonal = 0; diagonal < 2 * tiles - 1; diagonal++) {
            const int64_t first = std::max<int64_t>(0, diagonal - tiles + 1);
            member.each(uint64_t(first), uint64_t(std::min(diagonal, tiles - 1) + 1), [&](uint64_t tile_y) {
                const int64_t left = (diagonal - int64_t(tile_y)) * TILE;
                for (int64_t y = int64_t(tile_y) * TILE + 1; y <= (int64_t(tile_y) + 1) * TILE; y++) {
                    const int32_t *above = score + (y - 1) * width + left;
                    const int32_t *gain = similarity + y * width + left;
                    int32_t *row = score + y * width + left;
                    int32_t best[TILE + 1];
                    for (int64_t x = 1; x <= TILE; x++) {
                        best[x] = std::max(above[x - 1] + gain[x], above[x] - penalty);
                    }
                    for (int64_t x = 1; x <= TILE; x++) {
                        row[x] = std::max(best[x], row[x - 1] - penalty);
                    }
                }
            });
        }
    });
}

void base_gaussian(int32_t n, float *a, float *b, unsigned threads)
{
    team(threads, [&](Member &member) {
        for (int64_t step = 0; step < n - 1; step++) {
            const float *top = a + step * n;
            member.each(uint64_t(step + 1), uint64_t(n), [&](uint64_t row) {
                float *mine = a + row * uint64_t(n);
                const float factor = mine[step] / top[step];
                for (int64_t column = step; column < n; column++) {
                    mine[column] -= factor * top[column];
                }
                b[row] -= factor * b[step];
            });
        }
    });
}

// LU decomposition in place, row by row below each pivot.
void base_lud(float *a, int32_t n, unsigned threads)
{
    team(threads, [&](Member &member) {
        for (int64_t step = 0; step < n - 1; step++) {
            const float *top = a + step * n;
            member.each(uint64_t(step + 1), uint64_t(n), [&](uint64_t row) {
                float *mine = a + row * uint64_t(n);
                const float factor = mine[step] / top[step];
                mine[step] = factor;
                for (int64_t column = step + 1; column < n; column++) {
                    mine[column] -= factor * top[column];
                }
            });
        }
    });
}

// An even number of time steps, between `cells` and `other`.
void base_hotspot(int32_t n, const float *power, float *cells, float *other, int32_t steps, unsigned threads)
{
    team(threads, [&](Member &member) {
        for (int32_t step = 0; step < steps; step++) {
            const float *from = step % 2 == 0 ? cells : other;
            float *to = step % 2 == 0 ? other : cells;
            member.each(0, uint64_t(n), [&](uint64_t y) {
                const int64_t row = int64_t(y) * n;
                const float *here = from + row, *above = y > 0 ? here - n : here;
                const float *below = y + 1 < uint64_t(n) ? here + n : here;
                const auto cell = [&](int64_t x, int64_t left, int64_t right) {
                    const float vertical = above[x] + below[x] - 2.0f * here[x];
                    const float horizontal = here[left] + here[right] - 2.0f * here[x];
                    to[row + x] = here[x] + 0.1f * power[row + x] + 0.2f * vertical + 0.15f * horizontal +
                                  0.01f * (80.0f - here[x]);
                };
                cell(0, 0, 1);
                for (int64_t x = 1; x < n - 1; x++) {
                    cell(x, x - 1, x + 1);
                }
                cell(n - 1, n - 2, n - 1);
            });
        }
    });
}

// Potential and forces between particles of neighbouring boxes; 64 particles a box, {x, y, z, charge} each.
void base_lavamd(int32_t side, float alpha, const float *particles, float *forces, unsigned threads)
{
    constexpr int PARTICLES = 64;
    const auto around = [side](int at, auto call) {
        for (int i = std::max(at - 1, 0); i <= std::min(at + 1, side - 1); i++) {
            call(i);
        }
    };
    const auto box = [&](uint64_t number) {
        const int x = int(number) % side, y = int(number) / side % side, z = int(number) / side / side;
        const float *mine = particles + number * PARTICLES * 4;
        float px[PARTICLES], py[PARTICLES], pz[PARTICLES];
        float fx[PARTICLES] = {}, fy[PARTICLES] = {}, fz[PARTICLES] = {}, potential[PARTICLES] = {};
        for (int i = 0; i < PARTICLES; i++) {
            px[i] = mine[4 * i];
            py[i] = mine[4 * i + 1];
            pz[i] = mine[4 * i + 2];
        }
        const auto other_box = [&](const float *others) {
            for (int k = 0; k < PARTICLES; k++) {
                const float *other = others + 4 * k;
                for (int i = 0; i < PARTICLES; i++) {
                    const float dx = px[i] - other[0], dy = py[i] - other[1], dz = pz[i] - other[2];
                    const float pull = other[3] * std::exp(-alpha * (dx * dx + dy * dy + dz * dz));
                    potential[i] += pull;
                    fx[i] += pull * dx;
                    fy[i] += pull * dy;
                    fz[i] += pull * dz;
                }
            }
        };
        around(z, [&](int oz) {
            around(y, [&](int oy) {
                around(x, [&](int ox) { other_box(particles + ((oz * side + oy) * side + ox) * PARTICLES * 4); });
            });
        });
        for (int i = 0; i < PARTICLES; i++) {
            float *out = forces + (number * PARTICLES + uint64_t(i)) * 4;
            out[0] = fx[i];
            out[1] = fy[i];
            out[2] = fz[i];
            out[3] = potential[i];
        }
    };
    team(threads, [&](Member &member) { member.each(0, uint64_t(side) * side * side, box); });
}

// Inclusive prefix sums: each thread sums its part, then adds the parts before it.
void base_scan(uint32_t n, const uint32_t *in, uint32_t *out, unsigned threads)
{
    std::vector<uint32_t> totals(threads);
    team(threads, [&](Member &member) {
        const auto [begin, end] = member.share(0, n);
        uint32_t total = 0;
        for (uint64_t i = begin; i < end; i++) {
            total += in[i];
        }
        totals[member.number()] = total;
        member.wait();
        uint32_t sum = 0;
        for (unsigned before = 0; before < member.number(); before++) {
            sum += totals[before];
        }
        for (uint64_t i = begin; i < end; i++) {
            sum += in[i];
            out[i] = sum;
        }
    });
}

// Each thread sorts its part with std::sort; then neighbouring runs are merged, each round half as many.
void base_radix_sort(uint32_t n, uint32_t *keys, unsigned threads)
{
    std::vector<uint32_t> buffer(n);
    team(threads, [&](Member &member) {
        const auto begin_of = [&](unsigned number) { return uint64_t(n) * std::min(number, threads) / threads; };
        const unsigned own = member.number();
        uint32_t *from = keys, *to = buffer.data();
        std::sort(from + begin_of(own), from + begin_of(own + 1));
        member.wait();
        for (unsigned width = 1; width < threads; width *= 2) {
            const uint64_t begin = begin_of(own), middle = begin_of(own + width), end = begin_of(own + 2 * width);
            if (own % (2 * width) == 0) {
                std::merge(from + begin, from + middle, from + middle, from + end, to + begin);
            }
            member.wait();
            std::swap(from, to);
        }
        if (from != keys) {
            member.each(0, n, [&](uint64_t i) { keys[i] = from[i]; });
        }
    });
}

void base_transpose(int32_t n, const float *in, float *out, unsigned threads)
{
    constexpr int64_t TILE = 32;
    team(threads, [&](Member &member) {
        member.each(0, uint64_t(n / TILE), [&](uint64_t tile) {
            const int64_t row = int64_t(tile) * TILE;
            for (int64_t column = 0; column < n; column += TILE) {
                for (int64_t x = 0; x < TILE; x++) {
                    for (int64_t y = 0; y < TILE; y++) {
                        out[(column + x) * n + row + y] = in[(row + y) * n + column + x];
                    }
                }
            }
        });
    });
}

void base_spmv(uint32_t rows, const uint32_t *starts, const uint32_t *columns, const float *values, const float *x,
               float *y, unsigned threads)
{
    team(threads, [&](Member &member) {
        member.each(0, rows, [&](uint64_t row) {
            float sum = 0.0f;
            for (uint32_t k = starts[row]; k < starts[row + 1]; k++) {
                sum += values[k] * x[columns[k]];
            }
            y[row] = sum;
        });
    });
}
}
