"""Regions that a guest sees as an NVDIMM in devdax mode, beside the ivshmem function or without one; regions of huge pages;
and regions of several devices in the wrong order.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from tests import huge_pages
from tests.vm.harness import CommandError, Guest
from tests.vm.huge_device import HugeDevice
from tests.vm.vgcd import Vgcd, VmSettings
from tools.machine import Device

NIGHTLY: Final = pytest.mark.skipif(
    "VGC_NVDIMMS" not in os.environ, reason="takes minutes: VGC_NVDIMMS=1, as in `make nightly`"
)
pytestmark = pytest.mark.vm

REGION_BYTES: Final = 32 << 20
COMPUTES: Final = """
import numpy as np, guest_driver as vgc
with vgc.Device() as dev:
    info = dev.info()
    program = dev.compile('extern "C" __global__ void add(unsigned *x, int n) '
        '{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += 5; }')
    shared = dev.region_array(1 << 16, "uint32")
    shared[:] = np.arange(1 << 16, dtype=np.uint32)
    memory = dev.to_device(shared)
    program.add[64, 1024](memory, 1 << 16)
    assert (memory.get() == shared + 5).all()
    dev.call("add", grid=64, block=1024, args=[vgc.InOut(shared), 1 << 16])
    assert (shared == np.arange(1 << 16) + 5).all()
    out = dev.region_array(1 << 16, "uint32")
    dev.call("add", grid=64, block=1024, args=[vgc.Out(out), 1 << 16])
    assert (out == 5).all()
    large = np.random.default_rng(0).integers(0, 256, min(info.region_bytes, 1 << 25) + 7, "uint8")
    there = dev.to_device(large)
    assert (there.get() == large).all()
    print(info.region_kind, info.region_bytes)
"""
"""Computes on memory of the region and on other memory, and says where the region is."""

HOLD: Final = """
import os, guest_driver as vgc
with {what}:
    open("/root/open", "w").close()
    open("/root/leave").read()  # or its writer would be killed
"""


REFUSED: Final = """
import guest_driver as vgc
for name in ("dax0.0", "dax7.0"):
    try:
        vgc.Device(region_address=name)
    except vgc.VgcError as error:
        print(error)
"""


def python(script: str) -> str:
    return f"python3 -c {shlex.quote(script)}"


@contextmanager
def guest_with(*, ivshmem: bool = True, nvdimm_bytes: int = 0) -> Iterator[Guest]:
    with (
        Vgcd(VmSettings("one", region_bytes=REGION_BYTES)) as vgcd,
        Guest(replace(vgcd.device("one"), is_ivshmem=ivshmem, is_nvdimm=True, nvdimm_bytes=nvdimm_bytes)) as guest,
    ):
        guest.run("modprobe nfit && modprobe nd_pmem && test -e /dev/pmem0")
        yield guest


@contextmanager
def held(guest: Guest, what: str) -> Iterator[None]:
    """Has a process of the guest hold something open, which `what`, an expression in Python, opens."""
    guest.run("mkfifo /root/open /root/leave")
    holding = guest.start(python(HOLD.format(what=what)))
    guest.run("cat /root/open")
    yield
    guest.run("echo > /root/leave")
    guest.result(holding, what)


def refusal(guest: Guest, command: str) -> str:
    with pytest.raises(CommandError) as caught:
        guest.run(command)
    return str(caught.value)


def test_nvdimm_of_the_regions_file_is_the_region_once_it_is_in_devdax_mode() -> None:
    with guest_with(ivshmem=True) as guest:
        with held(guest, "vgc.Device()"):
            assert "is used by processes" in refusal(guest, "vgc region --devdax")
        assert guest.run("vgc region --devdax").stdout == "namespace0.0 is /dev/dax0.0 now\n"
        assert guest.run(python(COMPUTES)).stdout == f"NVDIMM {REGION_BYTES - (2 << 20)}\n"
        told = guest.run("vgc region").stdout
        assert "30 MiB at dax0.0 (NVDIMM), reads" in told
        assert "namespace0.0  NVDIMM of 32 MiB: /dev/dax0.0" in told
        guest.run(
            "echo 'nobodys:x:77:nobody' >> /etc/group && vgc grant nobodys && test $(stat -c %g /dev/dax0.0) = 77"
        )


@NIGHTLY
def test_guest_without_an_ivshmem_function_computes_with_an_nvdimm() -> None:
    with guest_with(ivshmem=False) as guest:
        guest.run(f"printf precious | dd of=/dev/pmem0 bs=1 seek={2 << 20} 2> /dev/null && sync")
        assert "/dev/pmem0 has data" in refusal(guest, "vgc region --devdax namespace0.0")
        with held(guest, "open(os.open('/dev/pmem0', os.O_RDWR | os.O_EXCL), 'rb')"):
            assert "is in use" in refusal(guest, "vgc region --devdax namespace0.0 --overwrite")
        assert "/dev/dax0.0 now" in guest.run("vgc region --devdax namespace0.0 --overwrite").stdout
        assert "no ivshmem-plain function" in refusal(guest, "vgc info"), "it begins with somebody's data"
        guest.run(python("import guest_driver as v; v.Device(region_address='dax0.0').close()"))
        assert guest.run(python(COMPUTES)).stdout.startswith("NVDIMM ")


@pytest.mark.parametrize("pages", [huge_pages.OF_2_MIB, huge_pages.OF_1_GIB], ids=str)
def test_guest_computes_with_a_region_of_huge_pages(pages: huge_pages.Kind) -> None:
    region_bytes = max(REGION_BYTES, pages.size)
    try:
        with (
            pages.lent(region_bytes // pages.size),
            Vgcd(VmSettings("one", region_bytes=region_bytes)) as vgcd,
            Guest(HugeDevice.of(vgcd.device("one"), pages)) as guest,
        ):
            assert guest.run(python(COMPUTES)).stdout == f"ivshmem {region_bytes}\n"
    except huge_pages.NoHugePagesError as error:
        pytest.skip(str(error))


@NIGHTLY
def test_nvdimm_of_another_size_is_no_region() -> None:
    with guest_with(nvdimm_bytes=REGION_BYTES // 2) as guest:
        assert "0 NVDIMMs have the size of a region (32 MiB)" in refusal(guest, "vgc region --devdax")
        guest.run("vgc region --devdax namespace0.0")
        assert "(ivshmem), reads" in guest.run("vgc info").stdout
        told = guest.run(python(REFUSED)).stdout
        assert f"dax0.0 is part of an NVDIMM of {REGION_BYTES // 2} bytes, but the device's region has" in told
        assert "there is no NVDIMM in devdax mode called 'dax7.0'" in told


@dataclass(frozen=True, slots=True)
class FileDevice(Device):
    """Device whose region on QEMU's command line is a file."""

    file: Path = Path()

    @contextmanager
    def region(self) -> Iterator[int]:
        """Yields the file."""
        descriptor = os.open(self.file, os.O_RDWR)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def test_regions_in_the_wrong_order_are_told_apart_by_what_the_host_answers(tmp_path: Path) -> None:
    """The host takes the file of its configuration alone; QEMU's ivshmem functions stand in the other order."""
    files = {name: tmp_path / name for name in ("one", "two")}
    for file in files.values():
        file.write_bytes(bytes(REGION_BYTES))
    settings = [VmSettings(name, REGION_BYTES, extra={"region_file": str(files[name])}) for name in files]
    with Vgcd(*settings) as vgcd:
        crossed = zip(files, reversed(files.values()), strict=True)
        devices = [FileDevice(vgcd.device(name).socket, region_bytes=REGION_BYTES, file=file) for name, file in crossed]
        with Guest(*devices) as guest:
            script = """
import guest_driver as vgc
with vgc.Device(0) as one, vgc.Device(1) as two, vgc.Device(0) as again:
    names = [(d.info().vm_name, d.info().region_address) for d in (one, two, again)]
    for device in (one, two):
        memory = device.alloc(100000)
        memory.write(bytes(range(250)) * 400)
        assert memory.read() == bytes(range(250)) * 400
    print(names[0][1] != names[1][1], names[0] == names[2], *sorted(name for name, _ in names))
"""
            assert guest.run(python(script)).stdout == "True True one one two\n"
