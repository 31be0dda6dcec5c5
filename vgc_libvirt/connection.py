"""Connection to libvirt: definitions of domains, their states, and QEMU's own protocol (QMP) through it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, Final

from vgc_libvirt import host
from vgc_libvirt.domain import Domain
from vgc_libvirt.errors import LibvirtError
from vgc_libvirt.host import Host
from vhost_backend.errors import HostError

DEFAULT_URI: Final = "qemu:///system"


class Hypervisor:
    """Open connection. `connected` makes it."""

    def __init__(self, library: Any, connection: Any, uri: str) -> None:
        self._library = library
        self._connection = connection
        self.uri = uri

    def names(self) -> list[str]:
        """Names of all domains, running or defined, sorted."""
        with self._translated("the list of domains"):
            return sorted(domain.name() for domain in self._connection.listAllDomains())

    def host(self) -> Host:
        """Facts about the host that libvirt knows."""
        with self._translated("capabilities"):
            return host.of_capabilities(self._connection.getCapabilities())

    def definition(self, name: str) -> Domain:
        """Definition with which the domain starts next, with its passwords, which must not be lost.

        :raise LibvirtError: there is no such domain.
        """
        with self._translated(f"domain {name}"):
            flags = self._library.VIR_DOMAIN_XML_SECURE | self._library.VIR_DOMAIN_XML_INACTIVE
            return Domain.parse(self._domain(name).XMLDesc(flags), f"domain {name}")

    def define(self, domain: Domain) -> None:
        """Replaces a domain's definition.

        :raise LibvirtError: libvirt refuses it.
        """
        with self._translated(f"the definition of {domain.name}"):
            self._connection.defineXML(domain.text())

    def is_running(self, name: str) -> bool:
        with self._translated(f"domain {name}"):
            return bool(self._domain(name).isActive())

    def is_kept(self, name: str) -> bool:
        """True if the domain has a definition that stays when it ends."""
        with self._translated(f"domain {name}"):
            return bool(self._domain(name).isPersistent())

    def qmp(self, name: str, command: str, **arguments: Any) -> Any:
        """Runs a command of QEMU's protocol in a running domain; returns its result. libvirt marks the domain as tainted by that.

        :raise LibvirtError: QEMU refuses, with its reason.
        """
        import libvirt_qemu

        request = {"execute": command, "arguments": arguments} if arguments else {"execute": command}
        with self._translated(f"QEMU of {name}, {command}"):
            answer = json.loads(libvirt_qemu.qemuMonitorCommand(self._domain(name), json.dumps(request), 0))
        if "error" in answer:
            raise LibvirtError(f"QEMU of {name} refuses {command}: {answer['error'].get('desc', answer['error'])}")
        return answer["return"]

    def _domain(self, name: str) -> Any:
        return self._connection.lookupByName(name)

    @contextlib.contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except self._library.libvirtError as error:
            raise LibvirtError(f"{what}: libvirt at {self.uri} says: {error}") from None


@contextlib.contextmanager
def connected(uri: str) -> Iterator[Hypervisor]:
    """Connects to libvirt; closes the connection at the end of the block.

    :raise HostError: libvirt's Python package is not installed, or no libvirt answers.
    """
    try:
        import libvirt
    except ModuleNotFoundError:
        raise HostError(
            "libvirt's Python package is not installed",
            "pip install 'virtio-gpu-compute[libvirt]', or apt-get install python3-libvirt",
        ) from None
    libvirt.registerErrorHandler(lambda _context, _error: None, None)  # errors are raised; it would print them, too
    try:
        connection = libvirt.open(uri)
    except libvirt.libvirtError as error:
        raise HostError(
            f"no libvirt answers at {uri}: {error}", "systemctl start libvirtd; or --connect URI, as virsh has it"
        ) from None
    try:
        yield Hypervisor(libvirt, connection, uri)
    finally:
        connection.close()
