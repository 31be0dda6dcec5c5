// Reading memory that the VM may change at any time.
#ifndef VGC_CPU_READ_ONCE_H
#define VGC_CPU_READ_ONCE_H

namespace vgc
{
/* A value that was read once: what is checked is what is used. Integers of 16 bytes do not lie in the VM's memory. */
template <class T> T read_once(const T *from)
{
    if constexpr (sizeof(T) > 8) {
        return *from;
    } else {
        T value;
        __atomic_load(from, &value, __ATOMIC_RELAXED);
        return value;
    }
}
} // namespace vgc

#endif
