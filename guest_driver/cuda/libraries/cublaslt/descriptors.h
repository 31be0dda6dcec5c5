/* Contents of cuBLASLt's opaque descriptors. */
#pragma once
#include <cublasLt.h>

#include "../cublas/context.h"

namespace lt
{

struct layout {
    uint64_t rows, columns;
    int64_t ld, jump;
    uint32_t type;
    int32_t order, count;
};
struct matmul {
    int32_t compute, scale, pointers, opa, opb, opc, fill, target;
    uint32_t epilogue;
    int32_t bias_type;
    const void *bias;
    int64_t bias_jump;
    void *aux;
    int64_t aux_ld, aux_jump, alpha_jump;
    const float *a_scale, *b_scale, *c_scale, *d_scale;
    int8_t fast;
};
struct transform {
    int32_t scale, pointers, opa, opb;
};
struct preference {
    uint64_t workspace_bytes, implementations;
    uint32_t search, reductions, aligned[4];
    float waves;
};

struct algorithm {
    int32_t id;
    uint32_t tile;
    int32_t splits;
    uint32_t reduction, swizzling, option, stages;
    uint16_t inner, cluster;
};

constexpr int32_t ONLY_ALGORITHM = 1;
constexpr int32_t SAME_TYPE = -1; /* bias_type: that of D */

/* The descriptor that lies in an opaque one. */
template <class Inside, class Opaque> static inline Inside *inside_of(Opaque *at)
{
    static_assert(sizeof(Inside) <= sizeof(*at), "a descriptor fits");
    return reinterpret_cast<Inside *>(at);
}

} // namespace lt

struct cublasLtContext {
    uint32_t magic;
    cublasHandle_t blas;
    void *lock; /* std::mutex: handles may be used by several threads at once, those of cuBLAS may not */
};
