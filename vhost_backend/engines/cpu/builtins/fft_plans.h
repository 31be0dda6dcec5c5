// Tables of Fourier transforms, which calls share.
#ifndef VGC_CPU_FFT_PLANS_H
#define VGC_CPU_FFT_PLANS_H

#include "fft_roots.h"

#include <cstdint>
#include <memory>

namespace vgc
{
/* The table for lines of a length; `alone`: for single lines, which are vectorised in themselves. A few are kept, those
 * that were used last.
 * @throws std::exception there is no memory. */
template <class Table> std::shared_ptr<const Table> table_for(uint64_t length, bool alone);

/* Bytes that a transform works in, with the numbers of `lines` lines. */
template <class T> uint64_t work_bytes(uint64_t length, uint64_t lines)
{
    return (12 * length + 256) * 2 * sizeof(T) * lines;
}
} // namespace vgc

#endif
