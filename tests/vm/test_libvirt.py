"""The device in domains of a real libvirtd: their lives from definition to undefinition, and the daemon's beside them.

The tests of one domain follow each other in its life: each leaves it running for the next.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Final

import libvirt
import pytest

from tests.limits import HANGS_AFTER_S
from tests.vm import libvirt_host
from tests.vm.agent import Agent, Answer
from tests.vm.libvirt_host import KVM_GROUP, LibvirtHost
from tests.vm.vgcd import Vgcd, VmSettings
from tests.waiting import until
from vgc_libvirt import cli

pytestmark = pytest.mark.skipif(bool(libvirt_host.missing()), reason=libvirt_host.missing())

MULTIPLY: Final = "python3 examples/matmul.py"
RIGHT: Final = re.compile(r"largest difference to numpy: \S+ \(right\)")
SAXPY: Final = """python3 - <<'END'
import numpy as np
import guest_driver as vgc
source = 'extern "C" __global__ void add(int n, float *x) {{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) x[i] += i; }}'
with vgc.Device(address="{}") as device:
    x = device.to_device(np.ones(1000, np.float32))
    device.compile(source).add[4, 256](1000, x)
    print("right" if (x.get() == 1 + np.arange(1000)).all() else "wrong")
END"""
"""Command that computes on the device at a PCI address."""

REBOOT_BY_ACPI: Final = 1
"""libvirt's VIR_DOMAIN_REBOOT_ACPI_POWER_BTN, which `virsh reboot --mode acpi` asks for."""


class Machine:
    """Domain that has been started, with the agent in its guest."""

    def __init__(self, host: LibvirtHost, domain: Any) -> None:
        self.domain = domain
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(host.agent_socket(domain.name())))
        self._agent = Agent(connection)
        self._agent.started.result(HANGS_AFTER_S)

    def start(self, command: str) -> Future[Answer]:
        return self._agent.request("run", command=command, timeout=HANGS_AFTER_S)

    def run(self, command: str) -> str:
        """Runs a command in the guest; returns what it prints."""
        return text_of(self.start(command))

    def boots_again(self, order: Callable[[], object]) -> None:
        """Gives an order, and waits until the guest has booted after it."""
        booted = self._agent.expect_start()
        order()
        booted.result(HANGS_AFTER_S)

    def close(self) -> None:
        """Ends the domain, if it runs still."""
        self._agent.close()
        with contextlib.suppress(libvirt.libvirtError):  # it has ended, or is gone
            self.domain.destroy()


def text_of(started: Future[Answer]) -> str:
    answer = started.result(HANGS_AFTER_S)
    assert answer.header["exit"] == 0, answer.body
    return answer.body.decode()


def vgc_libvirt(host: LibvirtHost, vgcd: Vgcd, *words: str) -> int:
    return cli.main([*words, "--connect", host.uri, "--config", str(vgcd.folder / "vgcd.yaml")])


@pytest.fixture(scope="module")
def vgcd() -> Iterator[Vgcd]:
    """Daemon whose sockets QEMU's group may use, as those of the shipped unit."""
    vms = [VmSettings("one"), VmSettings("two"), VmSettings("three", region_bytes=32 << 20)]
    with Vgcd(*vms, kept=True) as found:
        os.chown(found.folder, 0, KVM_GROUP)
        found.folder.chmod(0o750)
        for path in found.folder.glob("*.sock"):
            os.chown(path, 0, KVM_GROUP)
            path.chmod(0o660)
        yield found


@pytest.fixture(scope="module")
def host(vgcd: Vgcd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    folder = tmp_path_factory.mktemp("libvirt")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)  # QEMU is another user
    with LibvirtHost(folder, [vgcd.folder]) as found:
        yield found


def defined(host: LibvirtHost, vgcd: Vgcd, name: str, vm: str = "", machine: str = "q35") -> Any:
    """Domain with the device of a VM, by default that of its name, and places for further ones."""
    host.connection.defineXML(host.definition(name, machine))
    assert vgc_libvirt(host, vgcd, "attach", name, vm or name) == 0
    assert vgc_libvirt(host, vgcd, "check", name) == 0
    return host.connection.lookupByName(name)


@pytest.fixture(scope="module")
def machines(host: LibvirtHost, vgcd: Vgcd) -> Iterator[tuple[Machine, Machine]]:
    """Two domains, of both kinds of machine, that boot at once."""
    domains = [defined(host, vgcd, "one"), defined(host, vgcd, "two", machine="pc")]
    for domain in domains:
        domain.create()
    one, two = (Machine(host, domain) for domain in domains)
    try:
        yield one, two
    finally:
        one.close()
        two.close()


@pytest.fixture(scope="module")
def one(machines: tuple[Machine, Machine]) -> Machine:
    return machines[0]


def test_two_domains_compute_at_once(machines: tuple[Machine, Machine]) -> None:
    started = [machine.start(MULTIPLY) for machine in machines]
    assert all(RIGHT.search(text_of(one)) for one in started)


def devices_of(machine: Machine) -> list[str]:
    """PCI addresses of the compute devices that the guest has."""
    return machine.run(
        "cd /sys/bus/pci/devices; for one in *; do grep -q 0x1066 $one/device && echo $one; done; true"
    ).split()


@pytest.mark.parametrize("place", [0, 1], ids=["q35", "pc"])
def test_a_device_is_plugged_into_a_running_domain_and_out_again(
    place: int, machines: tuple[Machine, Machine], host: LibvirtHost, vgcd: Vgcd
) -> None:
    machine = machines[place]
    name, before = machine.domain.name(), devices_of(machine)
    for is_first in (True, False):
        assert vgc_libvirt(host, vgcd, "attach", name, "three", "--live") == 0
        (added,) = until(lambda: set(devices_of(machine)) - set(before))
        if is_first:
            assert machine.run(SAXPY.format(added)) == "right\n"
        assert vgc_libvirt(host, vgcd, "detach", name, "three", "--live") == 0
        assert devices_of(machine) == before
    assert "vgc-three" not in machine.domain.XMLDesc(0)


@pytest.mark.usefixtures("machines")
def test_a_device_without_a_place_is_refused(host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]) -> None:
    assert vgc_libvirt(host, vgcd, "attach", "one", "two", "--live") == 1
    assert "one has a region of 64 MiB already" in capsys.readouterr().err
    assert vgc_libvirt(host, vgcd, "detach", "two", "three", "--live") == 1
    assert "two has no device of VM three" in capsys.readouterr().err


def test_a_domain_that_is_reset_computes_again(one: Machine) -> None:
    one.boots_again(lambda: one.domain.reset(0))
    assert RIGHT.search(one.run(MULTIPLY))


def test_a_domain_that_is_rebooted_computes_again(one: Machine) -> None:
    one.boots_again(lambda: one.domain.reboot(REBOOT_BY_ACPI))
    assert RIGHT.search(one.run(MULTIPLY))


def test_a_domain_computes_on_when_the_daemon_dies(one: Machine, vgcd: Vgcd) -> None:
    vgcd.kill_daemon()
    assert RIGHT.search(one.run(MULTIPLY))


def test_a_domain_with_the_device_is_not_saved_or_migrated(one: Machine, host: LibvirtHost) -> None:
    reason = "cannot migrate domain: .*non-migratable device: .*vhost-user-test-device"
    with pytest.raises(libvirt.libvirtError, match=reason):
        one.domain.save("/tmp/one.save")
    with pytest.raises(libvirt.libvirtError, match=reason):
        one.domain.managedSave(0)
    with pytest.raises(libvirt.libvirtError, match=reason):
        one.domain.migrateToURI(host.uri, libvirt.VIR_MIGRATE_LIVE | libvirt.VIR_MIGRATE_PEER2PEER)
    assert one.domain.isActive()


def test_a_domain_ends_by_its_power_button_and_leaves_no_region(one: Machine, host: LibvirtHost) -> None:
    one.domain.shutdown()
    until(lambda: not one.domain.isActive())
    assert list(host.path("/dev/shm").iterdir()) == []


def test_a_domain_that_is_destroyed_leaves_the_others_and_no_region(
    machines: tuple[Machine, Machine], host: LibvirtHost, vgcd: Vgcd
) -> None:
    one, two = (machine.domain for machine in machines)
    if not one.isActive():
        one.create()
    two.destroy()
    assert one.isActive()
    assert vgc_libvirt(host, vgcd, "detach", "two") == 0
    for domain in (two, one):
        domain.undefine()
    one.destroy()
    assert host.connection.listAllDomains() == []
    assert list(host.path("/dev/shm").iterdir()) == []


def test_a_running_domain_gets_a_changed_definition_with_its_next_start(
    host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]
) -> None:
    domain = host.connection.defineXML(host.definition("spare"))
    domain.create()
    assert vgc_libvirt(host, vgcd, "attach", "spare", "three") == 0
    assert "spare runs: the device is there from the next start on" in capsys.readouterr().out
    assert "vgc-three" not in domain.XMLDesc(0)
    domain.destroy()
    domain.create()
    assert "vgc-three" in domain.XMLDesc(0)
    domain.destroy()
    domain.undefine()


def test_key_values_in_a_q35_domain_fail_as_the_check_says(
    host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "vhost-user-test-device-pci,chardev=c,virtio-id=38,num_vqs=4,vq_size=256,config_size=256"
    values = ["-chardev", f"socket,id=c,path={vgcd.folder}/one.sock", "-device", line]
    arguments = "".join(f"<qemu:arg value='{value}'/>" for value in values)
    text = host.definition("by-hand").replace("</qemu:commandline>", f"{arguments}</qemu:commandline>")
    domain = host.connection.defineXML(text)
    assert vgc_libvirt(host, vgcd, "check", "by-hand") == 1
    assert "without bus and addr: QEMU gives it a slot that libvirt has given to a root port" in capsys.readouterr().out
    with pytest.raises(libvirt.libvirtError, match="PCI: slot 1 function 0 not available for pcie-root-port"):
        domain.create()
    domain.undefine()


def messages(host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]) -> str:
    """Text of what the check finds wrong with the domain `spare`."""
    assert vgc_libvirt(host, vgcd, "check", "spare") == 1
    return capsys.readouterr().out


@pytest.fixture
def spare(host: LibvirtHost, vgcd: Vgcd) -> Iterator[Any]:
    """Domain with the device, which does not run."""
    domain = defined(host, vgcd, "spare", "three")
    yield domain
    domain.undefine()


def test_a_socket_of_the_wrong_group_is_told_before_the_start_fails(
    spare: Any, host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]
) -> None:
    path = vgcd.folder / "three.sock"
    os.chown(path, 0, 0)
    assert f"may not use its socket: {path} is root:root with mode 0660" in messages(host, vgcd, capsys)
    with pytest.raises(libvirt.libvirtError, match=r"three.sock'?: Permission denied"):
        spare.create()
    os.chown(path, 0, KVM_GROUP)
    assert vgc_libvirt(host, vgcd, "check", "spare") == 0


def test_a_socket_that_is_missing_is_told_before_the_start_fails(
    spare: Any, host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]
) -> None:
    path = vgcd.folder / "three.sock"
    path.rename(vgcd.folder / "away")
    assert f"there is no socket {path}: vgcd does not run, or does not serve the VM" in messages(host, vgcd, capsys)
    with pytest.raises(libvirt.libvirtError, match=r"three.sock'?: No such file or directory"):
        spare.create()
    (vgcd.folder / "away").rename(path)


def test_domains_and_vms_are_shown(
    spare: Any, host: LibvirtHost, vgcd: Vgcd, capsys: pytest.CaptureFixture[str]
) -> None:
    assert vgc_libvirt(host, vgcd, "status") == 0
    header, *rows = capsys.readouterr().out.splitlines()
    assert header.split() == ["domain", "state", "vm", "socket", "region", "device", "problem"]
    mine = next(row.split() for row in rows if row.startswith(spare.name()))
    assert mine[:3] == ["spare", "off", "three"]
    assert {row.split()[2] for row in rows} == {"one", "two", "three"}


def test_a_region_of_libvirts_stays_and_one_of_another_user_stops_the_start(host: LibvirtHost) -> None:
    """Both are why regions have no files unless the configuration asks for one."""
    shmem = '<shmem name="vgc-three"><model type="ivshmem-plain"/><size unit="M">16</size></shmem></devices>'
    domain = host.connection.defineXML(host.definition("shared").replace("</devices>", shmem))
    left = host.path("/dev/shm/vgc-three")
    domain.create()
    domain.destroy()
    assert (left.stat().st_mode & 0o777, left.stat().st_size) == (0o644, 16 << 20)
    os.chown(left, 0, 0)
    left.chmod(0o600)
    with pytest.raises(libvirt.libvirtError, match=r"can't open backing store /dev/shm/vgc-three.*Permission denied"):
        domain.create()
    left.unlink()
    domain.create()
    domain.destroy()
    domain.undefine()
    left.unlink()
