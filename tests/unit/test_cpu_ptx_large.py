"""PTX of a size that compilers write, and people do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, compile_ptx, rig

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
THREADS = 32


def test_values_that_live_across_barriers_at_different_times_share_memory() -> None:
    """Together they would be 72,000 bytes of each thread; 65,536 are possible."""
    rounds, values = 180, 50
    lines = [
        HEADER,
        ".visible .entry rounds(.param .u64 from, .param .u64 to) {",
        f".reg .f64 %v<{values}>, %other; .reg .b64 %from, %to; .reg .b32 %t, %own, %next;",
        f".shared .align 8 .f64 row[{2 * THREADS}];",
        "ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x;",
        "mad.wide.u32 %from, %t, 8, %from; mad.wide.u32 %to, %t, 8, %to;",
        "mov.u32 %next, row; mad.lo.u32 %own, %t, 8, %next; add.u32 %t, %t, 1;",
        f"and.b32 %t, %t, {THREADS - 1}; mad.lo.u32 %next, %t, 8, %next;",
        *(f"ld.global.f64 %v{n}, [%from+{8 * THREADS * n}];" for n in range(values)),
    ]
    for k in range(rounds):
        place = 8 * THREADS * (k % 2)
        lines.append(
            f"st.shared.f64 [%own+{place}], %v{k % values}; bar.sync 0; ld.shared.f64 %other, [%next+{place}];"
        )
        lines += [f"fma.rn.f64 %v{n}, %v{n}, 0d3FE0000000000000, %other;" for n in range(values)]
    lines += [*(f"st.global.f64 [%to+{8 * THREADS * n}], %v{n};" for n in range(values)), "ret; }"]
    given = np.random.default_rng(1).random((values, THREADS))
    expected = given.copy()
    for k in range(rounds):
        expected = expected * 0.5 + np.roll(expected[k % values], -1)

    with rig(pes=1) as gpu:
        gpu.load_ptx("\n".join(lines))
        found = gpu.array(given.shape, np.float64)
        gpu.launch("rounds", 1, THREADS, gpu.array(given.shape, np.float64, given), found)

        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_long_rows_of_instructions_compute() -> None:
    """The code generator takes them in parts."""
    count, sums = 8000, 16
    lines = [
        HEADER,
        ".visible .entry sums(.param .u64 from, .param .u64 to) {",
        f".reg .b32 %sum<{sums}>, %x, %t, %round; .reg .b64 %from, %to; .reg .pred %p;",
        "ld.param.u64 %from, [from]; ld.param.u64 %to, [to]; mov.u32 %t, %tid.x; mov.u32 %round, 0;",
        f"mad.wide.u32 %from, %t, 4, %from; mad.wide.u32 %to, %t, {4 * sums}, %to;",
        *(f"mov.u32 %sum{n}, {n};" for n in range(sums)),
        "again:",
        *(
            f"ld.global.u32 %x, [%from+{4 * k}]; mad.lo.u32 %sum{k % sums}, %sum{(k + 5) % sums}, 3, %x;"
            for k in range(count)
        ),
        f"add.u64 %from, %from, {4 * count}; add.u32 %round, %round, 1; setp.lt.u32 %p, %round, 2; @%p bra again;",
        *(f"st.global.u32 [%to+{4 * n}], %sum{n};" for n in range(sums)),
        "ret; }",
    ]
    given = np.random.default_rng(2).integers(0, 1 << 32, 2 * count + THREADS, np.uint32)
    expected = np.tile(np.arange(sums, dtype=np.uint32), (THREADS, 1))
    for k in range(2 * count):
        term = given[k : k + THREADS]
        expected[:, k % count % sums] = expected[:, (k % count + 5) % sums] * np.uint32(3) + term

    with rig(pes=1) as gpu:
        gpu.load_ptx("\n".join(lines))
        found = gpu.array(expected.shape, np.uint32)
        gpu.launch("sums", 1, THREADS, gpu.array(given.shape, np.uint32, given), found)

        np.testing.assert_array_equal(found, expected)


def test_long_chains_do_not_exhaust_the_stack() -> None:
    count = 60_000
    lines = [
        HEADER,
        ".visible .entry chain(.param .u64 to, .param .u32 start, .param .u32 rounds) {",
        ".reg .b32 %x, %start, %round, %rounds; .reg .b64 %to; .reg .pred %p;",
        "ld.param.u64 %to, [to]; ld.param.u32 %start, [start]; ld.param.u32 %rounds, [rounds]; mov.u32 %round, 0;",
        "mov.u32 %x, %start; again:",
        *(f"mad.lo.u32 %x, %x, %start, {k + 3};" for k in range(count)),
        "add.u32 %round, %round, 1; setp.lt.u32 %p, %round, %rounds; @%p bra again; st.global.u32 [%to], %x; ret; }",
    ]
    expected = start = 12345
    for k in range(2 * count):
        expected = (expected * start + k % count + 3) & 0xFFFFFFFF

    with rig(pes=1) as gpu:
        gpu.load_ptx("\n".join(lines))
        found = gpu.array(1, np.uint32)
        gpu.launch("chain", 1, 1, found, np.uint32(start), np.uint32(2))

        assert found.tolist() == [expected]


def test_each_function_of_a_large_module_has_its_registers() -> None:
    filler = "// " + "-" * 1600 + "\n"
    entries = (f".visible .entry k{n}() {{ .reg .b32 %r<100>; ret; }}\n{filler}" for n in range(1400))

    image, _ = compile_ptx(HEADER + "".join(entries))

    assert image


def test_registers_of_a_short_module_are_bounded() -> None:
    with pytest.raises(CompileError, match=r"expected a number of registers, 1 to 31\d\d\d here, not '40000'"):
        compile_ptx(HEADER + ".visible .entry k() { .reg .b32 %a<100000>; .reg .b32 %b<40000>; ret; }\n")
