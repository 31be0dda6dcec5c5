"""The keeper as a service: started once, and found again by a service that is restarted, through its socket.

The socket is in the folder that systemd makes for the service (``RuntimeDirectory=``); elsewhere signals do as much.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from vhost_backend.errors import HostError
from vhost_backend.keeper import PROGRAM
from vhost_backend.keeper.notices import notify

SOCKET: Final = "keeper"
REFUSED: Final = "the running vgcd could not be replaced, and goes on; its log says why"
DEFAULT_FOLDER: Final = Path("/run/vgcd")
_LISTEN_VARIABLE: Final = "VGC_KEEPER_LISTEN"
_REPLACE: Final = b"r"
_FINISH: Final = b"f"


def folder(environment: Mapping[str, str]) -> Path | None:
    """Folder of the socket; None: systemd has made none."""
    given = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0]
    return Path(given) if given else None


def ask(order: bytes, path: Path) -> str | None:
    """Sends an order to the keeper that listens at `path`; returns its answer, "" if it has ended; None: there is no keeper."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(os.fsencode(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return None
        sock.sendall(order)
        return sock.recv(100).decode(errors="replace").strip()


def replace(path: Path) -> str | None:
    """Has the program that is on disk take over; the answer is "serving PID", or "refused PID" with the process of the vgcd that
    goes on; otherwise as of `ask`.
    """
    return ask(_REPLACE, path)


def finish(path: Path) -> str | None:
    """Ends daemon, workers and keeper; returns as `ask`, once they have ended."""
    return ask(_FINISH, path)


def run() -> int:
    """Becomes the keeper, or has the one that runs replace its daemon; returns the exit code of the latter."""
    where = folder(os.environ)
    if where is not None:
        answer = replace(where / SOCKET)
        if answer is not None:
            return _on_replaced(answer)
        _listen(where / SOCKET)
    return _become_keeper()


def _become_keeper() -> NoReturn:
    os.execv(PROGRAM, [str(PROGRAM), sys.executable, *sys.orig_argv[1:]])  # noqa: S606  our own program


def _on_replaced(answer: str) -> int:
    word, _, pid = answer.partition(" ")
    if word == "serving":
        notify(f"MAINPID={pid}\nREADY=1")
        return 0
    print(f"vgcd: {REFUSED}", file=sys.stderr)  # noqa: T201
    if pid:  # the service runs on as it was
        notify(f"MAINPID={pid}\nREADY=1\nSTATUS={REFUSED}")
    return 1


def is_stopped(unit: str) -> bool:
    """True if systemd is about to stop a unit for good: it is not to be started again, as in a restart.

    :raise HostError: systemd does not say.
    """
    argv = ("systemctl", "list-jobs", "--no-legend", "--plain", unit)
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as error:
        why = error.stderr.strip() if isinstance(error, subprocess.CalledProcessError) else str(error)
        raise HostError(f"{' '.join(argv)}: {why}", "`vgcd end` without --if-stopped ends the VMs' devices") from error
    jobs = (line.split() for line in done.stdout.splitlines())
    return any(job[1:3] == [unit, "stop"] for job in jobs)


def _listen(path: Path) -> None:
    """Has the keeper listen at `path`, which only this user can reach."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    os.fchmod(listener.fileno(), 0o600)
    listener.bind(os.fsencode(path))
    path.chmod(0o600)
    listener.listen(4)
    os.set_inheritable(listener.fileno(), True)
    os.environ[_LISTEN_VARIABLE] = str(listener.detach())
