// Functions of single elements: a thread for each element of the result.
#include "math_operations.cuh"

namespace vgc
{
/* Places of an element of the result in both inputs. */
struct Places {
    u64 a, b;
};

__device__ inline Places places_of(const math_call &call, u64 item)
{
    Places places = {0, 0};
#pragma unroll
    for (u32 axis = 0; axis < AXES; axis++) {
        if (axis + 1 >= call.rank) {
            places.a += item * call.a_stride[axis];
            places.b += item * call.b_stride[axis];
            break;
        }
        u64 next = divide(item, call.length[axis]), place = item - next * call.length[axis];
        places.a += place * call.a_stride[axis];
        places.b += place * call.b_stride[axis];
        item = next;
    }
    return places;
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

template <class Operation, class T> __device__ void unary(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads())
        store(at<T>(call.out) + i, Operation::of(call, load(at<const T>(call.a) + places_of(call, i).a)));
}

template <class Operation, class T, class Out> __device__ void binary(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads()) {
        Places places = places_of(call, i);
        Number<T> a = load(at<const T>(call.a) + places.a), b = load(at<const T>(call.b) + places.b);
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
    default:
        return convert_to<u64>(call, i, a);
    }
}

template <class T> __device__ void convert(const math_call &call)
{
    for (u64 i = first_item(); i < call.count; i += all_threads())
        convert_one(call, i, load(at<const T>(call.a) + places_of(call, i).a));
}
} // namespace vgc

#define UNARY(name, Operation, type, T)                                                                                \
    KERNEL math_##name##_##type(const math_call call)                                                                  \
    {                                                                                                                  \
        vgc::unary<vgc::Operation, T>(call);                                                                           \
    }
#define BINARY(name, Operation, type, T)                                                                               \
    KERNEL math_##name##_##type(const math_call call)                                                                  \
    {                                                                                                                  \
        vgc::binary<vgc::Operation, T, T>(call);                                                                       \
    }

#define ALL(type, T)                                                                                                   \
    BINARY(binary, CheapBinary, type, T)                                                                               \
    UNARY(unary, CheapUnary, type, T)                                                                                  \
    KERNEL math_comparison_##type(const math_call call)                                                                \
    {                                                                                                                  \
        vgc::binary<vgc::Comparison, T, unsigned char>(call);                                                          \
    }                                                                                                                  \
    KERNEL math_convert_##type(const math_call call)                                                                   \
    {                                                                                                                  \
        vgc::convert<T>(call);                                                                                         \
    }

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
