"""systemd as PID 1 of namespaces of its own, with the shipped units and nothing else: a host of which nothing reaches the machine."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import pytest

from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.processes import children
from tests.protocol import systemd_root
from tests.waiting import until

UNIT: Final = "vgcd.service"
UNITS: Final = "/run/units"
LOG: Final = "/run/vgcd.log"
PROGRAM: Final = "/" + str(systemd_root.PROGRAM)
CONFIG: Final = "/etc/vgcd/vgcd.yaml"
SHIPPED: Final = REPOSITORY / "systemd"
_CONTROLLERS: Final = ("cpu", "memory", "pids")
_TARGETS: Final = ("sysinit", "basic", "sockets", "network-online", "multi-user", "default", "shutdown")
_INSTALLED_UNITS: Final = "/usr/lib/systemd/system"
_PROGRAMS: Final = ("vgcd", "vgcctl", "vgc-control-center")
_OTHERS: Final = tuple(f"vgcd.slice/vgcd-vms.service{name}" for name in ("", "/.control", "/idle"))
_NAMESPACES: Final = ("--pid", "--mount", "--ipc", "--uts", "--net", "--cgroup")


def tree() -> Path | None:
    """Tree of control groups of version 2, if it is seen whole."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        about, _, more = line.partition(" - ")
        fields = about.split()
        if more.startswith("cgroup2 ") and fields[3] == "/":
            return Path(fields[4])
    return None


def has_controllers() -> bool:
    """True if that tree has all controllers, so that VMs get control groups of their own."""
    top = tree()
    return top is not None and set(_CONTROLLERS) <= set((top / "cgroup.controllers").read_text().split())


@functools.cache
def missing() -> str:
    """Reason why systemd cannot run here in namespaces; "" if it can."""
    if os.geteuid() != 0:
        return "namespaces, mounts and control groups of systemd need root"
    for program in (systemd_root.SYSTEMD, "systemctl", "systemd-sysusers", "unshare", "nsenter", "pivot_root"):
        if shutil.which(program) is None:
            return f"{program} is not installed (packages systemd, util-linux)"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "the kernel has no overlay file system"
    if tree() is None:
        return "control groups of version 2 are not mounted"
    try:
        _make_group(f"vgc-trial-{os.getpid()}").rmdir()
    except OSError as error:
        return f"control groups cannot be made: {error}"
    done = subprocess.run(["unshare", "--fork", *_NAMESPACES, "true"], check=False, capture_output=True, text=True)
    return f"no namespaces: {done.stderr.strip()}" if done.returncode else ""


def _make_group(name: str) -> Path:
    """Makes the group `name` at the top of the tree.

    :raise OSError: the machine does not allow it.
    """
    top = tree()
    assert top is not None
    if has_controllers():
        (top / "cgroup.subtree_control").write_text(" ".join(f"+{one}" for one in _CONTROLLERS))
    (top / name).mkdir()
    return top / name


class SystemdMachine:
    """A booted systemd, which has the shipped units. Everything ends with `close`.

    `path` shows its files, and `run` runs programs there.
    """

    def __init__(self, folder: Path, config: str = "", bare: Path | None = None, shown: Sequence[Path] = ()) -> None:
        """Boots it.

        :param folder: an empty one, for nothing but places of mounts.
        :param config: of `vgcd`.
        :param bare: root without the package and its units, in which they can be installed; None: they are there, and all
            else is as on this machine.
        :param shown: further folders that are seen where they are.
        """
        self._said = threading.Condition(threading.RLock())
        self._lines: list[str] = []
        self._events: list[dict[str, Any]] = []
        self._log, self._ends = -1, os.eventfd(0, os.EFD_CLOEXEC)
        self._reader = threading.Thread(target=self._read, name="vgcd's log")
        base, self._errors = folder / "machine", folder / "errors"
        base.mkdir()
        self._group = _make_group(f"vgc-systemd-{os.getpid()}")
        ready = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        with ready:
            ready.bind(str(folder / "ready"))
            ready.settimeout(ANSWERS_WITHIN_S)
            setup = {
                "base": str(base),
                "ready": str(folder / "ready"),
                "lower": str(bare or "/"),
                "repository": "" if bare else str(REPOSITORY),
                "shown": [str(place) for place in (*shown, *(() if bare else _shown()))],
                "units": f"{UNITS}:{_INSTALLED_UNITS}" if bare else UNITS,
                "files": _bare_files() if bare else _files(config),
                "log": LOG,
            }
            join = f"echo $$ > {self._group}/cgroup.procs && "
            unshare = f'exec unshare --fork --kill-child=KILL --propagation private {" ".join(_NAMESPACES)} "$@"'
            program = [sys.executable, "-I", systemd_root.__file__, json.dumps(setup)]
            with self._errors.open("w") as errors:
                self._process = subprocess.Popen(
                    ["sh", "-c", join + unshare, "sh", *program], stdin=subprocess.DEVNULL, stderr=errors
                )
            try:
                self._wait_booted(ready)
            except BaseException:
                self.close()
                raise

    def _wait_booted(self, ready: socket.socket) -> None:
        """Waits for systemd's notice that its default target is reached."""
        try:
            while b"READY=1" not in ready.recv(4096).splitlines():
                pass
        except TimeoutError:
            pytest.fail(f"systemd has not booted: {self._errors.read_text()}")
        (self.pid,) = children(self._process.pid)
        self._log = os.open(self.path(LOG), os.O_RDWR | os.O_CLOEXEC)
        self._reader.start()

    def path(self, name: str | Path) -> Path:
        """File of the machine, as it is seen from here."""
        return Path(f"/proc/{self.pid}/root{name}")

    def run(self, *argv: str, check: bool = True) -> str:
        """Runs a program there; returns what it prints, and fails if it fails and `check` is true."""
        enter = ["nsenter", "--target", str(self.pid), *_NAMESPACES, "--"]
        done = subprocess.run(
            [*enter, *argv],
            check=False,
            capture_output=True,
            text=True,
            timeout=HANGS_AFTER_S,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0 or not check, f"{' '.join(argv)}: {done.stdout}{done.stderr}\n{self.log()}"
        return done.stdout

    def systemctl(self, *arguments: str, unit: str = UNIT) -> None:
        """Has systemd do something with the unit, and waits for it."""
        self.run("systemctl", *arguments, unit)

    def show(self, *names: str, unit: str = UNIT) -> dict[str, str]:
        """Properties of the unit, all or some, in one look."""
        lines = self.run("systemctl", "show", unit, *(f"--property={name}" for name in names)).splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in lines)}

    def _read(self) -> None:
        rest = b""
        while self._ends not in select.select([self._log, self._ends], [], [])[0]:
            *lines, rest = (rest + os.read(self._log, 1 << 16)).split(b"\n")
            with self._said:
                self._lines += [line.decode(errors="replace") for line in lines]
                self._events += [json.loads(line) for line in lines if line.startswith(b"{")]
                self._said.notify_all()

    def log(self) -> str:
        """Text that `vgcd` and its keeper have logged."""
        with self._said:
            return "\n".join(self._lines)

    def events(self, event: str) -> list[dict[str, Any]]:
        """Events that daemons have logged."""
        with self._said:
            return [one for one in self._events if one["event"] == event]

    def wait_for(self, event: str, count: int = 1) -> dict[str, Any]:
        """Waits until an event was logged `count` times; returns that one."""
        self.wait_until(lambda: len(self.events(event)) >= count)
        return self.events(event)[count - 1]

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Waits until `condition`, which depends on the log alone, is true."""
        with self._said:
            assert self._said.wait_for(condition, ANSWERS_WITHIN_S), f"waited in vain: {self.log()}"

    def processes(self, unit: str = UNIT) -> dict[int, str]:
        """Processes in the groups of the unit, and those below: names by process ids, both as the machine sees them."""
        found = {}
        for door in self._group.glob(f"vgcd.slice/{unit}/**/cgroup.procs"):
            for pid in map(int, door.read_text().split()):
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                    found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def groups(self) -> list[str]:
        """Groups that are neither systemd's own nor those of other units."""
        found = [str(path.relative_to(self._group)) for path in self._group.rglob("*") if path.is_dir()]
        return sorted(name for name in found if name.startswith("vgcd.slice/") and name not in _OTHERS)

    def inner(self, pid: int) -> int:
        """Number that a process has within the namespace."""
        status = Path(f"/proc/{pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])

    def close(self) -> None:
        """Ends everything there; no group stays."""
        for pid in children(self._process.pid) if self._process.poll() is None else []:
            os.kill(pid, signal.SIGKILL)
        self._process.wait(ANSWERS_WITHIN_S)
        if self._log >= 0:
            os.eventfd_write(self._ends, 1)
            self._reader.join()
            os.close(self._log)
        os.close(self._ends)
        until(functools.partial(_removed, self._group))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _removed(group: Path) -> bool:
    for folder, _folders, _files in os.walk(group, topdown=False):
        with contextlib.suppress(OSError):  # its last process ends still
            Path(folder).rmdir()
    return not group.exists()


def _shown() -> list[Path]:
    """Folders of the machine that must be seen where they are: those of the program and of its Python."""
    return list(dict.fromkeys([REPOSITORY, Path(sys.prefix), Path(sys.base_prefix)]))


def _addition() -> str:
    """Settings of a unit that the tests need."""
    shown = " ".join(map(str, _shown()))
    return f"""[Service]
# Journals are the machine's. The package is read from the program's folder, where the tests upgrade it. The machine's may lie in
# /tmp, of which the units have their own.
StandardError=append:{LOG}
Environment=PYTHONPATH={PROGRAM}
BindReadOnlyPaths={shown}
"""


def _bare_files() -> Mapping[str, str]:
    """Targets, and where daemons log to; all else comes with packages."""
    log = f"[Service]\nStandardError=append:{LOG}\n"
    return _targets() | {f"{UNITS}/{UNIT}.d/test.conf": log}


def _targets() -> dict[str, str]:
    return {f"{UNITS}/{name}.target": f"[Unit]\nDescription={name}\nDefaultDependencies=no\n" for name in _TARGETS}


def _files(config: str) -> Mapping[str, str]:
    files = {f"/usr/bin/{name}": f'#!/bin/sh\nexec {PROGRAM}/.venv/bin/{name} "$@"\n' for name in _PROGRAMS}
    files |= {CONFIG: config, systemd_root.USERS: (SHIPPED / "sysusers.d/vgcd.conf").read_text()}
    files["/usr/lib/tmpfiles.d/vgcd.conf"] = (SHIPPED / "tmpfiles.d/vgcd.conf").read_text()
    units: dict[str, str] = {}
    for unit in (*SHIPPED.glob("*.service"), *SHIPPED.glob("*.socket")):
        units[unit.name] = unit.read_text()
        if unit.suffix == ".service":
            units[f"{unit.name}.d/test.conf"] = _addition()
    return files | _targets() | {f"{UNITS}/{name}": text for name, text in units.items()}
