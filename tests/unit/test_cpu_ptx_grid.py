"""Barriers of the grid in PTX modules, as cooperative groups are compiled to: by %envreg1 and %envreg2."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, Rig, compile_ptx, rig
from tests.unit.cuda_compile_rig import needs_nvcc
from tests.unit.ptx_compilers import nvcc_ptx

KERNELS = r"""
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void turns(unsigned *x, unsigned *out, int rounds) {
    cg::grid_group grid = cg::this_grid();
    unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int round = 0; round < rounds; round++) {
        unsigned value = x[(i + 37) % n];
        grid.sync();
        x[i] = value + 1;
        grid.sync();
    }
    out[i] = x[(i + 1) % n] + 1000 * grid.is_valid();
}
extern "C" __global__ void arrives(unsigned *x, unsigned *out) {
    cg::grid_group grid = cg::this_grid();
    unsigned n = gridDim.x * blockDim.x, i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = 5 * i;
    auto token = grid.barrier_arrive();
    unsigned own = i % 3;
    grid.barrier_wait(static_cast<decltype(token) &&>(token));
    out[i] = x[(i + 41) % n] + own;
}
"""
BLOCKS, THREADS = 7, 64
COUNT = BLOCKS * THREADS


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        made.load_ptx(nvcc_ptx(KERNELS))
        yield made


@needs_nvcc
@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_blocks_wait_for_each_other(gpu: Rig, rounds: int) -> None:
    x, out = gpu.array(COUNT, np.uint32, np.arange(COUNT)), gpu.array(COUNT, np.uint32)
    gpu.launch("turns", BLOCKS, THREADS, x, out, np.int32(rounds))
    turned = np.roll(np.arange(COUNT), -37 * rounds) + rounds
    assert np.array_equal(x, turned)
    assert np.array_equal(out, np.roll(turned, -1) + 1000)


@needs_nvcc
def test_blocks_go_on_between_arrival_and_wait(gpu: Rig) -> None:
    x, out = gpu.array(COUNT, np.uint32), gpu.array(COUNT, np.uint32)
    gpu.launch("arrives", BLOCKS, THREADS, x, out)
    index = np.arange(COUNT)
    assert np.array_equal(out, 5 * ((index + 41) % COUNT) + index % 3)


LIBRARY = r"""
.version 8.0
.target sm_80
.address_size 64
.extern .func (.param .b64 group) cudaCGGetIntrinsicHandle(.param .b32 scope);
.extern .func (.param .b32 error) cudaCGSynchronize(.param .b64 group, .param .b32 flags);
.visible .entry turn(.param .u64 x, .param .u64 out) {
    .reg .b64 %x, %out, %other, %group; .reg .b32 %i, %n, %all, %error;
    .param .b32 scope, flags, error; .param .b64 group, of;
    ld.param.u64 %x, [x]; ld.param.u64 %out, [out];
    mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %all, %nctaid.x; mul.lo.u32 %all, %all, %n;
    mad.lo.u32 %i, %i, %n, %tid.x; mad.wide.u32 %other, %i, 4, %x; st.global.u32 [%other], %i;
    st.param.b32 [scope], 1; call (group), cudaCGGetIntrinsicHandle, (scope); ld.param.b64 %group, [group];
    st.param.b64 [of], %group; st.param.b32 [flags], 0; call (error), cudaCGSynchronize, (of, flags);
    ld.param.b32 %error, [error];
    mad.wide.u32 %out, %i, 4, %out; add.u32 %n, %i, 37; rem.u32 %n, %n, %all; mad.wide.u32 %other, %n, 4, %x;
    ld.global.u32 %n, [%other]; add.u32 %n, %n, %error; st.global.u32 [%out], %n; ret;
}
"""
"""Cooperative groups as numba compiles them, which calls libcudadevrt."""


def test_blocks_wait_for_each_other_in_functions_of_libcudadevrt() -> None:
    with rig(pes=2) as gpu:
        gpu.load_ptx(LIBRARY)
        x, out = gpu.array(COUNT, np.uint32), gpu.array(COUNT, np.uint32)
        gpu.launch("turn", BLOCKS, THREADS, x, out)
        assert np.array_equal(out, np.roll(np.arange(COUNT), -37))


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.u32 low, [memory+4];",
        "st.global.u32 [memory], low;",
        "ld.param.u64 o, [out]; st.global.u64 [o], memory;",
        "atom.global.cas.b32 low, [memory+4], 0, 1;",
        "again: ld.volatile.global.u32 low, [memory+4]; setp.eq.u32 p, low, 0; @p bra again;",
    ],
)
def test_other_uses_of_a_cooperative_launchs_memory_are_refused(access: str) -> None:
    text = f"""
        .version 8.0
        .target sm_80
        .visible .entry k(.param .u64 out) {{
            .reg .b32 low, high; .reg .b64 memory, o; .reg .pred p;
            mov.u32 low, %envreg2; mov.u32 high, %envreg1; mov.b64 memory, {{low, high}};
            {access}
            ld.param.u64 o, [out]; st.global.u32 [o], low; ret; }}"""
    with pytest.raises(CompileError, match=r"'k' uses a cooperative launch's memory \(%envreg1, %envreg2\) otherwise"):
        compile_ptx(text)


def test_registers_tell_the_shared_memory_of_a_block() -> None:
    """Slices of dynamic shared memory in numba end there."""
    module = """.version 8.0
        .target sm_80
        .address_size 64
        .shared .align 16 .b8 own[64];
        .visible .entry k(.param .u64 p) {
            .reg .b64 %a, %s; .reg .b32 %v;
            ld.param.u64 %a, [p]; mov.u64 %s, own; st.shared.u32 [%s], 1;
            mov.u32 %v, %dynamic_smem_size; st.global.u32 [%a], %v;
            mov.u32 %v, %total_smem_size; st.global.u32 [%a + 4], %v; ret; }"""
    with rig(pes=1) as gpu:
        gpu.load_ptx(module)
        out = gpu.array(2, np.int32)
        for dynamic in (0, 12, 4096):
            gpu.launch("k", 1, 1, out, shared=dynamic)
            assert out.tolist() == [dynamic, 64 + dynamic]
