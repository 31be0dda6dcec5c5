"""Devices of running domains, on a QEMU whose answers are given: places, refusals, and what is undone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.libvirt_rig import device
from vgc_libvirt import live
from vgc_libvirt.device import DRIVER
from vgc_libvirt.errors import LibvirtError

MIB = 1 << 20


def port(name: str, window_bytes: int, *behind: dict[str, Any]) -> dict[str, Any]:
    """Root port, as QEMU 11.1.3 answers."""
    window = {"base": 0xFE000000, "limit": 0xFE000000 + window_bytes - 1}
    return {
        "qdev_id": name,
        "id": {"vendor": 0x1B36, "device": 0xC},
        "regions": [],
        "pci_bridge": {"bus": {"prefetchable_range": window}, "devices": list(behind)},
    }


def ivshmem(size_bytes: int) -> dict[str, Any]:
    regions = [{"bar": 0, "size": 256}, {"bar": 2, "size": size_bytes}]
    return {"qdev_id": "", "id": {"vendor": 0x1AF4, "device": 0x1110}, "regions": regions}


class FakeMonitor:
    """QEMU with these PCI devices, which refuses `refused`, a command and a driver."""

    def __init__(
        self, *pci: dict[str, Any], machine: str = "pc-q35-11.1-machine", refused: tuple[str, str] = ("", "")
    ) -> None:
        self._pci, self._machine, self._refused = list(pci), machine, refused
        self.plugged: dict[str, Any] = {}
        self.objects: set[str] = set()
        self.chardevs: set[str] = set()
        self.keeps = False
        self.busy = 0
        """Times that a chardev or an object is in use still."""

    def _let_go(self, of: set[str], identity: str) -> None:
        if self.busy:
            self.busy -= 1
            raise LibvirtError(f"{identity} is in use")
        of.remove(identity)

    def qmp(self, name: str, command: str, **arguments: Any) -> Any:  # noqa: C901  commands of QEMU's
        assert name == "web1"
        if (command, arguments.get("driver", "")) == self._refused:
            raise LibvirtError("QEMU refuses")
        match command:
            case "query-pci":
                return [{"devices": self._pci}]
            case "qom-get":
                return self._machine
            case "qom-list":
                there = {"/machine/peripheral": self.plugged, "/objects": self.objects, "/chardevs": self.chardevs}
                return [{"name": name} for name in ("type", *there[arguments["path"]])]
            case "object-add":
                self.objects.add(arguments["id"])
            case "object-del":
                self._let_go(self.objects, arguments["id"])
            case "chardev-add":
                self.chardevs.add(arguments["id"])
            case "chardev-remove":
                self._let_go(self.chardevs, arguments["id"])
            case "device_add":
                self.plugged[arguments["id"]] = arguments["bus"]
            case "device_del" if not self.keeps:
                del self.plugged[arguments["id"]]
        return {}

    @property
    def is_clean(self) -> bool:
        return not (self.plugged or self.objects or self.chardevs)


def test_a_region_goes_where_it_has_room() -> None:
    qemu = FakeMonitor(
        port("pci.1", 2 * MIB, {"qdev_id": "x", "id": {"vendor": 1, "device": 1}, "regions": []}),
        port("pci.2", 2 * MIB),
        port("pci.3", 64 * MIB),
    )
    live.attach(qemu, "web1", device())
    assert qemu.plugged == {"vgcmem-web1": "pci.3", "vgc-web1": "pci.2"}
    live.detach(qemu, "web1", device())
    assert qemu.is_clean


def test_an_i440fx_machine_has_one_bus() -> None:
    qemu = FakeMonitor(machine="pc-i440fx-11.1-machine")
    live.attach(qemu, "web1", device())
    assert set(qemu.plugged.values()) == {"pci.0"}


@pytest.mark.parametrize("pci", [(), (port("pci.1", 64 * MIB),), (port("pci.1", 2 * MIB), port("pci.2", 2 * MIB))])
def test_a_machine_without_places_is_told(pci: tuple[dict[str, Any], ...]) -> None:
    qemu = FakeMonitor(*pci)
    with pytest.raises(
        LibvirtError,
        match=r"no two free root ports, one of them with room for 64 MiB; free: (none|pci.*MiB\)).*pref64-reserve=64M",
    ):
        live.attach(qemu, "web1", device())
    assert qemu.is_clean


def test_a_region_of_a_size_that_another_has_is_refused() -> None:
    qemu = FakeMonitor(ivshmem(64 * MIB), port("pci.1", 64 * MIB), port("pci.2", 64 * MIB))
    with pytest.raises(LibvirtError, match="web1 has a region of 64 MiB already"):
        live.attach(qemu, "web1", device())
    live.attach(qemu, "web1", device(region="32M"))


@pytest.mark.parametrize(
    "refused", [("object-add", ""), ("chardev-add", ""), ("device_add", "ivshmem-plain"), ("device_add", DRIVER)]
)
def test_a_step_that_qemu_refuses_undoes_the_others(refused: tuple[str, str]) -> None:
    qemu = FakeMonitor(port("pci.1", 64 * MIB), port("pci.2", 64 * MIB), refused=refused)
    with pytest.raises(LibvirtError, match="QEMU refuses"):
        live.attach(qemu, "web1", device())
    assert qemu.is_clean


def test_a_device_is_plugged_in_once() -> None:
    qemu = FakeMonitor(machine="pc-i440fx-11.1-machine")
    live.attach(qemu, "web1", device())
    with pytest.raises(LibvirtError, match="web1 has the device of VM web1 already"):
        live.attach(qemu, "web1", device())


def test_a_guest_that_keeps_its_device_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UNPLUG_S", 0)
    qemu = FakeMonitor(machine="pc-i440fx-11.1-machine")
    live.attach(qemu, "web1", device())
    qemu.keeps = True
    with pytest.raises(LibvirtError, match="has not let go of vgc-web1 within 0 s; allowed: a guest that runs"):
        live.detach(qemu, "web1", device())
    qemu.keeps = False
    live.detach(qemu, "web1", device())
    assert qemu.is_clean


def test_a_device_that_is_not_there_is_told() -> None:
    with pytest.raises(LibvirtError, match="web1 has no device of VM web1; its definition is another matter"):
        live.detach(FakeMonitor(), "web1", device())


def test_what_qemu_lets_go_of_later_is_removed_then() -> None:
    qemu = FakeMonitor(machine="pc-i440fx-11.1-machine")
    live.attach(qemu, "web1", device())
    qemu.busy = 2
    live.detach(qemu, "web1", device())
    assert qemu.is_clean


def test_what_qemu_never_lets_go_of_is_told_and_can_be_removed_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "UNPLUG_S", 0)
    qemu = FakeMonitor(machine="pc-i440fx-11.1-machine")
    live.attach(qemu, "web1", device())
    qemu.busy = 1000
    with pytest.raises(LibvirtError, match="vgc-web1 is in use"):
        live.detach(qemu, "web1", device())
    qemu.busy = 0
    live.detach(qemu, "web1", device())
    assert qemu.is_clean
