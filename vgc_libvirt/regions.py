"""Region files of VMs: finding those that are left over, zeroing and removing them.

`/dev/shm` is open to all users: a name there may lead to a file of somebody else's.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vgc_libvirt.device import SHM_FOLDER, Device, RegionKind, region_kind
from vgc_libvirt.errors import RegionError
from vgc_libvirt.host import owner

_CHUNK: Final = bytes(1 << 20)


@dataclass(frozen=True, slots=True)
class RegionFile:
    """File of a VM's region."""

    vm: str
    path: Path
    wanted_bytes: int
    stat: os.stat_result
    users: tuple[int, ...]
    """Processes that have it open or mapped, as far as this user may look."""

    def __str__(self) -> str:
        use = f"used by {', '.join(map(str, self.users))}" if self.users else "left over"
        return f"{self.vm}: {owner(self.path, self.stat)}, {self.stat.st_size} bytes, {use}"


def found(devices: Sequence[Device]) -> list[RegionFile]:
    """Region files that are there, of all VMs whose regions are files."""
    rows = []
    for device in devices:
        if device.region_file is None:
            continue
        try:
            about = device.region_file.lstat()
        except OSError:
            continue
        used = users(about) if stat.S_ISREG(about.st_mode) else ()
        rows.append(RegionFile(device.vm, device.region_file, device.region_bytes, about, used))
    return rows


def users(about: os.stat_result) -> tuple[int, ...]:
    """Processes that have a file open, or have it mapped."""
    pids = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal())
    return tuple(pid for pid in pids if _uses(pid, about))


def _uses(pid: int, about: os.stat_result) -> bool:
    wanted = f" {os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x} {about.st_ino} "
    try:
        if any(wanted in line for line in Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()):
            return True
        return any(_is_same(descriptor, about) for descriptor in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # it has ended, or is another user's
        return False


def _is_same(descriptor: Path, about: os.stat_result) -> bool:
    try:
        return os.path.samestat(descriptor.stat(), about)
    except OSError:
        return False


def remove(file: RegionFile, *, is_of_configuration: bool = True) -> None:
    """Zeroes a left-over file and removes it.

    `is_of_configuration`: the VM stands in the daemon's configuration. Of one that was added beside it, the daemon's user could
    name any file of the host.

    :raise RegionError: somebody uses it, it is no plain file with one name, or it is another file by now.
    """
    if not is_of_configuration and region_kind(file.path) is not RegionKind.SHMEM:
        raise RegionError(
            f"{file.path} is named by VM {file.vm}, which vgcd's configuration does not have; allowed: a file of a VM of the"
            f" configuration, or in {SHM_FOLDER}"
        )
    _check_unused(file.path, file.users)
    try:
        descriptor = os.open(file.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise RegionError(
            f"{file.path} cannot be opened: {error.strerror}; allowed: a plain file of a VM's region"
        ) from None
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode) or about.st_nlink != 1:
            raise RegionError(f"{file.path} is no plain file with one name; allowed: a file that QEMU has made")
        with _aside(file.path, about):
            # The file that is open here may be another than the one that was found, and have users since.
            _check_unused(file.path, [pid for pid in users(about) if pid != os.getpid()])
            _zero(descriptor, about.st_size)
    finally:
        os.close(descriptor)


def _check_unused(path: Path, used: Sequence[int]) -> None:
    if used:
        raise RegionError(
            f"{path} is used by the processes {', '.join(map(str, used))}; allowed: a file that nobody uses"
        )


def _zero(descriptor: int, size_bytes: int) -> None:
    """Writes zeros over all data of a file, but not into its holes."""
    at = 0
    while at < size_bytes:
        try:
            at = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError:  # nothing but a hole
            break
        end = os.lseek(descriptor, at, os.SEEK_HOLE)
        while at < end:
            at += os.pwrite(descriptor, _CHUNK[: end - at], at)
    os.fsync(descriptor)
    os.ftruncate(descriptor, 0)


@contextlib.contextmanager
def _aside(path: Path, about: os.stat_result) -> Iterator[None]:
    """Takes a file's name away, so that no QEMU opens it meanwhile; removes the file, or gives the name back after an error.

    :raise RegionError: the name is another file's by now, or cannot be given back.
    """
    name = f".vgc-{secrets.token_hex(8)}"
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.rename(path.name, name, src_dir_fd=folder, dst_dir_fd=folder)
        try:
            _check_same(path, os.stat(name, dir_fd=folder, follow_symlinks=False), about)
            yield
        except BaseException:
            _give_back(path, name, folder)
            raise
        os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise RegionError(
            f"{path} cannot be removed: {error.strerror}; allowed: a file that stays in its place"
        ) from None
    finally:
        os.close(folder)


def _check_same(path: Path, found: os.stat_result, about: os.stat_result) -> None:
    if not os.path.samestat(found, about):
        raise RegionError(f"{path} is another file than a moment ago, and stays")


def _give_back(path: Path, name: str, folder: int) -> None:
    try:
        os.link(name, path.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise RegionError(f"{path.with_name(name)} was {path}, which it cannot be again: {error.strerror}") from None
    os.unlink(name, dir_fd=folder)
