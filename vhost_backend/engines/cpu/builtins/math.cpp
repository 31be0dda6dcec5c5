// Functions of single elements: tiles of the result are computed one after the other, from elements without gaps.
#include "bools.h"
#include "complex_operations.h"
#include "halves.h"
#include "math_functions.h"
#include "math_operations.h"
#include "planners.h"
#include "read_once.h"
#include "strided.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

namespace vgc
{
namespace
{
constexpr uint64_t TILE = 512;      /* most elements of a tile */
constexpr uint64_t SHORT_LINE = 64; /* lines with fewer elements are copied, several to a tile */

/* Type in which elements are computed. */
template <class T>
using Number =
    std::conditional_t<std::is_same_v<T, Half>, float, std::conditional_t<std::is_same_v<T, Bool>, uint8_t, T>>;
template <class T> constexpr bool IS_NUMBER = std::is_same_v<T, Number<T>>;

inline void to_numbers(const Half *from, uint64_t n, float *to)
{
    widen(from, n, to);
}

inline void to_numbers(const Bool *from, uint64_t n, uint8_t *to)
{
    std::transform(from, from + n, to, truth);
}

/* Elements of an input as numbers. */
template <class T, uint32_t ARRAYS> class Input
{
  public:
    Span<Number<T>> fetch(const Axes<ARRAYS> &axes, uint32_t array, const T *data, uint64_t begin, uint64_t count)
    {
        Span<T> span = axes.fetch(array, data, begin, count, elements_);
        if constexpr (IS_NUMBER<T>) {
            return span;
        } else {
            to_numbers(span.elements, span.is_one ? 1 : count, numbers_);
            return {numbers_, span.is_one};
        }
    }

  private:
    T elements_[TILE];
    Number<T> numbers_[IS_NUMBER<T> ? 1 : TILE];
};

/* Elements of the result, which `compute` writes as numbers. */
template <class Out, class Compute> void put(Out *out, uint64_t count, const Compute &compute)
{
    if constexpr (std::is_same_v<Out, Half>) {
        float numbers[TILE];
        compute(numbers);
        round_to_halves(numbers, count, out);
    } else if constexpr (std::is_same_v<Out, Bool>) {
        compute(reinterpret_cast<uint8_t *>(out));
    } else {
        compute(out);
    }
}

/* Calls `run(begin, count)` for the tiles of some items; of long lines, tiles are in one. */
template <uint32_t ARRAYS, class Run>
void for_tiles(const Axes<ARRAYS> &axes, uint64_t begin, uint64_t end, const Run &run)
{
    while (begin < end) {
        uint64_t count = std::min(TILE, end - begin);
        if (axes.line() >= SHORT_LINE)
            count = std::min(count, axes.line() - begin % axes.line());
        run(begin, count);
        begin += count;
    }
}

bool is_empty(const int64_t *shape)
{
    return std::count(shape, shape + VGC_BUILTIN_RANK, 0) > 0;
}

/* Nanoseconds that an element takes, with that of its operation. */
template <uint32_t ARRAYS, class T> double element_ns(const Axes<ARRAYS> &axes, double ns)
{
    ns += 0.03 * sizeof(T) * ARRAYS;
    for (uint32_t i = 0; i < ARRAYS; i++)
        if (!axes.has_lines(i) || axes.line() < SHORT_LINE)
            ns += 1;
    return ns;
}

/* ---- one input ------------------------------------------------------------------------------------------------ */

template <class T, class Out> struct UnaryCall {
    Axes<1> axes;
    const T *a;
    Out *out;
    Split split;
};

/* An operation on each element. Inputs may be where results are written: an element is read before its place is. */
template <class Operation> struct Each {
    static constexpr double NS = Operation::NS;

    template <class N, class R> static void apply(const N *a, uint64_t n, R *out)
    {
#pragma GCC ivdep
        for (uint64_t i = 0; i < n; i++)
            out[i] = Operation::of(a[i]);
    }
};

template <class Function> struct Vectors {
    static constexpr double NS = 2;

    template <class N> static void apply(const N *a, uint64_t n, N *out)
    {
        call_function<Function>(a, n, out);
    }
};

template <class Apply, class T, class Out> void run_unary(const UnaryCall<T, Out> &call, uint64_t block)
{
    Input<T, 1> input;
    for_tiles(call.axes, call.split.begin(block), call.split.end(block), [&](uint64_t begin, uint64_t count) {
        auto a = input.fetch(call.axes, 0, call.a, begin, count);
        put(call.out + begin, count, [&](auto *out) {
            Apply::apply(a.elements, a.is_one ? 1 : count, out);
            if (a.is_one)
                std::fill_n(out + 1, count - 1, out[0]);
        });
    });
}

template <class Apply, class T, class Out, class Params> void add_unary(Plan &plan, const Params &p)
{
    UnaryCall<T, Out> call = {{p.shape, {p.a_stride}}, at<const T>(p.a), at<Out>(p.out), {}};
    if (is_empty(p.shape))
        return;
    double ns = element_ns<1, T>(call.axes, Apply::NS);
    plan.expect(ns * static_cast<double>(call.axes.items()));
    call.split = plan.split(call.axes.items(), ns, TILE);
    plan.add<run_unary<Apply, T, Out>>(call.split.blocks(), plan.keep(call));
}

template <class Apply> struct Unary {
    template <class T> struct Of {
        static constexpr Planner plan = [](Plan &to, const void *params) {
            add_unary<Apply, T, T>(to, *static_cast<const vgc_unary_params *>(params));
        };
    };
};

template <class T> struct ConvertOf {
    template <class Out> static void add(Plan &plan, const vgc_convert_params &p)
    {
        add_unary<Each<Convert<Out>>, T, Out>(plan, p);
    }

    static constexpr Planner plan = [](Plan &to, const void *params) {
        const auto &p = *static_cast<const vgc_convert_params *>(params);
        switch (p.to) {
        case VGC_TYPE_F16:
            return add<Half>(to, p);
        case VGC_TYPE_F32:
            return add<float>(to, p);
        case VGC_TYPE_F64:
            return add<double>(to, p);
        case VGC_TYPE_I32:
            return add<int32_t>(to, p);
        case VGC_TYPE_I64:
            return add<int64_t>(to, p);
        case VGC_TYPE_U32:
            return add<uint32_t>(to, p);
        case VGC_TYPE_U64:
            return add<uint64_t>(to, p);
        default:
            return add<Bool>(to, p);
        }
    };
};

/* ---- two inputs ----------------------------------------------------------------------------------------------- */

template <class T, class Out> struct BinaryCall {
    Axes<2> axes;
    const T *a, *b;
    Out *out;
    Split split;
};

/* A divisor that becomes 0 between its check and its use would be a fault. */
template <class Operation> constexpr bool MAY_FAULT = false;
template <> constexpr bool MAY_FAULT<FloorDivide> = true;
template <> constexpr bool MAY_FAULT<Remainder> = true;

template <class Operation, class N> N load(const N *from)
{
    if constexpr (MAY_FAULT<Operation>)
        return read_once(from);
    else
        return *from;
}

/* An operation on each pair of elements. */
template <class Operation, class N, class R> void apply_to_pairs(Span<N> a, Span<N> b, uint64_t n, R *out)
{
    N x = load<Operation>(a.elements), y = load<Operation>(b.elements);
    if (a.is_one && b.is_one) {
        std::fill_n(out, n, Operation::of(x, y));
    } else if (a.is_one) {
#pragma GCC ivdep
        for (uint64_t i = 0; i < n; i++)
            out[i] = Operation::of(x, load<Operation>(b.elements + i));
    } else if (b.is_one) {
#pragma GCC ivdep
        for (uint64_t i = 0; i < n; i++)
            out[i] = Operation::of(load<Operation>(a.elements + i), y);
    } else {
#pragma GCC ivdep
        for (uint64_t i = 0; i < n; i++)
            out[i] = Operation::of(load<Operation>(a.elements + i), load<Operation>(b.elements + i));
    }
}

template <class Operation, class T, class Out> void run_binary(const BinaryCall<T, Out> &call, uint64_t block)
{
    Input<T, 2> left, right;
    for_tiles(call.axes, call.split.begin(block), call.split.end(block), [&](uint64_t begin, uint64_t count) {
        auto a = left.fetch(call.axes, 0, call.a, begin, count);
        auto b = right.fetch(call.axes, 1, call.b, begin, count);
        put(call.out + begin, count, [&](auto *out) { apply_to_pairs<Operation>(a, b, count, out); });
    });
}

template <class Operation, class T, class Out> void plan_binary(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_binary_params *>(params);
    BinaryCall<T, Out> call = {
        {p.shape, {p.a_stride, p.b_stride}}, at<const T>(p.a), at<const T>(p.b), at<Out>(p.out), {}};
    if (is_empty(p.shape))
        return;
    double ns = element_ns<2, T>(call.axes, Operation::NS);
    plan.expect(ns * static_cast<double>(call.axes.items()));
    call.split = plan.split(call.axes.items(), ns, TILE);
    plan.add<run_binary<Operation, T, Out>>(call.split.blocks(), plan.keep(call));
}

template <class Operation> struct Binary {
    template <class T> struct Of {
        static constexpr Planner plan = plan_binary<Operation, T, T>;
    };
};

template <class Operation> struct Comparison {
    template <class T> struct Of {
        static constexpr Planner plan = plan_binary<Operation, T, uint8_t>;
    };
};

/* ---- complex numbers ------------------------------------------------------------------------------------------ */

template <class Operation> struct ComplexBinary {
    template <class T> struct Of {
        static constexpr Planner plan = plan_binary<Operation, Pair<T>, Pair<T>>;
    };
};

template <class Operation> struct ComplexComparison {
    template <class T> struct Of {
        static constexpr Planner plan = plan_binary<Operation, Pair<T>, uint8_t>;
    };
};

template <class T> struct JoinOf {
    static constexpr Planner plan = plan_binary<ComplexJoin, T, Pair<T>>;
};

template <class Operation> struct ComplexUnary {
    template <class T> struct Of {
        using Out = decltype(Operation::of(Pair<T>()));
        static constexpr Planner plan = [](Plan &to, const void *params) {
            add_unary<Each<Operation>, Pair<T>, Out>(to, *static_cast<const vgc_unary_params *>(params));
        };
    };
};

/* ---- a condition ---------------------------------------------------------------------------------------------- */

/* Elements of a size, which are copied as they are. */
template <class Bits> struct WhereCall {
    Axes<3> axes;
    const Bool *condition;
    const Bits *a, *b;
    Bits *out;
    Split split;
};

/* Elements of an input, one for each of the result. */
template <class T> class EachInput
{
  public:
    const Number<T> *fetch(const Axes<3> &axes, uint32_t array, const T *data, uint64_t begin, uint64_t count)
    {
        auto span = input_.fetch(axes, array, data, begin, count);
        if (!span.is_one)
            return span.elements;
        std::fill_n(same_, count, span.elements[0]);
        return same_;
    }

  private:
    Input<T, 3> input_;
    Number<T> same_[TILE];
};

template <class Bits> void run_where(const WhereCall<Bits> &call, uint64_t block)
{
    EachInput<Bool> conditions;
    EachInput<Bits> left, right;
    for_tiles(call.axes, call.split.begin(block), call.split.end(block), [&](uint64_t begin, uint64_t count) {
        const uint8_t *condition = conditions.fetch(call.axes, 0, call.condition, begin, count);
        const Bits *a = left.fetch(call.axes, 1, call.a, begin, count);
        const Bits *b = right.fetch(call.axes, 2, call.b, begin, count);
        Bits *out = call.out + begin;
#pragma GCC ivdep
        for (uint64_t i = 0; i < count; i++)
            out[i] = condition[i] ? a[i] : b[i];
    });
}

template <class Bits> void plan_where(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_where_params *>(params);
    WhereCall<Bits> call = {{p.shape, {p.condition_stride, p.a_stride, p.b_stride}},
                            at<const Bool>(p.condition),
                            at<const Bits>(p.a),
                            at<const Bits>(p.b),
                            at<Bits>(p.out),
                            {}};
    if (is_empty(p.shape))
        return;
    double ns = element_ns<3, Bits>(call.axes, 0.2);
    plan.expect(ns * static_cast<double>(call.axes.items()));
    call.split = plan.split(call.axes.items(), ns, TILE);
    plan.add<run_where<Bits>>(call.split.blocks(), plan.keep(call));
}

Planner where_planner(uint32_t type)
{
    switch (vgc_builtin_type_bytes(type)) {
    case 1:
        return plan_where<uint8_t>;
    case 2:
        return plan_where<uint16_t>;
    case 4:
        return plan_where<uint32_t>;
    default:
        return plan_where<uint64_t>;
    }
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

template <template <class> class Instance> Planner any_planner(uint32_t type)
{
    return type == VGC_TYPE_F16 ? Instance<Half>::plan : number_planner<Instance>(type);
}

/* Any type, and truth values. */
template <template <class> class Instance> Planner full_planner(uint32_t type)
{
    return type == VGC_TYPE_B8 ? Instance<Bool>::plan : any_planner<Instance>(type);
}

template <template <class> class Instance> Planner real_planner(uint32_t type)
{
    return type == VGC_TYPE_F16 ? Instance<Half>::plan : float_planner<Instance>(type);
}

struct Row {
    uint32_t function;
    Planner (*planner)(uint32_t type);
};

constexpr Row ROWS[] = {
    {VGC_FN_ADD, any_planner<Binary<Add>::Of>},
    {VGC_FN_SUBTRACT, any_planner<Binary<Subtract>::Of>},
    {VGC_FN_MULTIPLY, any_planner<Binary<Multiply>::Of>},
    {VGC_FN_DIVIDE, real_planner<Binary<Divide>::Of>},
    {VGC_FN_FLOOR_DIVIDE, integer_planner<Binary<FloorDivide>::Of>},
    {VGC_FN_REMAINDER, integer_planner<Binary<Remainder>::Of>},
    {VGC_FN_POWER, real_planner<Binary<Power>::Of>},
    {VGC_FN_MAXIMUM, full_planner<Binary<Maximum>::Of>},
    {VGC_FN_MINIMUM, full_planner<Binary<Minimum>::Of>},
    {VGC_FN_EQUAL, full_planner<Comparison<Equal>::Of>},
    {VGC_FN_NOT_EQUAL, full_planner<Comparison<NotEqual>::Of>},
    {VGC_FN_LESS, full_planner<Comparison<Less>::Of>},
    {VGC_FN_LESS_EQUAL, full_planner<Comparison<LessEqual>::Of>},
    {VGC_FN_NEGATIVE, any_planner<Unary<Each<Negative>>::Of>},
    {VGC_FN_ABSOLUTE, any_planner<Unary<Each<Absolute>>::Of>},
    {VGC_FN_SQUARE, any_planner<Unary<Each<Square>>::Of>},
    {VGC_FN_SIGN, any_planner<Unary<Each<Sign>>::Of>},
    {VGC_FN_SQRT, real_planner<Unary<Each<Sqrt>>::Of>},
    {VGC_FN_RECIPROCAL, real_planner<Unary<Each<Reciprocal>>::Of>},
    {VGC_FN_EXP, real_planner<Unary<Vectors<Exp>>::Of>},
    {VGC_FN_LOG, real_planner<Unary<Vectors<Log>>::Of>},
    {VGC_FN_SIN, real_planner<Unary<Vectors<Sin>>::Of>},
    {VGC_FN_COS, real_planner<Unary<Vectors<Cos>>::Of>},
    {VGC_FN_TANH, real_planner<Unary<Vectors<Tanh>>::Of>},
    {VGC_FN_FLOOR, real_planner<Unary<Each<Floor>>::Of>},
    {VGC_FN_CEIL, real_planner<Unary<Each<Ceil>>::Of>},
    {VGC_FN_RINT, real_planner<Unary<Each<Rint>>::Of>},
    {VGC_FN_TRUNC, real_planner<Unary<Each<Trunc>>::Of>},
    {VGC_FN_CONVERT, full_planner<ConvertOf>},
    {VGC_FN_WHERE, where_planner},
    {VGC_FN_COMPLEX_ADD, float_planner<ComplexBinary<ComplexAdd>::Of>},
    {VGC_FN_COMPLEX_SUBTRACT, float_planner<ComplexBinary<ComplexSubtract>::Of>},
    {VGC_FN_COMPLEX_MULTIPLY, float_planner<ComplexBinary<ComplexMultiply>::Of>},
    {VGC_FN_COMPLEX_DIVIDE, float_planner<ComplexBinary<ComplexDivide>::Of>},
    {VGC_FN_COMPLEX_EQUAL, float_planner<ComplexComparison<ComplexEqual>::Of>},
    {VGC_FN_COMPLEX_NOT_EQUAL, float_planner<ComplexComparison<ComplexNotEqual>::Of>},
    {VGC_FN_COMPLEX_NEGATIVE, float_planner<ComplexUnary<ComplexNegative>::Of>},
    {VGC_FN_COMPLEX_CONJUGATE, float_planner<ComplexUnary<ComplexConjugate>::Of>},
    {VGC_FN_COMPLEX_ABSOLUTE, float_planner<ComplexUnary<ComplexAbsolute>::Of>},
    {VGC_FN_COMPLEX_ANGLE, float_planner<ComplexUnary<ComplexAngle>::Of>},
    {VGC_FN_COMPLEX_JOIN, float_planner<JoinOf>},
};
} // namespace

Planner math_planner(uint32_t function, uint32_t type)
{
    for (const Row &row : ROWS)
        if (row.function == function)
            return row.planner(type);
    return nullptr;
}
} // namespace vgc
