// Truth values: a byte of 0 is false, and all others are true.
#ifndef VGC_CPU_BOOLS_H
#define VGC_CPU_BOOLS_H

#include <cstdint>

namespace vgc
{
enum class Bool : uint8_t {};

/* 1 or 0. */
inline uint8_t truth(Bool value)
{
    return value != Bool{};
}
} // namespace vgc

#endif
