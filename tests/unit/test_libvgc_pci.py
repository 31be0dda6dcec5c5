"""Which PCI functions libvgc touches, in a sysfs of files."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.link import GuestLink
from tests.fakes.pci_files import DEVDAX, REGION_BYTES, PciFiles
from virtio_proto import schema

DEVICE, REGION, FOREIGN = "0000:00:04.0", "0000:00:05.0", "0000:00:03.0"
DATA = b"data of somebody"
CLIENT_LOCKS_AT = 1000
"""First of the bytes that clients of a state file lock."""
REGION_NAME_AT, CLIENTS_AT = 64, 256
"""Offset of the region's name in a state file, and one behind all that does not concern clients."""


@pytest.fixture
def config() -> Iterator[bytes]:
    with GuestLink(region_bytes=REGION_BYTES) as link:
        yield schema.CONFIG.construct.build(link.config)


@pytest.fixture
def machine(tmp_path: Path) -> PciFiles:
    files = PciFiles(tmp_path / "sys", tmp_path / "state")
    files.make()
    return files


def test_device_is_brought_up_over_its_region(machine: PciFiles, config: bytes) -> None:
    machine.add_device(DEVICE, config)
    region = machine.add_region(REGION)
    assert "NoAnswer 0000:00:04.0 was set up but does not answer" in machine.open()
    assert any(region.read_bytes()), "it has rings"


def test_function_that_uio_refuses_goes_back_to_its_driver(machine: PciFiles, config: bytes) -> None:
    """The kernel binds no other driver to a function while one is asked for."""
    folder = machine.add_device(DEVICE, config, driver="virtio-pci")
    machine.add_region(REGION)
    assert "SystemFailure 0000:00:04.0 did not bind to uio_pci_generic" in machine.open()
    assert (folder / "driver_override").read_text().startswith("\n")
    assert (machine.sys / "bus/pci/drivers_probe").read_text() == DEVICE


def test_function_of_another_kind_is_not_touched(machine: PciFiles, config: bytes) -> None:
    machine.add_device(DEVICE, config)
    folder = machine.add(FOREIGN, (0x8086, 0x100E), bar=0, contents=DATA.ljust(4096, b"\0"))
    before = (folder / "config").read_bytes()
    error = machine.open(f"address={FOREIGN!r}")
    assert error.startswith("NoDevice no PCI function 1af4:1066"), error
    assert (folder / "config").read_bytes() == before


def test_bar_of_another_kind_is_no_region(machine: PciFiles, config: bytes) -> None:
    machine.add_device(DEVICE, config)
    folder = machine.add(FOREIGN, (0x8086, 0x100E), bar=2, contents=DATA.ljust(REGION_BYTES, b"\0"))
    assert "NoDevice 0000:00:03.0 cannot be a region" in machine.open(f"region_address={FOREIGN!r}")
    assert (folder / "resource2").read_bytes().startswith(DATA)


def test_ivshmem_with_other_data_is_left_alone(machine: PciFiles, config: bytes) -> None:
    """There are more of them than devices."""
    machine.add_device(DEVICE, config)
    foreign, region = machine.add_region(FOREIGN, DATA), machine.add_region(REGION)
    assert "NoAnswer" in machine.open()
    assert foreign.read_bytes() == DATA.ljust(REGION_BYTES, b"\0")
    assert any(region.read_bytes())


def test_only_ivshmem_is_used_whatever_it_holds(machine: PciFiles, config: bytes) -> None:
    """A guest that crashed may have left anything."""
    machine.add_device(DEVICE, config)
    region = machine.add_region(REGION, DATA)
    assert "NoAnswer" in machine.open()
    assert not region.read_bytes().startswith(DATA)


@pytest.mark.parametrize("ids", [(0x8086, 0x100E), (0x1AF4, 0x1110)])
def test_state_file_cannot_name_other_memory(machine: PciFiles, config: bytes, ids: tuple[int, int]) -> None:
    machine.add_device(DEVICE, config)
    machine.add_region(REGION)
    contents = DATA.ljust(REGION_BYTES, b"\0")
    foreign = machine.add(FOREIGN, ids, bar=2, contents=contents) / "resource2"
    assert "NoAnswer" in machine.open(f"region_address={REGION!r}")
    with (machine.state / f"{DEVICE}.state").open("r+b") as state:
        size = os.fstat(state.fileno()).st_size
        assert os.pread(state.fileno(), len(REGION), REGION_NAME_AT) == REGION.encode()
        os.pwrite(state.fileno(), FOREIGN.encode(), REGION_NAME_AT)
        os.pwrite(state.fileno(), bytes(size - CLIENTS_AT), CLIENTS_AT)
        fcntl.lockf(state.fileno(), fcntl.LOCK_EX, 1, CLIENT_LOCKS_AT)
        assert "NoAnswer" in machine.open()
    assert foreign.read_bytes() == contents


@pytest.mark.parametrize("slow", [None, "region", "devdax"])
def test_faster_mapping_of_a_region_is_taken(machine: PciFiles, config: bytes, slow: str | None) -> None:
    """The devdax, also if both are as fast: whoever made it wants it."""
    machine.add_device(DEVICE, config)
    region = machine.add_region(REGION)
    devdax = machine.add_devdax(region)
    before = region.read_bytes()
    assert "NoAnswer" in machine.open(slow={"region": region, "devdax": devdax}.get(slow or ""))
    assert (any(devdax.read_bytes()), region.read_bytes() != before) == (slow != "devdax", slow == "devdax")


def test_slow_mapping_of_a_region_is_taken_if_an_option_says_so(machine: PciFiles, config: bytes) -> None:
    machine.add_device(DEVICE, config)
    devdax = machine.add_devdax(machine.add_region(REGION))
    assert "NoAnswer" in machine.open(f"region_address={DEVDAX!r}", slow=devdax)
    assert any(devdax.read_bytes())


def test_devdax_of_another_file_is_left_alone(machine: PciFiles, config: bytes) -> None:
    machine.add_device(DEVICE, config)
    foreign, region = machine.add_region(FOREIGN, DATA), machine.add_region(REGION)
    devdax = machine.add_devdax(foreign)
    assert "NoAnswer" in machine.open()
    assert not any(devdax.read_bytes())
    assert any(region.read_bytes())
