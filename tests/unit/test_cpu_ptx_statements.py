"""Inline PTX in kernels of the CPU engine: operands, scopes, jumps, memory, warps, barriers, and errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig

SOURCE = r"""
#define EXPORT extern "C" __global__ void
#define POINTER "l"
typedef unsigned long long u64;

EXPORT operands(double *d, float *f, unsigned short *h, u64 *l, int *r) {
    asm("add.f64 %0, %1, %2;" : "=d"(d[0]) : "d"(d[1]), "d"(d[2]));
    asm("add.f32 %0, %0, 0f3F000000;" : "+f"(f[0]));
    asm("add.u16 %0, %1, 0x10U;" : "=h"(h[0]) : "h"(h[1]));
    asm volatile("st.global.u64 [%0+8], %1;" :: POINTER(l), "l"(0x123456789abcdefULL) : "memory");
    asm("add.s32 %0, %1, %2;" : "=r"(r[0]) : "n"(-7), "r"(r[1]));
    unsigned __int128 wide = l[1];
    asm("{ .reg .b64 a, b; mov.b128 {a, b}, %1; mov.b128 %0, {b, a}; }" : "=q"(wide) : "q"(wide));
    l[2] = (u64)(wide >> 64);
    static constexpr const char name[] = "sub";
    asm("%2.s32 %0, %1, 012;" : "=r"(r[2]) : "r"(r[1]), "C"(name));
    asm("{\n\t.reg .u32 t<3>; // a comment\n\tmov.u32 t0, %1; /* another */ { .reg .u32 t0; mov.u32 t0, 5; "
        "add.u32 t1, t0, 0b11; }\n\tmul.lo.u32 %0, t0, t1;\n}" : "=r"(r[3]) : "r"(r[1]));
    asm("" : "+f"(f[1]));
    asm volatile(".pragma \"nounroll\";\n.pragma \"used_bytes_mask 0xfff\", \"a;b\"; st.global.u32 [%0], %1;" :: POINTER(&r[4]) "r"(r[1])
                 : "memory"); // nvcc needs no comma
    auto more = [](int a, int b) { int c; asm("add.s32 %0, %1, %2;" : "=r"(c) : "r"(a) "r"(b)); return c; };
    r[5] = more(r[1], 2);
}
EXPORT jumps(const unsigned *in, unsigned *out) { // length of the Collatz sequence
    unsigned steps;
    asm("{ .reg .pred p; .reg .u32 n, odd;\n mov.u32 n, %1; mov.u32 %0, 0;\n"
        "again: setp.le.u32 p, n, 1; @p bra done;\n and.b32 odd, n, 1; setp.eq.u32 p, odd, 1;\n"
        "@p mad.lo.u32 n, n, 3, 1; @!p shr.u32 n, n, 1; add.u32 %0, %0, 1; bra.uni again;\ndone: }"
        : "=&r"(steps) : "r"(in[threadIdx.x]));
    out[threadIdx.x] = steps;
}
EXPORT leaves(int *x) {
    x[threadIdx.x] = 1;
    asm volatile("{ .reg .pred p; setp.gt.s32 p, %0, 20; @p exit; }" :: "r"(threadIdx.x));
    __syncthreads();
    x[threadIdx.x] = __syncthreads_count(1);
}
EXPORT variables(unsigned *out) {
    asm volatile("{ .shared .align 4 .u32 cells[64]; .local .align 8 .b8 own[8]; .global .u32 seven = 7;\n"
        ".reg .b32 at, value; mov.u32 at, cells; mad.lo.u32 at, %1, 4, at; st.shared.u32 [at], %1;\n"
        "st.local.u32 [own+4], %1; bar.sync 0; xor.b32 value, %1, 63; mov.u32 at, cells; mad.lo.u32 at, value, 4, at;\n"
        "ld.shared.u32 value, [at]; ld.local.u32 at, [own+4]; mad.lo.u32 value, value, 100, at;\n"
        "ld.global.u32 at, [seven]; mad.lo.u32 value, at, 10000, value; st.global.u32 [%0], value; }"
        :: POINTER(out + threadIdx.x), "r"(threadIdx.x) : "memory");
}
EXPORT diverged(unsigned *out) {
    unsigned lane = threadIdx.x, result = 1000;
    if (lane % 2)
        asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 8; @p mov.u32 %0, %1; shfl.sync.idx.b32 %0, %0, 1, 0x1f, "
                     "0xaaaaaaaa; }" : "+r"(result) : "r"(lane));
    out[lane] = result;
}
EXPORT barriers(int *x) {
    __shared__ int cells[64];
    int t = threadIdx.x, votes;
    cells[t] = t;
    asm volatile("bar.sync 0;" ::: "memory");
    x[t] = cells[63 - t];
    asm volatile("barrier.cta.sync.aligned 1, 64;" ::: "memory");
    asm volatile("{ .reg .pred p; setp.lt.s32 p, %1, 40; bar.red.popc.u32 %0, 0, p; }" : "=r"(votes) : "r"(t));
    x[64 + t] = votes;
    asm volatile("membar.gl; fence.acq_rel.gpu; nanosleep.u32 20; bar.warp.sync -1;" ::: "memory");
}
EXPORT partial_barrier(int *x) { asm volatile("bar.sync 1, 32;"); *x = 1; }
EXPORT warps(unsigned *out) {
    unsigned t = threadIdx.x, r[8];
    asm volatile("{ .reg .pred p; setp.lt.u32 p, %1, 5; vote.sync.ballot.b32 %0, p, -1; }" : "=r"(r[0]) : "r"(t));
    asm volatile("redux.sync.max.u32 %0, %1, -1;" : "=r"(r[1]) : "r"(t ^ 9));
    asm volatile("match.any.sync.b32 %0, %1, -1;" : "=r"(r[2]) : "r"(t & 3));
    asm volatile("{ .reg .pred p; shfl.sync.up.b32 %0|p, %1, 2, %2, -1; @!p add.u32 %0, %0, 100; }"
                 : "=r"(r[3]) : "r"(t), "r"(24 << 8));
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xfffffff0; selp.u32 %0, 1, 0, p; }" : "=r"(r[4]));
    asm volatile("activemask.b32 %0;" : "=r"(r[5]));
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 99; vote.sync.all.pred p, p, -1; selp.u32 %0, 1, 0, p; }"
                 : "=r"(r[6]) : "r"(t));
    asm volatile("shfl.sync.bfly.b32 %0, %1, 1, 31, -1;" : "=r"(r[7]) : "r"(t));
    for (int i = 0; i < 8; i++) out[i * 32 + t] = r[i];
}
EXPORT memory(unsigned *x, float4 *v, u64 *sizes) {
    __shared__ unsigned cells[8];
    unsigned offset, old, value;
    asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(offset) : "l"(&cells[2]));
    asm volatile("st.shared.u32 [%0+4], 7;" :: "r"(offset) : "memory");
    asm volatile("atom.shared.add.u32 %0, [%1+4], 5;" : "=r"(old) : "r"(offset) : "memory");
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" :: "l"(x), "r"(cells[3]) : "memory");
    asm volatile("ld.volatile.shared.u32 %0, [%1+-0];" : "=r"(value) : "r"(offset + 4) : "memory");
    x[1] = old; x[2] = value;
    float4 a;
    asm("ld.global.nc.L1::no_allocate.L2::128B.v4.f32 {%0, %1, %2, %3}, [%4];"
        : "=f"(a.x), "=f"(a.y), "=f"(a.z), "=f"(a.w) : "l"(v));
    asm volatile("st.global.cs.v2.f32 [%0+16], {%2, %1};" :: "l"(v), "f"(a.x), "f"(a.w) : "memory");
    asm volatile("ld.global.s8 %0, [%1];" : "=r"(x[3]) : "l"(x + 4));
    asm volatile("prefetch.global.L2 [%0];" :: "l"(x));
    asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(x[5]) : "l"(cells));
    asm volatile("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(x[6]) : "l"(x));
    asm volatile("atom.global.cas.b32 %0, [%1], %2, 9;" : "=r"(x[8]) : "l"(x + 7), "r"(x[7]) : "memory");
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8; cp.async.commit_group; cp.async.wait_group 0;"
                 :: "r"(offset), "l"(sizes) : "memory");
    asm volatile("cp.async.cg.shared.global [%0+8], [%1], 16, %2;" :: "r"(offset), "l"(sizes), "r"(4) : "memory");
    sizes[2] = cells[2]; sizes[3] = cells[3]; sizes[4] = cells[4]; sizes[5] = cells[5];
}
EXPORT halves_added(unsigned *x) {
    asm volatile("red.global.add.noftz.f16x2 [%0], %1;" :: "l"(x), "r"(0x3c003800) : "memory");
    asm volatile("red.global.add.f32 [%0], %1;" :: "l"(x + 1), "f"(0.5f) : "memory");
    asm volatile("red.global.inc.u32 [%0], 20;" :: "l"(x + 2) : "memory");
    asm volatile("red.global.max.s32 [%0], %1;" :: "l"(x + 3), "r"(threadIdx.x - 5) : "memory");
}
EXPORT carried(unsigned *x) { // the flag lives from one statement to the next
    asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(x[0]) : "r"(0xffffffffu), "r"(2));
    asm volatile("addc.u32 %0, %1, 0;" : "=r"(x[1]) : "r"(5));
}
EXPORT specials(unsigned *x) {
    unsigned r[11]; u64 clock;
    asm("mov.u32 %0, %%tid.x;" : "=r"(r[0])); asm("mov.u32 %0, %%ntid.y;" : "=r"(r[1]));
    asm("mov.u32 %0, %%nwarpid;" : "=r"(r[2])); asm("mov.u32 %0, %%lanemask_lt;" : "=r"(r[3]));
    asm("mov.u32 %0, %%nctaid.x;" : "=r"(r[4])); asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r[5]));
    asm("mov.u32 %0, %%smid;" : "=r"(r[6])); asm("mov.u32 %0, %%gridid;" : "=r"(r[7]));
    asm("mov.u32 %0, WARP_SZ;" : "=r"(r[8])); asm("add.u32 %0, %%laneid, %%warpid;" : "=r"(r[9]));
    asm("add.u32 %0, %lanemask_eq, %tid.z;" : "=r"(r[10]));
    asm volatile("{ .reg .u32 %r1; mov.u32 %r1, %tid.x; }");
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(clock));
    for (int i = 0; i < 11; i++) x[i * 64 + threadIdx.x] = r[i];
    x[704] = clock != 0;
}
EXPORT stops(int *x) { *x = 1; if (threadIdx.x == 3) asm("trap;"); }
"""


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as running:
        running.load(SOURCE)
        yield running


def test_variables(gpu: Rig) -> None:
    out = gpu.array(64, np.uint32)
    gpu.launch("variables", 1, 64, out)
    index = np.arange(64)
    assert np.array_equal(out, 70_000 + 100 * (63 - index) + index)


def test_operands_have_the_types_of_their_constraints(gpu: Rig) -> None:
    d, f = gpu.array(3, np.float64), gpu.array(2, np.float32)
    h, wide, r = gpu.array(2, np.uint16), gpu.array(3, np.uint64), gpu.array(6, np.int32)
    d[:], f[:], h[1], r[1] = (0, 1.5, 2.25), (1, 7), 0xFFF8, 50
    gpu.launch("operands", 1, 1, d, f, h, wide, r)
    assert (d[0], f[0], f[1], h[0]) == (3.75, 1.5, 7, 8)
    assert (int(wide[1]), int(wide[2])) == (0x123456789ABCDEF, 0x123456789ABCDEF)
    assert r.tolist() == [43, 50, 40, 400, 50, 52]


def test_jumps_and_guards(gpu: Rig) -> None:
    given, out = gpu.array(64, np.uint32), gpu.array(64, np.uint32)
    given[:] = np.arange(64)
    gpu.launch("jumps", 1, 64, given, out)

    def steps(n: int) -> int:
        return 0 if n <= 1 else 1 + steps(3 * n + 1 if n % 2 else n // 2)

    assert out.tolist() == [steps(n) for n in range(64)]


def test_exit_ends_the_thread_only(gpu: Rig) -> None:
    x = gpu.array(64, np.int32)
    gpu.launch("leaves", 1, 64, x)
    assert x.tolist() == [21] * 21 + [1] * 43


def test_guards_and_shuffles_in_diverged_code(gpu: Rig) -> None:
    out = gpu.array(32, np.uint32)
    gpu.launch("diverged", 1, 32, out)
    assert out.tolist() == [1 if lane % 2 else 1000 for lane in range(32)]


def test_barriers_are_waited_at(gpu: Rig) -> None:
    x = gpu.array(128, np.int32)
    gpu.launch("barriers", 1, 64, x)
    assert x.tolist() == [63 - t for t in range(64)] + [40] * 64


def test_barrier_of_a_part_of_the_block_ends_the_launch() -> None:
    with rig(pes=1) as other:
        other.load(SOURCE)
        with pytest.raises(LaunchError, match="trap"):
            other.launch("partial_barrier", 1, 64, other.array(1, np.int32))


def test_operations_of_warps(gpu: Rig) -> None:
    out = gpu.array(8 * 32, np.uint32)
    gpu.launch("warps", 1, 32, out)
    ballot, highest, match, up, elected, active, every, flipped = out.reshape(8, 32).tolist()
    assert ballot == [31] * 32
    assert highest == [31] * 32
    assert match == [0x11111111 << (t & 3) for t in range(32)]
    assert up == [t - 2 if t % 8 >= 2 else t + 100 for t in range(32)]
    assert elected == [int(t == 4) for t in range(32)]
    assert active == [0xFFFFFFFF] * 32
    assert every == [1] * 32
    assert flipped == [t ^ 1 for t in range(32)]


def test_memory_of_all_spaces(gpu: Rig) -> None:
    x, v, sizes = gpu.array(9, np.uint32), gpu.array(8, np.float32), gpu.array(6, np.uint64)
    x[0], x[4], x[7], v[:4], sizes[:2] = 100, 0x80, 3, (1, 2, 3, 4), (0x1122334455667788, 7)
    gpu.launch("memory", 1, 1, x, v, sizes)
    assert x.tolist() == [112, 7, 12, 0xFFFFFF80, 0x80, 1, 0, 9, 3]
    assert v.tolist() == [1, 2, 3, 4, 4, 1, 0, 0]
    assert sizes[2:].tolist() == [0x55667788, 0x11223344, 0x55667788, 0]


def test_reductions_in_memory(gpu: Rig) -> None:
    x = gpu.array(4, np.uint32)
    gpu.launch("halves_added", 2, 64, x)
    assert x[:1].view(np.float16).tolist() == [64, 128]
    assert x[1:2].view(np.float32)[0] == 64
    assert x[2:].tolist() == [128 % 21, 58]


def test_carry_lives_from_one_statement_to_the_next(gpu: Rig) -> None:
    x = gpu.array(2, np.uint32)
    gpu.launch("carried", 1, 1, x)
    assert x.tolist() == [1, 6]


def test_special_registers(gpu: Rig) -> None:
    x = gpu.array(705, np.uint32)
    gpu.launch("specials", 1, 64, x)
    values = x[:704].reshape(11, 64).tolist()
    assert values[0] == list(range(64))
    assert values[3] == [(1 << t % 32) - 1 for t in range(64)]
    assert values[10] == [1 << t % 32 for t in range(64)]
    assert values[9] == [t % 32 + t // 32 for t in range(64)]
    assert [row[0] for row in values[4:6] + values[7:9]] == [1, 1, 0, 32]
    assert (values[1][0], values[2][0], x[704]) == (1, 2, 1)
    assert values[6][0] in {0, 1}


def test_trap_ends_the_launch() -> None:
    with rig(pes=1) as other:
        other.load(SOURCE)
        with pytest.raises(LaunchError, match="trap"):
            other.launch("stops", 1, 32, other.array(1, np.int32))


ERRORS = {
    'asm("foo.bar %0, 1;" : "=r"(x[0]));': "column 1: PTX instruction 'foo.bar' is not known",
    'asm("add.s33 %0, %0, 1;" : "+r"(x[0]));': "PTX instruction 'add.s33': expected a type",
    'asm("add.rz.s32 %0, %0, 1;" : "+r"(x[0]));': "PTX instruction 'add.rz.s32': '.rz' is not known here",
    'asm("add.s32 %0 %0, 1;" : "+r"(x[0]));': "column 12: expected ';' after 'add', not '%0'",
    'asm("mov.u32 %0, %%nothing;" : "=r"(x[0]));': "column 13: register '%nothing' is not declared",
    'asm("mov.u32 %0, t;" : "=r"(x[0]));': "column 13: register 't' is not declared",
    'asm("add.u64 %0, %0, 1;" : "+r"(x[0]));': "column 13: the operand has 32 bits, the instruction takes 64",
    'asm("mov.u32 %0, %1;" : "=r"(x[0]) : "l"(x));': "column 13: the operand has 64 bits, the instruction takes 32",
    'asm("{ .reg .b64 d; mov.u32 d, %0; }" : : "r"(x[0]));': "the result has 32 bits, its register 64",
    'asm("{ .reg .pred p; setp.lt.s32 p, %0, 5; }" : : "l"(x));': "the operand has 64 bits, the instruction takes 32",
    'asm("shl.b32 %0, %0, %1;" : "+r"(x[0]) : "l"(x));': "the operand has 64 bits, the instruction takes 32",
    'asm("add.f32 %0, %0, %1;" : "+f"(f) : "d"(1.0));': "the operand has 64 bits, the instruction takes 32",
    'asm(".pragma \\"nounroll;" ::);': "column 9: a string has no end",
    'asm("{ .reg .u32 a; mov.u32 a, 1;" : "=r"(x[0]));': "expected '}' after the statements of a block, not the end",
    'asm("{ .reg .foo a; }" : "=r"(x[0]));': "'.foo' is no type of registers",
    'asm("{ .reg .u32 a, a; }" : "=r"(x[0]));': "register 'a' is declared twice",
    'asm("bra.uni nowhere;" ::);': "column 9: there is no label 'nowhere'",
    'asm("mov.u32 %0, 0f12;" : "=r"(x[0]));': "a float needs 8 hexadecimal digits",
    'asm("add.f32 %0, %0, 1;" : "+f"(f));': "expected a float, not an integer",
    'asm("ld.global.u32 %0, %1;" : "=r"(x[0]) : "l"(x));': "column 19: expected an address in brackets",
    'asm("{\\n\\tadd.s32 %0, %0;\\n}" : "+r"(x[0]));': "line 2, column 2: PTX instruction 'add.s32': it has 2 operands",
    'asm("@%0 mov.u32 %0, 1;" : "+r"(x[0]));': "column 2: expected a predicate",
    'asm("bar.arrive 1, 64;" ::);': "only arrive are not supported",
    'asm("tcgen05.alloc.b32 %0, 1;" : "=r"(x[0]));': "'tcgen05.alloc.b32': not supported by the CPU engine",
    'asm("wgmma.fence.sync.aligned;" ::);': "'wgmma.fence.sync.aligned': not supported by the CPU engine",
    'asm("mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 %0, 1, 2, 3, 4, 0;" : "=r"(x[0]));': "not supported by the CPU",
    'asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 %0, 1, 2, 3;" : "=f"(f));': "not supported by the CPU engine",
    'asm("cp.async.bulk.commit_group;" ::);': "'cp.async.bulk.commit_group': not supported by the CPU engine",
    'asm("{ .reg .b16 h; mov.b16 h, 0; add.f16 h, h, 1.0; }" ::);': "a float in an operand of 16 bits; allowed: its bits",
    'asm("bar.sync 17;" ::);': "column 10: barrier 17; allowed: 0 to 15",
    'asm("bar.sync 0, 33;" ::);': "column 13: a barrier of 33 threads; allowed: multiples of 32",
}


@pytest.mark.parametrize("statement", ERRORS)
def test_error_names_instruction_line_and_column(statement: str) -> None:
    source = f'extern "C" __global__ void f(int *x, float f) {{\n\n    {statement}\n}}\n'
    with pytest.raises(CompileError) as caught:
        compile_image(source)
    assert "source.cu:3: inline PTX, " in str(caught.value)
    assert ERRORS[statement] in str(caught.value)
