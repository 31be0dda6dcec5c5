"""Definitions of domains that programs and people have written, and configurations of `vgcd` for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from lxml import etree

from tools.libvirt import domain_schema
from vgc_libvirt.device import Device, device_of
from vgc_libvirt.domain import Domain
from vhost_backend.config import daemon as config

FOLDER: Final = Path(__file__).parent / "libvirt_domains"
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Definition:
    """Definition of a domain, in one of the styles in which people and programs write XML."""

    name: str
    text: str


def _with_comments(text: str) -> str:
    """Writes a comment and an empty line before each device, and one comment behind the last element."""
    text = re.sub(r"(\n +)(<(?:interface|disk|console|memory)\b)", r"\n\1<!-- kept -->\1\2", text)
    return text.replace("</domain>", "  <!-- the end; -->\n</domain>")


def _with_tabs(text: str) -> str:
    return re.sub(r"^( +)", lambda match: "\t" * (len(match[1]) // 2), text, flags=re.MULTILINE)


def _on_one_line(text: str) -> str:
    return re.sub(r">\s+<", "><", text)


STYLES: Final[dict[str, Callable[[str], str]]] = {
    "written": str,
    "comments": _with_comments,
    "tabs": _with_tabs,
    "one_line": _on_one_line,
}


def definitions() -> Iterator[Definition]:
    """Forty definitions: ten domains in four styles."""
    for path in sorted(FOLDER.glob("*.xml")):
        for style, change in STYLES.items():
            yield Definition(f"{path.stem}-{style}", change(path.read_text()))


@cache
def schema() -> etree.RelaxNG:
    """Libvirt's own schema of domains."""
    return etree.RelaxNG(etree.parse(domain_schema()))


def is_valid(text: str) -> bool:
    """True if libvirt's schema has this definition."""
    return bool(schema().validate(etree.fromstring(text.encode())))


def device(name: str = "web1", **settings: Any) -> Device:
    """Device of a VM of a configuration."""
    return devices({name: settings})[0]


def devices(vms: dict[str, dict[str, Any]]) -> list[Device]:
    """Devices of the VMs of a configuration, each with a socket of its own unless its settings name one."""
    rows = {name: {"socket": f"/run/vgcd/{name}.sock", **settings} for name, settings in vms.items()}
    return [device_of(vm) for vm in config.parse(yaml.safe_dump({"vms": rows})).vms]


def domain(text: str) -> Domain:
    return Domain.parse(text, "test.xml")


def plain(body: str = "", *, machine: str = "pc-q35-10.0") -> str:
    """Definition with nothing but `body` behind its devices."""
    return (
        '<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">\n  <name>web1</name>\n'
        f'  <memory unit="MiB">512</memory>\n  <os>\n    <type arch="x86_64" machine="{machine}">hvm</type>\n  </os>\n'
        f'  <devices>\n    <console type="pty"/>\n  </devices>\n{body}</domain>\n'
    )
