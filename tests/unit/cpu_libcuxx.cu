// libcu++: the C++ library of device code.
#include <cuda/cmath>
#include <cuda/functional>
#include <cuda/std/algorithm>
#include <cuda/std/array>
#include <cuda/std/bit>
#include <cuda/std/chrono>
#include <cuda/std/complex>
#include <cuda/std/cstdint>
#include <cuda/std/expected>
#include <cuda/std/functional>
#include <cuda/std/limits>
#include <cuda/std/mdspan>
#include <cuda/std/numeric>
#include <cuda/std/optional>
#include <cuda/std/span>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
#include <cuda/std/variant>

#define EXPORT extern "C" __global__ void
namespace cs = cuda::std;

EXPORT containers(const int *in, int *out)
{
    cs::array<int, 4> four{};
    cs::span<const int> all(in, 32);
    const auto mine = all.subspan(threadIdx.x * 4, 4);
    for (size_t i = 0; i < mine.size(); i++)
        four[i] = mine[i];
    cs::swap(four.front(), four.back());
    const auto [low, high, name] =
        cs::make_tuple(*cs::min_element(four.begin(), four.end()), *cs::max_element(four.begin(), four.end()), 'x');
    const int sum = cs::apply([](int a, int b, char) { return a + b; }, cs::make_tuple(low, high, name));
    const cs::pair<int, int> both(low, high);
    out[threadIdx.x * 8] = four[0];
    out[threadIdx.x * 8 + 1] = cs::get<0>(both);
    out[threadIdx.x * 8 + 2] = cs::get<1>(both);
    out[threadIdx.x * 8 + 3] = sum;
    out[threadIdx.x * 8 + 4] = cs::accumulate(mine.begin(), mine.end(), 0);
    out[threadIdx.x * 8 + 5] = cs::inner_product(mine.begin(), mine.end(), four.begin(), 0);
    out[threadIdx.x * 8 + 6] = (int)(cs::lower_bound(all.begin(), all.begin() + 8, 20) - all.begin());
    out[threadIdx.x * 8 + 7] = cs::gcd(mine[0], mine[1]);
}

EXPORT choices(const int *in, int *out)
{
    const int x = in[threadIdx.x];
    const auto half = [](int y) -> cs::optional<int> { return y % 2 ? cs::nullopt : cs::optional<int>(y / 2); };
    const auto root = [](int y) -> cs::expected<int, char> {
        if (y < 0)
            return cs::unexpected<char>('n');
        int r = 0;
        while ((r + 1) * (r + 1) <= y)
            r++;
        return r;
    };
    cs::variant<int, float> either = x;
    if (x % 3 == 0)
        either = x * 0.5f;
    out[threadIdx.x * 4] = half(x).value_or(-1);
    out[threadIdx.x * 4 + 1] = root(x).has_value() ? *root(x) : -(int)root(x).error();
    out[threadIdx.x * 4 + 2] = cs::visit([](auto y) { return (int)(y * 4); }, either);
    out[threadIdx.x * 4 + 3] = (int)either.index();
}

EXPORT words(const unsigned *in, unsigned *out)
{
    const unsigned x = in[threadIdx.x];
    unsigned *mine = out + 12 * threadIdx.x;
    mine[0] = cs::popcount(x);
    mine[1] = cs::countl_zero(x);
    mine[2] = cs::countr_zero(x);
    mine[3] = cs::countl_one(x);
    mine[4] = cs::rotl(x, 5);
    mine[5] = cs::rotr(x, 7);
    mine[6] = cs::bit_floor(x);
    mine[7] = cs::bit_width(x);
    mine[8] = cs::has_single_bit(x);
    mine[9] = cs::bit_cast<unsigned>(cs::bit_cast<float>(x));
    mine[10] = cuda::ceil_div(x >> 8, 10u);
    mine[11] = cuda::maximum<unsigned>{}(x, 0x80000000u);
}

EXPORT limits(double *out)
{
    const double all[] = {(double)cs::numeric_limits<int>::max(),
                          (double)cs::numeric_limits<long long>::min(),
                          cs::numeric_limits<float>::epsilon(),
                          cs::numeric_limits<double>::max(),
                          cs::numeric_limits<float>::infinity(),
                          (double)cs::numeric_limits<unsigned char>::digits,
                          (double)cs::is_same_v<cs::common_type_t<int, float>, float>,
                          (double)cs::chrono::duration_cast<cs::chrono::milliseconds>(cs::chrono::seconds(3)).count()};
    out[threadIdx.x] = all[threadIdx.x];
}

EXPORT complexes(const cs::complex<float> *a, const cs::complex<float> *b, cs::complex<float> *out, int n)
{
    const int t = threadIdx.x;
    out[t] = a[t] + b[t] * 2.0f;
    out[n + t] = a[t] * b[t];
    out[2 * n + t] = a[t] / b[t];
    out[3 * n + t] = cs::exp(a[t]);
    out[4 * n + t] = cs::sqrt(a[t]);
    out[5 * n + t] = cs::conj(a[t]);
    out[6 * n + t] = cs::complex<float>(cs::abs(a[t]), cs::arg(a[t]));
    out[7 * n + t] = cs::polar(1.5f, a[t].imag());
}

EXPORT matrices(const float *in, float *out, int rows, int columns)
{ // the transpose
    const cs::mdspan<const float, cs::dextents<int, 2>> from(in, rows, columns);
    const cs::mdspan<float, cs::extents<int, cs::dynamic_extent, cs::dynamic_extent>> to(out, columns, rows);
    const cs::mdspan<const float, cs::dextents<int, 2>, cs::layout_left> same(in, columns, rows);
    for (int i = threadIdx.x; i < rows * columns; i += blockDim.x)
        to(i % columns, i / columns) = (from(i / columns, i % columns) + same(i % columns, i / columns)) / 2;
}
