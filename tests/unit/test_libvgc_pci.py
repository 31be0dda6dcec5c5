"""Which PCI functions libvgc touches, in a sysfs of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.link import GuestLink
from tests.fakes.pci_files import REGION_BYTES, PciFiles
from virtio_proto import schema

DEVICE, REGION = "0000:00:04.0", "0000:00:05.0"


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
