"""Check of a domain's definition before its launch: values on which QEMU or the device would fail, and values that differ from
the configuration of `vgcd`.

QEMU's limits were read off QEMU 11.1.3: on several values it aborts, without a message that libvirt could pass on.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from vgc_libvirt.arguments import Option
from vgc_libvirt.device import (
    CONFIG_BYTES,
    DRIVER,
    OLD_DRIVER,
    QUEUE_SIZE,
    REGION_DRIVER,
    Device,
    RegionKind,
    region_kind,
)
from vgc_libvirt.domain import Domain, Found, Region
from vgc_libvirt.finding import Finding
from virtio_proto.schema import VIRTIO_ID

MAX_SOCKET_BYTES: Final = 107
"""Longest path of a UNIX socket, without the zero byte behind it [unix(7)]."""

HYPERVISORS: Final = ("kvm", "qemu")
ARCHITECTURES: Final = ("x86_64",)
_MIB: Final = 1 << 20
_QUEUES: Final = range(1, 257)  # a message about a queue has eight bits for its number
_MOST_QUEUE_SIZE: Final = 1024
_UNUSABLE: Final = ("reconnect", "reconnect-ms", "server")
"""Keys of a chardev with which QEMU refuses the device, or aborts later."""

_AGAIN: Final = "`vgc-libvirt detach` and `vgc-libvirt attach` write the device anew"
_Row = tuple[str, str]
"""Text and hint of a finding."""


def findings(domain: Domain, devices: Sequence[Device]) -> list[Finding]:
    """Everything that is wrong with a definition. `devices`: those of all VMs of `vgcd`."""
    found = domain.devices()
    rows = [*_machine(domain), *_unreadable(domain), *_twice(domain, found)]
    if not found:
        rows.append(("it has no device of vgcd", "`vgc-libvirt attach` adds one"))
    by_socket = {device.socket: device for device in devices}
    regions = domain.regions()
    for one in found:
        rows += [*_device_line(domain, one), *_chardev(one)]
        if one.socket is not None:
            rows += _against_vgcd(one, regions, by_socket)
    rows += [row for region in regions for row in _region(region)]
    rows += _order(found, regions, by_socket)
    errors = [Finding(domain.source, text, hint) for text, hint in dict.fromkeys(rows)]
    return errors + [Finding(domain.source, text, hint, is_warning=True) for text, hint in _warnings(domain, regions)]


def _machine(domain: Domain) -> Iterator[_Row]:
    if domain.type not in HYPERVISORS:
        yield f"its type is {domain.type!r}; allowed: {' or '.join(HYPERVISORS)}", ""
    if domain.architecture and domain.architecture not in ARCHITECTURES:
        yield f"its architecture is {domain.architecture}; allowed: {', '.join(ARCHITECTURES)}", ""
    if domain.machine.startswith(("microvm", "isapc", "none")):
        yield f"its machine is {domain.machine}, which has no PCI; allowed: q35 or pc", ""


def _unreadable(domain: Domain) -> Iterator[_Row]:
    for option in domain.options():
        if option.problem:
            yield f"argument {option.position + 1} of <qemu:commandline>, {option.name}: {option.problem}", _AGAIN


def _twice(domain: Domain, found: Sequence[Found]) -> Iterator[_Row]:
    """Ids and sockets that two have."""
    options = [option for option in domain.options() if option.id]
    for (name, one), count in Counter((option.name, option.id) for option in options).items():
        if count > 1:
            yield f"{count} options {name} have the id {one}; allowed: one of each id", _AGAIN
    for socket, count in Counter(one.socket for one in found if one.socket is not None).items():
        if count > 1:
            yield (
                f"{count} devices are at the socket {socket}; allowed: one at each socket",
                "detach the VM, and attach it once",
            )


def _device_line(domain: Domain, one: Found) -> Iterator[_Row]:
    option = one.device
    name = f"device {option.id or option.text[:60]!r}"
    if option.kind == OLD_DRIVER:
        yield (
            f"{name}: the driver is {OLD_DRIVER}, which no QEMU lets users create; allowed: {DRIVER}, of QEMU 10.2 or newer",
            _AGAIN,
        )
    yield from _numbers(name, option)
    if not option.is_json and domain.machine.startswith(("pc-q35", "q35")) and "addr" not in option.keys:
        yield (
            (
                f"{name}: its options are key=value, without bus and addr: QEMU gives it a slot that libvirt has given to a root port"
                " (PCI: slot 1 function 0 not available for pcie-root-port)"
            ),
            f"options in JSON; {_AGAIN}",
        )
    if one.chardev is None:
        chardev = option.keys.get("chardev", "")
        yield f"{name}: its chardev is {chardev!r}; allowed: the id of a -chardev socket of this domain", _AGAIN


def _numbers(name: str, option: Option) -> Iterator[_Row]:
    """Numbers on which QEMU aborts, or which the device does not have."""
    virtio_id = option.number("virtio-id")
    if virtio_id != VIRTIO_ID:
        yield (
            f"{name}: virtio-id is {_shown(option, 'virtio-id')}; allowed: {VIRTIO_ID}; QEMU aborts on ids that it has no name for",
            _AGAIN,
        )
    if option.number("config_size") != CONFIG_BYTES:
        yield (
            f"{name}: config_size is {_shown(option, 'config_size')}; allowed: {CONFIG_BYTES}; QEMU aborts above that",
            _AGAIN,
        )
    size = option.number("vq_size")
    if size is None or size < 2 or size > QUEUE_SIZE or size & (size - 1):
        yield (
            f"{name}: vq_size is {_shown(option, 'vq_size')}; allowed: a power of two up to {QUEUE_SIZE}; QEMU aborts above {_MOST_QUEUE_SIZE}",
            _AGAIN,
        )
    queues = option.number("num_vqs")
    if queues not in _QUEUES:
        yield f"{name}: num_vqs is {_shown(option, 'num_vqs')}; allowed: {_QUEUES[0]} to {_QUEUES[-1]}", _AGAIN


def _shown(option: Option, key: str) -> str:
    return repr(option.keys[key]) if key in option.keys else "missing"


def _chardev(one: Found) -> Iterator[_Row]:
    chardev = one.chardev
    if chardev is None:
        return
    name = f"chardev {chardev.id!r}"
    if chardev.kind != "socket" or "path" not in chardev.keys:
        yield (
            f"{name}: it is {chardev.text[:80]!r}; allowed: socket,id=...,path=... with the path of VM's socket",
            _AGAIN,
        )
        return
    path = str(chardev.keys["path"])
    if len(os.fsencode(path)) > MAX_SOCKET_BYTES or not path.startswith("/"):
        yield (
            f"{name}: its path {path!r} has {len(os.fsencode(path))} bytes; allowed: an absolute path of at most {MAX_SOCKET_BYTES}",
            "",
        )
    for key in _UNUSABLE:
        if str(chardev.keys.get(key, "off")) not in ("off", "0"):
            yield (
                f"{name}: it has {key}={chardev.keys[key]}; allowed: no {key}, with which QEMU refuses the device or aborts later",
                _AGAIN,
            )
    if str(chardev.keys.get("abstract", "off")) == "on":
        yield f"{name}: its socket is abstract; allowed: a socket with a path in the file system", _AGAIN


def _region(region: Region) -> Iterator[_Row]:
    name = f"region {region.name!r}"
    if region.model != REGION_DRIVER:
        yield f"{name}: its model is {region.model}; allowed: {REGION_DRIVER}", ""
    size = region.size_bytes
    if size is None:
        yield (
            f"{name}: it has no size, or no memory of that id; allowed: the size that vgcd's configuration gives it",
            "",
        )
    elif size < _MIB or size & (size - 1):
        yield (
            f"{name}: its size is {_size(size)}; allowed: a power of two from 1 MiB on, as the guest sees the region as a PCI BAR",
            "",
        )
    if not region.is_shared:
        yield f"{name}: its memory is private; allowed: share=on, without which the device does not start", _AGAIN


def _against_vgcd(one: Found, regions: Sequence[Region], by_socket: Mapping[Path, Device]) -> Iterator[_Row]:
    """Values that differ from the configuration of `vgcd`."""
    assert one.socket is not None
    device = by_socket.get(one.socket)
    if device is None:
        sockets = ", ".join(map(str, by_socket)) or "none"
        yield (
            f"device {one.device.id!r}: no VM of vgcd has the socket {one.socket}; its sockets: {sockets}",
            "name it in vgcd's configuration, or remove the device: `vgc-libvirt detach DOMAIN VM`",
        )
        return
    queues = one.device.number("num_vqs")
    if queues is not None and queues > device.num_queues:
        yield (
            f"VM {device.vm}: num_vqs is {queues}; allowed: up to {device.num_queues}, num_queues of vgcd's configuration",
            _AGAIN,
        )
    yield from _region_of(device, regions)


def _region_of(device: Device, regions: Sequence[Region]) -> Iterator[_Row]:
    wanted = _size(device.region_bytes)
    if not regions:
        what = (
            f"a <shmem> named {device.shmem_name}"
            if device.kind is RegionKind.SHMEM
            else "the region that `attach` adds"
        )
        yield f"VM {device.vm}: the domain shares no region with the host; allowed: {what}, of {wanted}", _AGAIN
        return
    if device.region_file is not None:
        named = [region for region in regions if region.file == device.region_file]
        if not named:
            files = ", ".join(str(region.file) for region in regions if region.file is not None) or "none"
            yield (
                f"VM {device.vm}: no region is the file {device.region_file}, region_file of vgcd's configuration; the domain's files: {files}",
                _AGAIN,
            )
        regions = named
    else:
        regions = [region for region in regions if region.name == device.region_id] or list(regions)
    sizes = sorted({region.size_bytes for region in regions if region.size_bytes is not None})
    if sizes and device.region_bytes not in sizes:
        shown = ", ".join(map(_size, sizes))
        yield (
            f"VM {device.vm}: the domain's region has {shown}; allowed: {wanted}, region of vgcd's configuration",
            _AGAIN,
        )


def _order(found: Sequence[Found], regions: Sequence[Region], by_socket: Mapping[Path, Device]) -> Iterator[_Row]:
    """Regions of one size of which the guest could not tell whose they are: it takes them in the order of PCI addresses."""
    devices = [by_socket[one.socket] for one in found if one.socket is not None and one.socket in by_socket]
    for size in sorted({device.region_bytes for device in devices}):
        same = [device for device in devices if device.region_bytes == size]
        kinds = {region_kind(device.region_file) is RegionKind.SHMEM for device in same}
        if len(kinds) > 1:
            yield (
                (
                    f"VMs {', '.join(device.vm for device in same)} have regions of {_size(size)}, some in /dev/shm and some not: the guest"
                    " would take one for the other; allowed: all of one kind, or of different sizes"
                ),
                "give them different sizes, or remove region_file, in vgcd's configuration",
            )
        same_size = [region for region in regions if region.size_bytes == size]
        if len(same_size) not in (0, len(same)):
            yield (
                (
                    f"{len(same_size)} regions have {_size(size)}, for {len(same)} devices with such a region; allowed: as many, as the guest takes"
                    " them in their order"
                ),
                "",
            )


def _warnings(domain: Domain, regions: Sequence[Region]) -> Iterator[_Row]:
    if domain.shares_ram:
        yield "the guest's RAM is shared (memoryBacking): QEMU offers it to vgcd, too, which does not map it", ""
    for region in regions:
        if region.memory is None and region.file is not None:
            yield (
                f"region {region.name!r}: libvirt leaves {region.file}, readable by all users, when the domain has ended",
                "remove region_file from the VM's configuration, for memory without a file; `vgc-libvirt regions --remove`",
            )


def _size(size_bytes: int) -> str:
    return f"{size_bytes >> 20} MiB" if size_bytes % _MIB == 0 else f"{size_bytes} bytes"
