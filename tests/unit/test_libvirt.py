"""The libvirt example: valid by libvirt's schema, and consistent with the configuration beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tools.libvirt_schema import domain_schema
from vhost_backend.config import daemon as config
from virtio_proto import schema

FOLDER = Path(__file__).resolve().parents[2] / "libvirt_xml"
QEMU = "{http://libvirt.org/schemas/domain/qemu/1.0}"
MIB = 1 << 20


@pytest.fixture
def domain() -> etree._ElementTree:
    return etree.parse(FOLDER / "domain.xml")


@pytest.fixture
def vm() -> config.VmConfig:
    (vm,) = config.load(FOLDER / "vgcd.yaml").vms
    return vm


def device_options(domain: etree._ElementTree, option: str) -> dict[str, str]:
    """The key=value pairs of the QEMU argument that follows `option`."""
    arguments = [arg.get("value") or "" for arg in domain.iter(f"{QEMU}arg")]
    parts = arguments[arguments.index(option) + 1].split(",")
    return dict(part.split("=", 1) for part in parts[1:])


def test_domain_is_valid_by_libvirts_schema(domain: etree._ElementTree) -> None:
    rules = etree.RelaxNG(etree.parse(domain_schema()))
    rules.assertValid(domain)


def test_schema_rejects_a_misspelt_domain(domain: etree._ElementTree) -> None:
    shmem = domain.find("devices/shmem")
    assert shmem is not None
    shmem.tag = "shmemm"
    assert not etree.RelaxNG(etree.parse(domain_schema())).validate(domain)


def test_socket_is_that_of_the_daemons_configuration(domain: etree._ElementTree, vm: config.VmConfig) -> None:
    assert device_options(domain, "-chardev")["path"] == str(vm.socket)


def test_domain_and_vm_have_the_same_name(domain: etree._ElementTree, vm: config.VmConfig) -> None:
    assert domain.findtext("name") == vm.name


def test_region_has_the_configured_size(domain: etree._ElementTree, vm: config.VmConfig) -> None:
    size = domain.find("devices/shmem/size")
    assert size is not None
    assert size.get("unit") == "M"
    assert int(size.text or "") * MIB == vm.region_bytes


def test_region_is_the_configured_file(domain: etree._ElementTree, vm: config.VmConfig) -> None:
    shmem = domain.find("devices/shmem")
    assert shmem is not None
    assert vm.region_file == Path("/dev/shm") / (shmem.get("name") or "")


def test_device_has_the_configured_shape(domain: etree._ElementTree, vm: config.VmConfig) -> None:
    options = device_options(domain, "-device")
    assert int(options["virtio-id"]) == schema.VIRTIO_ID
    assert int(options["num_vqs"]) == vm.num_queues
    assert int(options["vq_size"]) <= schema.LIMITS["MAX_QUEUE_SIZE"]
    assert int(options["config_size"]) == schema.LIMITS["CONFIG_SIZE"]


def test_unit_starts_the_daemon_where_the_socket_is(vm: config.VmConfig) -> None:
    unit = (FOLDER / "vgcd.service").read_text()
    assert vm.socket is not None
    assert f"RuntimeDirectory={vm.socket.parent.name}\n" in unit
    assert vm.socket.parent.parent == Path("/run")


def test_unit_reloads_the_configuration_by_the_signal_that_the_daemon_takes() -> None:
    """`protocol/test_reload.py` has the daemon take it."""
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in (FOLDER / "vgcd.service").read_text()
