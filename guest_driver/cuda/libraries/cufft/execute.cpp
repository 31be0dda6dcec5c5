// A plan's launches: dimension by dimension, each in one to three levels.
#include <algorithm>

#include "plan.h"

namespace vgc_fft
{
namespace
{

struct Lines {
    unsigned counts[3] = {1, 1, 1};
    unsigned total() const
    {
        return counts[0] * counts[1] * counts[2];
    }
};

// One end of a dimension's transforms.
struct End {
    void *data;
    int kind, narrow, valid;
    long long stride, line[3];
    const void *factor;
};

End end_of(const Plan &plan, const Layout &layout, int d, int valid)
{
    End end = {layout.data, layout.kind, plan.is_narrow() && layout.callers, valid, layout.stride[d],
               {0, 0, 0},   nullptr};
    int place = 0;
    for (int other = plan.rank - 1; other >= 0; other--)
        if (other != d)
            end.line[place++] = layout.stride[other];
    end.line[2] = layout.batch;
    return end;
}

End area(void *data, const Lines &lines, long long n)
{
    const long long second = n * lines.counts[0];
    return {data, VGC_FFT_COMPLEX, false, (int)n, 1, {n, second, second * lines.counts[1]}, nullptr};
}

void factorize(vgc_fft_pass &pass)
{
    int rest = pass.n;
    for (const int radix : {8, 4, 2, 3, 5})
        for (; rest % radix == 0; rest /= radix)
            pass.factors[pass.factor_count++] = radix;
    for (int p = 7; rest > 1; p += 2)
        for (; rest % p == 0; rest /= p)
            pass.factors[pass.factor_count++] = p;
}

// Lines side by side in memory go to neighbouring threads; else the elements of a line do.
bool goes_by_column(const vgc_fft_pass &pass)
{
    if (pass.n <= 32)
        return true;
    for (int i = 0; i < 5; i++)
        if (pass.counts[i] > 1)
            return (i < 2 ? pass.in.digit[i] * pass.in.stride : pass.in.line[i - 2]) < pass.in.step * pass.in.stride;
    return false;
}

cufftResult send(const Plan &plan, vgc_fft_pass &pass)
{
    const int room = (int)(49152 / (2 * plan.pair_bytes()));
    const int fitting = (int)std::min<long long>(room / pass.n, pass.lines);
    dim3 threads;
    factorize(pass);
    pass.by_column = goes_by_column(pass);
    if (pass.by_column) {
        threads.x = std::min(fitting, pass.n <= 8 ? 128 : 32);
        threads.y = std::max(1, std::min<int>(256 / threads.x, pass.n / 4));
    } else {
        threads.x = std::min(256, (pass.n / 4 + 31) / 32 * 32);
        threads.y = std::max(1, std::min<int>(fitting, 256 / threads.x));
    }
    const unsigned width = pass.by_column ? threads.x : threads.y;
    const size_t shared_bytes = 2 * plan.pair_bytes() * width * pass.n;
    const auto launch = plan.is_double()                  ? vgc_fft_launch_double
                        : plan.storage == Storage::half   ? vgc_fft_launch_half
                        : plan.storage == Storage::bfloat ? vgc_fft_launch_bfloat
                                                          : vgc_fft_launch_single;
    return launch(pass, (pass.lines + width - 1) / width, threads, shared_bytes, plan.stream) == cudaSuccess
               ? CUFFT_SUCCESS
               : CUFFT_EXEC_FAILED;
}

vgc_fft_side side_of(const End &end)
{
    return {1, {0, 0}, end.stride, {end.line[0], end.line[1], end.line[2]}, end.valid, end.kind, end.narrow};
}

// Bailey's digits: of the whole index, level 0 transforms the slowest one, and the last level puts the results in
// order.
void set_digits(vgc_fft_pass &pass, const std::vector<int> &levels, size_t level)
{
    const long long second = levels.size() > 1 ? levels[1] : 1, third = levels.size() > 2 ? levels[2] : 1;
    const long long first = levels[0];
    if (levels.size() == 1)
        return;
    if (level == 0) {
        pass.counts[0] = (unsigned)(second * third);
        pass.in.step = pass.out.step = second * third;
        pass.in.digit[0] = pass.out.digit[0] = 1;
    } else if (level + 1 == levels.size()) {
        pass.counts[0] = (unsigned)first;
        pass.in.digit[0] = second * third;
        pass.out.digit[0] = 1;
        pass.out.step = first;
        if (level == 2) {
            pass.counts[1] = (unsigned)second;
            pass.in.digit[1] = third;
            pass.out.digit[1] = first;
            pass.out.step = first * second;
        }
    } else {
        pass.counts[0] = (unsigned)third;
        pass.counts[1] = (unsigned)first;
        pass.in.step = pass.out.step = third;
        pass.in.digit[0] = pass.out.digit[0] = 1;
        pass.in.digit[1] = pass.out.digit[1] = second * third;
    }
}

struct Work {
    char *split, *chirp, *copy;
};
Work work_of(const Plan &plan)
{
    char *const chirp = plan.work + plan.area_split * plan.pair_bytes();
    return {plan.work, chirp, chirp + plan.area_chirp * plan.pair_bytes()};
}

cufftResult run_levels(const Plan &plan, const Length &length, const Lines &lines, const End &in, const End &out,
                       int sign, int direction)
{
    const auto table = [&](size_t place) { return plan.tables + place * plan.pair_bytes(); };
    const End between = area(work_of(plan).split, lines, length.padded);
    for (size_t level = 0; level < length.levels.size(); level++) {
        const bool first = level == 0, last = level + 1 == length.levels.size();
        const End &from = first ? in : between, &to = last ? out : between;
        vgc_fft_pass pass = {};
        pass.n = length.levels[level];
        pass.size = length.n;
        pass.sign = sign;
        pass.chirp_sign = direction;
        pass.counts[0] = pass.counts[1] = 1;
        std::copy(lines.counts, lines.counts + 3, pass.counts + 2);
        pass.in = side_of(from);
        pass.out = side_of(to);
        set_digits(pass, length.levels, level);
        pass.lines = lines.total() * pass.counts[0] * pass.counts[1];
        pass.input = from.data;
        pass.output = to.data;
        pass.in_factor = from.factor;
        pass.out_factor = to.factor;
        pass.table = table(length.table[level]);
        if (!last) {
            pass.fine = table(length.fine[level]);
            pass.coarse = table(length.coarse[level]);
            pass.twiddle_shift = length.shift[level];
        }
        if (const cufftResult result = send(plan, pass))
            return result;
    }
    return CUFFT_SUCCESS;
}

cufftResult run_dimension(const Plan &plan, int d, const Layout &from, const Layout &to, int direction)
{
    const Length &length = plan.lengths[d];
    const bool real = (plan.from_real() || plan.to_real()) && d == plan.rank - 1;
    Lines lines;
    for (int other = plan.rank - 1, place = 0; other >= 0; other--)
        if (other != d)
            lines.counts[place++] = (unsigned)plan.complex_count(other);
    lines.counts[2] = (unsigned)plan.batch;
    End in = end_of(plan, from, d, length.n);
    End out = end_of(plan, to, d, real && plan.from_real() ? plan.half() : length.n);
    if (real && plan.to_real())
        in.kind = VGC_FFT_HERMITIAN;
    if (!length.chirp)
        return run_levels(plan, length, lines, in, out, direction, direction);
    End middle = area(work_of(plan).chirp, lines, length.padded);
    in.factor = out.factor = plan.tables + length.chirp_table * plan.pair_bytes();
    middle.factor = plan.tables + length.filter * plan.pair_bytes();
    if (const cufftResult result = run_levels(plan, length, lines, in, middle, CUFFT_FORWARD, direction))
        return result;
    middle.factor = nullptr;
    return run_levels(plan, length, lines, middle, out, CUFFT_INVERSE, direction);
}

// Copies the input to a work area, as transforms of length 1 do.
cufftResult copy_input(const Plan &plan, const Layout &from, const Layout &to)
{
    vgc_fft_pass pass = {};
    const int last = plan.rank - 1;
    pass.n = pass.size = 1;
    pass.counts[0] = (unsigned)(plan.to_real() ? plan.half() : plan.n[last]);
    pass.counts[1] = 1;
    pass.counts[2] = (unsigned)(plan.rank > 1 ? plan.n[last - 1] : 1);
    pass.counts[3] = (unsigned)(plan.rank > 2 ? plan.n[0] : 1);
    pass.counts[4] = (unsigned)plan.batch;
    pass.in = side_of(end_of(plan, from, last, plan.n[last]));
    pass.out = side_of(end_of(plan, to, last, plan.n[last]));
    pass.in.digit[0] = pass.out.digit[0] = 1;
    pass.lines = 1;
    for (const unsigned count : pass.counts)
        pass.lines *= count;
    pass.input = from.data;
    pass.output = to.data;
    pass.table = plan.tables;
    return send(plan, pass);
}

// Whether each line's results take the place of that line alone, so that blocks may work in place.
bool lines_agree(const Plan &plan, const Layout &in, const Layout &out)
{
    const auto bytes = [&](const Layout &layout, long long stride) {
        return stride * (long long)plan.element_bytes(layout);
    };
    for (int d = 0; d < plan.rank - 1; d++)
        if (bytes(in, in.stride[d]) != bytes(out, out.stride[d]))
            return false;
    const int last = plan.rank - 1;
    const bool same =
        in.kind == out.kind ? in.stride[last] == out.stride[last] : in.stride[last] == 1 && out.stride[last] == 1;
    return same && (plan.batch == 1 || bytes(in, in.batch) == bytes(out, out.batch));
}
} // namespace

// Rows after one another; `padded` reals leave room for the complex results of their row.
Layout packed_layout(const Plan &plan, int kind, bool padded)
{
    Layout layout;
    layout.kind = kind;
    long long total = 1;
    for (int d = plan.rank - 1; d >= 0; d--) {
        layout.stride[d] = total;
        const bool last = d == plan.rank - 1;
        total *= !last                  ? plan.n[d]
                 : kind != VGC_FFT_REAL ? plan.complex_count(d)
                 : padded               ? 2 * plan.half()
                                        : plan.n[d];
    }
    layout.batch = total;
    return layout;
}

cufftResult execute(const Plan &plan, void *input, void *output, int direction)
{
    Layout in = plan.in, out = plan.out;
    if (plan.default_layout) {
        in = packed_layout(plan, plan.from_real() ? VGC_FFT_REAL : VGC_FFT_COMPLEX, input == output);
        out = packed_layout(plan, plan.to_real() ? VGC_FFT_REAL : VGC_FFT_COMPLEX, input == output);
    }
    in.data = input;
    out.data = output;
    in.callers = out.callers = true;
    if (plan.host)
        return run_on_host(plan, in, out, direction);
    Layout copy = packed_layout(plan, plan.from_real() ? VGC_FFT_REAL : VGC_FFT_COMPLEX, false);
    copy.data = work_of(plan).copy;
    if (input == output && plan.needs_copy && !lines_agree(plan, in, out)) {
        if (const cufftResult result = copy_input(plan, in, copy))
            return result;
        in = copy;
    }
    // To reals the last dimension goes last, and through a work area: the output has no room for complex numbers.
    if (plan.to_real()) {
        for (int d = 0; d < plan.rank - 1; d++, in = copy)
            if (const cufftResult result = run_dimension(plan, d, in, copy, direction))
                return result;
        return run_dimension(plan, plan.rank - 1, in, out, direction);
    }
    for (int d = plan.rank - 1; d >= 0; d--, in = out)
        if (const cufftResult result = run_dimension(plan, d, in, out, direction))
            return result;
    return CUFFT_SUCCESS;
}

cufftResult prepare(Plan &plan, bool upload)
{
    std::vector<double> tables(2); // never empty
    size_t complex_total = (size_t)plan.batch;
    for (int d = 0; d < plan.rank; d++)
        complex_total *= (size_t)plan.complex_count(d);
    plan.area_split = plan.area_chirp = plan.area_copy = 0;
    plan.host = host_function(plan);
    if (plan.host)
        return CUFFT_SUCCESS;
    for (int d = 0; d < plan.rank; d++) {
        Length &length = plan.lengths[d];
        length = length_of(plan.n[d], plan.is_double(), tables);
        const size_t area = complex_total / (size_t)plan.complex_count(d) * (size_t)length.padded;
        if (area >= 1u << 31)
            return CUFFT_INVALID_SIZE;
        plan.area_split = std::max(plan.area_split, length.levels.size() > 1 ? area : 0);
        plan.area_chirp = std::max(plan.area_chirp, length.chirp ? area : 0);
    }
    plan.needs_copy = !plan.default_layout && !lines_agree(plan, plan.in, plan.out);
    size_t copied = plan.from_real() ? (complex_total / (size_t)plan.half() * (size_t)plan.n[plan.rank - 1] + 1) / 2
                                     : complex_total;
    plan.area_copy = plan.needs_copy || (plan.to_real() && plan.rank > 1) ? copied : 0;
    if (!upload)
        return CUFFT_SUCCESS;
    std::vector<float> singles(tables.begin(), tables.end());
    const void *data = plan.is_double() ? (const void *)tables.data() : (const void *)singles.data();
    const size_t bytes = tables.size() / 2 * plan.pair_bytes();
    if (cudaMalloc((void **)&plan.tables, bytes) != cudaSuccess)
        return CUFFT_ALLOC_FAILED;
    return cudaMemcpy(plan.tables, data, bytes, cudaMemcpyHostToDevice) == cudaSuccess ? CUFFT_SUCCESS
                                                                                       : CUFFT_INTERNAL_ERROR;
}

} // namespace vgc_fft
