"""The keeper as a service: started once, and found again by a service that is restarted, through its socket.

The socket is in the folder that systemd makes for the service (``RuntimeDirectory=``); elsewhere signals do as much.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NoReturn

from vhost_backend.keeper import PROGRAM
from vhost_backend.keeper.notices import notify

SOCKET: Final = "keeper"
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
    """Has the program that is on disk take over; the answer is "serving PID" or "refused", otherwise as of `ask`."""
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
    if word != "serving":
        print("vgcd: the running vgcd could not be replaced, and goes on; its log says why", file=sys.stderr)  # noqa: T201
        return 1
    notify(f"MAINPID={pid}\nREADY=1")
    return 0


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
