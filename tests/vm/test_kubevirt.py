"""A guest in a pod: resources of the kubelet, a domain from the hook sidecar, and QEMU with what it says."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.fakes.kubelet import FakePod
from tests.fakes.virt_launcher import DOMAIN, vmi
from tests.protocol.kubernetes_node import ONE, name_of, node
from tests.vm.harness import Guest
from tools.machine import Device
from vgc_kubernetes.hook_sidecar import define_domain
from vgc_kubernetes.terms import DeviceShape
from vgc_libvirt.domain import Domain

pytestmark = pytest.mark.vm


@dataclass(frozen=True, slots=True)
class DomainDevice(Device):
    """Device by a domain's arguments, with paths of the pod's container as they are on the host."""

    arguments: list[str] = field(default_factory=list)

    def argv(self, region_fd: int) -> list[str]:
        del region_fd  # the region is QEMU's own
        return self.arguments


def device_of(pod: FakePod, domain: bytes) -> DomainDevice:
    mount = pod.mount()
    arguments = Domain.parse(domain, "the domain").arguments()
    assert any(mount.container_path in argument for argument in arguments)
    inside = [argument.replace(mount.container_path, mount.host_path) for argument in arguments]
    return DomainDevice(Path(mount.host_path), arguments=inside)


def test_machine_of_a_pod_computes_with_its_share() -> None:
    with node() as host:
        host.start_vgcd()
        host.start_plugin()
        pod = host.kubelet.run("virt-launcher-vm1", ONE)
        domain = define_domain(vmi(ONE), DOMAIN, DeviceShape())
        with Guest(device_of(pod, domain)) as guest:
            info = guest.run("vgc info").stdout
            assert "1 processing elements, 128 MiB of device memory" in info
            assert f"VM {name_of(pod)}" in info
            assert "right" in guest.run("python3 examples/matmul.py --size 64").stdout
        host.kubelet.delete("virt-launcher-vm1")
        host.wait_vms()
