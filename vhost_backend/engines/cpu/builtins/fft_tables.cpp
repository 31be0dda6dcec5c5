// Tables of Fourier transforms, made by ducc.
#include "fft_tables.h"

#include "fft_roots.h"

#include <ducc0/fft/fft1d_impl.h>

namespace vgc
{
template <class Table> std::shared_ptr<const Table> make_table(uint64_t length, bool alone)
{
    return std::make_shared<const Table>(length, alone);
}

template std::shared_ptr<const ducc0::pocketfft_c<float>> make_table(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_c<double>> make_table(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<float>> make_table(uint64_t, bool);
template std::shared_ptr<const ducc0::pocketfft_r<double>> make_table(uint64_t, bool);
template std::shared_ptr<const Roots<double>> make_table(uint64_t, bool);
} // namespace vgc
