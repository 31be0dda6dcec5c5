"""Xid errors and versions of the host's GPUs, from the process ``vhost_backend.engines.cuda.gpu_watch``."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from vhost_backend.engines.cuda.nvml import DEFAULT_LIBRARY, GpuVersions

_MODULE: Final = "vhost_backend.engines.cuda.gpu_watch"
_END_SECONDS: Final = 5


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions of the driver and of its GPUs' firmware."""

    driver: str
    gpus: tuple[GpuVersions, ...]

    def of(self, uuid: str) -> GpuVersions | None:
        """Versions of a GPU; upper and lower case of its UUID are the same. None: the GPU is unknown."""
        return next((gpu for gpu in self.gpus if gpu.uuid.lower() == uuid.lower()), None)


class GpuWatch:
    """Runs the process that watches the GPUs. Calls `on_xid` with UUID and Xid, `on_problem` with a text.

    Without a driver it calls `on_problem` once, and does nothing else.
    """

    def __init__(
        self,
        on_xid: Callable[[str, int], None],
        on_problem: Callable[[str], None],
        library: str = DEFAULT_LIBRARY,
    ) -> None:
        self.versions: Versions | None = None
        self._on_xid = on_xid
        self._on_problem = on_problem
        self._library = library
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._known = asyncio.Event()

    async def start(self) -> None:
        """Starts the process, and waits until it has listed the GPUs or failed."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", _MODULE, "--library", self._library),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self._reader = asyncio.create_task(self._read(self._process))
        await self._known.wait()

    async def close(self) -> None:
        """Ends the process."""
        if self._process is None or self._reader is None:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        await self._reader

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None  # it is a PIPE
        try:
            async for line in process.stdout:
                with contextlib.suppress(ValueError, KeyError, TypeError):  # a line that the driver's library printed
                    self._take(json.loads(line))
        except ValueError as error:  # a line longer than the stream's limit
            self._on_problem(str(error))
            process.kill()
        finally:
            self._known.set()

    def _take(self, line: dict[str, Any]) -> None:
        if "driver" in line:
            self.versions = Versions(line["driver"], tuple(GpuVersions(**gpu) for gpu in line["gpus"]))
            self._known.set()
        elif "xid" in line:
            self._on_xid(str(line["uuid"]), int(line["xid"]))
        elif "problem" in line:
            self._on_problem(str(line["problem"]))
