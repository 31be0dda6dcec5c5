"""Inline PTX as programs write it: in small functions of their own, in loops that wait, beside intrinsics."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_image, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
#define FN static __device__ __forceinline__ unsigned

// ---- carries across functions ----

FN add_cc(unsigned a, unsigned b) { unsigned r; asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
FN addc_cc(unsigned a, unsigned b) { unsigned r; asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
FN addc(unsigned a, unsigned b) { unsigned r; asm volatile("addc.u32 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b)); return r; }
struct Wide {
    unsigned words[4];
    __device__ void add(const Wide &other) {
        words[0] = add_cc(words[0], other.words[0]);
        for (int i = 1; i < 3; i++) words[i] = addc_cc(words[i], other.words[i]);
        words[3] = addc(words[3], other.words[3]);
    }
};
EXPORT compare(const unsigned *x, unsigned *no_borrow) {
    asm("{ .reg .u32 low, high; sub.cc.u32 low, %1, %3; subc.cc.u32 high, %2, %4; addc.u32 %0, 0, 0; }"
        : "=r"(no_borrow[threadIdx.x]) : "r"(x[4 * threadIdx.x]), "r"(x[4 * threadIdx.x + 1]),
          "r"(x[4 * threadIdx.x + 2]), "r"(x[4 * threadIdx.x + 3]));
}
EXPORT add_wide(Wide *sums, const Wide *numbers) { sums[threadIdx.x].add(numbers[threadIdx.x]); }

// ---- memory that others write ----

static __device__ __forceinline__ unsigned get(const unsigned *p) {
    unsigned v;
    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
template <int How> static __device__ void wait(unsigned *x) {
    if (blockIdx.x == 0) {
        x[1] = 42;
        __threadfence();
        atomicExch(&x[0], 1u);
    } else {
        if (How == 0) while (get(&x[0]) == 0) {}
        if (How == 1) while (__ldcv(&x[0]) == 0) {}
        if (How == 2) { unsigned v; do asm volatile("ld.global.cv.u32 %0, [%1];" : "=r"(v) : "l"(x)); while (v == 0); }
        x[2] = x[1] + 1;
    }
}
EXPORT wait_asm(unsigned *x) { wait<0>(x); }
EXPORT wait_ldcv(unsigned *x) { wait<1>(x); }
EXPORT wait_cv(unsigned *x) { wait<2>(x); }

// ---- vectors that others write ----

#define VECTORS(name, ordering, type, constraint)                                                                         \
EXPORT name(type *pair, int *torn, int rounds) {                                                                          \
    for (int i = 0; i < rounds; i++) {                                                                                    \
        type a, b;                                                                                                        \
        if (blockIdx.x == 0)                                                                                              \
            asm volatile("st." ordering " [%0], {%1, %2};" :: "l"(pair), constraint((type)i), constraint((type)i) : "memory"); \
        else {                                                                                                            \
            asm volatile("ld." ordering " {%0, %1}, [%2];" : "=" constraint(a), "=" constraint(b) : "l"(pair) : "memory"); \
            *torn += a != b;                                                                                              \
        }                                                                                                                 \
    }                                                                                                                     \
}
VECTORS(relaxed_long_pairs, "relaxed.gpu.global.v2.u64", unsigned long long, "l")
VECTORS(cached_long_pairs, "global.cg.v2.u64", unsigned long long, "l")
VECTORS(relaxed_pairs, "relaxed.gpu.global.v2.u32", unsigned, "r")

// ---- addresses of shared memory ----

EXPORT shared_addresses(int *out, const int *in) {
    __shared__ __align__(16) int padding[4], cells[4];
    padding[threadIdx.x] = -1;
    const unsigned to = (unsigned)__cvta_generic_to_shared(&cells[0]);
    if (threadIdx.x == 0)
        asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
                     "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, policy; }" :: "r"(to), "l"(in) : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(to + 4 * threadIdx.x));
    int *again = (int *)__cvta_shared_to_generic(to);
    out[threadIdx.x] = value + (again == cells) * 100 + __isShared(cells) * 1000 + __isGlobal(in) * 10000 + __isShared(in) * 7;
}

EXPORT averages(unsigned *out) {
    asm("vavrg4.s32.s32.s32 %0, %1, %2, %3;" : "=r"(out[0]) : "r"(0xfffefdfcu), "r"(1u), "r"(0u));
    asm("vavrg4.u32.u32.u32 %0, %1, %2, %3;" : "=r"(out[1]) : "r"(0xff020100u), "r"(0xff010101u), "r"(0u));
}

// ---- brackets that are none of a launch ----

template <class T> struct Stream { T value; };
template <class T> __host__ __device__ Stream<T> operator<< (Stream<T> s, T t) { return {s.value + t}; }
template <class T> struct Text { template <class U> __device__ int operator<< (U) const { return 7; } };
static const char *raw = R"(a >> > b << < c)";
EXPORT streams(int *out) {
    Text<int> text;
    out[0] = text.operator<< <int>(4) + (Stream<int>{1} << 2).value;
}
"""


FOUR, OTHERS, FLOAT = "{%0,%0,%0,%0}", "{%1,%1,%1,%1}", '"+f"(*(float *)x)'


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(2) as gpu:
        gpu.load(SOURCE)
        yield gpu


def test_carry_lives_across_functions(gpu: Rig) -> None:
    random = np.random.default_rng(3)
    a, b = (random.choice([0, 1, 0xFFFFFFFF, 0x80000000, 12345], (64, 4)).astype(np.uint32) for _ in range(2))
    sums, numbers = gpu.array((64, 4), np.uint32, a), gpu.array((64, 4), np.uint32, b)
    gpu.launch("add_wide", 1, 64, sums, numbers)

    def whole(words: np.ndarray[tuple[int], np.dtype[np.uint32]]) -> int:
        return sum(int(word) << 32 * place for place, word in enumerate(words))

    for left, right, total in zip(a, b, sums, strict=True):
        assert whole(total) == (whole(left) + whole(right)) % (1 << 128)


def test_a_difference_that_borrows_nothing_leaves_a_carry(gpu: Rig) -> None:
    random = np.random.default_rng(4)
    words = gpu.array((64, 4), np.uint32, random.choice([0, 1, 2, 0xFFFFFFFF], (64, 4)))
    carries = gpu.array(64, np.uint32)
    gpu.launch("compare", 1, 64, words, carries)
    pairs = words.view(np.uint64)
    assert list(carries) == list(pairs[:, 0] >= pairs[:, 1])


@pytest.mark.parametrize("how", ["asm", "ldcv", "cv"])
def test_loop_reads_what_a_block_writes_meanwhile(gpu: Rig, how: str) -> None:
    x = gpu.array(3, np.uint32)
    gpu.launch(f"wait_{how}", 2, 1, x)
    assert list(x) == [1, 42, 43]


@pytest.mark.parametrize("how", ["relaxed_long_pairs", "cached_long_pairs", "relaxed_pairs"])
def test_vectors_are_seen_whole_while_they_are_written(gpu: Rig, how: str) -> None:
    pair, torn = gpu.array(2, np.uint32 if how == "relaxed_pairs" else np.uint64), gpu.array(1, np.int32)
    gpu.launch(how, 2, 1, pair, torn, np.int32(2_000_000))
    assert torn[0] == 0


def test_addresses_of_shared_memory_are_those_of_ptx(gpu: Rig) -> None:
    out, given = gpu.array(4, np.int32), gpu.array(4, np.int32, [5, 6, 7, 8])
    gpu.launch("shared_addresses", 1, 4, out, given)
    assert list(out) == [11105, 11106, 11107, 11108]


def test_averages_round_away_from_zero_like_the_instruction(gpu: Rig) -> None:
    out = gpu.array(2, np.uint32)
    gpu.launch("averages", 1, 1, out)
    assert [hex(value) for value in out] == ["0xfffffefe", "0xff020101"]


def test_shift_operators_of_templates_are_no_launches(gpu: Rig) -> None:
    out = gpu.array(1, np.int32)
    gpu.launch("streams", 1, 1, out)
    assert out[0] == 10


@pytest.mark.parametrize(
    "statement",
    [
        '"cvt.rn.satfinite.f16.f64 %0, %1;" : "=h"(*(short *)x) : "d"(1e6)',
        '"{ .reg .b32 a; mov.b32 a, {1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1}; }" :',
        '"mov.b32 {%0, %0, %0}, 7;" : "=r"(x[0])',
        f'"mma.sync.aligned.m16n8k32.row.col.f32.s8.s8.f32 {FOUR}, {OTHERS}, {{%1,%1}}, {FOUR};" : {FLOAT} : "r"(x[1])',
        '"atom.global.add.f32x2 %0, [%1], %0;" : "+l"(*(long long *)x) : "l"(x)',
    ],
)
def test_what_has_no_meaning_is_refused(statement: str) -> None:
    with pytest.raises(CompileError, match=r"source.cu:1: ") as caught:
        compile_image(f'extern "C" __global__ void f(int *x) {{ asm volatile({statement}); }}')
    assert "internal" not in str(caught.value)
