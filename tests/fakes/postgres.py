"""PostgreSQL server in a folder, for tests and benchmarks: the system's binaries, run by an unprivileged user."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

_BINARIES: Final = Path("/usr/lib/postgresql")


class PostgresMissing(Exception):  # noqa: N818  a reason, not a fault
    """The server cannot run here; the text says what to install."""


class PostgresServer:
    """A server that runs from its construction until `stop`; it listens on a UNIX socket in its folder only."""

    def __init__(self, folder: Path) -> None:
        """Makes `folder`, which has all files of the server, and starts the server.

        :raise PostgresMissing: PostgreSQL's binaries are not installed.
        """
        found = sorted(_BINARIES.glob("*/bin/initdb"))
        if not found:
            raise PostgresMissing("PostgreSQL's server is not installed: apt install postgresql")
        self._binaries = found[-1].parent
        self._folder = folder
        folder.mkdir(parents=True)
        self._as_somebody = self._unprivileged()
        self._data = folder / "data"
        self._run("initdb", "-D", str(self._data), "-U", "vgc", "-A", "trust", "--no-sync", "-E", "UTF8")
        options = f"-k {folder} -c listen_addresses= -c fsync=off -c shared_buffers=16MB"
        self._run("pg_ctl", "-D", str(self._data), "-l", str(folder / "log"), "-w", "-o", options, "start")
        self.url = f"postgresql://vgc@/postgres?host={folder}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _k: type[BaseException] | None, _e: BaseException | None, _t: TracebackType | None) -> None:
        self.stop()

    def stop(self) -> None:
        self._run("pg_ctl", "-D", str(self._data), "-w", "-m", "immediate", "stop")

    def _unprivileged(self) -> list[str]:
        """Command prefix that has root run PostgreSQL, which refuses root, as nobody; nobody gets the folder."""
        if os.geteuid() != 0:
            return []
        parent = self._folder.parent  # parents are often closed to others, and nobody must be able to enter them
        parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(self._folder, "nobody", "nogroup")
        return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]

    def _run(self, program: str, *arguments: str) -> None:
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "HOME": str(self._folder)}
        command = [*self._as_somebody, str(self._binaries / program), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=self._folder, check=False)
        if ran.returncode != 0:
            raise RuntimeError(f"{program}: {ran.stderr or ran.stdout}")
