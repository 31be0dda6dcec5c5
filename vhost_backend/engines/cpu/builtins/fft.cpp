// Fourier transforms: one step for each axis, whose lines are blocks. ducc's transforms of single lines do the work.
//
// Several lines at a time are gathered into vectors, an element of each in every vector, and scattered behind. A
// complex line of neighbouring elements that is transformed alone needs neither.
//
// Long lines become matrices (Bailey's algorithm): their columns are transformed, the results turned by roots of unity,
// and their rows transformed into the columns of the result. So all threads work on them, and in their caches. Long
// lines of real numbers are lines of half as many complex ones, whose transforms a pass takes apart into those of the
// even and the odd numbers.
#include "fft_plans.h"
#include "planners.h"
#include "vhost_backend/builtins/vgc_builtin_params.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <exception>

namespace vgc
{
namespace
{
constexpr const char *NO_MEMORY = "there is no memory for the transform's tables";
constexpr uint64_t LONGEST_AT_ONCE = 1 << 21; /* bytes of lines that are gathered */
constexpr uint64_t LEAST_MATRIX = 1 << 17;    /* numbers of a line that becomes a matrix */
constexpr uint64_t LEAST_REAL = 1 << 16;      /* pairs of numbers of a real line that becomes one */
constexpr uint64_t LEAST_ROWS = 16;           /* of such a matrix */

/* Vectors that ducc's transforms take. */
template <class T> using Lanes = typename ducc0::simd_select<T, ducc0::detail_fft::fft1d_simdlen<T>>::type;

/* Where the lines of an array are: `group` of them side by side, then as many `pitch` elements on. */
struct Layout {
    uint64_t group, pitch;
    uint64_t stride; /* elements from one of a line to the next */

    uint64_t begin(uint64_t line) const
    {
        return line / group * pitch + line % group;
    }
};

/* Lines of an array, and of another for the results. */
template <class T> struct Axis {
    const void *in;
    void *out;
    uint64_t lines, length;
    Layout from, to;
    uint64_t at_once; /* lines that are transformed together: 1, or a vector of them */
    uint64_t turns;   /* n: number i of column c is multiplied by root number i * c of n; 0: by none */
    Split split;      /* of groups of such lines */
    T factor;
    bool forward;
    Scratch scratch;
    Head *head;
};

/* Kinds of lines. Each knows how elements of the array become numbers of ducc's, and back. */

/* Complex to complex. */
template <class T> struct Complex {
    using In = std::complex<T>;
    using Out = std::complex<T>;
    using Table = ducc0::pocketfft_c<T>;
    template <class V> using Number = ducc0::Cmplx<V>;

    static uint64_t in_length(uint64_t length)
    {
        return length;
    }
    static uint64_t out_length(uint64_t length)
    {
        return length;
    }
};

/* Real to the first half of complex. */
template <class T> struct Real : Complex<T> {
    using In = T;
    using Table = ducc0::pocketfft_r<T>;
    template <class V> using Number = V;

    static uint64_t out_length(uint64_t length)
    {
        return length / 2 + 1;
    }
};

/* The first half of complex to real. */
template <class T> struct Half : Complex<T> {
    using Out = T;
    using Table = ducc0::pocketfft_r<T>;
    template <class V> using Number = V;

    static uint64_t in_length(uint64_t length)
    {
        return length / 2 + 1;
    }
};

template <class V, class Scalar> void set(V &vector, uint64_t i, Scalar value)
{
    if constexpr (std::is_same_v<V, Scalar>)
        vector = value;
    else
        vector[i] = value;
}

template <class Scalar, class V> Scalar get(const V &vector, uint64_t i)
{
    if constexpr (std::is_same_v<V, Scalar>)
        return vector;
    else
        return vector[i];
}

template <class T, class V>
void gather(Complex<T>, const std::complex<T> *const *lines, uint64_t stride, uint64_t n, uint64_t count,
            ducc0::Cmplx<V> *to)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < count; j++) {
            set(to[i].r, j, lines[j][i * stride].real());
            set(to[i].i, j, lines[j][i * stride].imag());
        }
}

template <class T, class V>
void scatter(Complex<T>, const ducc0::Cmplx<V> *from, uint64_t n, uint64_t count, std::complex<T> *const *lines,
             uint64_t stride)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < count; j++)
            lines[j][i * stride] = {get<T>(from[i].r, j), get<T>(from[i].i, j)};
}

template <class T, class V>
void gather(Real<T>, const T *const *lines, uint64_t stride, uint64_t n, uint64_t count, V *to)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < count; j++)
            set(to[i], j, lines[j][i * stride]);
}

/* ducc has r0 r1 i1 r2 i2 ..., and the last one is real if there are an even number. */
template <class T, class V>
void scatter(Real<T>, const V *from, uint64_t n, uint64_t count, std::complex<T> *const *lines, uint64_t stride)
{
    for (uint64_t j = 0; j < count; j++) {
        lines[j][0] = get<T>(from[0], j);
        for (uint64_t i = 1; i <= n / 2; i++)
            lines[j][i * stride] = {get<T>(from[2 * i - 1], j), 2 * i < n ? get<T>(from[2 * i], j) : T(0)};
    }
}

template <class T, class V>
void gather(Half<T>, const std::complex<T> *const *lines, uint64_t stride, uint64_t n, uint64_t count, V *to)
{
    for (uint64_t j = 0; j < count; j++) {
        set(to[0], j, lines[j][0].real());
        for (uint64_t i = 1; i <= n / 2; i++) {
            set(to[2 * i - 1], j, lines[j][i * stride].real());
            if (2 * i < n)
                set(to[2 * i], j, lines[j][i * stride].imag());
        }
    }
}

template <class T, class V>
void scatter(Half<T>, const V *from, uint64_t n, uint64_t count, T *const *lines, uint64_t stride)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint64_t j = 0; j < count; j++)
            lines[j][i * stride] = get<T>(from[i], j);
}

/* ---- lines ---------------------------------------------------------------------------------------------------- */

/* Roots of unity by which numbers of neighbouring lines are multiplied: number i of a line by its root to the power i.
 */
template <uint64_t LANES> class Turning
{
  public:
    Turning(uint64_t n, const uint64_t *columns, bool forward)
        : roots_(table_for<Roots<double>>(n, false)), columns_(columns), sign_(forward ? -1 : 1)
    {
        for (uint64_t power = 0; power < STEPS; power++)
            put(power, small_[power]);
    }
    /* Those of the powers from `power` on, which is a multiple of STEPS, to power + STEPS. */
    void go_to(uint64_t power)
    {
        put(power, large_);
    }
    /* Multiplies numbers of all lines by root number `step` of these. */
    template <class T> void turn(uint64_t step, T *real, T *imaginary) const
    {
        for (uint64_t j = 0; j < LANES; j++) {
            double r = large_.r[j] * small_[step].r[j] - large_.i[j] * small_[step].i[j];
            double i = large_.r[j] * small_[step].i[j] + large_.i[j] * small_[step].r[j];
            T x = real[j], y = imaginary[j];
            real[j] = x * T(r) - y * T(i);
            imaginary[j] = x * T(i) + y * T(r);
        }
    }
    static constexpr uint64_t STEPS = 16;

  private:
    struct Numbers {
        double r[LANES], i[LANES];
    };
    void put(uint64_t power, Numbers &to) const
    {
        for (uint64_t j = 0; j < LANES; j++) {
            std::complex<double> root = (*roots_)[power * columns_[j]];
            to.r[j] = root.real();
            to.i[j] = sign_ * root.imag();
        }
    }

    std::shared_ptr<const Roots<double>> roots_;
    const uint64_t *columns_;
    double sign_;
    Numbers small_[STEPS], large_;
};

/* Multiplies numbers of lines, which are columns of a matrix, by roots of unity. */
template <class T, class V> void turn(const Axis<T> &axis, const uint64_t *columns, ducc0::Cmplx<V> *numbers)
{
    constexpr uint64_t LANES = sizeof(V) / sizeof(T);
    static_assert(Turning<LANES>::STEPS <= LEAST_ROWS, "there are roots for all powers of all columns");
    Turning<LANES> turning(axis.turns, columns, axis.forward);
    for (uint64_t i = 0; i < axis.length; i++) {
        T real[LANES], imaginary[LANES];
        if (i % turning.STEPS == 0)
            turning.go_to(i);
        std::memcpy(real, &numbers[i].r, sizeof(real));
        std::memcpy(imaginary, &numbers[i].i, sizeof(imaginary));
        turning.turn(i % turning.STEPS, real, imaginary);
        std::memcpy(static_cast<void *>(&numbers[i].r), real, sizeof(real));
        std::memcpy(static_cast<void *>(&numbers[i].i), imaginary, sizeof(imaginary));
    }
}

/* Transforms `count` lines from `first` on in vectors V; lanes without a line repeat the first one. */
template <class Kind, class T, class V>
void transform(const Axis<T> &axis, const typename Kind::Table &table, uint64_t first, uint64_t count, char *memory)
{
    using Number = typename Kind::template Number<V>;
    constexpr uint64_t LANES = sizeof(V) / sizeof(T);
    const typename Kind::In *from[LANES];
    typename Kind::Out *to[LANES];
    uint64_t columns[LANES];
    for (uint64_t j = 0; j < LANES; j++) {
        uint64_t line = first + (j < count ? j : 0);
        columns[j] = line % axis.from.group;
        from[j] = static_cast<const typename Kind::In *>(axis.in) + axis.from.begin(line);
        to[j] = static_cast<typename Kind::Out *>(axis.out) + axis.to.begin(line);
    }
    auto *numbers = reinterpret_cast<Number *>(memory);
    gather(Kind(), from, axis.from.stride, axis.length, LANES, numbers);
    Number *result = table.exec(numbers, numbers + axis.length, axis.factor, axis.forward);
    if constexpr (std::is_same_v<Kind, Complex<T>>)
        if (axis.turns != 0)
            turn(axis, columns, result);
    scatter(Kind(), result, axis.length, count, to, axis.to.stride);
}

/* Transforms a line of neighbouring elements where its result is to be. */
template <class T>
void transform_there(const Axis<T> &axis, const ducc0::pocketfft_c<T> &table, uint64_t line, char *memory)
{
    using Number = ducc0::Cmplx<T>;
    const auto *from = static_cast<const Number *>(axis.in) + axis.from.begin(line);
    auto *to = static_cast<Number *>(axis.out) + axis.to.begin(line);
    if (from != to)
        std::memcpy(static_cast<void *>(to), from, axis.length * sizeof(Number));
    const Number *result = table.exec(to, reinterpret_cast<Number *>(memory), axis.factor, axis.forward);
    if (result != to)
        std::memcpy(static_cast<void *>(to), result, axis.length * sizeof(Number));
}

/* Transforms some lines, at most axis.at_once. */
template <class Kind, class T>
void transform_some(const Axis<T> &axis, const typename Kind::Table &table, uint64_t first, uint64_t count,
                    char *memory)
{
    if constexpr (std::is_same_v<Kind, Complex<T>>)
        if (axis.at_once == 1 && axis.from.stride == 1 && axis.to.stride == 1)
            return transform_there(axis, table, first, memory);
    if (axis.at_once == 1)
        transform<Kind, T, T>(axis, table, first, count, memory);
    else
        transform<Kind, T, Lanes<T>>(axis, table, first, count, memory);
}

template <class Kind, class T> void run_lines(const Axis<T> &axis, uint64_t block)
try {
    auto table = table_for<typename Kind::Table>(axis.length, axis.at_once == 1);
    uint64_t numbers = (axis.length + table->bufsize()) * axis.at_once;
    if (work_bytes<T>(axis.length, axis.at_once) < numbers * sizeof(typename Kind::template Number<T>))
        return fail(axis.head, NO_MEMORY);
    Lease lease(axis.scratch);
    for (uint64_t i = axis.split.begin(block); i < axis.split.end(block); i++) {
        uint64_t first = i * axis.at_once, count = std::min(axis.at_once, axis.lines - first);
        transform_some<Kind, T>(axis, *table, first, count, lease.memory());
    }
} catch (const std::exception &) {
    fail(axis.head, NO_MEMORY);
}

/* ---- real lines as complex ones ------------------------------------------------------------------------------- */

/* Lines of `length` complex numbers each, made of twice as many real ones, and lines of their transforms, which have
 * one number more. */
template <class T> struct Pairs {
    const std::complex<T> *in;
    std::complex<T> *out;
    uint64_t lines, length;
    Split split; /* of all numbers up to the middle of each line */
    Head *head;

    uint64_t per_line() const
    {
        return length / 2 + 1;
    }
};

/* Product without regard to NaN. */
template <class T> std::complex<T> multiplied(std::complex<T> a, std::complex<T> b)
{
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/* Takes the transform of even and odd numbers, as real and imaginary parts, apart: numbers k and length - k of the
 * whole one. Works in place. */
template <class T>
void take_apart(const std::complex<T> *, std::complex<T> *line, uint64_t length, uint64_t k, std::complex<T> root)
{
    std::complex<T> a = line[k], b = std::conj(line[k == 0 ? 0 : length - k]), difference = a - b;
    std::complex<T> even = (a + b) * T(0.5), odd(difference.imag() * T(0.5), difference.real() * T(-0.5));
    std::complex<T> turned = multiplied(odd, std::conj(root));
    line[k] = even + turned;
    line[length - k] = std::conj(even - turned);
}

/* The inverse, times two. The first number and the last one are real. */
template <class T>
void put_together(const std::complex<T> *in, std::complex<T> *line, uint64_t length, uint64_t k, std::complex<T> root)
{
    std::complex<T> a = in[k], b = std::conj(in[length - k]);
    if (k == 0) {
        a = a.real();
        b = b.real();
    }
    std::complex<T> even = a + b, odd = multiplied(a - b, root);
    line[k] = {even.real() - odd.imag(), even.imag() + odd.real()};
    if (k > 0)
        line[length - k] = {even.real() + odd.imag(), odd.real() - even.imag()};
}

/* Does one of these for numbers of some lines, which lie as many more numbers apart than they have. */
template <class T, auto Do, uint64_t MORE_IN, uint64_t MORE_OUT> void run_pairs(const Pairs<T> &pairs, uint64_t block)
try {
    auto roots = table_for<Roots<double>>(2 * pairs.length, false);
    for (uint64_t i = pairs.split.begin(block); i < pairs.split.end(block); i++) {
        uint64_t line = i / pairs.per_line(), k = i % pairs.per_line();
        Do(pairs.in + line * (pairs.length + MORE_IN), pairs.out + line * (pairs.length + MORE_OUT), pairs.length, k,
           static_cast<std::complex<T>>((*roots)[k]));
    }
} catch (const std::exception &) {
    fail(pairs.head, NO_MEMORY);
}

/* ---- planning ------------------------------------------------------------------------------------------------- */

/* Nanoseconds that a line takes. */
template <class T> double line_ns(uint64_t length)
{
    return static_cast<double>(length) * (std::log2(static_cast<double>(length)) + 4) * sizeof(T) * 0.1 + 10;
}

struct Shape {
    uint64_t batch, lengths[3];
    uint32_t rank;

    explicit Shape(const vgc_fft_params &p)
        : batch(static_cast<uint64_t>(p.batch)),
          lengths{static_cast<uint64_t>(p.n0), static_cast<uint64_t>(p.n1), static_cast<uint64_t>(p.n2)},
          rank(static_cast<uint32_t>(p.rank))
    {
    }
    double elements() const
    {
        return static_cast<double>(batch) * static_cast<double>(lengths[0]) * static_cast<double>(lengths[1]) *
               static_cast<double>(lengths[2]);
    }
};

/* Adds a step for the lines of an axis, of which `side_by_side` are transformed at a time. */
template <class Kind, class T> void add_lines(Plan &plan, Axis<T> axis, uint64_t side_by_side)
{
    axis.at_once = side_by_side;
    uint64_t groups = (axis.lines + axis.at_once - 1) / axis.at_once;
    axis.split = plan.split(groups, line_ns<T>(axis.length) * static_cast<double>(axis.at_once));
    axis.scratch = plan.scratch(work_bytes<T>(axis.length, axis.at_once), axis.split.blocks());
    axis.head = plan.head();
    plan.add<run_lines<Kind, T>>(axis.split.blocks(), plan.keep(axis));
}

/* Rows of the matrix that a line of `least` numbers or more becomes; 1: it becomes none. */
uint64_t matrix_rows(uint64_t length, uint64_t least)
{
    uint64_t rows = 1;
    for (uint64_t divisor = 2; length >= least && divisor * divisor <= length; divisor++)
        if (length % divisor == 0)
            rows = divisor;
    return rows >= LEAST_ROWS ? rows : 1;
}

/* Adds the steps for long lines that lie one behind the other, and their results `out_pitch` numbers apart. */
template <class T>
void add_matrices(Plan &plan, uint64_t count, uint64_t length, uint64_t rows, const void *in, void *out,
                  uint64_t out_pitch, T factor, bool forward)
{
    constexpr uint64_t LANES = sizeof(Lanes<T>) / sizeof(T), GAP = 64 / sizeof(T); /* for other lines of the caches */
    uint64_t columns = length / rows, pitch = columns + GAP;
    auto *between = plan.take<std::complex<T>>(count * rows * pitch);
    Axis<T> axis = {};
    axis.in = in;
    axis.out = between;
    axis.lines = count * columns;
    axis.length = rows;
    axis.from = {columns, length, columns};
    axis.to = {columns, rows * pitch, pitch};
    axis.turns = length;
    axis.factor = 1;
    axis.forward = forward;
    add_lines<Complex<T>, T>(plan, axis, LANES);
    axis.in = between;
    axis.out = out;
    axis.lines = count * rows;
    axis.length = columns;
    axis.from = {1, pitch, 1};
    axis.to = {rows, out_pitch, rows};
    axis.turns = 0;
    axis.factor = factor;
    add_lines<Complex<T>, T>(plan, axis, LANES);
}

/* Adds the step that does something for the numbers of lines. */
template <class T, auto Run> void add_pairs(Plan &plan, const void *in, void *out, uint64_t lines, uint64_t length)
{
    Pairs<T> pairs = {
        static_cast<const std::complex<T> *>(in), static_cast<std::complex<T> *>(out), lines, length, {}, plan.head()};
    pairs.split = plan.split(lines * pairs.per_line(), 5);
    plan.add<Run>(pairs.split.blocks(), plan.keep(pairs));
}

/* Adds the steps for real lines as complex ones; false: lines are short, or have no such form. */
template <class Kind, class T>
bool add_as_complex(Plan &plan, uint64_t lines, uint64_t length, const void *in, void *out, T factor)
{
    uint64_t half = length / 2, rows = length % 2 == 0 ? matrix_rows(half, LEAST_REAL) : 1;
    if (rows == 1)
        return false;
    if constexpr (std::is_same_v<Kind, Real<T>>) {
        add_matrices<T>(plan, lines, half, rows, in, out, half + 1, factor, true);
        add_pairs<T, run_pairs<T, take_apart<T>, 1, 1>>(plan, out, out, lines, half);
    } else {
        auto *numbers = plan.take<std::complex<T>>(lines * half);
        add_pairs<T, run_pairs<T, put_together<T>, 1, 0>>(plan, in, numbers, lines, half);
        add_matrices<T>(plan, lines, half, rows, numbers, out, half, factor, false);
    }
    return true;
}

/* Adds the steps of one axis, for an array of `shape` with lines of `length`. */
template <class Kind, class T>
void add_axis(Plan &plan, const Shape &shape, uint32_t index, uint64_t length, const void *in, void *out, T factor,
              bool forward)
{
    uint64_t outer = shape.batch, inner = 1;
    for (uint32_t i = 0; i < 3; i++) // lengths behind the last axis are 1
        (i < index ? outer : inner) *= i == index ? 1 : shape.lengths[i];
    if constexpr (!std::is_same_v<Kind, Complex<T>>) {
        if (add_as_complex<Kind, T>(plan, outer, length, in, out, factor)) // it is the last axis
            return;
    } else if (uint64_t rows = inner == 1 ? matrix_rows(length, LEAST_MATRIX) : 1; rows > 1) {
        return add_matrices<T>(plan, outer, length, rows, in, out, length, factor, forward);
    }
    Axis<T> axis = {};
    axis.in = in;
    axis.out = out;
    axis.lines = outer * inner;
    axis.length = length;
    axis.from = {inner, Kind::in_length(length) * inner, inner};
    axis.to = {inner, Kind::out_length(length) * inner, inner};
    axis.factor = factor;
    axis.forward = forward;
    uint64_t lanes = sizeof(Lanes<T>) / sizeof(T);
    bool is_long = length * 2 * sizeof(Lanes<T>) > (inner == 1 ? LONGEST_AT_ONCE / 64 : LONGEST_AT_ONCE);
    add_lines<Kind, T>(plan, axis, lanes > 1 && axis.lines > lanes / 4 && !is_long ? lanes : 1);
}

template <class T> void plan_c2c(Plan &plan, const vgc_fft_params &p)
{
    Shape shape(p);
    T factor = p.inverse ? static_cast<T>(1 / shape.elements() * static_cast<double>(shape.batch)) : T(1);
    for (uint32_t i = 0; i < shape.rank; i++)
        add_axis<Complex<T>, T>(plan, shape, i, shape.lengths[i], at<void>(i == 0 ? p.in : p.out), at<void>(p.out),
                                i == 0 ? factor : T(1), p.inverse == 0);
}

template <class T> void plan_r2c(Plan &plan, const vgc_fft_params &p)
{
    Shape shape(p);
    uint32_t last = shape.rank - 1;
    uint64_t length = shape.lengths[last];
    add_axis<Real<T>, T>(plan, shape, last, length, at<void>(p.in), at<void>(p.out), T(1), true);
    shape.lengths[last] = length / 2 + 1;
    for (uint32_t i = 0; i < last; i++)
        add_axis<Complex<T>, T>(plan, shape, i, shape.lengths[i], at<void>(p.out), at<void>(p.out), T(1), true);
}

template <class T> void plan_c2r(Plan &plan, const vgc_fft_params &p)
{
    Shape shape(p);
    uint32_t last = shape.rank - 1;
    uint64_t length = shape.lengths[last];
    T factor = static_cast<T>(1 / shape.elements() * static_cast<double>(shape.batch));
    const void *in = at<const void>(p.in);
    shape.lengths[last] = length / 2 + 1;
    void *between = last > 0 ? plan.take<std::complex<T>>(static_cast<uint64_t>(shape.elements())) : nullptr;
    for (uint32_t i = 0; i < last; i++) {
        add_axis<Complex<T>, T>(plan, shape, i, shape.lengths[i], in, between, T(1), false);
        in = between;
    }
    add_axis<Half<T>, T>(plan, shape, last, length, in, at<void>(p.out), factor, false);
}

/* Plans by `Add`, unless there is nothing to transform. */
template <class T, void (*Add)(Plan &, const vgc_fft_params &)> void plan_fft(Plan &plan, const void *params)
{
    const auto &p = *static_cast<const vgc_fft_params *>(params);
    if (p.batch == 0)
        return;
    double elements = Shape(p).elements();
    plan.expect(elements * (std::log2(elements / static_cast<double>(p.batch)) + 4) * sizeof(T) * 0.1);
    Add(plan, p);
}

template <class T> Planner planner(uint32_t function)
{
    switch (function) {
    case VGC_FN_FFT_C2C:
        return plan_fft<T, plan_c2c<T>>;
    case VGC_FN_FFT_R2C:
        return plan_fft<T, plan_r2c<T>>;
    default:
        return plan_fft<T, plan_c2r<T>>;
    }
}
} // namespace

Planner fft_planner(uint32_t function, uint32_t type)
{
    return type == VGC_TYPE_F32 ? planner<float>(function) : planner<double>(function);
}
} // namespace vgc
