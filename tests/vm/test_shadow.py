"""A guest with two devices, one on CUDA (the fake driver) and one on the software GPU, runs a program on both."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes import cuda_driver
from tests.vm.harness import Guest
from tests.vm.vgcd import Vgcd, VmSettings

pytestmark = pytest.mark.vm

SOURCE = """
extern "C" __global__ void add_one(unsigned *data, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i]++;
}
"""
"""Source of a kernel that the fake driver has, by name."""

PROGRAM = f'''
import numpy as np, guest_driver as vgc
SOURCE = """{SOURCE}"""
with vgc.ShadowDevice(vgc.Device(0), vgc.Device(1)) as d:
    program = d.compile(SOURCE)
    numbers = d.to_device(np.arange(1000, dtype=np.uint32), "numbers")
    program.add_one[4, 256](numbers, 1000)
'''


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    engine = {"kind": "cuda", "options": {"driver": str(cuda_driver.build())}}
    settings = (VmSettings("gpu", extra={"engine": engine}), VmSettings("cores", extra={"engine": "cpu"}))
    with Vgcd(*settings) as vgcd, Guest(vgcd.device("gpu"), vgcd.device("cores")) as guest:
        yield guest


def python(guest: Guest, code: str) -> str:
    return guest.run(f"python3 -c {shlex.quote(PROGRAM + code)}").stdout


def test_both_engines_agree(guest: Guest) -> None:
    code = """
    assert np.array_equal(numbers.get(), np.arange(1, 1001))
    print(d.primary.info().engine, d.shadow.info().engine)
"""
    assert python(guest, code) == "cuda cpu\n"


def test_difference_names_both_engines(guest: Guest) -> None:
    code = """
    numbers.shadow.fill(7)
    try:
        numbers.get()
    except vgc.ShadowMismatch as error:
        print(error)
"""
    shown = python(guest, code)
    assert "numbers, after add_one on Fake H200" in shown
    assert "(cpu, 0000:" in shown
    assert "999 of 1000 elements differ, first [0]: 1 and 7" in shown


def test_vgc_run_compares_both_devices(guest: Guest, tmp_path: Path) -> None:
    source = tmp_path / "add_one.cu"
    source.write_text(SOURCE)
    guest.put(source, "/root/add_one.cu")
    first, second = guest.run(
        'python3 -c "import guest_driver as vgc; [print(one.address) for one in vgc.devices()]"'
    ).stdout.split()
    shown = guest.run(
        f"vgc --device {first} run add_one.cu --shadow {second} --kernel add_one --block 256 "
        "--arg out:uint32:256 --arg uint:256"
    ).stdout
    assert "min 1, mean 1, max 1, same on both engines" in shown
