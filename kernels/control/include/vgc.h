/* API of the control system for kernels: #include <vgc.h>.
 *
 *   vgc_printf(format, ...)        text to people who have opened this processing element's stdio
 *   vgc_read(buffer, size)         bytes typed for this element; 0: end of input, or no bytes in time
 *   vgc_log(level, format, ...)    VGC_ERROR, VGC_WARNING, VGC_INFO, VGC_DEBUG
 *   vgc_event(name, value)         an event with a value
 *   vgc_count(name, delta)         a counter of this element; 24 names at most
 *   vgc_gauge(name, value)         a value of this element, with thresholds that the host sets; 8 names at most
 *   vgc_fault(code, format, ...)   reports a fault; the kernel goes on
 *   vgc_poll()                     poll point: answers snapshots, changes firmware. False:
 *                                  the launch is being stopped, so a loop had better end
 *
 * Each calling thread makes a record (or adds, or takes bytes) of its own; a kernel that wants one per warp or block
 * calls from one thread of it. These functions synchronise no threads, so they may be called in divergent code. While
 * no channel is bound, a call loads one word; vgc_read returns 0 then.
 *
 * The host reads the text of a format or name later, so it must be a constant of the program, not a buffer. Formats are
 * C's; integers and characters, floats, pointers and strings can be arguments, strings also if the kernel made them. A
 * record holds about a thousand bytes of arguments; strings that do not fit are cut off.
 */
#pragma once

#include "../vgc_control.h"

enum {
    VGC_CRITICAL = VGC_CTL_CRITICAL,
    VGC_ERROR = VGC_CTL_ERROR,
    VGC_WARNING = VGC_CTL_WARNING,
    VGC_INFO = VGC_CTL_INFO,
    VGC_DEBUG = VGC_CTL_DEBUG,
};

/* Provided by the engine: the control code of the processing element. */
extern "C" {
/* Level of the channel that is bound for the function, at least 1; 0: no channel is bound. */
__device__ uint32_t __vgc_ctl_level(uint32_t function);
__device__ int __vgc_ctl_emit(uint32_t function, uint32_t type, uint32_t level, const void *payload, uint32_t length);
__device__ void __vgc_ctl_count(const char *name, int64_t delta);
__device__ void __vgc_ctl_gauge(const char *name, double value);
__device__ uint32_t __vgc_ctl_read(void *to, uint32_t size);
__device__ int __vgc_ctl_poll(void);
}

namespace vgc_control
{

/* A record's payload while it is built: `fixed` words in front (the format's address among them), then a word per
 * argument, then the bytes of string arguments. */
class Payload
{
  public:
    __device__ Payload(uint32_t fixed, uint32_t arguments)
        : length_((fixed + arguments) * 8 <= VGC_CTL_MAX_PAYLOAD ? (fixed + arguments) * 8 : VGC_CTL_MAX_PAYLOAD),
          first_(fixed * 8)
    {
    }

    __device__ void put(unsigned long long word)
    {
        if (at_ < VGC_CTL_MAX_PAYLOAD)
            words_[at_ / 8] = word;
        at_ += 8;
    }
    __device__ void put(unsigned long word)
    {
        put((unsigned long long)word);
    }
    __device__ void put(bool value)
    {
        put((unsigned long long)value);
    }
    __device__ void put(char value)
    {
        put((long long)value);
    }
    __device__ void put(int value)
    {
        put((long long)value);
    }
    __device__ void put(long value)
    {
        put((long long)value);
    }
    __device__ void put(long long value)
    {
        put((unsigned long long)value);
    }
    __device__ void put(unsigned value)
    {
        put((unsigned long long)value);
    }
    __device__ void put(double value)
    {
        union {
            double number;
            uint64_t bits;
        } same;
        same.number = value;
        put(same.bits);
    }
    __device__ void put(const void *address)
    {
        put((unsigned long long)address);
    }
    /* word of a string: length << 32 | offset behind the fixed words */
    __device__ void put(const char *text)
    {
        const uint32_t begin = length_;
        char *bytes = (char *)words_;
        for (; text != nullptr && *text != '\0' && length_ < VGC_CTL_MAX_PAYLOAD; text++)
            bytes[length_++] = *text;
        put((unsigned long long)(length_ - begin) << 32 | (begin - first_));
    }
    __device__ void put(char *text)
    {
        put((const char *)text);
    }

    __device__ int emit(uint32_t function, uint32_t type, uint32_t level) const
    {
        return __vgc_ctl_emit(function, type, level, words_, length_);
    }

  private:
    uint32_t length_;
    uint32_t first_;
    uint32_t at_ = 0;
    uint64_t words_[VGC_CTL_MAX_PAYLOAD / 8];
};

} // namespace vgc_control

template <typename... Arguments> __device__ inline void vgc_printf(const char *format, Arguments... arguments)
{
    if (__vgc_ctl_level(VGC_CTL_STDIO) == 0)
        return;
    vgc_control::Payload payload(1, sizeof...(arguments));
    payload.put((const void *)format);
    (payload.put(arguments), ...);
    payload.emit(VGC_CTL_STDIO, VGC_CTL_STDIO_FORMAT, VGC_CTL_INFO);
}

template <typename... Arguments>
__device__ inline void vgc_log(unsigned level, const char *format, Arguments... arguments)
{
    if (__vgc_ctl_level(VGC_CTL_LOG) < level)
        return;
    vgc_control::Payload payload(1, sizeof...(arguments));
    payload.put((const void *)format);
    (payload.put(arguments), ...);
    payload.emit(VGC_CTL_LOG, VGC_CTL_LOG_FORMAT, level);
}

/* `code`: chosen by the kernel, below 2^31. */
template <typename... Arguments>
__device__ inline void vgc_fault(unsigned code, const char *format, Arguments... arguments)
{
    vgc_control::Payload payload(2, sizeof...(arguments));
    payload.put((unsigned long long)VGC_CTL_FAULT_USER + code);
    payload.put((const void *)format);
    (payload.put(arguments), ...);
    payload.emit(VGC_CTL_FAULT, VGC_CTL_FAULT_FORMAT, VGC_CTL_ERROR);
}

__device__ inline void vgc_event(const char *name, long long value = 0)
{
    if (__vgc_ctl_level(VGC_CTL_PERF) < VGC_CTL_WARNING)
        return;
    const uint64_t words[2] = {(uint64_t)name, (uint64_t)value};
    __vgc_ctl_emit(VGC_CTL_PERF, VGC_CTL_PERF_EVENT, VGC_CTL_WARNING, words, sizeof(words));
}

__device__ inline void vgc_count(const char *name, long long delta = 1)
{
    if (__vgc_ctl_level(VGC_CTL_PERF) != 0)
        __vgc_ctl_count(name, delta);
}

__device__ inline void vgc_gauge(const char *name, double value)
{
    if (__vgc_ctl_level(VGC_CTL_PERF) != 0)
        __vgc_ctl_gauge(name, value);
}

__device__ inline unsigned vgc_read(void *buffer, unsigned size)
{
    return __vgc_ctl_level(VGC_CTL_STDIO) == 0 ? 0 : __vgc_ctl_read(buffer, size);
}

__device__ inline bool vgc_poll()
{
    return __vgc_ctl_poll() != 0;
}
