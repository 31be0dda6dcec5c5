// Making tables of Fourier transforms: nearly all of ducc's code is behind this function.
#ifndef VGC_CPU_FFT_TABLES_H
#define VGC_CPU_FFT_TABLES_H

#include <cstdint>
#include <memory>

namespace vgc
{
/* A new table, as table_for() has it.
 * @throws std::exception there is no memory. */
template <class Table> std::shared_ptr<const Table> make_table(uint64_t length, bool alone);
} // namespace vgc

#endif
