// Planners: each cuts the call of one function, for elements of one type, into steps.
#ifndef VGC_CPU_PLANNERS_H
#define VGC_CPU_PLANNERS_H

#include "plan.h"
#include "vhost_backend/builtins/vgc_builtins.h"

#include <cstdint>

namespace vgc
{
using Planner = void (*)(Plan &plan, const void *params);

/* Planners of a function for a type, or null. Each stands in the file of its name. */
Planner blas_planner(uint32_t function, uint32_t type);
Planner gemm_planner(uint32_t function, uint32_t type);
Planner reduce_planner(uint32_t function, uint32_t type);
Planner scan_planner(uint32_t function, uint32_t type);
Planner sort_planner(uint32_t function, uint32_t type);
Planner count_planner(uint32_t function, uint32_t type);
Planner fft_planner(uint32_t function, uint32_t type);
Planner conv_planner(uint32_t function, uint32_t type);
Planner random_planner(uint32_t function, uint32_t type);
Planner sparse_planner(uint32_t function, uint32_t type);
Planner math_planner(uint32_t function, uint32_t type);
Planner select_planner(uint32_t function, uint32_t type);

/* Planners for the C++ type of `type`, among those of the instances of a template; null: it has none for this type. */
template <template <class> class Instance> Planner integer_planner(uint32_t type)
{
    switch (type) {
    case VGC_TYPE_I32:
        return Instance<int32_t>::plan;
    case VGC_TYPE_I64:
        return Instance<int64_t>::plan;
    case VGC_TYPE_U32:
        return Instance<uint32_t>::plan;
    case VGC_TYPE_U64:
        return Instance<uint64_t>::plan;
    default:
        return nullptr;
    }
}

template <template <class> class Instance> Planner float_planner(uint32_t type)
{
    switch (type) {
    case VGC_TYPE_F32:
        return Instance<float>::plan;
    case VGC_TYPE_F64:
        return Instance<double>::plan;
    default:
        return nullptr;
    }
}

template <template <class> class Instance> Planner number_planner(uint32_t type)
{
    bool is_float = type == VGC_TYPE_F32 || type == VGC_TYPE_F64;
    return is_float ? float_planner<Instance>(type) : integer_planner<Instance>(type);
}

/* A pointer of this process from an address in a parameter block. */
template <class T> T *at(uint64_t address)
{
    return reinterpret_cast<T *>(address);
}
} // namespace vgc

#endif
