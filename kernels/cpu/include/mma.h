/* Warp matrix functions (namespace nvcuda::wmma): fragments lie as those of PTX's mma do.

   A left operand has tiles of 16 lines, a right one tiles of 8; lines are rows of A and columns of B. With 8 rows and 32
   columns, B is the left operand and the product is the transposed one. */
#pragma once
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cuda_runtime.h"

namespace nvcuda {
namespace wmma {

enum layout_t { mem_row_major, mem_col_major };
struct row_major {};
struct col_major {};
struct matrix_a {};
struct matrix_b {};
struct accumulator {};
namespace precision {
struct tf32 {};
} // namespace precision

/* Elements of operands: how they are kept, how many lie in a register. */
template <class T> struct __vgc_element {
    using stored = T;
    static constexpr int per_register = sizeof(T) < 4 ? 4 / (int)sizeof(T) : 1;
};
template <> struct __vgc_element<precision::tf32> {
    using stored = float;
    static constexpr int per_register = 1;
};

template <class T, int k> constexpr bool __vgc_element_fits = false;
template <> constexpr bool __vgc_element_fits<__half, 16> = true;
template <> constexpr bool __vgc_element_fits<__nv_bfloat16, 16> = true;
template <> constexpr bool __vgc_element_fits<signed char, 16> = true;
template <> constexpr bool __vgc_element_fits<unsigned char, 16> = true;
template <> constexpr bool __vgc_element_fits<precision::tf32, 8> = true;
template <> constexpr bool __vgc_element_fits<double, 4> = true;
template <class T, int m, int n, int k>
constexpr bool __vgc_shape_fits = __vgc_element_fits<T, k> && (k == 16   ? (m == 16 && n == 16) || (m == 32 && n == 8) || (m == 8 && n == 32)
                                                               : k == 8 ? m == 16 && n == 16
                                                                        : m == 8 && n == 8);

__VGC_FN__ unsigned __vgc_wmma_group() { return __vgc_laneid() / 4; }
__VGC_FN__ unsigned __vgc_wmma_thread() { return __vgc_laneid() % 4; }

template <class Use, int m, int n, int k, class T, class Layout = void> class fragment;

/* An operand: `lines` lines of k elements each. Of half, every element is there twice or four times as on GPUs. */
template <bool left, int lines, int k, class T, bool contiguous_lines> struct __vgc_operand {
    using element_type = T;
    using storage_element_type = typename __vgc_element<T>::stored;
    static constexpr int step = __vgc_element<T>::per_register, tile_lines = left && k != 4 ? 16 : 8;
    static constexpr int tile_registers = tile_lines / 8 * k / (4 * step), tile_elements = tile_registers * step;
    static constexpr int tiles = lines / tile_lines, used = tiles * tile_elements;
    static constexpr int num_elements = __is_same(T, __half) ? 16 : used;
    storage_element_type x[num_elements];

    static __device__ __forceinline__ unsigned line(int element) {
        const int in_tile = element % tile_elements, tile = element / tile_elements;
        return tile * tile_lines + __vgc_wmma_group() + (tile_lines == 16 ? in_tile / step % 2 * 8 : 0);
    }
    static __device__ __forceinline__ unsigned depth(int element) {
        const int along = element % tile_elements / step / (tile_lines / 8);
        return (along * 4 + __vgc_wmma_thread()) * step + element % step;
    }
    __device__ __forceinline__ void load(const storage_element_type *from, unsigned stride) {
#pragma unroll
        for (int i = 0; i < num_elements; i++) {
            const unsigned l = line(i % used), d = depth(i % used);
            x[i] = from[contiguous_lines ? l * stride + d : d * stride + l];
        }
    }
    __device__ __forceinline__ unsigned bits(int tile, int number) const {
        unsigned result;
        __builtin_memcpy(&result, x + tile * tile_elements + number * step, 4);
        return result;
    }
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_a, m, n, k, T, Layout> : public __vgc_operand<(m >= n), m, k, T, __is_same(Layout, row_major)> {
    static_assert(__vgc_shape_fits<T, m, n, k>, "wmma has no such shape for this type");
};
template <int m, int n, int k, class T, class Layout>
class fragment<matrix_b, m, n, k, T, Layout> : public __vgc_operand<(m < n), n, k, T, __is_same(Layout, col_major)> {
    static_assert(__vgc_shape_fits<T, m, n, k>, "wmma has no such shape for this type");
};

template <int m, int n, int k, class T> class fragment<accumulator, m, n, k, T, void> {
  public:
    using element_type = T;
    using storage_element_type = T;
    static constexpr int num_elements = m * n / 32;
    T x[num_elements];

    static __device__ __forceinline__ unsigned index(int element, unsigned stride, layout_t layout) {
        const unsigned left = (m == 16 ? 0 : element / 4 * 16) + __vgc_wmma_group() + element % 4 / 2 * 8;
        const unsigned right = (m == 16 ? element / 4 * 8 : 0) + __vgc_wmma_thread() * 2 + element % 2;
        const unsigned row = m < n ? right : left, column = m < n ? left : right;
        return layout == mem_row_major ? row * stride + column : column * stride + row;
    }
};

/* Operands whose elements have less than a byte: 8 lines, of each of which a lane has 4 bytes. Strides are in elements. */
namespace experimental {
namespace precision {
struct s4 {};
struct u4 {};
struct b1 {};
} // namespace precision
enum bmmaBitOp { bmmaBitOpXOR = 1, bmmaBitOpAND = 2 };
enum bmmaAccumulateOp { bmmaAccumulateOpPOPC = 1 };
} // namespace experimental

template <class T, class Stored, int bits> struct __vgc_small_operand {
    using element_type = T;
    using storage_element_type = Stored;
    static constexpr int num_elements = 32 / bits, num_storage_elements = 1;
    storage_element_type x[num_storage_elements];

    __device__ __forceinline__ void load(const void *from, unsigned stride) {
        const unsigned first = __vgc_wmma_group() * stride + __vgc_wmma_thread() * num_elements;
        __builtin_memcpy(x, (const char *)from + first * bits / 8, sizeof x);
    }
};
#define __VGC_WMMA_SMALL(T, Stored, bits, k)                                                                                           \
    template <>                                                                                                                        \
    class fragment<matrix_a, 8, 8, k, experimental::precision::T, row_major>                                                           \
        : public __vgc_small_operand<experimental::precision::T, Stored, bits> {};                                                     \
    template <>                                                                                                                        \
    class fragment<matrix_b, 8, 8, k, experimental::precision::T, col_major>                                                           \
        : public __vgc_small_operand<experimental::precision::T, Stored, bits> {};
__VGC_WMMA_SMALL(s4, int, 4, 32)
__VGC_WMMA_SMALL(u4, unsigned, 4, 32)
__VGC_WMMA_SMALL(b1, unsigned, 1, 128)
#undef __VGC_WMMA_SMALL

template <class Use, int m, int n, int k, class T, class Layout, class Source>
__VGC_FN__ void load_matrix_sync(fragment<Use, m, n, k, T, Layout> &to, const Source *from, unsigned stride) {
    __syncwarp();
    to.load(from, stride);
}
template <int m, int n, int k, class T>
__VGC_FN__ void load_matrix_sync(fragment<accumulator, m, n, k, T> &to, const T *from, unsigned stride, layout_t layout) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < to.num_elements; i++)
        to.x[i] = from[to.index(i, stride, layout)];
}
template <int m, int n, int k, class T>
__VGC_FN__ void store_matrix_sync(T *to, const fragment<accumulator, m, n, k, T> &from, unsigned stride, layout_t layout) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < from.num_elements; i++)
        to[from.index(i, stride, layout)] = from.x[i];
    __syncwarp();
}
template <class Use, int m, int n, int k, class T, class Layout, class Value>
__VGC_FN__ void fill_fragment(fragment<Use, m, n, k, T, Layout> &fragment, const Value &value) {
#pragma unroll
    for (int i = 0; i < (int)(sizeof fragment.x / sizeof fragment.x[0]); i++)
        fragment.x[i] = value;
}

__VGC_FN__ float __float_to_tf32(float x) {
    float result;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

/* d = a b + c of one tile; `types` are those of D, A, B and C in PTX's words. */
#define __VGC_WMMA_K16(Left, Right, Result, constraint, types)                                                                         \
    __VGC_FN__ void __vgc_wmma(Result *d, const unsigned *a, const unsigned *b, const Left *, const Right *) {                         \
        asm("mma.sync.aligned.m16n8k16.row.col." types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"                        \
            : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])                                   \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                                       \
    }
#define __VGC_WMMA_BYTES(Left, Right, types)                                                                                           \
    __VGC_FN__ void __vgc_wmma(int *d, const unsigned *a, const unsigned *b, const Left *, const Right *) {                            \
        asm("mma.sync.aligned.m16n8k16.row.col.s32." types ".s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"                         \
            : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                                           \
            : "r"(a[0]), "r"(a[1]), "r"(b[0]));                                                                                        \
    }
__VGC_WMMA_K16(__half, __half, float, "f", "f32.f16.f16.f32")
__VGC_WMMA_K16(__nv_bfloat16, __nv_bfloat16, float, "f", "f32.bf16.bf16.f32")
__VGC_WMMA_BYTES(signed char, signed char, "s8.s8")
__VGC_WMMA_BYTES(unsigned char, unsigned char, "u8.u8")
#undef __VGC_WMMA_K16
#undef __VGC_WMMA_BYTES
__VGC_FN__ void __vgc_wmma(float *d, const unsigned *a, const unsigned *b, const precision::tf32 *, const precision::tf32 *) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__VGC_FN__ void __vgc_wmma(__half *d, const unsigned *a, const unsigned *b, const __half *, const __half *) {
    unsigned low, high;
    __builtin_memcpy(&low, d, 4);
    __builtin_memcpy(&high, d + 2, 4);
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, {%6,%7}, {%0,%1};"
        : "+r"(low), "+r"(high)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    __builtin_memcpy(d, &low, 4);
    __builtin_memcpy(d + 2, &high, 4);
}
template <class Sum, class Left, class Right> __VGC_FN__ void __vgc_wmma_tiles(Sum *d, const Left &left, const Right &right) {
#pragma unroll
    for (int i = 0; i < left.tiles * right.tiles; i++) {
        unsigned a[Left::tile_registers], b[Right::tile_registers];
        for (int n = 0; n < left.tile_registers; n++)
            a[n] = left.bits(left.tiles > 1 ? i : 0, n);
        for (int n = 0; n < right.tile_registers; n++)
            b[n] = right.bits(right.tiles > 1 ? i : 0, n);
        __vgc_wmma(d + 4 * i, a, b, (typename Left::element_type *)nullptr, (typename Right::element_type *)nullptr);
    }
}

template <class Addend> __VGC_FN__ float __vgc_wmma_saturated(float sum, Addend) { return sum; }
template <class Addend> __VGC_FN__ __half __vgc_wmma_saturated(__half sum, Addend) {
    const float largest = 65504.0f, value = sum;
    return value != value ? 0.0f : fminf(fmaxf(value, -largest), largest);
}
__VGC_FN__ int __vgc_wmma_saturated(int sum, int addend) {
    const long long exact = (long long)sum + addend;
    return exact > 0x7fffffff ? 0x7fffffff : exact < -0x7fffffff - 1 ? -0x7fffffff - 1 : (int)exact;
}

/* The type that products are added in: that of both accumulators, or float. */
template <class T> __device__ T __vgc_wmma_sum(T *, T *);
template <class T, class U> __device__ float __vgc_wmma_sum(T *, U *);

/* With `saturate`, integers stop at their ends, and what is no finite half is the largest one, NaN is 0. */
template <int m, int n, int k, class Result, class T, class A, class B, class Addend>
__VGC_FN__ void mma_sync(fragment<accumulator, m, n, k, Result> &d, const fragment<matrix_a, m, n, k, T, A> &a,
                         const fragment<matrix_b, m, n, k, T, B> &b, const fragment<accumulator, m, n, k, Addend> &c,
                         bool saturate = false) {
    using Sum = decltype(__vgc_wmma_sum((Result *)nullptr, (Addend *)nullptr));
    const bool apart = __is_same(Sum, int) && saturate;
    Sum sums[m * n / 32];
#pragma unroll
    for (int i = 0; i < d.num_elements; i++)
        sums[i] = apart ? Sum(0) : Sum(c.x[i]);
    if constexpr (m < n)
        __vgc_wmma_tiles(sums, b, a);
    else
        __vgc_wmma_tiles(sums, a, b);
#pragma unroll
    for (int i = 0; i < d.num_elements; i++)
        d.x[i] = saturate ? __vgc_wmma_saturated((Result)sums[i], c.x[i]) : (Result)sums[i];
}
template <class A, class B>
__VGC_FN__ void mma_sync(fragment<accumulator, 8, 8, 4, double> &d, const fragment<matrix_a, 8, 8, 4, double, A> &a,
                         const fragment<matrix_b, 8, 8, 4, double, B> &b, const fragment<accumulator, 8, 8, 4, double> &c) {
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%4,%5};"
        : "=d"(d.x[0]), "=d"(d.x[1])
        : "d"(a.x[0]), "d"(b.x[0]), "d"(c.x[0]), "d"(c.x[1]));
}


#define __VGC_WMMA_SMALL(shape, types)                                                                                                 \
    asm("mma.sync.aligned." shape ".row.col" types " {%0,%1}, {%2}, {%3}, {%4,%5};"                                                    \
        : "=r"(d.x[0]), "=r"(d.x[1])                                                                                                   \
        : "r"(a.x[0]), "r"(b.x[0]), "r"(c.x[0]), "r"(c.x[1]))
#define __VGC_WMMA_HALF_BYTES(T)                                                                                                       \
    __VGC_FN__ void mma_sync(fragment<accumulator, 8, 8, 32, int> &d,                                                                  \
                             const fragment<matrix_a, 8, 8, 32, experimental::precision::T, row_major> &a,                             \
                             const fragment<matrix_b, 8, 8, 32, experimental::precision::T, col_major> &b,                             \
                             const fragment<accumulator, 8, 8, 32, int> &c, bool saturate = false) {                                   \
        if (saturate)                                                                                                                  \
            __VGC_WMMA_SMALL("m8n8k32", ".satfinite.s32." #T "." #T ".s32");                                                           \
        else                                                                                                                           \
            __VGC_WMMA_SMALL("m8n8k32", ".s32." #T "." #T ".s32");                                                                     \
    }
__VGC_WMMA_HALF_BYTES(s4)
__VGC_WMMA_HALF_BYTES(u4)
#undef __VGC_WMMA_HALF_BYTES
__VGC_FN__ void bmma_sync(fragment<accumulator, 8, 8, 128, int> &d,
                          const fragment<matrix_a, 8, 8, 128, experimental::precision::b1, row_major> &a,
                          const fragment<matrix_b, 8, 8, 128, experimental::precision::b1, col_major> &b,
                          const fragment<accumulator, 8, 8, 128, int> &c, experimental::bmmaBitOp operation = experimental::bmmaBitOpXOR,
                          experimental::bmmaAccumulateOp = experimental::bmmaAccumulateOpPOPC) {
    if (operation == experimental::bmmaBitOpAND)
        __VGC_WMMA_SMALL("m8n8k128", ".s32.b1.b1.s32.and.popc");
    else
        __VGC_WMMA_SMALL("m8n8k128", ".s32.b1.b1.s32.xor.popc");
}
#undef __VGC_WMMA_SMALL

} // namespace wmma
} // namespace nvcuda
