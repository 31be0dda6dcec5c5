"""Definition of a domain: finding, adding and removing devices of `vgcd`, and nothing else of it.

Whatever is not the device's stays as it is written: order, comments, white space, and elements that libvirt adds one day.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lxml import etree

from vgc_libvirt import arguments
from vgc_libvirt.arguments import Option
from vgc_libvirt.device import DRIVER, OLD_DRIVER, REGION_DRIVER, SHM_FOLDER, Device
from vgc_libvirt.errors import DomainError

QEMU: Final = "http://libvirt.org/schemas/domain/qemu/1.0"
_COMMAND_LINE: Final = f"{{{QEMU}}}commandline"
_ARGUMENT: Final = f"{{{QEMU}}}arg"
_ENVIRONMENT: Final = f"{{{QEMU}}}env"
_ALLOWED: Final = "the XML of one domain, as `virsh dumpxml --inactive` prints it"
_INDENT: Final = "  "
_QUOTED: Final = re.compile(r"""<!--.*?-->|<!\[CDATA\[.*?]]>|<\?.*?\?>|(<\w+:arg value=)"([^"']*)\"""", re.DOTALL)
"""Arguments without apostrophes; and what may look as if it had some, but is text."""

_UNITS: Final = {"": 1, "b": 1, "bytes": 1} | {
    f"{letter}{suffix}": (1000 if suffix == "b" else 1024) ** power
    for power, letter in enumerate("kmgtpe", 1)
    for suffix in ("", "b", "ib")
}
"""Units of libvirt's sizes, in lower case [formatdomain.html, memory]."""


@dataclass(frozen=True, slots=True)
class Region:
    """Memory that guest and host share, as the definition has it."""

    name: str
    """Name of the ``<shmem>``, or id of QEMU's object."""
    size_bytes: int | None
    """None: the definition gives no size, or none that can be read."""
    file: Path | None
    model: str
    is_shared: bool = True
    memory: Option | None = None
    """QEMU's object; None for a ``<shmem>``."""


@dataclass(frozen=True, slots=True)
class Found:
    """Compute device in a definition; parts of it may be missing or wrong."""

    device: Option
    chardev: Option | None

    @property
    def socket(self) -> Path | None:
        """Path of the backend's socket; None: the definition does not say it."""
        path = self.chardev.keys.get("path") if self.chardev is not None else None
        return Path(str(path)) if path else None


class Domain:
    """Definition of a domain."""

    def __init__(self, root: etree._Element, source: str, *, has_declaration: bool = False) -> None:
        self._root = root
        self._head = '<?xml version="1.0" encoding="UTF-8"?>\n' if has_declaration else ""
        self.source = source
        """Name of the definition in messages."""

    @classmethod
    def parse(cls, text: bytes | str, source: str) -> Domain:
        """Reads a definition.

        :raise DomainError: it is no XML, or no domain's.
        """
        data = text.encode() if isinstance(text, str) else text
        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_blank_text=False, strip_cdata=False)
        try:
            root = etree.fromstring(data, parser)
        except (etree.XMLSyntaxError, ValueError) as error:
            raise DomainError(f"{source} is no XML: {error}; allowed: {_ALLOWED}") from None
        if root.getroottree().docinfo.internalDTD is not None:
            raise DomainError(f"{source} has a document type; allowed: {_ALLOWED}, without one")
        if root.tag != "domain":
            raise DomainError(f"{source} has the root element <{root.tag:.40}>; allowed: {_ALLOWED}")
        if root.find("devices") is None or not root.findtext("name"):
            raise DomainError(f"{source} has no <name> or no <devices>; allowed: {_ALLOWED}")
        return cls(root, source, has_declaration=data.lstrip().startswith(b"<?xml"))

    def text(self) -> str:
        """XML of the definition."""
        return self._head + _readable(etree.tostring(self._root.getroottree(), encoding="unicode")) + "\n"

    # ---- what the definition says -----------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._root.findtext("name") or ""

    @property
    def type(self) -> str:
        """Kind of hypervisor, such as kvm."""
        return self._root.get("type", "")

    @property
    def architecture(self) -> str:
        """Architecture; "" if libvirt is to choose it."""
        found = self._root.find("os/type")
        return "" if found is None else found.get("arch", "")

    @property
    def machine(self) -> str:
        """Machine type; "" if libvirt is to choose it."""
        found = self._root.find("os/type")
        return "" if found is None else found.get("machine", "")

    @property
    def emulator(self) -> Path | None:
        """Path of QEMU; None if libvirt is to choose it."""
        path = self._root.findtext("devices/emulator")
        return Path(path) if path else None

    @property
    def shares_ram(self) -> bool:
        """True if the guest's RAM is shared with vhost-user backends."""
        access = self._root.find("memoryBacking/access")
        return access is not None and access.get("mode") == "shared"

    def arguments(self) -> list[str]:
        """Arguments that the definition adds to QEMU's command line."""
        return [argument.get("value", "") for argument in self._arguments()]

    def options(self) -> list[Option]:
        return arguments.options(self.arguments())

    def devices(self) -> list[Found]:
        """Compute devices, in their order."""
        options = self.options()
        chardevs = {option.id: option for option in options if option.name == "-chardev"}
        return [
            Found(option, chardevs.get(str(option.keys.get("chardev", ""))))
            for option in options
            if option.name == "-device" and option.kind in (DRIVER, OLD_DRIVER)
        ]

    def regions(self) -> list[Region]:
        """Memories that the domain shares through ivshmem devices: those of ``<shmem>``, and those of QEMU's options."""
        options = self.options()
        objects = {option.id: option for option in options if option.name == "-object"}
        devices = [one for one in options if one.name == "-device" and one.kind.startswith("ivshmem")]
        of_options = [_region_of_option(one, objects.get(str(one.keys.get("memdev", "")))) for one in devices]
        return [*(_region_of_shmem(shmem) for shmem in self._root.iterfind("devices/shmem")), *of_options]

    # ---- changes ----------------------------------------------------------------------------------

    def attach(self, device: Device) -> None:
        """Adds a device at the end of the definition's lists.

        :raise DomainError: the definition has it already, or something else by one of its names.
        """
        self._check_free(device)
        if device.shmem_name:
            devices = self._root.find("devices")
            assert devices is not None  # `parse` has looked
            _append(devices, _shmem(device))
        line = self._last_line()
        for value in device.command_line():
            _append(line, etree.Element(_ARGUMENT, value=value), before=_ENVIRONMENT)

    def detach(self, device: Device) -> None:
        """Removes a device: all options with its ids, its chardev's users, and its ``<shmem>``.

        :raise DomainError: the definition has no device at the VM's socket.
        """
        mine = [one for one in self.devices() if one.socket == device.socket]
        if not mine:
            raise DomainError(
                f"{self.source} has no device at {device.socket}, the socket of VM {device.vm}; its devices are at: {self.sockets()}"
            )
        gone = [option for found in mine for option in (found.device, found.chardev) if option is not None]
        gone += [one for one in self.options() if one.id == device.region_id]
        elements = self._arguments()
        positions = {at for option in gone for at in (option.position, option.position + 1)}
        for element in [elements[at] for at in sorted(positions) if at < len(elements)]:
            _remove(element)
        for shmem in list(self._root.iterfind("devices/shmem")):
            if device.shmem_name and shmem.get("name") == device.shmem_name:
                _remove(shmem)
        for line in self._root.findall(_COMMAND_LINE):
            if len(line) == 0 and not (line.text or "").strip():
                _remove(line)

    def left_over(self, vm: str) -> Device | None:
        """Finds the device of a VM that the configuration has lost, by the id that `attach` gives it; None if the domain has no such device.

        Its ``<shmem>`` cannot be told from others: `detach` leaves it where it is.
        """
        for found in self.devices():
            device = Device(vm, found.socket, 0, 0) if found.socket is not None else None
            if device is not None and found.device.id == device.id:
                return device
        return None

    def sockets(self) -> str:
        """Sockets of the compute devices, for messages."""
        return ", ".join(str(found.socket) for found in self.devices() if found.socket is not None) or "none"

    def _check_free(self, device: Device) -> None:
        if any(found.socket == device.socket for found in self.devices()):
            raise DomainError(
                f"{self.source} has a device at {device.socket} already; allowed: one device at each socket"
                " (`detach` removes it)"
            )
        mine = {
            ("-chardev", device.id),
            ("-device", device.id),
            ("-device", device.region_id),
            ("-object", device.region_id),
        }
        for option in self.options():
            if (option.name, option.id) in mine:
                raise DomainError(
                    f"{self.source} has another option {option.name} with the id {option.id}; allowed: an id that the device of"
                    f" VM {device.vm} does not need"
                )
        if device.shmem_name and any(region.file == device.region_file for region in self.regions()):
            raise DomainError(
                f"{self.source} has a <shmem> named {device.shmem_name} already; allowed: a name that no other <shmem> has"
            )

    def _last_line(self) -> etree._Element:
        """Command line to which arguments are added, behind all others of the definition."""
        lines = self._root.findall(_COMMAND_LINE)
        if not lines:
            lines = [etree.Element(_COMMAND_LINE, nsmap={"qemu": QEMU})]
            _append(self._root, lines[0])
        return next((line for line in reversed(lines) if line.find(_ARGUMENT) is not None), lines[0])

    def _arguments(self) -> list[etree._Element]:
        return [argument for line in self._root.iterfind(_COMMAND_LINE) for argument in line.iterfind(_ARGUMENT)]


def parts(devices: Sequence[Device]) -> str:
    """XML of the parts that devices need in a domain, for people who copy it there."""
    root = etree.Element("domain", nsmap={"qemu": QEMU})
    shown = etree.SubElement(root, "devices")
    root.text, shown.tail = "\n" + _INDENT, "\n"
    domain = Domain(root, "parts")
    for device in devices:
        domain.attach(device)
    if len(shown) == 0:
        _remove(shown)
    return domain.text()


def _readable(text: str) -> str:
    """XML in which arguments with quotes stand between apostrophes."""
    return _QUOTED.sub(_quoted, text)


def _quoted(found: re.Match[str]) -> str:
    if found[1] is None or "&quot;" not in found[2]:
        return found[0]
    return f"{found[1]}'{found[2].replace('&quot;', chr(34))}'"


def _region_of_shmem(shmem: etree._Element) -> Region:
    name, model = shmem.get("name", ""), shmem.find("model")
    size = shmem.find("size")
    return Region(
        name,
        None if size is None else _size_bytes(size.text or "", size.get("unit", "")),
        SHM_FOLDER / name,
        "ivshmem" if model is None else model.get("type", ""),
    )


def _region_of_option(device: Option, memory: Option | None) -> Region:
    if memory is None:
        return Region(str(device.keys.get("memdev", device.id)), None, None, device.kind)
    path = memory.keys.get("mem-path")
    shared = memory.flag("share", default=memory.kind == "memory-backend-memfd")
    file = Path(str(path)) if path else None
    return Region(memory.id, memory.size_bytes("size"), file, device.kind, bool(shared), memory)


def _size_bytes(number: str, unit: str) -> int | None:
    scale = _UNITS.get(unit.lower())
    count = arguments.number(number.strip(), 10)
    return count * scale if scale is not None and count is not None and count >= 0 else None


def _shmem(device: Device) -> etree._Element:
    shmem = etree.Element("shmem", name=device.shmem_name)
    _append(shmem, etree.Element("model", type=REGION_DRIVER), depth=2)
    size = etree.Element("size", unit="M")
    size.text = str(device.region_bytes >> 20)
    _append(shmem, size, depth=2)
    return shmem


# ---- white space -------------------------------------------------------------------------------


def _depth(element: etree._Element) -> int:
    return sum(1 for _ in element.iterancestors())


def _append(parent: etree._Element, child: etree._Element, *, before: str = "", depth: int | None = None) -> None:
    """Adds a child on a line of its own; other text stays.

    It is the last one, or with `before` the last of its name, or before all elements of that other name.
    """
    level = _depth(parent) if depth is None else depth
    line = "\n" + _INDENT * level
    if len(parent) == 0:
        parent.text, child.tail = (parent.text or "").rstrip() + line + _INDENT, line
        parent.append(child)
        return
    if before:
        siblings = parent.findall(child.tag)
        following = siblings[-1].getnext() if siblings else parent.find(before)
        if following is not None:
            child.tail = _separator(parent, line + _INDENT)
            following.addprevious(child)
            return
    last = parent[-1]
    child.tail = last.tail
    last.tail = _separator(parent, line + _INDENT)
    parent.append(child)


def _separator(parent: etree._Element, usual: str) -> str:
    """White space between two children of `parent`."""
    text = parent.text or ""
    return "\n" + text.rpartition("\n")[2] if "\n" in text and not text.strip() else usual


def _remove(child: etree._Element) -> None:
    """Takes a child out with its line; text of people's beside it stays."""
    parent, before, tail = child.getparent(), child.getprevious(), child.tail or ""
    assert parent is not None
    lead = (parent.text if before is None else before.tail) or ""
    if child.getnext() is None:  # the text behind it places the end of its parent
        lead = lead.rstrip() + tail
    elif tail.strip():
        lead += tail
    if before is not None:
        before.tail = lead
    else:
        parent.text = lead if len(parent) > 1 or lead.strip() else None
    parent.remove(child)


def definitions(paths: Sequence[Path]) -> Iterator[Domain]:
    """Reads definitions from files.

    :raise DomainError: a file cannot be read, or is no domain's.
    """
    for path in paths:
        try:
            yield Domain.parse(path.read_bytes(), str(path))
        except OSError as error:
            raise DomainError(f"{path} cannot be read: {error.strerror}; allowed: {_ALLOWED}") from None


def write(domain: Domain, path: Path) -> None:
    """Replaces a file by a definition: it is the old one or the new one at all times, with the same owner and permissions.

    :raise DomainError: the file cannot be written, and stays as it is.
    """
    target = path.resolve()
    try:
        about = target.stat()
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        with contextlib.ExitStack() as undo:
            undo.callback(Path(name).unlink)
            with os.fdopen(descriptor, "w", encoding="utf-8") as written:
                if (os.fstat(descriptor).st_uid, os.fstat(descriptor).st_gid) != (about.st_uid, about.st_gid):
                    os.fchown(descriptor, about.st_uid, about.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(about.st_mode))
                written.write(domain.text())
                written.flush()
                os.fsync(descriptor)
            Path(name).replace(target)
            undo.pop_all()
    except OSError as error:
        raise DomainError(
            f"{path} cannot be written: {error.strerror}; allowed: a file that this user may replace"
        ) from None
