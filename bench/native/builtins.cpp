// Libraries that the built-in functions use, called as a program on the host calls them: a thread takes whole rows.
#include <algorithm>
#include <complex>
#include <cstdint>
#include <ducc0/fft/fft.h>
#include <hwy/contrib/sort/vqsort.h>
#include <thread>
#include <vector>

namespace
{

// Calls work(row) for each of `rows` rows, on `threads` threads.
template <class Work> void each_row(uint64_t rows, unsigned threads, Work work)
{
    std::vector<std::thread> others;
    auto some = [=](unsigned number) {
        for (uint64_t row = number; row < rows; row += threads)
            work(row);
    };
    for (unsigned number = 1; number < threads; number++)
        others.emplace_back(some, number);
    some(0);
    for (auto &other : others)
        other.join();
}

} // namespace

extern "C" {

void base_sort_rows(uint64_t rows, uint64_t n, const float *in, float *out, unsigned threads)
{
    each_row(rows, threads, [=](uint64_t row) {
        std::copy(in + row * n, in + (row + 1) * n, out + row * n);
        hwy::Sorter()(out + row * n, n, hwy::SortAscending());
    });
}

void base_scan_rows(uint64_t rows, uint64_t n, const double *in, double *out, unsigned threads)
{
    each_row(rows, threads, [=](uint64_t row) {
        double sum = 0;
        for (uint64_t i = row * n; i < (row + 1) * n; i++) {
            sum += in[i];
            out[i] = sum;
        }
    });
}

// Rows of complex numbers.
void base_fft_rows(uint64_t rows, uint64_t n, const float *in, float *out, unsigned threads)
{
    using Complex = std::complex<float>;
    each_row(rows, threads, [=](uint64_t row) {
        ducc0::cfmav<Complex> from(reinterpret_cast<const Complex *>(in) + row * n, {n});
        ducc0::vfmav<Complex> to(reinterpret_cast<Complex *>(out) + row * n, {n});
        ducc0::c2c(from, to, {0}, true, 1.0f, 1);
    });
}
}
