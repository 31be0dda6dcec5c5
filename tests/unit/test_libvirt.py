"""The libvirt example: valid by libvirt's schema, and consistent with the configuration beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from lxml import etree

from tools.libvirt import domain_schema
from vgc_libvirt import definition_check
from vgc_libvirt.device import device_of
from vgc_libvirt.domain import Domain
from vhost_backend.config import daemon as config

FOLDER = Path(__file__).resolve().parents[2] / "libvirt_xml"
UNIT = FOLDER.parent / "systemd" / "vgcd.service"


@pytest.fixture
def domain() -> etree._ElementTree:
    return etree.parse(FOLDER / "domain.xml")


@pytest.fixture
def vm() -> config.VmConfig:
    (vm,) = config.load(FOLDER / "vgcd.yaml").vms
    return vm


def test_domain_is_valid_by_libvirts_schema(domain: etree._ElementTree) -> None:
    rules = etree.RelaxNG(etree.parse(domain_schema()))
    rules.assertValid(domain)


def test_schema_rejects_a_misspelt_domain(domain: etree._ElementTree) -> None:
    disk = domain.find("devices/disk")
    assert disk is not None
    disk.tag = "dissk"
    assert not etree.RelaxNG(etree.parse(domain_schema())).validate(domain)


def test_domain_and_vm_go_together(vm: config.VmConfig) -> None:
    text = (FOLDER / "domain.xml").read_bytes()
    assert definition_check.findings(Domain.parse(text, "domain.xml"), [device_of(vm)]) == []


def test_domain_has_the_parts_that_the_command_prints(vm: config.VmConfig) -> None:
    domain = Domain.parse((FOLDER / "domain.xml").read_bytes(), "domain.xml")
    assert (domain.name, domain.arguments()) == (vm.name, device_of(vm).command_line())


def test_unit_starts_the_daemon_where_the_socket_is(vm: config.VmConfig) -> None:
    unit = UNIT.read_text()
    assert vm.socket is not None
    assert f"RuntimeDirectory={vm.socket.parent.name}\n" in unit
    assert vm.socket.parent.parent == Path("/run")


def test_unit_reloads_the_configuration_by_the_signal_that_the_daemon_takes() -> None:
    """`protocol/test_reload.py` has the daemon take it."""
    assert "ExecReload=/bin/kill -HUP $MAINPID\n" in UNIT.read_text()
