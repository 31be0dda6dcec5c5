"""Lab: resources that rows share: sample counts, backends (each started once, on first use) and baselines."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from bench import peer, vgcd
from bench.cuda.lab import CudaLab
from bench.device import Device, RequestError, Span
from bench.driver import DriverError
from bench.executors import PlainCpp
from bench.opencl import OpenCl
from bench.peer import Peer
from bench.processes import BackendError
from bench.results import Samples, SkipRow
from bench.stats import attempt
from bench.vgcd import OurDevice

STAGING_BYTES: Final = 64 << 20


class Lab:
    """Context manager; at its end everything that rows have started is ended.

    :param quick: fewer samples.
    :param threads: threads of the compute rows, for our engine and for every baseline (default: all CPUs).
    :param driver: the library through which the CUDA rows reach a GPU (default: the system's).
    :param nvml: the library that reads the GPU's clocks (default: the system's).
    :param smoke: the CUDA rows use small sizes, to show that they run.
    """

    def __init__(
        self,
        *,
        quick: bool = False,
        threads: int | None = None,
        driver: Path | None = None,
        nvml: Path | None = None,
        smoke: bool = False,
    ) -> None:
        self.quick = quick
        self.threads = threads or len(os.sched_getaffinity(0))
        self._stack = ExitStack()
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vgc-bench-")))
        self._staging: dict[Device, Span] = {}
        self._pocl: OpenCl | SkipRow | None = None
        self.trios: dict[str, tuple[Samples | SkipRow, Samples | SkipRow, Samples | SkipRow]] = {}
        self._devices: dict[str, OurDevice | SkipRow] = {}
        self.cuda = CudaLab(self.folder, self._stack, driver, nvml=nvml, smoke=smoke)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def samples(self, full: int, quick: int) -> int:
        """Number of samples to measure."""
        return quick if self.quick else full

    @cached_property
    def peer(self) -> Peer:
        """QEMU's storage daemon. :raise SkipRow: it is not installed."""
        return self._stack.enter_context(peer.running(self.folder))

    @cached_property
    def cpp(self) -> PlainCpp:
        """Plain C++ baseline."""
        return PlainCpp()

    def pocl(self) -> OpenCl:
        """PoCL with the lab's number of threads. :raise SkipRow: it is not installed."""
        if self._pocl is None:
            self._pocl = attempt(lambda: OpenCl(self.threads))
        if isinstance(self._pocl, SkipRow):
            raise self._pocl
        return self._pocl

    def staging(self, device: Device, size: int) -> Span:
        """Returns `size` bytes of the device's region for payloads; rows use them one after the other."""
        if device not in self._staging:
            self._staging[device] = (device.driver.take(STAGING_BYTES), STAGING_BYTES)
        return (self._staging[device][0], size)

    def device(self, engine: str) -> OurDevice:
        """Our daemon with one VM on `engine`, started once. :raise SkipRow: it does not come up."""
        if engine not in self._devices:
            self._devices[engine] = attempt(lambda: self._start_device(engine))
        device = self._devices[engine]
        if isinstance(device, SkipRow):
            raise device
        return device

    def _start_device(self, engine: str) -> OurDevice:
        try:
            return self._stack.enter_context(vgcd.running(self.folder, engine, self.threads))
        except (BackendError, RequestError, DriverError) as error:
            raise SkipRow(f"our device with the {engine} engine does not come up: {error}") from error

    def own_folder(self, name: str) -> Path:
        """Makes a folder, removed with the lab, for a row that starts its own processes."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
