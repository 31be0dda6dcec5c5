/* Conversion between this machine's integers and the little-endian ones of virtio and of the wire format
 * [virtio 1.3 §1.4], either way. Free on little-endian machines.
 *
 * The structs of vgc_wire.h need none of it: the compiler converts their fields (see there). These are for words
 * outside of structs: rings, registers, arrays. */
#ifndef VGC_ENDIAN_H
#define VGC_ENDIAN_H

#include <stdint.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define VGC_BIG_ENDIAN 1
#else
#define VGC_BIG_ENDIAN 0
#endif

static inline uint16_t vgc_le16(uint16_t value)
{
    return VGC_BIG_ENDIAN ? __builtin_bswap16(value) : value;
}

static inline uint32_t vgc_le32(uint32_t value)
{
    return VGC_BIG_ENDIAN ? __builtin_bswap32(value) : value;
}

static inline uint64_t vgc_le64(uint64_t value)
{
    return VGC_BIG_ENDIAN ? __builtin_bswap64(value) : value;
}

#endif
