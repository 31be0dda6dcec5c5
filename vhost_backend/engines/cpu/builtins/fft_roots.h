// Roots of unity, of which tables are kept like those of transforms.
#ifndef VGC_CPU_FFT_ROOTS_H
#define VGC_CPU_FFT_ROOTS_H

#include <ducc0/fft/fft1d_impl.h>

#include <complex>
#include <cstdint>

namespace vgc
{
/* Roots of unity: number k of n is exp(2 pi i k / n). Made with the arguments that all tables take. */
template <class T> struct Roots : ducc0::UnityRoots<T, std::complex<T>> {
    Roots(uint64_t n, bool) : ducc0::UnityRoots<T, std::complex<T>>(n)
    {
    }
};

} // namespace vgc

#endif
