/* Records of printf: the format's address and its arguments, 8 bytes for each, with texts behind them
 * (virtio_proto/control/records.py: expand).
 *
 * The compiler has put the arguments of printf into memory as C promotes them, each at a multiple of its size; only the
 * format tells their sizes. */
#ifndef VGC_CUDA_FORMAT_H
#define VGC_CUDA_FORMAT_H

#include "vgc_writer.h"

/* Iterates over the conversions of a format. */
struct vgc_cuda_format {
    const char *at;
    const char *arguments;
    uint32_t offset;

    __device__ uint64_t wide()
    {
        offset = (offset + 7) & ~7u;
        uint64_t value = *(const uint64_t *)(arguments + offset);
        offset += 8;
        return value;
    }

    __device__ uint64_t narrow()
    {
        int64_t value = *(const int32_t *)(arguments + offset);
        offset += 4;
        return (uint64_t)value;
    }

    __device__ static bool is_one_of(char letter, const char *letters)
    {
#pragma unroll 1
        for (; *letters != 0; letters++)
            if (*letters == letter)
                return true;
        return false;
    }

    /* Letter of the next conversion, 0 at the end; calls `take` for each width or precision that is an argument.
     * *is_wide: an integer argument of the conversion has 8 bytes. */
    template <class Take> __device__ char next(bool *is_wide, const Take &take)
    {
#pragma unroll 1
        while (*at != 0) {
            if (*at++ != '%')
                continue;
            if (*at == '%') {
                at++;
                continue;
            }
            *is_wide = false;
#pragma unroll 1
            for (; is_one_of(*at, "-+ #0123456789.*hlLjzt"); at++) {
                *is_wide |= is_one_of(*at, "lLjzt");
                if (*at == '*')
                    take(narrow());
            }
            return *at == 0 ? (char)0 : *at++;
        }
        return 0;
    }

    __device__ uint64_t argument(char letter, bool is_wide)
    {
        return is_wide || is_one_of(letter, "sp"
                                            "aAeEfFgG")
                   ? wide()
                   : narrow();
    }
};

/* The contents of a format record. */
struct vgc_cuda_print {
    const char *format;
    const char *arguments;

    __device__ uint32_t words() const
    {
        struct vgc_cuda_format walk = {format, arguments, 0};
        uint32_t count = 0;
        bool is_wide;
        while (char letter = walk.next(&is_wide, [&](uint64_t) { count++; })) {
            walk.argument(letter, is_wide);
            count++;
        }
        return count;
    }

    __device__ static uint32_t size_of(const char *text, uint32_t most)
    {
        uint32_t size = 0;
        while (size < most && text[size] != 0)
            size++;
        return size;
    }

    __device__ void operator()(struct vgc_cuda_writer &to) const
    {
        struct vgc_cuda_format walk = {format, arguments, 0};
        uint32_t text_at = words() * 8;
        bool is_wide;
        to.word((uint64_t)(uintptr_t)format);
        while (char letter = walk.next(&is_wide, [&](uint64_t value) { to.word(value); })) {
            uint64_t value = walk.argument(letter, is_wide);
            if (letter == 's') {
                uint32_t room = text_at + 8 < VGC_CTL_MAX_PAYLOAD ? VGC_CTL_MAX_PAYLOAD - 8 - text_at : 0;
                uint32_t size = value == 0 ? 0 : size_of((const char *)value, room);
                value = (uint64_t)size << 32 | text_at;
                text_at += size;
            }
            to.word(value);
        }
        texts(to);
    }

    __device__ void texts(struct vgc_cuda_writer &to) const
    {
        struct vgc_cuda_format walk = {format, arguments, 0};
        bool is_wide;
        while (char letter = walk.next(&is_wide, [](uint64_t) {})) {
            uint64_t value = walk.argument(letter, is_wide);
            if (letter == 's' && value != 0)
                to.text((const char *)value);
        }
    }
};

#endif
