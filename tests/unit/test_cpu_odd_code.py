"""Valid code of unusual shape compiles and computes what it says: ends within loops, shared memory behind pointers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig
from virtio_proto.schema import Status

THREADS = 64
Values = np.ndarray[tuple[int], np.dtype[np.uint32]]
Expected = Callable[[Values, Values, int], Values]
"""Output of all threads for their indices, the input and `c`."""

DECLARATIONS = """
struct Cell { unsigned a, b[3]; };
struct View { unsigned *at; unsigned step; };
static __shared__ unsigned outer[64];
__device__ __noinline__ unsigned read_at(const unsigned *p, unsigned i) { return p[i]; }
__device__ __noinline__ unsigned walk(unsigned *p, unsigned n) { return n == 0 ? p[0] : walk(p + 1, n - 1) + 1; }
__device__ __noinline__ unsigned from_outer(unsigned n) { return n == 0 ? outer[5] : from_outer(n - 1); }
"""

FILL = "s[x] = in[x]; t[x] = in[x] * 3; __syncthreads();"

SHARED: dict[str, tuple[str, Expected]] = {
    "select": (f"{FILL} unsigned *p = c ? s : t; out[x] = p[x];", lambda x, v, c: v * (1 if c else 3)),
    "branches": (
        f"{FILL} unsigned *p; if (c & 1) {{ p = s; out[x] = 1; }} else {{ p = t; out[x] = 2; }} out[x] += p[x];",
        lambda x, v, c: v + 1 if c & 1 else v * 3 + 2,
    ),
    "select_by_thread": (
        f"{FILL} unsigned *p = in[x] & 1 ? s : t; out[x] = p[x];",
        lambda x, v, c: v * (3 - 2 * (v & 1)),
    ),
    "select_of_three": (
        f"__shared__ unsigned r[64]; r[x] = 7; {FILL} unsigned *p = c == 0 ? r : c == 1 ? s : t; out[x] = p[63 - x];",
        lambda x, v, c: np.full_like(x, 7) if c == 0 else v[::-1] * (1 if c == 1 else 3),
    ),
    "swapped_in_a_loop": (
        (
            f"{FILL} unsigned *p = s, *q = t; for (unsigned n = 0; n < c; n++) {{ unsigned *r = p; p = q; q = r; "
            "p[x] += q[63 - x]; __syncthreads(); q[x] = p[x] + n; __syncthreads(); } out[x] = p[x] * 5 + q[x];"
        ),
        lambda x, v, c: swapped(v, c),
    ),
    "loop_by_thread": (
        f"{FILL} unsigned *p = s; for (unsigned n = 0; n < x % 5; n++) p = p == s ? t : s; out[x] = p[x];",
        lambda x, v, c: np.where(x % 5 % 2 == 1, v * 3, v),
    ),
    "switched": (
        (
            "__shared__ unsigned r[64]; r[x] = x; "
            f"{FILL} unsigned *p; switch (in[x] % 6) {{ case 0: p = s; break; case 1: case 4: p = t; break; case 2: p = s + 1; break;"
            " default: p = r; } out[x] = p[x & 31];"
        ),
        lambda x, v, c: np.select(
            [v % 6 == 0, (v % 6 == 1) | (v % 6 == 4), v % 6 == 2],
            [v[x & 31], v[x & 31] * 3, v[(x & 31) + 1]],
            x & 31,
        ),
    ),
    "switch_of_one_default": (
        f"{FILL} unsigned *p = t; switch (c) {{ case 3: case 5: case 9: case 11: p = s; default: break; }} out[x] = p[x];",
        lambda x, v, c: v * (1 if c in (3, 5, 9, 11) else 3),
    ),
    "local_array": (
        f"{FILL} unsigned *p[2] = {{s, t}}; out[x] = p[c & 1][x];",
        lambda x, v, c: v * (3 if c & 1 else 1),
    ),
    "local_array_by_thread": (
        (
            f"{FILL} unsigned *p[4] = {{s, t + 1, s + 2, t}}; unsigned sum = 0; for (unsigned n = 0; n < x % 4 + 1; n++)"
            " sum += p[n][x / 2]; out[x] = sum;"
        ),
        lambda x, v, c: np.cumsum(
            [v[x // 2], v[x // 2 + 1] * 3, v[x // 2 + 2], v[x // 2] * 3], axis=0, dtype=np.uint32
        )[x % 4, x],
    ),
    "local_struct": (
        f"{FILL} const View views[2] = {{{{s, 1}}, {{t, 2}}}}; const View &w = views[x & 1]; out[x] = w.at[(x * w.step) & 63];",
        lambda x, v, c: np.where(x & 1, v[x * 2 & 63] * 3, v),
    ),
    "address_comparison": (
        f"{FILL} unsigned *p = c & 1 ? s : t; out[x] = (p == s) + 2 * (p == t) + 4 * (s == t) + 8 * (p + x == s + x) + 16 * (p != nullptr);",
        lambda x, v, c: np.full_like(x, 25 if c & 1 else 18),
    ),
    "integer": (
        f"{FILL} unsigned long long a = (unsigned long long)(c & 1 ? s : t); a += 4 * x; out[x] = *(unsigned *)a + (unsigned)(a % 4);",
        lambda x, v, c: v * (1 if c & 1 else 3),
    ),
    "difference": (
        f"{FILL} unsigned *p = c & 1 ? s + 9 : s + 4; out[x] = (unsigned)(p - s) + (unsigned)(&t[x] - t);",
        lambda x, v, c: x + (9 if c & 1 else 4),
    ),
    "struct_array": (
        (
            "__shared__ Cell cells[64]; cells[x].a = in[x]; cells[x].b[2] = x; __syncthreads();"
            " unsigned *p = c & 1 ? &cells[3].b[2] : &cells[17].a; out[x] = *p + cells[63 - x].b[2] + cells[5].a;"
        ),
        lambda x, v, c: (np.uint32(3) if c & 1 else v[17]) + (63 - x) + v[5],
    ),
    "structs_selected": (
        (
            "__shared__ Cell first[8], second[8]; if (x < 8) { first[x] = {x, {1, 2, 3}}; second[x] = {x + 50, {4, 5, 6}}; }"
            " __syncthreads(); Cell &cell = (x & 1 ? first : second)[x % 8]; out[x] = cell.a + cell.b[x % 3];"
        ),
        lambda x, v, c: np.where(x & 1, x % 8 + 1 + x % 3, x % 8 + 54 + x % 3),
    ),
    "noinline_function": (
        f"{FILL} out[x] = read_at(c & 1 ? s : t, x) + read_at(x & 1 ? s : t, 63 - x);",
        lambda x, v, c: v * (1 if c & 1 else 3) + v[::-1] * np.where(x & 1, 1, 3).astype(np.uint32),
    ),
    "recursive_function": (
        f"{FILL} out[x] = walk(c & 1 ? s : t, x % 8);",
        lambda x, v, c: v[x % 8] * (1 if c & 1 else 3) + x % 8,
    ),
    "variable_of_recursive_function": (
        f"outer[x] = in[x]; {FILL} unsigned *p = x & 1 ? outer : s; out[x] = from_outer(x % 3) + p[x] + t[x];",
        lambda x, v, c: v[5] + v * 4,
    ),
    "function_pointer": (
        f"{FILL} unsigned (*f)(const unsigned *, unsigned) = c > 100 ? nullptr : read_at; out[x] = f(x & 2 ? s : t, x);",
        lambda x, v, c: np.where(x & 2, v, v * 3),
    ),
    "lambda": (
        f"{FILL} auto pick = [&](unsigned n) {{ return n & 1 ? &s[n] : &t[n]; }}; out[x] = *pick(x) + *pick(c);",
        lambda x, v, c: np.where(x & 1, v, v * 3) + (v[c] if c & 1 else v[c] * np.uint32(3)),
    ),
    "atomics": (
        (
            "__shared__ unsigned s[2], t[2]; if (x < 2) { s[x] = 0; t[x] = 100; } __syncthreads();"
            " unsigned *p; if (in[x] & 1) { p = s; atomicAdd(p, 1u); } else { p = t; atomicAdd(p, 2u); }"
            " atomicMax(p + 1, in[x]); __syncthreads(); out[x] = s[0] * 1000 + t[0] + (s[1] ^ t[1]);"
        ),
        lambda x, v, c: np.full_like(
            x,
            1000 * int((v & 1).sum())
            + 100
            + 2 * int((~v & 1).sum())
            + (int(v[v & 1 == 1].max()) ^ max(100, int(v[v & 1 == 0].max()))),
        ),
    ),
    "volatile_pointer": (
        f"{FILL} volatile unsigned *p = c & 1 ? s : t; unsigned sum = 0; for (unsigned n = 0; n < x % 7; n++) sum += p[n]; out[x] = sum;",
        lambda x, v, c: (
            np.concatenate([[0], np.cumsum(v[:6], dtype=np.uint32)]).astype(np.uint32)[x % 7] * (1 if c & 1 else 3)
        ),
    ),
    "address_escapes": (
        f"__shared__ unsigned *where; {FILL} if (x == 0) where = c & 1 ? s : t; __syncthreads(); out[x] = where[x];",
        lambda x, v, c: v * (1 if c & 1 else 3),
    ),
}


def swapped(values: Values, rounds: int) -> Values:
    p, q = values.copy(), values * 3
    for number in range(rounds):
        p, q = q, p
        p = p + q[::-1]
        q = p + np.uint32(number)
    return p * 5 + q


def shared_source() -> str:
    kernels = []
    for name, (body, _) in SHARED.items():
        usual = "__shared__ unsigned s[64], t[64];" if FILL in body else ""
        kernels.append(
            f'extern "C" __global__ void {name}(unsigned *out, const unsigned *in, unsigned c) {{\n'
            f"    unsigned x = threadIdx.x; {usual}\n    {body}\n}}\n"
        )
    return DECLARATIONS + "".join(kernels)


@pytest.fixture(scope="module")
def shared_kernels() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load(shared_source())
        yield gpu


@pytest.mark.parametrize("c", [0, 1, 3, 6])
@pytest.mark.parametrize("name", SHARED)
def test_shared_memory_behind_pointers(shared_kernels: Rig, name: str, c: int) -> None:
    gpu = shared_kernels
    values = np.random.default_rng(7).integers(0, 1000, THREADS).astype(np.uint32)
    out = gpu.array(THREADS, np.uint32)
    gpu.launch(name, 1, THREADS, out, gpu.array(THREADS, np.uint32, values), np.uint32(c))
    expected = SHARED[name][1](np.arange(THREADS, dtype=np.uint32), values, c)
    assert out.tolist() == expected.tolist()


ENDS: dict[str, tuple[str, Expected]] = {
    "trap_in_loop": (
        "for (unsigned n = 0; n < x; n++) if (in[n] == 5000) __trap(); out[x] = x;",
        lambda x, v, c: x,
    ),
    "trap_behind_loop": (
        "unsigned sum = 0; for (unsigned n = 0; n < x; n++) sum += in[n]; if (sum > 1u << 30) __trap(); out[x] = sum;",
        lambda x, v, c: np.cumsum(v, dtype=np.uint32) - v,
    ),
    "assertion_in_loop": (
        "unsigned sum = 0; for (unsigned n = 0; n < x % 9; n++) { assert(in[n] < 5000); sum += in[n] * n; } out[x] = sum;",
        lambda x, v, c: np.concatenate([[0], np.cumsum(np.arange(8) * v[:8])])[x % 9],
    ),
    "assertion_behind_loops": (
        "unsigned n = 0; while (in[n] != in[x]) n++; for (unsigned m = 0; m < n; m++) n ^= m; assert(n < 5000); out[x] = in[x] + c;",
        lambda x, v, c: v + np.uint32(c),
    ),
    "trap_between_barriers": (
        (
            "__shared__ unsigned s[64]; for (unsigned n = 0; n < c; n++) { s[x] = in[x] + n; __syncthreads();"
            " for (unsigned m = 0; m < x; m++) if (s[m] > 5000) __trap(); out[x] = s[63 - x]; __syncthreads(); } if (c == 0) out[x] = 0;"
        ),
        lambda x, v, c: v[::-1] + np.uint32(c - 1) if c else 0 * x,
    ),
    "unreachable_in_loop": (
        (
            "unsigned sum = 0; for (unsigned n = 0; n < x; n++) switch (in[n] % 3) { case 0: sum += 1; break; case 1: sum += 2;"
            " break; case 2: sum += 3; break; default: __builtin_unreachable(); } out[x] = sum;"
        ),
        lambda x, v, c: np.cumsum(v % 3 + 1, dtype=np.uint32) - (v % 3 + 1),
    ),
    "endless_loop_that_nobody_enters": (
        "unsigned sum = 0; for (unsigned n = 0; n < x; n++) { if (in[n] == 5000) for (;;) atomicAdd(out, 1u); sum += in[n]; } out[x] = sum;",
        lambda x, v, c: np.cumsum(v, dtype=np.uint32) - v,
    ),
    "return_in_nested_loops": (
        (
            "out[x] = 9; for (unsigned n = 0; n < 8; n++) for (unsigned m = 0; m < 8; m++) { if (n * 8 + m == x) { out[x] = n + 100 * m;"
            " return; } if (in[n * 8 + m] == 5000) __trap(); } out[x] = 7;"
        ),
        lambda x, v, c: x // 8 + 100 * (x % 8),
    ),
    "jump_into_loop": (
        "unsigned n = 0, sum = 0; if (in[x] & 1) goto middle; for (; n < x % 9; n++) { sum += 10; middle: sum += n; } out[x] = sum;",
        lambda x, v, c: sum(
            ((n < x % 9) | ((n == 0) & (v & 1 == 1))) * (np.uint32(n) + 10 * ~((n == 0) & (v & 1 == 1)))
            for n in range(9)
        ),
    ),
    "switch_falls_through_in_loop": (
        (
            "unsigned sum = 0; for (unsigned n = 0; n < x % 9; n++) switch ((in[n] + n) % 4) { case 0: sum += 1; case 1: sum += 10; case 2:"
            " continue; case 3: sum += 100; if (sum > 100000) return; } out[x] = sum;"
        ),
        lambda x, v, c: np.concatenate(
            [[0], np.cumsum(np.array([11, 10, 0, 100], np.uint32)[(v[:8] + np.arange(8)) % 4])]
        )[x % 9],
    ),
}

UNDEFINED: dict[str, tuple[str, Expected]] = {
    "compared_with_a_shift_by_too_much": (
        "out[x] = 7; if (in[x] == (unsigned)1ull << 63) out[x] = 8;",
        lambda x, v, c: np.where(v == 0, 8, 7),
    ),
    "branch_on_a_shift_by_too_much": ("out[x] = 7; if (1u << 32) out[x] = 8;", lambda x, v, c: np.full_like(x, 7)),
    "sum_with_a_shift_by_too_much": ("out[x] = in[x] + (-5 >> 40) * 0u + (3u << 99);", lambda x, v, c: v),
    "structure_of_a_shift_by_too_much": (
        "uint2 pair = make_uint2(1u << 32, in[x]); out[x] = pair.x + 2 * pair.y;",
        lambda x, v, c: 2 * v,
    ),
}
"""Operations on constants that C++ does not define; their result is 0."""

TRAPS = {
    "in_loop": "for (unsigned n = 0; n < x; n++) if (in[n] == 7) __trap(); out[x] = 1;",
    "behind_loop": "unsigned n = 0; while (n < x && in[n] != 7) n++; if (n < x) __trap(); out[x] = n;",
    "assertion": "unsigned n = 0; for (; n < x; n++) assert(in[n] != 7); out[x] = n;",
    "behind_barrier": "for (unsigned n = 0; n < 2; n++) { __syncthreads(); for (unsigned m = 0; m < x; m++) if (in[m] == 7) __trap(); }",
}


def plain_source(bodies: dict[str, str]) -> str:
    return "".join(
        f'extern "C" __global__ void {name}(unsigned *out, const unsigned *in, unsigned c) {{\n'
        f"    unsigned x = threadIdx.x;\n    {body}\n}}\n"
        for name, body in bodies.items()
    )


@pytest.fixture(scope="module")
def plain_kernels() -> Iterator[Rig]:
    with rig(pes=1) as gpu:
        gpu.load(plain_source({name: body for name, (body, _) in (ENDS | UNDEFINED).items()} | TRAPS))
        yield gpu


@pytest.mark.parametrize("c", [0, 1, 2])
@pytest.mark.parametrize("name", ENDS)
def test_ends_within_loops(plain_kernels: Rig, name: str, c: int) -> None:
    gpu = plain_kernels
    values = np.random.default_rng(8).integers(0, 1000, THREADS).astype(np.uint32)
    out = gpu.array(THREADS, np.uint32)
    gpu.launch(name, 1, THREADS, out, gpu.array(THREADS, np.uint32, values), np.uint32(c))
    expected = ENDS[name][1](np.arange(THREADS, dtype=np.uint32), values, c)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("name", UNDEFINED)
def test_constants_that_are_undefined_are_zeroes(plain_kernels: Rig, name: str) -> None:
    gpu = plain_kernels
    values = np.arange(THREADS, dtype=np.uint32) % 3
    out = gpu.array(THREADS, np.uint32)
    gpu.launch(name, 1, THREADS, out, gpu.array(THREADS, np.uint32, values), np.uint32(0))
    expected = UNDEFINED[name][1](np.arange(THREADS, dtype=np.uint32), values, 0)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("name", TRAPS)
def test_trap_that_a_thread_reaches_ends_the_launch(plain_kernels: Rig, name: str) -> None:
    gpu = plain_kernels
    out, values = gpu.array(THREADS, np.uint32), gpu.array(THREADS, np.uint32, 9)
    gpu.launch(name, 1, THREADS, out, values, np.uint32(0))
    values[40] = 7
    with pytest.raises(LaunchError, match=r"thread:? [(\[]41,0,0[)\]]") as caught:
        gpu.launch(name, 1, THREADS, out, values, np.uint32(0))
    assert caught.value.status == (Status.ASSERT if name == "assertion" else Status.FAULT)


PLACES = """
__device__ __noinline__ unsigned own(unsigned n, unsigned k) {
    return n == 0 ? k + threadIdx.x : own(n - 1, k) ^ own(n - 1, k + 8);
}
__device__ unsigned twice(unsigned n, unsigned c) { return n == 0 ? own(c, 5) : twice(n - 1, c) + twice(n - 1, c); }
__device__ unsigned seen(const unsigned *p, unsigned n) {
    return n == 0 ? p[blockIdx.x * blockDim.x + threadIdx.x] : seen(p, n - 1) + seen(p + 1, n - 1);
}
"""
"""Recursive functions whose result depends on nothing but their arguments, memory, and the thread that calls them."""


def own(thread: Values, n: int, k: int) -> Values:
    return thread + np.uint32(k) if n == 0 else own(thread, n - 1, k) ^ own(thread, n - 1, k + 8)


PLACED: dict[str, tuple[str, Expected]] = {
    "same_arguments": ("out[x] = own(c, 3);", lambda x, v, c: own(x % 4, c, 3)),
    "through_another": ("out[x] = twice(c, c);", lambda x, v, c: 8 * own(x % 4, c, 5)),
    "reads_memory": ("out[x] = seen(in, c);", lambda x, v, c: v[:-3] + 3 * v[1:-2] + 3 * v[2:-1] + v[3:]),
    "in_loop": (
        "unsigned sum = 0; for (unsigned n = 0; n < in[x] % 5; n++) sum += own(c, c); out[x] = sum;",
        lambda x, v, c: v[:-3] % 5 * own(x % 4, c, c),
    ),
    "behind_barrier": (
        (
            "__shared__ unsigned s[4]; s[threadIdx.x] = own(c, c); __syncthreads();"
            " out[x] = s[3 - threadIdx.x] + own(c, c);"
        ),
        lambda x, v, c: own(3 - x % 4, c, c) + own(x % 4, c, c),
    ),
}


@pytest.mark.parametrize("name", PLACED)
def test_functions_that_stay_functions_know_their_thread(name: str) -> None:
    body, expected = PLACED[name]
    values = np.random.default_rng(9).integers(0, 1000, THREADS + 3).astype(np.uint32)
    parameters = "(unsigned *__restrict__ out, const unsigned *__restrict__ in, unsigned c)"
    with rig(pes=1) as gpu:
        index = "unsigned x = blockIdx.x * blockDim.x + threadIdx.x;"
        gpu.load(f'{PLACES} extern "C" __global__ void {name}{parameters} {{ {index} {body} }}')
        out = gpu.array(THREADS, np.uint32)
        gpu.launch(name, THREADS // 4, 4, out, gpu.array(THREADS + 3, np.uint32, values), np.uint32(3))
        assert out.tolist() == expected(np.arange(THREADS, dtype=np.uint32), values, 3).tolist()


def test_computed_goto_is_refused_with_its_place() -> None:
    """CUDA has no addresses of labels."""
    body = "\nvoid *to[] = {&&a, &&b, &&c};\ngoto *to[*x];\na: *x = 1; return;\nb: *x = 2; return;\nc: *x = 3;"
    with pytest.raises(CompileError, match=r"source\.cu:1: computed goto is not supported"):
        compile_image(f'extern "C" __global__ void f(int *x) {{{body} }}')
    body = '\nasm goto("" :::: out);\n*x = 1;\nout: *x = 2;'
    with pytest.raises(CompileError, match=r"source\.cu:2: assembly that jumps to labels is not supported"):
        compile_image(f'extern "C" __global__ void f(int *x) {{{body} }}')


@pytest.mark.parametrize(
    "names",
    [
        'extern "C" __global__ void other(int *x) __attribute__((alias("f")));',
        'extern "C" __device__ int one() { return 1; }\nextern "C" __device__ int also() __attribute__((alias("one")));',
        '__device__ int mine __asm__("vgc_cpu_image") = 3;',
        '__device__ int mine() __asm__("vgc_cpu_image");\n__device__ int mine() { return 3; }',
    ],
)
def test_names_that_are_others_do_no_harm(names: str) -> None:
    """Other names of kernels and functions, and names that the runtime looks for."""
    value = "also()" if "also" in names else "1"
    with rig() as gpu:
        gpu.load(f'{names}\nextern "C" __global__ void f(int *x) {{ *x = {value}; }}\n')
        out = gpu.array(1, np.int32)
        gpu.launch("f", 1, 1, out)
        assert out[0] == 1
