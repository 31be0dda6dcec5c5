"""NVDIMMs of a guest, in a sysfs of files, and refusals to convert one."""

from __future__ import annotations

from pathlib import Path

import pytest

from guest_driver import nvdimm
from guest_driver.errors import InvalidArgument, NoDevice, SystemFailure
from guest_driver.nvdimm import MIB, REGION_MAGIC, Namespace, Nvdimms


class Machine:
    """Folders as sysfs and /dev have them."""

    def __init__(self, folder: Path) -> None:
        self.sys, self.dev = folder / "sys", folder / "dev"
        self.dev.mkdir(parents=True)
        drivers = ("bus/nd/drivers/nd_pmem", "bus/nd/drivers/dax_pmem", "bus/dax/drivers/device_dax")
        for name in ("bus/nd/devices", "bus/dax/devices", *drivers):
            (self.sys / name).mkdir(parents=True)

    def add(self, number: int, size: int, contents: bytes = b"") -> Namespace:
        """Adds an NVDIMM with a disk."""
        region = self.sys / f"devices/region{number}"
        namespace = region / f"namespace{number}.0"
        (namespace / "block" / f"pmem{number}").mkdir(parents=True)
        (region / "size").write_text(f"{size}\n")
        (namespace / "size").write_text(f"{size}\n")
        (region / "dax_seed").write_text(f"dax{number}.1\n")
        (self.sys / "bus/nd/devices" / namespace.name).symlink_to(namespace)
        (self.dev / f"pmem{number}").write_bytes(contents.ljust(size, b"\0"))
        return Namespace(namespace.name, size, f"pmem{number}", "")

    def add_devdax(self, number: int) -> None:
        """Adds the devdax of an NVDIMM."""
        device = self.sys / f"devices/region{number}/dax{number}.1"
        (device / f"dax{number}.0").mkdir(parents=True)
        (device / "namespace").write_text(f"namespace{number}.0\n")
        (self.sys / f"bus/dax/devices/dax{number}.0").symlink_to(device / f"dax{number}.0")

    @property
    def nvdimms(self) -> Nvdimms:
        return Nvdimms(self.sys, self.dev)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_namespaces_are_listed_with_their_disks_and_devdaxes(machine: Machine) -> None:
    first, second = machine.add(0, 64 * MIB), machine.add(1, 8 * MIB)
    machine.add_devdax(1)
    assert machine.nvdimms.namespaces() == [first, Namespace(second.name, second.size_bytes, second.disk, "dax1.0")]


def test_machine_without_nvdimms_has_none(tmp_path: Path) -> None:
    assert Nvdimms(tmp_path, tmp_path).namespaces() == []


def test_machine_without_nvdimms_is_told_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(
        NoDevice, match=r"has no NVDIMM .*; QEMU gives it one with -device nvdimm and the region's file"
    ):
        Nvdimms(tmp_path, tmp_path).choose(None, {8 * MIB})


def test_namespace_of_a_regions_size_is_chosen(machine: Machine) -> None:
    machine.add(0, 64 * MIB)
    fitting = machine.add(1, 8 * MIB)
    assert machine.nvdimms.choose(None, {8 * MIB, 16 * MIB}) == fitting
    assert machine.nvdimms.choose("namespace1.0", set()) == fitting


@pytest.mark.parametrize(
    ("name", "sizes", "text"),
    [
        (
            None,
            {16 * MIB},
            r"0 NVDIMMs have the size of a region \(16 MiB\); this machine has: namespace0.0 of 8 MiB, ",
        ),
        (None, {8 * MIB}, "2 NVDIMMs have the size of a region .*; allowed: the name of a namespace behind --devdax"),
        (None, set(), "the size of a region .none that is known."),
        ("namespace7.0", {8 * MIB}, "namespace7.0: no such namespace of an NVDIMM; this machine has: namespace0.0 of"),
    ],
)
def test_unclear_choice_is_refused(machine: Machine, name: str | None, sizes: set[int], text: str) -> None:
    machine.add(0, 8 * MIB)
    machine.add(1, 8 * MIB)
    with pytest.raises(NoDevice, match=text):
        machine.nvdimms.choose(name, sizes)


@pytest.mark.parametrize("contents", [b"data", bytes(5 * MIB) + b"data", REGION_MAGIC[:-1]])
def test_namespace_with_data_is_not_converted(machine: Machine, contents: bytes) -> None:
    namespace = machine.add(0, 8 * MIB, contents)
    with pytest.raises(InvalidArgument, match="pmem0 has data; allowed: an NVDIMM of zeroes, or a region; --overwrite"):
        machine.nvdimms.make_devdax(namespace)
    assert not (machine.sys / "bus/nd/drivers/nd_pmem/unbind").exists(), "nothing was touched"


@pytest.mark.parametrize("contents", [b"", REGION_MAGIC + b"cookie"])
def test_namespace_of_zeroes_or_a_region_may_be_converted(machine: Machine, contents: bytes) -> None:
    namespace = machine.add(0, 8 * MIB, contents)
    with pytest.raises(SystemFailure, match=r"cannot write '2097152' to .*/dax0.1/align"):
        machine.nvdimms.make_devdax(namespace)
    drivers = machine.sys / "bus/nd/drivers/nd_pmem"
    assert [(drivers / file).read_text() for file in ("unbind", "bind")] == ["namespace0.0\n"] * 2, "the disk is back"


def test_disk_is_held_until_it_is_gone(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it could be mounted between the look at its data and its end."""
    namespace = machine.add(0, 8 * MIB)
    write = nvdimm._write
    held: list[str] = []

    def watch(path: Path, text: str) -> None:
        if path.name == "unbind":
            held.extend(str(fd.readlink()) for fd in Path("/proc/self/fd").iterdir() if fd.exists())
        write(path, text)

    monkeypatch.setattr(nvdimm, "_write", watch)
    with pytest.raises(SystemFailure, match="align"):
        machine.nvdimms.make_devdax(namespace)
    assert str(machine.dev / "pmem0") in held


def test_namespace_that_is_too_small_is_refused(machine: Machine) -> None:
    namespace = machine.add(0, 3 * MIB)
    with pytest.raises(InvalidArgument, match="has 3 MiB, of which the kernel keeps 2 MiB; allowed: at least 4 MiB"):
        machine.nvdimms.make_devdax(namespace)


def test_namespace_without_its_disk_is_in_use(machine: Machine) -> None:
    namespace = machine.add(0, 8 * MIB)
    (machine.dev / "pmem0").unlink()
    with pytest.raises(
        InvalidArgument, match=r"pmem0 is in use \(No such file or directory\); allowed: one that is not"
    ):
        machine.nvdimms.make_devdax(namespace)


def test_namespace_whose_data_cannot_be_read_is_not_converted(machine: Machine) -> None:
    namespace = machine.add(0, 8 * MIB)
    (machine.sys / "devices/region0/namespace0.0/block/pmem0").rmdir()
    with pytest.raises(InvalidArgument, match=r"namespace0\.0 has no disk in which its data could be looked for"):
        machine.nvdimms.make_devdax(namespace)
    with pytest.raises(SystemFailure, match=r"cannot write '2097152' to .*/dax0.1/align"):
        machine.nvdimms.make_devdax(namespace, overwrites=True)


def test_devdax_that_is_there_stays(machine: Machine) -> None:
    machine.add(0, 8 * MIB)
    machine.add_devdax(0)
    (namespace,) = machine.nvdimms.namespaces()
    assert machine.nvdimms.make_devdax(namespace) == "dax0.0"
