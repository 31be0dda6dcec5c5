"""The daemon's own control group, which holds those of its VMs: found or made on the host that there is.

``VGC_CGROUP`` names the group in which a daemon of the shipped unit makes its own: one that systemd has delegated to the
daemon's user, beside that of the service. A service to which systemd has delegated its own group does all in there, if systemd
starts it in a group within that (``DelegateSubgroup=``, from systemd 254 on). Another daemon of root's makes a group at the top of
the tree, or in the tree of each controller where the host has version 1.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

from vhost_backend.cgroups.group import Cgroup, remove_tree
from vhost_backend.cgroups.limits import CONTROLLERS, Limits
from vhost_backend.cgroups.versions import PROCESSES, V1, V2, Folders, Version, write
from vhost_backend.errors import HostError

HINT: Final = "run vgcd as the shipped unit, to which systemd delegates a group, or as root"
PLACE: Final = "VGC_CGROUP"
"""Variable of the environment: group of version 2 that is this user's, below the top of the tree."""
_UNIFIED_HINT: Final = "boot the host with systemd.unified_cgroup_hierarchy=1, or run vgcd as root"
_PREFIX: Final = "vgcd-"
_DAEMON: Final = "daemon"
"""Group of the daemon itself, in a group that was delegated to it."""
_DELEGATED: Final = ("user.delegate", "trusted.delegate")
"""Attributes by which systemd marks delegated groups [systemd: docs/CGROUP_DELEGATION.md]."""
_PROBE: Final = Limits(memory_bytes=64 << 20, processes=16, cpus=1.0)
_PROBE_S: Final = 30
_numbers: Final = count(1)


class Home:
    """The daemon's own group, until `close` or the end of this process."""

    def __init__(self, version: Version, folders: Folders, locks: Sequence[int] = ()) -> None:
        """`locks`: descriptors that lock the folders, which then were made by us, and are removed at the end."""
        self.group = Cgroup(version, folders)
        self._version = version
        self._folders = dict(folders)
        self._locks = list(locks)

    @classmethod
    def taken_over(cls, version: int, folders: Mapping[str, str], locks: Sequence[int]) -> Home | None:
        """The group of a daemon that has died, of its `place` and `locks`, which this takes over; None: it is not there."""
        found = {controller: Path(folder) for controller, folder in folders.items()}
        kinds = {kind.number: kind for kind in (V1, V2)}
        if version in kinds and all(folder.is_dir() for folder in found.values()):
            return cls(kinds[version](), found, locks)
        for fd in locks:
            os.close(fd)
        return None

    @property
    def place(self) -> tuple[int, dict[str, str]]:
        """Version of control groups, and folders by controller: `taken_over` finds the group by them."""
        return self._version.number, {controller: str(folder) for controller, folder in self._folders.items()}

    @property
    def locks(self) -> tuple[int, ...]:
        """Descriptors by which other daemons see that the group is in use; they stay this object's."""
        return tuple(self._locks)

    def __str__(self) -> str:
        return str(self.group)

    def close(self) -> None:
        """Removes the group; only after all processes in it have ended."""
        if self._locks:
            self.group.remove()
            for folder in dict.fromkeys(self._folders.values()):
                _sweep(folder.parent)  # of spare daemons that were killed
        for fd in self._locks:
            os.close(fd)
        self._locks.clear()


def find() -> Home:
    """Makes the daemon's group, in which a trial process has been held to limits.

    May move this process into a group within its own.

    :raise HostError: this host does not let us; the text says why for each version.
    """
    problems = []
    for number, make in ((2, _home_v2), (1, _home_v1)):
        home: Home | None = None
        try:
            home = make()
            _try(home.group)
        except (OSError, HostError) as error:
            problems.append(_why(number, error))
            if home is not None:
                home.close()
        else:
            return home
    raise HostError(f"no control groups: {'; '.join(problems)}", _UNIFIED_HINT if os.environ.get(PLACE) else HINT)


def _why(version: int, error: OSError | HostError) -> str:
    if isinstance(error, HostError):
        return error.text
    return f"version {version}: {error.strerror}: {error.filename}"


# ---- version 2 -----------------------------------------------------------------------------------


def _home_v2() -> Home:
    mount = next((mount for mount in _mounts() if mount.type == "cgroup2"), None)
    if mount is None:
        raise HostError("version 2 is not mounted")
    missing = set(CONTROLLERS) - set((mount.point / "cgroup.controllers").read_text().split())
    if missing:
        raise HostError(f"version 2 has no {', '.join(sorted(missing))} in {mount.point}")
    if given := os.environ.get(PLACE):
        return _made(V2(), _all_in(_given(mount.point, given)))
    own = mount.folder(_own_paths()[""])
    delegated = None if own is None else _delegated(own, mount.point)
    if delegated is not None and delegated != own:
        return Home(V2(), _all_in(delegated))
    # Once groups in it have limits, no process can join a group itself: systemd could not start the service again.
    try:
        return _made(V2(), _all_in(mount.point))
    except OSError:
        if delegated is None:
            raise
    return Home(V2(), _all_in(_emptied(delegated)))


def _given(top: Path, name: str) -> Path:
    """The group that the environment names.

    :raise HostError: the group does not exist.
    """
    folder = top / name
    if not (folder / PROCESSES).exists():
        raise HostError(f"version 2 has no group {folder}, which {PLACE} names (vgcd-vms.service makes it)")
    return folder


def _all_in(folder: Path) -> Folders:
    return dict.fromkeys(CONTROLLERS, folder)


def _delegated(own: Path, top: Path) -> Path | None:
    """Group at or above `own` that was delegated to this process."""
    for folder in (own, *own.parents):
        if folder == top:
            return None
        for name in _DELEGATED:
            with contextlib.suppress(OSError):
                if os.getxattr(folder, name) == b"1":
                    return folder
    return None


def _emptied(folder: Path) -> Path:
    """Moves this process out of the group itself, which may have no processes while groups in it have limits."""
    (folder / _DAEMON).mkdir(exist_ok=True)
    write(folder / _DAEMON / PROCESSES, os.getpid())
    return folder


# ---- version 1 -----------------------------------------------------------------------------------


def _home_v1() -> Home:
    trees: dict[str, Path] = {}
    own = _own_paths()
    for mount in _mounts():
        for controller in mount.controllers & set(CONTROLLERS) & own.keys():
            folder = mount.folder(own[controller])
            if mount.type == "cgroup" and folder is not None:
                trees.setdefault(controller, folder)
    missing = set(CONTROLLERS) - trees.keys()
    if missing:
        raise HostError(f"version 1 has no {', '.join(sorted(missing))}")
    try:
        return _made(V1(), trees)
    except OSError as error:
        if os.geteuid() == 0 or error.errno not in {errno.EACCES, errno.EPERM, errno.EROFS}:
            raise
        raise HostError(f"version 1 is root's alone, and vgcd runs as user {os.geteuid()}") from None


# ---- both ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Mount:
    type: str
    root: Path
    """Group that is seen at `point`."""
    point: Path
    controllers: frozenset[str]

    def folder(self, group: Path) -> Path | None:
        """Folder of a group; None if it is not seen here."""
        return self.point / group.relative_to(self.root) if group.is_relative_to(self.root) else None


def _mounts() -> Iterator[_Mount]:
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        about, _, more = line.partition(" - ")
        fields, (kind, _source, options) = about.split(), more.split(maxsplit=2)
        if kind in ("cgroup", "cgroup2"):
            yield _Mount(kind, Path(fields[3]), Path(fields[4]), frozenset(options.split(",")))


def _own_paths() -> dict[str, Path]:
    """Groups of this process by controller; by "" in version 2."""
    paths: dict[str, Path] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _number, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), Path(path))
    return paths


def _made(version: Version, parents: Folders) -> Home:
    """Makes a group of our own below that of `parents`, and removes those of daemons that have ended without doing it."""
    version.admit_children(parents)
    unique = dict.fromkeys(parents.values())
    for parent in unique:
        _sweep(parent)
    name, locks = _claimed(tuple(unique))
    folders = {controller: parent / name for controller, parent in parents.items()}
    return Home(version, folders, locks)


def _claimed(parents: Sequence[Path]) -> tuple[str, tuple[int, ...]]:
    """Makes a folder of one name below each of `parents`; returns the name, and the descriptors that lock the folders.

    A daemon in another pid namespace may have the same pid, so a name that is taken, or swept away, is left alone.
    """
    while True:
        name = f"{_PREFIX}{os.getpid()}.{next(_numbers)}"
        with contextlib.ExitStack() as made:
            locks = [_lock_new(parent / name, made) for parent in parents]
            if None not in locks:
                made.pop_all()
                return name, tuple(fd for fd in locks if fd is not None)


def _lock_new(folder: Path, made: contextlib.ExitStack) -> int | None:
    """Makes a group's folder, locked as a sign that its daemon runs; None: another daemon has it, or has swept it away.

    The descriptor that is returned holds the lock. `made` undoes it all.
    """
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        made.callback(remove_tree, folder)
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            made.callback(os.close, fd)
            fcntl.flock(fd, fcntl.LOCK_SH)
            if folder.stat().st_ino == os.fstat(fd).st_ino:
                return fd
    return None


def _sweep(parent: Path) -> None:
    """Removes the groups that daemons have left behind which could not do it themselves."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(fd)


def _try(home: Cgroup) -> None:
    """Has a process join a group within `home`.

    :raise HostError: it could not.
    """
    vm = home.child("trial")
    try:
        doors = vm.child("process", _PROBE).doors
        join = "import os, sys; [os.write(os.open(door, os.O_WRONLY), b'0') for door in sys.argv[1:]]"
        argv = [sys.executable, "-I", "-S", "-c", join, *map(str, doors)]
        done = subprocess.run(argv, capture_output=True, check=False, timeout=_PROBE_S, stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired as error:
        raise HostError(f"a process that is to join {home} does not end within {_PROBE_S} s") from error
    finally:
        home.leave(vm)
    if done.returncode != 0:
        raise HostError(f"no process can join {home}: {done.stderr.decode(errors='replace').strip()[-200:]}")
