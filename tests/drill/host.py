"""Host of the drill: `vgcd` with its keeper, three VMs, and a control centre whose recorder writes to a small disk."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.fakes.guest import REPOSITORY
from tests.limits import ANSWERS_WITHIN_S
from tests.processes import children
from tests.protocol.kept_vgcd import KeptVgcd, gone
from vhost_backend.daemon.process import worker_of

VMS: Final = ("a", "b", "c")
_DISK_BYTES: Final = 16 << 20
_FORK_SERVER: Final = "vgc-forkserver"
_LAUNCHER: Final = "vgc-launch"


def _comm(pid: int) -> str:
    """Name of a process; "" if it has ended."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def descriptors(pid: int) -> int:
    """Number of a process's open descriptors."""
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def own_memory_kib(pid: int) -> int:
    """Memory in RAM that is a process's own, in KiB."""
    words = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(words["RssAnon"].split()[0])


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process, which may have ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Host:
    """Processes of the drill, and ways to find each of them. First `begin`; `close` ends all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.disk.mkdir()
        self._is_mounted = _mount(self.disk)
        settings = "engine: cpu, num_queues: 4, region: 16M, quota: {pes: 1, memory: 64M}, deadline: 60s"
        vms = "".join(f"  {name}: {{socket: {folder}/{name}, {settings}}}\n" for name in VMS)
        config = folder / "vgcd.yaml"
        config.write_text(
            f"vms:\n{vms}cache: {folder}/cache\nstate: {folder}/state\nlog: {{format: json}}\novercommit: true\n"
            f"control: {{socket: {folder}/control}}\n"
        )
        self.vgcd = KeptVgcd(config)
        self.centre: subprocess.Popen[str] | None = None
        self._url = ""
        self._centre_log = (folder / "centre.log").open("a")

    def begin(self) -> None:
        """Waits until the daemon serves and its spare waits, and starts the control centre."""
        self.vgcd.wait_for("serving")
        self.vgcd.wait_for("spare_ready")
        self.start_centre()

    def close(self) -> None:
        if self.centre is not None:
            self.centre.kill()
            self.centre.wait()
            assert self.centre.stdout is not None
            self.centre.stdout.close()
        self._centre_log.close()
        self.vgcd.close()
        if self._is_mounted:
            subprocess.run(["umount", "--lazy", str(self.disk)], check=False)

    # ---- processes -------------------------------------------------------------------------------

    @property
    def keeper(self) -> int:
        return self.vgcd.keeper.pid

    @property
    def spare(self) -> int:
        """The process that waits for the daemon's place, or loads still; 0: the keeper has not started it yet."""
        others = {self.vgcd.daemon, *(self.launcher(vm) for vm in VMS)}
        for pid in children(self.keeper):
            if pid not in others and _comm(pid) not in (_LAUNCHER, _FORK_SERVER) and not gone(pid):
                return pid
        return 0

    def launcher(self, vm: str) -> int:
        """The launcher of a VM's worker, whichever daemon has started it; 0: none was started."""
        started = self.events("worker_started", vm)
        return int(started[-1]["pid"]) if started else 0

    def worker(self, vm: str) -> int:
        """A VM's worker; 0: it has none now."""
        launcher = self.launcher(vm)
        found = worker_of(launcher) if launcher else 0
        return 0 if found == launcher else found

    @property
    def fork_server(self) -> int:
        """Process of the fork server; 0: the daemon has lost it, or waits for it."""
        return next((pid for pid in self._children_of_daemon() if _comm(pid) == _FORK_SERVER), 0)

    @property
    def compiler(self) -> int:
        """Launcher of a compiler that runs; 0: none does."""
        workers = {int(one["pid"]) for one in self.events("worker_started")}
        found = self._children_of_daemon()
        return next((pid for pid in found if pid not in workers and _comm(pid) == _LAUNCHER), 0)

    def _children_of_daemon(self) -> list[int]:
        try:
            return children(self.vgcd.daemon)
        except (FileNotFoundError, ProcessLookupError):
            return []

    def events(self, event: str, vm: str | None = None) -> list[dict[str, Any]]:
        """Events of all daemons so far; of one VM, if it is given."""
        every = list(self.vgcd.events)
        return [one for one in every if one["event"] == event and vm in (None, one.get("vm"))]

    # ---- the control centre ----------------------------------------------------------------------

    def start_centre(self) -> None:
        """Starts a control centre in place of one that has ended, as systemd would."""
        if self.centre is not None and self.centre.stdout is not None:
            self.centre.wait(ANSWERS_WITHIN_S)
            self.centre.stdout.close()
        argv = [sys.executable, "-m", "control_center.server", "--host", f"h=unix:{self.folder}/control"]
        argv += ["--listen", "127.0.0.1:0", "--record", f"sqlite:///{self.disk}/recording.sqlite"]
        self.centre = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self._centre_log, text=True, cwd=REPOSITORY)
        assert self.centre.stdout is not None
        line = self.centre.stdout.readline()
        assert "open " in line, f"the control centre did not start: {line}{Path(self._centre_log.name).read_text()}"
        self._url = line.split("open ")[1].strip().rstrip("/")

    def ask_centre(self, path: str) -> Any:
        """Answer of the control centre; None: it gives none."""
        try:
            with urllib.request.urlopen(f"{self._url}/api/v1/{path}", timeout=ANSWERS_WITHIN_S) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError):
            return None

    def vms_of_centre(self) -> dict[str, dict[str, Any]]:
        """VMs as the control centre shows them, by name; {} unless their host is up."""
        hosts = self.ask_centre("hosts") or []
        return {vm["vm"]: vm for host in hosts if host["state"] == "up" for vm in host["vms"]}

    def recorded_ns(self) -> int:
        """Time of the latest entry that the recorder has written."""
        about = self.ask_centre("self")
        return 0 if about is None else int((about["recorder"] or {}).get("last_ns") or 0)

    # ---- the recorder's disk ---------------------------------------------------------------------

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Leaves the recorder no room: its disk is full, or, where none could be mounted, none of its files may grow."""
        assert self.centre is not None
        if self._is_mounted:
            filler = self.disk / "filler"
            try:
                _fill(filler)
                yield
            finally:
                filler.unlink()
            return
        before = resource.prlimit(self.centre.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))
        try:
            yield
        finally:
            resource.prlimit(self.centre.pid, resource.RLIMIT_FSIZE, before)


def _mount(folder: Path) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "drill", str(folder)]
    try:
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0
    except FileNotFoundError:
        return False


def _fill(file: Path) -> None:
    fd = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC)
    try:
        while True:
            os.write(fd, bytes(4096))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    finally:
        os.close(fd)
