"""The device in the domain of a KubeVirt machine: what is added, what is refused, as a call and as `onDefineDomain`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from lxml import etree

from tests.fakes.virt_launcher import DOMAIN, vmi
from tests.limits import HANGS_AFTER_S
from tests.unit.libvirt_rig import is_valid
from vgc_kubernetes.domain import with_device
from vgc_kubernetes.errors import RequestError
from vgc_kubernetes.hook_sidecar import define_domain
from vgc_kubernetes.terms import ELEMENTS, DeviceShape
from vgc_libvirt import definition_check
from vgc_libvirt.device import Device
from vgc_libvirt.domain import Domain

MIB: Final = 1 << 20
SHAPE: Final = DeviceShape(128 * MIB, 8)
LIMITS: Final = {ELEMENTS: "2", "vgc.dev/memory-256mi": "1"}
SOCKET: Final = Path("/var/run/vgc/vgc.sock")


def refusal(domain: bytes, instance: bytes) -> str:
    with pytest.raises(RequestError) as refused:
        define_domain(instance, domain, SHAPE)
    return str(refused.value)


def test_device_is_the_one_that_the_plugin_serves() -> None:
    changed = Domain.parse(define_domain(vmi(LIMITS), DOMAIN, SHAPE), "changed")
    (found,) = changed.devices()
    assert (found.socket, found.device.number("num_vqs")) == (SOCKET, 8)
    (region,) = changed.regions()
    assert (region.size_bytes, region.file, region.is_shared) == (128 * MIB, None, True)
    assert definition_check.findings(changed, [Device("pod", SOCKET, 8, 128 * MIB)]) == []


def test_nothing_else_of_the_domain_changes() -> None:
    changed = Domain.parse(with_device(DOMAIN, SHAPE), "changed")
    changed.detach(Device("pod", SOCKET, 8, 128 * MIB))
    assert etree.canonicalize(changed.text()) == etree.canonicalize(DOMAIN.decode())


def test_domain_stays_valid_by_libvirts_schema() -> None:
    assert is_valid(DOMAIN.decode())
    assert is_valid(with_device(DOMAIN, SHAPE).decode())


def test_arguments_that_kubevirt_or_another_sidecar_has_added_stay() -> None:
    line = b'<qemu:commandline><qemu:arg value="-no-hpet"></qemu:arg></qemu:commandline></domain>'
    changed = Domain.parse(with_device(DOMAIN.replace(b"</domain>", line), SHAPE), "changed")
    assert changed.arguments()[0] == "-no-hpet"
    assert len(changed.devices()) == 1


@pytest.mark.parametrize(
    ("domain", "allowed"),
    [
        (b"", "the domain is no XML"),
        (b"<domain><name>", "the domain is no XML"),
        (b"\xff\xfe", "the domain is no XML"),
        (b"<network/>", "root element <network>; allowed: the XML of one domain"),
        (b"<domain/>", "has no <name> or no <devices>"),
        (b'<!DOCTYPE d [<!ENTITY a "b">]>' + DOMAIN, "has a document type; allowed: the XML of one domain"),
        (f'<!DOCTYPE d [<!ENTITY a "b">]>{DOMAIN.decode()}'.encode("utf-16"), "has a document type"),
        (DOMAIN.replace(b"x86_64", b"aarch64"), "the domain's architecture is aarch64; allowed: x86_64"),
        (DOMAIN.ljust((4 << 20) + 1), "allowed: at most 4194304"),
        (with_device(DOMAIN, SHAPE), "has a device at /var/run/vgc/vgc.sock already"),
    ],
)
def test_domains_that_cannot_have_the_device_are_named(domain: bytes, allowed: str) -> None:
    assert allowed in refusal(domain, vmi(LIMITS))


@pytest.mark.parametrize(
    ("instance", "allowed"),
    [
        (b"", "the VMI cannot be read"),
        (b"[" * 100_000, "the VMI cannot be read"),
        (b'{"spec": 1}', "allowed: a VirtualMachineInstance as JSON"),
        (b"\xff{}", "the VMI cannot be read"),
        (vmi(), f"VMI default/vm1 asks for no {ELEMENTS} and no vgc.dev/memory-UNIT; allowed: limits for"),
        (vmi({ELEMENTS: "1"}), "VMI default/vm1 asks for no vgc.dev/memory-UNIT; allowed: limits for"),
        (vmi({"vgc.dev/memory-1gi": 1, "cpu": "2"}), f"VMI default/vm1 asks for no {ELEMENTS}; allowed: limits for"),
    ],
)
def test_machines_that_ask_for_no_device_are_told_what_to_ask_for(instance: bytes, allowed: str) -> None:
    assert allowed in refusal(DOMAIN, instance)


def test_requests_count_as_limits_do() -> None:
    instance = vmi(resources={"requests": {ELEMENTS: 2, "vgc.dev/memory-256mi": "1"}, "limits": None})
    assert b"vgc.sock" in define_domain(instance, DOMAIN, SHAPE)


# ---- the program of KubeVirt's shim --------------------------------------------------------------


@pytest.fixture
def shim(tmp_path: Path) -> Path:
    """Program as it lies in an image of KubeVirt's sidecar-shim."""
    path = tmp_path / "onDefineDomain"
    path.write_text(f"#!{sys.executable}\nfrom vgc_kubernetes.cli import main\nraise SystemExit(main())\n")
    path.chmod(0o755)
    return path


def run(shim: Path, *argv: str | bytes) -> subprocess.CompletedProcess[bytes]:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run([shim, *argv], capture_output=True, check=False, env=environment, timeout=HANGS_AFTER_S)


def test_program_prints_the_domain_and_nothing_else(shim: Path) -> None:
    done = run(shim, "--vmi", vmi(LIMITS), "--domain", DOMAIN)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == with_device(DOMAIN, DeviceShape()).strip()


@pytest.mark.parametrize(
    ("argv", "status", "said"),
    [
        (("--vmi", vmi(), "--domain", DOMAIN), 1, f"asks for no {ELEMENTS}"),
        (("--vmi", vmi(LIMITS), "--domain", b"\xff"), 1, "the domain is no XML"),
        (("--vmi", vmi(LIMITS)), 2, "the following arguments are required: --domain"),
    ],
)
def test_program_refuses_without_a_domain_on_its_output(
    shim: Path, argv: tuple[str | bytes, ...], status: int, said: str
) -> None:
    done = run(shim, *argv)
    assert (done.returncode, done.stdout) == (status, b"")
    assert said in done.stderr.decode()
