"""A guest in QEMU computes on a GPU: the programs of the CPU engine's tests, unchanged."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.cuda.gpu import Gpu
from tests.gpu.gpu_host import vm
from tests.vm.harness import Guest
from tests.vm.test_end_to_end import one_guest, python

pytestmark = [pytest.mark.vm, pytest.mark.gpu]


@pytest.fixture(scope="module")
def guest(real_gpu: Gpu) -> Iterator[Guest]:
    try:
        with one_guest(vm(real_gpu, "one", deadline="60s")) as (_, guest):
            yield guest
    except SystemExit as missing:  # the tools end the program if QEMU or the image is missing; stderr names it
        pytest.skip(f"no guest can be booted here (exit code {missing.code}, see stderr)")


def test_guest_sees_a_gpu(guest: Guest, real_gpu: Gpu) -> None:
    shown = python(guest, "with vgc.Device() as d: i = d.info(); print(i.engine, i.engine_name)")
    assert shown.startswith("cuda ")
    assert real_gpu.name in shown


def test_guest_computes(guest: Guest) -> None:
    assert guest.run("python3 scale.py 2.5 3").stdout == "2.5 one\n"


def test_failure_of_a_kernel_reaches_the_guest(guest: Guest) -> None:
    code = """
with vgc.Device() as d:
    p = d.compile('extern "C" __global__ void wild(int *p) { p[threadIdx.x] = 1; }')
    try:
        p["wild"][1, 1](16)
    except vgc.KernelFault as error:
        print(error)
"""
    shown = python(guest, code)
    assert "wild" in shown
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in shown
    assert guest.run("python3 scale.py 3 1").stdout == "3 one\n"
