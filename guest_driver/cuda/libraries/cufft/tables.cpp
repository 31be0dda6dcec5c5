// Lengths: how they are split, and their tables of roots of unity.
#include <algorithm>
#include <cmath>
#include <complex>

#include "plan.h"

namespace vgc_fft
{
namespace
{
constexpr int LARGEST_PRIME = 127; // beyond, summing one output costs more than a convolution
constexpr double PI = 3.14159265358979323846;

int largest_prime(int n)
{
    int largest = 1;
    for (int p = 2; p <= n / p; p++)
        for (; n % p == 0; n /= p)
            largest = p;
    return std::max(largest, n);
}

// The divisor of n nearest to `wanted` from above, such that both parts are at most `limit` (the second: at most
// `rest`).
int divisor(int n, double wanted, int limit, int rest)
{
    int best = 0;
    for (int d = 2; d <= limit && d <= n / 2; d++)
        if (n % d == 0 && n / d <= rest &&
            (!best || std::fabs(std::log(d / wanted)) < std::fabs(std::log(best / wanted))))
            best = d;
    return best;
}

std::vector<int> split(int n, int limit)
{
    if (n <= limit)
        return {n};
    if (const int first = divisor(n, std::sqrt((double)n), limit, limit))
        return {first, n / first};
    for (int first = std::min(limit, n / 2); first > 1; first--)
        if (n % first == 0)
            if (const int second = divisor(n / first, std::sqrt((double)(n / first)), limit, limit))
                return {first, second, n / first / second};
    return {};
}

// exp(2 pi i k / n), correct to the last place or nearly: angles are taken below an eighth of a turn.
std::complex<double> root(long long k, long long n)
{
    if (8 * k <= n)
        return std::polar(1.0, 2 * PI * (double)k / (double)n);
    if (4 * k < n) { // mirrored at the eighth
        const auto w = root(n - 4 * k, 4 * n);
        return {w.imag(), w.real()};
    }
    const long long quarters = 4 * k / n; // 1 to 3
    const auto w = root(4 * k - quarters * n, 4 * n);
    return quarters == 1   ? std::complex<double>(-w.imag(), w.real())
           : quarters == 2 ? -w
                           : std::complex<double>(w.imag(), -w.real());
}

size_t add(std::vector<double> &tables, std::complex<double> value)
{
    tables.push_back(value.real());
    tables.push_back(value.imag());
    return tables.size() / 2 - 1;
}
size_t add_roots(std::vector<double> &tables, long long count, long long step, long long n)
{
    const size_t place = tables.size() / 2;
    for (long long k = 0; k < count; k++)
        add(tables, root(k * step % n, n));
    return place;
}

void transform(std::vector<std::complex<double>> &x)
{
    const size_t n = x.size();
    for (size_t i = 1, j = 0; i < n; i++) {
        size_t bit = n / 2;
        for (; j & bit; bit /= 2)
            j ^= bit;
        j ^= bit;
        if (i < j)
            std::swap(x[i], x[j]);
    }
    std::vector<std::complex<double>> roots(n / 2);
    for (size_t k = 0; k < n / 2; k++)
        roots[k] = std::conj(root((long long)k, (long long)n));
    for (size_t part = 1; part < n; part *= 2)
        for (size_t start = 0; start < n; start += 2 * part)
            for (size_t k = 0; k < part; k++) {
                const auto a = x[start + k], b = x[start + k + part] * roots[k * (n / 2 / part)];
                x[start + k] = a + b;
                x[start + k + part] = a - b;
            }
}

void add_chirp(Length &length, std::vector<double> &tables)
{
    const int n = length.n;
    std::vector<std::complex<double>> filter(length.padded);
    for (long long j = 0; j < n; j++) {
        const auto chirp = root(j * j % (2LL * n), 2LL * n);
        const size_t place = add(tables, chirp);
        if (j == 0)
            length.chirp_table = place;
        filter[j] = chirp;
        if (j)
            filter[length.padded - j] = chirp;
    }
    transform(filter);
    for (int k = 0; k < length.padded; k++) {
        const size_t place = add(tables, std::conj(filter[k]) / (double)length.padded);
        if (k == 0)
            length.filter = place;
    }
}
} // namespace

Length length_of(int n, bool is_double, std::vector<double> &tables)
{
    const int limit = is_double ? 1024 : 2048;
    Length length;
    length.n = length.padded = n;
    if (largest_prime(n) <= LARGEST_PRIME)
        length.levels = split(n, limit);
    if (length.levels.empty()) {
        length.chirp = true;
        for (length.padded = 1; length.padded < 2 * n - 1;)
            length.padded *= 2;
        length.levels = split(length.padded, limit);
        add_chirp(length, tables);
    }
    long long rest = length.padded;
    for (size_t i = 0; i < length.levels.size(); i++) {
        length.table[i] = add_roots(tables, length.levels[i], 1, length.levels[i]);
        if (i + 1 < length.levels.size()) {
            while (1LL << (2 * length.shift[i]) < rest)
                length.shift[i]++;
            const long long fine = 1LL << length.shift[i];
            length.fine[i] = add_roots(tables, fine, 1, rest);
            length.coarse[i] = add_roots(tables, (rest + fine - 1) / fine, fine, rest);
        }
        rest /= length.levels[i];
    }
    return length;
}

} // namespace vgc_fft
