"""A guest computes on the CUDA engine: QEMU, daemon, walled worker, NVRTC, engine, driver; the fake driver for a GPU."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pytest

from tests.fakes import cuda_driver
from tests.vm.harness import CommandError, Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

PROGRAM = '''
import numpy as np, guest_driver as vgc
SOURCE = """
extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void illegal_address() { *(volatile int *)0 = 1; }
extern "C" __global__ void prints(unsigned n) { for (unsigned i = 0; i < n; i++) printf("hello %u\\\\n", i); }
"""
with vgc.Device() as d:
    program = d.compile(SOURCE)
'''
"""Source of kernels that the fake driver has, by name."""


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    engine = {"kind": "cuda", "options": {"driver": str(cuda_driver.build())}}
    with (
        Vgcd(VmSettings("gpu", extra={"engine": engine, "quota": {"pes": 20}})) as vgcd,
        Guest(vgcd.device("gpu")) as guest,
    ):
        yield guest


def python(guest: Guest, code: str) -> str:
    return guest.run(f"python3 -c {shlex.quote(PROGRAM + code)}").stdout


def generation(guest: Guest) -> int:
    return int(python(guest, "    print(d.info().generation)\n"))


def test_guest_sees_the_gpu_and_its_part_of_it(guest: Guest) -> None:
    """The VM asks for twenty processing elements; partitions of this GPU come in steps of eight."""
    shown = guest.run("vgc info").stdout
    assert "Fake H200, 24 of 132 SMs (cuda), ready, generation " in shown
    assert "24 processing elements, 256 MiB of device memory" in shown


def test_guest_computes(guest: Guest) -> None:
    code = """
    x, y = np.arange(100_000, dtype=np.float32), np.ones(100_000, np.float32)
    on_gpu = d.to_device(y)
    program["saxpy"][391, 256](100_000, 2.0, d.to_device(x), on_gpu)
    np.testing.assert_array_equal(on_gpu.get(), 1 + 2 * x)
    print("right")
"""
    assert python(guest, code) == "right\n"


def test_prints_of_kernels_come_out_in_the_guest(guest: Guest) -> None:
    assert python(guest, '    program["prints"][1, 1](2)\n') == "hello 0\nhello 1\n"


def test_compiler_error_reaches_the_guest(guest: Guest) -> None:
    with pytest.raises(CommandError, match='identifier "nonsense" is undefined'):
        python(guest, '    d.compile("__global__ void k(int *p) { *p = nonsense; }")\n')


def test_fault_is_named_and_the_guest_computes_again(guest: Guest) -> None:
    code = """
    try:
        program["illegal_address"][1, 1]()
    except vgc.KernelFault as error:
        print(error)
"""
    before = generation(guest)
    shown = python(guest, code)
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in shown
    assert "illegal_address" in shown
    test_guest_computes(guest)
    assert generation(guest) == before + 1
