"""Check of a domain's host before its launch: whether QEMU has the device, and may use the socket and the region."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from vgc_libvirt import apparmor, regions
from vgc_libvirt.device import DRIVER, Device
from vgc_libvirt.domain import Domain
from vgc_libvirt.finding import Finding
from vgc_libvirt.host import Host, owner

_PROBE_S: Final = 60
_SOCKETS: Final = Path("/proc/net/unix")
_LISTENS: Final = 1 << 16
"""Flag of a listening socket in ``/proc/net/unix`` (__SO_ACCEPTCON of the kernel)."""

SELINUX_TYPE: Final = "vgcd_var_run_t"
"""Type of the sockets in the policy module that is shipped (libvirt_xml/selinux)."""

_GROUP: Final = "vgcd needs QEMU's group, as its unit has it: systemctl edit vgcd, Group="
_Row = tuple[str, str]


def findings(domain: Domain, devices: Sequence[Device], host: Host) -> list[Finding]:
    """Everything of the host that is in the way of a domain. `devices`: those of all VMs of `vgcd`."""
    sockets = {found.socket for found in domain.devices()}
    rows = list(_emulator(domain.emulator))
    for device in devices:
        if device.socket in sockets:
            rows += [*_socket(device, host), *_confinement(device, host)]
    errors = [Finding(domain.source, text, hint) for text, hint in rows]
    mine = [file for file in regions.found(devices) if _device_of(file, devices).socket in sockets]
    return errors + [Finding(domain.source, text, hint) for file in mine for text, hint in _region(file, host)]


def _emulator(path: Path | None) -> Iterator[_Row]:
    """Whether QEMU has the device; its version would be no proof. A QEMU that is not on this machine is not asked."""
    if path is None or not os.access(path, os.X_OK):
        return
    try:
        done = subprocess.run(
            [path, "-device", f"{DRIVER},help"], capture_output=True, text=True, timeout=_PROBE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        yield f"{path} does not run: {error}", "install QEMU anew"
        return
    if done.returncode:
        yield (
            f"{path} has no device {DRIVER}: it is older than QEMU 10.2, or made without it",
            "install QEMU 10.2 or newer (Debian 13: apt-get install -t trixie-backports qemu-system-x86)",
        )


def _socket(device: Device, host: Host) -> Iterator[_Row]:
    path = device.socket
    try:
        about = path.stat()
    except FileNotFoundError:
        yield (
            f"VM {device.vm}: there is no socket {path}: vgcd does not run, or does not serve the VM",
            "systemctl start vgcd, or systemctl reload vgcd if the configuration has changed; vgcctl vm list",
        )
        return
    except OSError as error:
        yield f"VM {device.vm}: {path} cannot be looked at: {error.strerror}", "run this command as root"
        return
    if not stat.S_ISSOCK(about.st_mode):
        yield f"VM {device.vm}: {path} is no socket", "remove it, and systemctl restart vgcd"
        return
    if not _listens(path):
        yield f"VM {device.vm}: nobody listens at {path}: vgcd has ended without removing it", "systemctl start vgcd"
    for folder in reversed(path.parents):
        if not host.user.may(os.X_OK, folder.stat()):
            yield (
                f"VM {device.vm}: QEMU runs as {host.user} and may not enter a folder of its socket: {owner(folder, folder.stat())}",
                _GROUP,
            )
            return
    if not host.user.may(os.R_OK | os.W_OK, about):
        yield (
            f"VM {device.vm}: QEMU runs as {host.user} and may not use its socket: {owner(path, about)}; allowed: its group and mode 0660",
            _GROUP,
        )


def _listens(path: Path) -> bool:
    """True if a program listens at a socket. Connecting would take the place of the VM's QEMU."""
    for line in _SOCKETS.read_text(errors="replace").splitlines()[1:]:
        words = line.split(maxsplit=7)
        if len(words) == 8 and words[7] == str(path) and int(words[3], 16) & _LISTENS:
            return True
    return False


def _confinement(device: Device, host: Host) -> Iterator[_Row]:
    if "apparmor" in host.models and not apparmor.allows(device.socket):
        yield (
            f"VM {device.vm}: AppArmor confines QEMU, and no rule lets it use {device.socket} (libvirt says: Permission denied)",
            "install libvirt_xml/apparmor/vgcd in /etc/apparmor.d/abstractions/libvirt-qemu.d/",
        )
    if "selinux" in host.models:
        label = _selinux_type(device.socket)
        if label != SELINUX_TYPE:
            yield (
                f"VM {device.vm}: SELinux confines QEMU, and {device.socket} has the type {label or 'unknown'}; allowed: {SELINUX_TYPE}",
                "install the policy module libvirt_xml/selinux (docs/libvirt.md says how), and restorecon -R /run/vgcd",
            )


def _selinux_type(path: Path) -> str:
    try:
        label = os.getxattr(path, "security.selinux").decode(errors="replace").rstrip("\0")
    except OSError:
        return ""
    parts = label.split(":")
    return parts[2] if len(parts) > 2 else label


def _device_of(file: regions.RegionFile, devices: Sequence[Device]) -> Device:
    return next(device for device in devices if device.vm == file.vm)


def _region(file: regions.RegionFile, host: Host) -> Iterator[_Row]:
    name, about = f"VM {file.vm}: region file", file.stat
    clean = "vgc-libvirt regions --remove"
    if not stat.S_ISREG(about.st_mode):
        yield f"{name} {file.path} is no plain file; allowed: a file that QEMU has made, or none", "remove it"
    elif about.st_nlink != 1:
        yield f"{name} {file.path} has {about.st_nlink} names; allowed: one", clean
    elif not host.user.may(os.R_OK | os.W_OK, about):
        yield (
            f"{name} is left over by another user: {owner(file.path, about)}; QEMU runs as {host.user} and may not open it",
            clean,
        )
    elif about.st_size not in (0, file.wanted_bytes):
        yield (
            f"{name} {file.path} has {about.st_size} bytes; allowed: {file.wanted_bytes}, region of vgcd's configuration",
            clean,
        )
