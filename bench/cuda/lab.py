"""Lab of the CUDA rows: the GPU, the native side and the VM that most rows use, each made on first use."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from bench.cuda import gpu, vms
from bench.cuda.clocks import ClockLog
from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu
from bench.cuda.native import NativeGpu
from bench.cuda.ramp import Ramp
from bench.cuda.vms import Vm
from bench.device import Span
from bench.results import Samples, SkipRow
from bench.stats import Subject, alternate, attempt
from bench.vgcd import OurDevice
from bench.workloads import KERNELS

MIB: Final = 1 << 20
ROOM_MIB: Final = 960
"""Part of the region for payloads; the rest is for rings and requests."""
SMOKE_ROOM_MIB: Final = 48

T = TypeVar("T")


class CudaLab:
    """Lab of the CUDA rows, to be used through `Lab.cuda`.

    :param nvml: the library that reads the GPU's clocks (default: the system's).
    :param smoke: small sizes and short times, to show that the rows run; their figures mean nothing.
    """

    def __init__(
        self, folder: Path, stack: ExitStack, driver: Path | None, *, nvml: Path | None = None, smoke: bool = False
    ) -> None:
        self.smoke = smoke
        self.clocks = ClockLog(stack, nvml)
        self._folder = folder
        self._stack = stack
        self._driver = driver
        self._made: dict[str, object] = {}

    def size(self, full: T, smoke: T) -> T:
        """Chooses a size or a time."""
        return smoke if self.smoke else full

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """Calls `make` once per name; returns its result, or raises its `SkipRow` again."""
        if name not in self._made:
            self._made[name] = attempt(make)
        made = self._made[name]
        if isinstance(made, SkipRow):
            raise made
        return made  # type: ignore[return-value]  # each name belongs to one function

    @property
    def gpu(self) -> Gpu:
        """GPU of this machine. :raise SkipRow: there is no GPU."""
        return self._once("gpu", lambda: gpu.find(self._driver))

    @property
    def native(self) -> NativeGpu:
        """Native side. :raise SkipRow: the GPU cannot be used from this process."""
        return self._once("native", lambda: self._stack.enter_context(NativeGpu(self.gpu)))

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Raises the GPU's clocks, then runs the block, the measurement; records the clocks at its begin and end.

        :raise SkipRow: there is no GPU.
        """
        ramp = attempt(lambda: self._ramp)
        if isinstance(ramp, SkipRow):
            self.clocks.note(str(ramp))  # a row without a native side can be measured nevertheless
        else:
            ramp.up()
        with self.clocks.around(self.gpu.uuid):
            yield
        if isinstance(ramp, Ramp):
            ramp.busy_until_now()

    def alternate(self, rounds: int, *subjects: Subject | SkipRow) -> tuple[Samples | SkipRow, ...]:
        """Measures as :func:`bench.stats.alternate`, with the GPU's clocks raised and recorded."""
        with self.measured():
            return alternate(rounds, *subjects)

    @property
    def _ramp(self) -> Ramp:
        return self._once("ramp", lambda: Ramp(self.native, self.gpu, self.cubin("busy"), smoke=self.smoke))

    @property
    def vm(self) -> OurDevice:
        """VM with the whole GPU; a new one if a row has destroyed the previous VM's context.

        :raise SkipRow: it does not come up.
        """
        known = self._made.get("vm")
        if isinstance(known, OurDevice) and not known.device.is_alive():
            del self._made["vm"]
            self._made.pop("room", None)
        return self._once("vm", lambda: self._stack.enter_context(self.vms([self.plan("whole")]))[0])

    @property
    def room(self) -> Span:
        """Part of the region of :attr:`vm` for payloads, used by one row after the other."""
        size = self.size(ROOM_MIB, SMOKE_ROOM_MIB) * MIB
        return self._once("room", lambda: (self.vm.driver.take(size), size))

    def plan(self, name: str, pes: int | None = None, **options: object) -> Vm:
        """Plans a VM with a large region and `pes` processing elements (default: all)."""
        memory_mib = min(8192, self.gpu.memory_bytes // MIB // 2)
        region_mib = self.size(1024, 64)
        return Vm(name, pes or self.gpu.num_pes, memory_mib, region_mib, dict(options))

    def small_plan(self, name: str, pes: int | None = None, region_mib: int = 256) -> Vm:
        """Plans one of several VMs that run at one time."""
        memory_mib = min(2048, self.gpu.memory_bytes // MIB // 16)
        return Vm(name, pes or self.gpu.num_pes, memory_mib, self.size(region_mib, 64))

    @contextmanager
    def vms(self, plans: Sequence[Vm]) -> Iterator[list[OurDevice]]:
        """Runs a separate daemon for these VMs. :raise SkipRow: it does not come up."""
        folder = Path(tempfile.mkdtemp(prefix="cuda-", dir=self._folder))
        with vms.running(self.gpu, folder, plans) as devices:
            yield devices

    def cubin(self, source: str) -> bytes:
        """Compiles ``bench/kernels/<source>.cu`` for the GPU as the daemon does."""
        return self._once(f"{source}.cu", lambda: cubin_of((KERNELS / f"{source}.cu").read_bytes(), self.gpu))
