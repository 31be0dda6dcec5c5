"""The CUDA rows' lab: the GPU, the native side and the VM that most rows use, each made when first wanted."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeVar

from bench.cuda import gpu, vms
from bench.cuda.compile import cubin_of
from bench.cuda.gpu import Gpu
from bench.cuda.native import NativeGpu
from bench.cuda.vms import Vm
from bench.device import Span
from bench.results import SkipRow
from bench.stats import attempt
from bench.vgcd import OurDevice
from bench.workloads import KERNELS

MIB: Final = 1 << 20
ROOM_MIB: Final = 960
SMOKE_ROOM_MIB: Final = 48
"""Of the region, for payloads; the rest is rings and requests."""

T = TypeVar("T")


class CudaLab:
    """Use through `Lab.cuda`.

    :param smoke: small sizes and short times: shows that the rows run, their figures mean nothing.
    """

    def __init__(self, folder: Path, stack: ExitStack, driver: Path | None, *, smoke: bool) -> None:
        self.smoke = smoke
        self._folder = folder
        self._stack = stack
        self._driver = driver
        self._made: dict[str, object] = {}

    def size(self, full: T, smoke: T) -> T:
        """How large or how long."""
        return smoke if self.smoke else full

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """What `make` returned, or the reason why it could not: it is asked once."""
        if name not in self._made:
            self._made[name] = attempt(make)
        made = self._made[name]
        if isinstance(made, SkipRow):
            raise made
        return made  # type: ignore[return-value]  # the same name is always made by the same function

    @property
    def gpu(self) -> Gpu:
        """:raise SkipRow: when there is none."""
        return self._once("gpu", lambda: gpu.find(self._driver))

    @property
    def native(self) -> NativeGpu:
        """:raise SkipRow: when the GPU cannot be used from this process."""
        return self._once("native", lambda: self._stack.enter_context(NativeGpu(self.gpu)))

    @property
    def vm(self) -> OurDevice:
        """A VM with the whole GPU; a fresh one, should a row have cost the last its context.

        :raise SkipRow: when it does not come up.
        """
        known = self._made.get("vm")
        if isinstance(known, OurDevice) and not known.device.is_alive():
            del self._made["vm"]
            self._made.pop("room", None)
        return self._once("vm", lambda: self._stack.enter_context(self.vms([self.plan("whole")]))[0])

    @property
    def room(self) -> Span:
        """Of the region of :attr:`vm`, for payloads, one row after the other."""
        size = self.size(ROOM_MIB, SMOKE_ROOM_MIB) * MIB
        return self._once("room", lambda: (self.vm.driver.take(size), size))

    def plan(self, name: str, pes: int | None = None, **options: object) -> Vm:
        """A VM with a large region and, unless told otherwise, with all processing elements."""
        memory_mib = min(8192, self.gpu.memory_bytes // MIB // 2)
        region_mib = self.size(1024, 64)
        return Vm(name, pes or self.gpu.num_pes, memory_mib, region_mib, dict(options))

    def small_plan(self, name: str, pes: int | None = None) -> Vm:
        """One of several VMs at once."""
        memory_mib = min(2048, self.gpu.memory_bytes // MIB // 16)
        return Vm(name, pes or self.gpu.num_pes, memory_mib, self.size(256, 64))

    @contextmanager
    def vms(self, plans: Sequence[Vm]) -> Iterator[list[OurDevice]]:
        """A daemon of their own for some VMs. :raise SkipRow: when it does not come up."""
        folder = Path(tempfile.mkdtemp(prefix="cuda-", dir=self._folder))
        with vms.running(self.gpu, folder, plans) as devices:
            yield devices

    def cubin(self, source: str) -> bytes:
        """``bench/kernels/<source>.cu``, compiled for the GPU as the daemon does."""
        return self._once(f"{source}.cu", lambda: cubin_of((KERNELS / f"{source}.cu").read_bytes(), self.gpu))
