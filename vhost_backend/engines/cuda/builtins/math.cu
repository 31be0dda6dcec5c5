// Functions of single elements: a thread for each element of the result.
#include "complex_operations.cuh"

namespace vgc
{
/* Places of an element of the result in the inputs. */
template <u32 INPUTS> __device__ void find_places(const math_call &call, u64 item, u64 (&places)[INPUTS])
{
    for (u32 i = 0; i < INPUTS; i++)
        places[i] = 0;
#pragma unroll
    for (u32 axis = 0; axis < AXES; axis++) {
        bool is_last = axis + 1 >= call.rank;
        u64 next = is_last ? 0 : divide(item, call.length[axis]), place = item - next * call.length[axis];
#pragma unroll
        for (u32 i = 0; i < INPUTS; i++)
            places[i] += place * call.strides[i][axis];
        if (is_last)
            break;
        item = next;
    }
}

/* An operation of one kernel, and the one of several that the call names. */
template <class Operation> struct One {
    template <class T> static __device__ T of(const math_call &, T a)
    {
        return Operation::of(a);
    }
    template <class T> static __device__ T of(const math_call &, T a, T b)
    {
        return Operation::of(a, b);
    }
};

struct CheapBinary {
    template <class T> static __device__ T of(const math_call &call, T a, T b)
    {
        switch (call.operation) {
        case MATH_ADD:
            return Add::of(a, b);
        case MATH_SUBTRACT:
            return Subtract::of(a, b);
        case MATH_MULTIPLY:
            return Multiply::of(a, b);
        case MATH_MAXIMUM:
            return Maximum::of(a, b);
        default:
            return Minimum::of(a, b);
        }
    }
};

struct Comparison {
    template <class T> static __device__ unsigned char of(const math_call &call, T a, T b)
    {
        switch (call.operation) {
        case MATH_EQUAL:
            return a == b;
        case MATH_NOT_EQUAL:
            return a != b;
        case MATH_LESS:
            return a < b;
        default:
            return a <= b;
        }
    }
};

template <class T> __device__ T round_to_whole(const math_call &call, T a)
{
    switch (call.operation) {
    case MATH_FLOOR:
        return Floor::of(a);
    case MATH_CEIL:
        return Ceil::of(a);
    case MATH_RINT:
        return Rint::of(a);
    default:
        return Trunc::of(a);
    }
}

struct CheapUnary {
    template <class T> static __device__ T of(const math_call &call, T a)
    {
        switch (call.operation) {
        case MATH_NEGATIVE:
            return Negative::of(a);
        case MATH_ABSOLUTE:
            return Absolute::of(a);
        case MATH_SQUARE:
            return Square::of(a);
        case MATH_SIGN:
            return Sign::of(a);
        }
        if constexpr (Type<T>::IS_FLOAT) {
            if (call.operation == MATH_SQRT)
                return Sqrt::of(a);
            return call.operation == MATH_RECIPROCAL ? Reciprocal::of(a) : round_to_whole(call, a);
        }
        return a;
    }
};

template <class Operation, class T, class Out> __device__ void unary(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads()) {
        u64 place[1];
        find_places(call, i, place);
        store(at<Out>(call.out) + i, Operation::of(call, load(at<const T>(call.inputs[0]) + place[0])));
    }
}

template <class Operation, class T, class Out> __device__ void binary(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads()) {
        u64 places[2];
        find_places(call, i, places);
        Number<T> a = load(at<const T>(call.inputs[0]) + places[0]), b = load(at<const T>(call.inputs[1]) + places[1]);
        store(at<Out>(call.out) + i, Operation::of(call, a, b));
    }
}

template <class To, class T> __device__ void convert_to(const math_call &call, u64 i, T a)
{
    store(at<To>(call.out) + i, Convert<To>::of(a));
}

template <class T> __device__ void convert_one(const math_call &call, u64 i, T a)
{
    switch (call.operation) {
    case 0:
        return convert_to<__half>(call, i, a);
    case 1:
        return convert_to<float>(call, i, a);
    case 2:
        return convert_to<double>(call, i, a);
    case 3:
        return convert_to<i32>(call, i, a);
    case 4:
        return convert_to<i64>(call, i, a);
    case 5:
        return convert_to<u32>(call, i, a);
    case 6:
        return convert_to<u64>(call, i, a);
    default:
        return convert_to<Bool>(call, i, a);
    }
}

template <class T> __device__ void convert(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads()) {
        u64 place[1];
        find_places(call, i, place);
        convert_one(call, i, load(at<const T>(call.inputs[0]) + place[0]));
    }
}

struct Extreme {
    static __device__ u32 of(const math_call &call, u32 a, u32 b)
    {
        return call.operation == MATH_MAXIMUM ? Maximum::of(a, b) : Minimum::of(a, b);
    }
};

template <class Bits> __device__ void where(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads()) {
        u64 places[3];
        find_places(call, i, places);
        bool is_a = load(at<const Bool>(call.inputs[0]) + places[0]) != 0;
        const Bits *a = at<const Bits>(call.inputs[1]) + places[1], *b = at<const Bits>(call.inputs[2]) + places[2];
        at<Bits>(call.out)[i] = is_a ? *a : *b;
    }
}
} // namespace vgc

#define UNARY(name, Operation, type, T)                                                                                \
    KERNEL math_##name##_##type(const math_call call)                                                                  \
    {                                                                                                                  \
        vgc::unary<vgc::Operation, T, T>(call);                                                                        \
    }
#define BINARY(name, Operation, type, T)                                                                               \
    KERNEL math_##name##_##type(const math_call call)                                                                  \
    {                                                                                                                  \
        vgc::binary<vgc::Operation, T, T>(call);                                                                       \
    }

#define COMPARISON(type, T)                                                                                            \
    KERNEL math_comparison_##type(const math_call call)                                                                \
    {                                                                                                                  \
        vgc::binary<vgc::Comparison, T, unsigned char>(call);                                                          \
    }
#define CONVERT(type, T)                                                                                               \
    KERNEL math_convert_##type(const math_call call)                                                                   \
    {                                                                                                                  \
        vgc::convert<T>(call);                                                                                         \
    }

#define ALL(type, T)                                                                                                   \
    BINARY(binary, CheapBinary, type, T)                                                                               \
    UNARY(unary, CheapUnary, type, T)                                                                                  \
    COMPARISON(type, T)                                                                                                \
    CONVERT(type, T)

#define INTEGERS(type, T)                                                                                              \
    ALL(type, T)                                                                                                       \
    BINARY(floor_divide, One<vgc::FloorDivide>, type, T)                                                               \
    BINARY(remainder, One<vgc::Remainder>, type, T)

#define FLOATS(type, T)                                                                                                \
    ALL(type, T)                                                                                                       \
    BINARY(divide, One<vgc::Divide>, type, T)                                                                          \
    BINARY(power, One<vgc::Power>, type, T)                                                                            \
    UNARY(exp, One<vgc::Exp>, type, T)                                                                                 \
    UNARY(log, One<vgc::Log>, type, T)                                                                                 \
    UNARY(sin, One<vgc::Sin>, type, T)                                                                                 \
    UNARY(cos, One<vgc::Cos>, type, T)                                                                                 \
    UNARY(tanh, One<vgc::Tanh>, type, T)

INTEGERS(i32, i32)
INTEGERS(i64, i64)
INTEGERS(u32, u32)
INTEGERS(u64, u64)
FLOATS(f16, __half)
FLOATS(f32, float)
FLOATS(f64, double)

BINARY(binary, Extreme, b8, vgc::Bool)
COMPARISON(b8, vgc::Bool)
CONVERT(b8, vgc::Bool)

#define WHERE(bits, Bits)                                                                                              \
    KERNEL math_where_##bits(const math_call call)                                                                     \
    {                                                                                                                  \
        vgc::where<Bits>(call);                                                                                        \
    }
WHERE(u8, unsigned char)
WHERE(u16, unsigned short)
WHERE(u32, u32)
WHERE(u64, u64)

#define COMPLEX(type, T)                                                                                               \
    BINARY(complex_binary, ComplexBinary, type, vgc::Pair<T>)                                                          \
    UNARY(complex_unary, ComplexUnary, type, vgc::Pair<T>)                                                             \
    KERNEL math_complex_comparison_##type(const math_call call)                                                        \
    {                                                                                                                  \
        vgc::binary<vgc::ComplexComparison, vgc::Pair<T>, unsigned char>(call);                                        \
    }                                                                                                                  \
    KERNEL math_complex_real_##type(const math_call call)                                                              \
    {                                                                                                                  \
        vgc::unary<vgc::ComplexReal, vgc::Pair<T>, T>(call);                                                           \
    }                                                                                                                  \
    KERNEL math_complex_join_##type(const math_call call)                                                              \
    {                                                                                                                  \
        vgc::binary<vgc::ComplexJoin, T, vgc::Pair<T>>(call);                                                          \
    }
COMPLEX(f32, float)
COMPLEX(f64, double)
