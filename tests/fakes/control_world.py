"""Simulated GPUs, VMs and kernels of a host for `tests.fakes.control_daemon`.

All values follow from a seed and a clock: the same seed at the same time gives the same load. Figures of a processing
element are computed on request, so that an idle host with a thousand elements costs nothing.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from virtio_proto.control.api import FaultInfo, GpuInfo, LoadInfo, PeStat, PeState, SnapshotInfo, TopologyInfo, VmInfo
from virtio_proto.control.selector import Selector
from virtio_proto.control.verbs.functions import FunctionWork, RegisteredWork

NS_PER_S: Final = 1_000_000_000
GIB: Final = 1 << 30
KERNELS: Final = ("saxpy", "reduce", "gemm_tiled", "softmax", "blur")
_PERIOD_S: Final = 40.0
"""Period of the wave that the load of a VM follows."""
_STEP_NS: Final = 50_000_000
_BLOCK_NS: Final = 5_000_000
"""Duration of a simulated block."""


Busy: TypeAlias = np.ndarray[tuple[int], np.dtype[np.uint8]]


@dataclass(frozen=True, slots=True)
class Shape:
    """Size of a simulated host."""

    gpus: int = 2
    pes: int = 16
    """Processing elements per GPU."""
    vms_per_gpu: int = 2


@dataclass(slots=True)
class FakeVm:
    """A simulated VM."""

    name: str
    gpu: int
    pes: int
    phase: float
    confined_to: list[int] | None = None
    state: str = "ready"
    generation: int = 1
    firmware: str = "1.0.0"
    frozen: bool = False
    """True while its kernels hang: no counter changes any more."""
    unseen: str = ""
    """Reason why its programs have no hooks; empty if they have."""
    stray_cpu_ns: int = 0
    gpu_time: tuple[int, int, int, int] | None = (8 * NS_PER_S, 3 * NS_PER_S, 2 * NS_PER_S, 8 * NS_PER_S)
    """GPU time that was used, for which launches were held, that was used beside others, and of all of these."""
    compiling: int = 0
    extra: list[str] = field(default_factory=list)
    """Names of further functions that it launches once a second."""
    more: dict[str, Any] = field(default_factory=dict)
    """Further facts of it, or others than the simulation has, by the API's names."""
    thresholds: dict[str, tuple[float, float]] = field(default_factory=dict)

    def runs_on(self, pe: int) -> bool:
        return self.confined_to is None or pe in self.confined_to


class World:
    """A simulated host. `clock_ns` is CLOCK_REALTIME, or a test's own."""

    def __init__(self, host: str, shape: Shape, seed: int, clock_ns: Callable[[], int]) -> None:
        self.host = host
        self.shape = shape
        self.clock_ns = clock_ns
        self.faults: list[FaultInfo] = []
        self.no_cgroups = ""
        self.left_out: dict[str, str] = {}
        self.reload_refused = ""
        """Reason why the host has no control groups; "" if it has."""
        self.software_gpu = False
        """The host offers its processors, too, and no VM is on them."""
        self._seed = zlib.crc32(f"{seed}/{host}".encode())
        self._random = random.Random(self._seed)
        self._born_ns = clock_ns()
        self._busy: dict[str, tuple[Any, Busy]] = {}
        self.vms = {vm.name: vm for gpu in range(shape.gpus) for vm in self._vms_of(gpu)}

    def _vms_of(self, gpu: int) -> Iterator[FakeVm]:
        for number in range(self.shape.vms_per_gpu):
            phase = self._random.random()
            yield FakeVm(f"{self.host}-vm{gpu * self.shape.vms_per_gpu + number}", gpu, self.shape.pes, phase)

    # ---- GPUs and VMs ----------------------------------------------------------------------------

    def uuid(self, kind: str, name: object) -> str:
        number = random.Random(f"{self._seed}/{kind}/{name}").getrandbits(128)
        text = f"{number:032x}"
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def gpus(self) -> list[GpuInfo]:
        software: GpuInfo = {
            "gpu": "cpu",
            "uuid": f"CPU-{self.uuid('gpu', 'cpu')}",
            "name": "Simulated processors",
            "kind": "cpu",
            "pes": self.shape.pes,
            "memory_bytes": 64 * GIB,
        }
        found: list[GpuInfo] = [
            {
                "gpu": str(gpu),
                "uuid": f"GPU-{self.uuid('gpu', gpu)}",
                "name": "Simulated H200",
                "kind": "cuda",
                "pes": self.shape.pes,
                "memory_bytes": 141 * GIB,
                "arch": "sm_90",
                "pci_bus_id": f"00000000:{0x10 + gpu:02X}:00.0",
                "driver_version": "580.95.05",
                "vbios_version": "96.00.BC.00.02",
            }
            for gpu in range(self.shape.gpus)
        ]
        return found + [software] * self.software_gpu

    def vm_info(self, vm: FakeVm, channels: int) -> VmInfo:
        steps = (self.clock_ns() - self._born_ns) // NS_PER_S
        info: VmInfo = {
            "vm": vm.name,
            "uuid": self.uuid("vm", vm.name),
            "gpu": str(vm.gpu),
            "pes": vm.pes,
            "confined_to": vm.confined_to,
            "quiesced": vm.frozen,
            "state": vm.state,  # type: ignore[typeddict-item]  # tests set any value
            "generation": vm.generation,
            "memory_quota_bytes": 16 * GIB,
            "memory_used_bytes": int((2 + 10 * vm.phase) * GIB),
            "requests_done": int(1000 + 180 * steps * (1 + vm.phase)),
            "requests_failed": sum(fault["count"] for fault in self.faults if fault["vm"] == vm.name),
            "in_flight": 0 if vm.frozen else int(4 * vm.phase),
            "latency": [*[0] * 20, 90 * steps, 9 * steps, *[0] * 18, steps],
            "compiling": vm.compiling,
            "cpu_ns": int(steps * 1.2 * NS_PER_S),
            "stray_cpu_ns": vm.stray_cpu_ns,
            "channels": channels,
            "firmware": vm.firmware,
        }
        if vm.gpu_time is not None:
            info["gpu_ns"], info["gpu_held_ns"], info["gpu_shared_ns"], info["gpu_shared_of_ns"] = vm.gpu_time
        if vm.unseen:
            info["unseen"] = vm.unseen
        return {**info, **vm.more}  # type: ignore[typeddict-item]  # keys of it

    def topology(self, channels_of: Callable[[str], int]) -> TopologyInfo:
        vms = [self.vm_info(vm, channels_of(vm.name)) for vm in self.vms.values()]
        return {"host": self.host, "gpus": self.gpus(), "vms": vms}

    def status(self) -> dict[str, Any]:
        """Answer to `status`, without the channels. VMs have all elements of their GPU."""
        sizes = {gpu: [vm.pes for vm in self.vms.values() if vm.gpu == gpu] for gpu in range(self.shape.gpus)}
        found: dict[str, Any] = {
            "daemon": "0.1.0",
            "started_ns": self._born_ns,
            "time_ns": self.clock_ns(),
            "overcommit": True,
            "gpus": [
                {
                    "gpu": str(gpu),
                    "pes": self.shape.pes,
                    "pes_allotted": sum(pes),
                    "vms": len(pes),
                    "sharing": 0,
                    "memory_bytes": 141 * GIB,
                    "memory_allotted_bytes": 16 * GIB * len(pes),
                }
                for gpu, pes in sizes.items()
            ],
            "undecided": [],
            "memory_bytes": 64 * GIB,
            "memory_allotted_bytes": GIB * len(self.vms),
            "cgroups": 0 if self.no_cgroups else 2,
        }
        found |= {"cgroups_missing": self.no_cgroups} if self.no_cgroups else {}
        found |= {"reload_refused": self.reload_refused} if self.reload_refused else {}
        return found | ({"left_out": self.left_out} if self.left_out else {})

    def functions(self, vm: FakeVm) -> list[FunctionWork]:
        """Work by function: the VM's kernel, launched 90 times a second for 2 ms each, and a function for each name in `extra`."""
        steps = (self.clock_ns() - self._born_ns) // NS_PER_S
        names = {self.kernel(vm): 90 * steps, **dict.fromkeys(vm.extra, steps)}
        return [
            {
                "vm": vm.name,
                "gpu": str(vm.gpu),
                "function": name,
                "launches": launches,
                "busy_ns": 2_000_000 * launches,
                "times": [*[0] * 52, launches],
            }
            for name, launches in names.items()
        ]

    def programs(self, vm: FakeVm) -> list[RegisteredWork]:
        """Registered programs: one that has the VM's kernel, and a broken one for each name in `extra`."""
        own = self.kernel(vm)
        return [
            {
                "vm": vm.name,
                "program": number,
                "functions": [f"{name}(pointer, int32)"],
                "num_functions": 1,
                "kept": number == 1,
                "size_bytes": 1000,
                "problem": "" if number == 1 else "line 1: error",
            }
            for number, name in enumerate((own, *vm.extra), 1)
        ]

    # ---- load ------------------------------------------------------------------------------------

    def busy(self, vm: FakeVm) -> Busy:
        """Load, a byte per element: a wave over time that wanders over the elements; 0 outside of the VM's confinement.

        The wave moves in steps of 50 ms.
        """
        key = (
            (self.clock_ns() - self._born_ns) // _STEP_NS,
            vm.frozen or vm.state != "ready",
            None if vm.confined_to is None else tuple(vm.confined_to),
        )
        known = self._busy.get(vm.name)
        if known is None or known[0] != key:
            known = self._busy[vm.name] = (key, self._wave(vm, key[0] * _STEP_NS / NS_PER_S))
        return known[1]

    def _wave(self, vm: FakeVm, now_s: float) -> Busy:
        if vm.frozen or vm.state != "ready":
            return np.zeros(vm.pes, np.uint8)
        places = np.arange(vm.pes) / max(vm.pes, 1)
        wave = np.sin(2 * math.pi * (now_s / _PERIOD_S + vm.phase + places)) / 2 + 0.5
        values = (255 * (0.08 + 0.84 * wave * (0.4 + 0.6 * vm.phase))).astype(np.uint8)
        if vm.confined_to is not None:
            keep = np.zeros(vm.pes, bool)
            keep[[pe for pe in vm.confined_to if pe < vm.pes]] = True
            values[~keep] = 0
        return values

    def load(self, chosen: list[FakeVm]) -> LoadInfo:
        busy = {vm.name: self.busy(vm) for vm in chosen}
        vms = {name: float(values.mean()) / 255 for name, values in busy.items()}
        vm_used = {name: float(values.sum()) / 255 for name, values in busy.items()}
        gpu_used = {str(gpu): sum(vm_used[vm.name] for vm in chosen if vm.gpu == gpu) for gpu in range(self.shape.gpus)}
        return {
            "time_ns": self.clock_ns(),
            "host": min(1.0, sum(gpu_used.values()) / (self.shape.pes * max(len(gpu_used), 1))),
            "gpus": {gpu: min(1.0, used / self.shape.pes) for gpu, used in gpu_used.items()},
            "vms": vms,
            "gpu_pes_used": gpu_used,
            "vm_pes_used": vm_used,
            "pes": {name: values.tobytes() for name, values in busy.items()},
        }

    # ---- elements --------------------------------------------------------------------------------

    def stat(self, vm: FakeVm, pe: int) -> PeStat:
        elapsed_ns = max(self.clock_ns() - self._born_ns, 1)
        share = float(self.busy(vm)[pe]) / 255
        blocks = int(elapsed_ns * share / _BLOCK_NS)
        faults = sum(fault["count"] for fault in self.faults if fault["vm"] == vm.name and fault["pe"] == pe)
        return {
            "gpu": str(vm.gpu),
            "vm": vm.name,
            "pe": pe,
            "blocks": blocks,
            "warps": 8 * blocks,
            "launches": blocks // 64,
            "busy_ns": int(elapsed_ns * share),
            "stall_ns": int(elapsed_ns * share / 10),
            "faults": faults,
            "busy_share": share,
            "counters": {"items": 3 * blocks},
            "gauges": {"residual": 1.0 / (1 + blocks)},
        }

    def kernel(self, vm: FakeVm) -> str:
        return KERNELS[zlib.crc32(vm.name.encode()) % len(KERNELS)]

    def snapshot(self, chosen: list[tuple[FakeVm, int]]) -> SnapshotInfo:
        now_ns = self.clock_ns()
        answering = [(vm, pe) for vm, pe in chosen if vm.runs_on(pe)]
        silent = [f"{vm.name}/{pe}" for vm, pe in chosen if not vm.runs_on(pe)]
        pes = [self._state(vm, pe, now_ns + 100 * place) for place, (vm, pe) in enumerate(answering)]
        return {
            "time_ns": now_ns,
            "skew_ns": 100 * max(len(pes) - 1, 0),
            "coverage": len(pes) / len(chosen) if chosen else 1.0,
            "silent": silent,
            "pes": pes,
        }

    def _state(self, vm: FakeVm, pe: int, at_ns: int) -> PeState:
        block = 0 if vm.frozen else int((at_ns - self._born_ns) // _BLOCK_NS)
        return {
            "gpu": str(vm.gpu),
            "vm": vm.name,
            "pe": pe,
            "kernel": self.kernel(vm),
            "launch": block // 64,
            "block": block,
            "warps": 8,
            "since_ns": self._born_ns + block * _BLOCK_NS,
            "last_record_ns": self._born_ns + block * _BLOCK_NS,
            "at_ns": at_ns,
            "hung": vm.frozen,
        }

    # ---- selection -------------------------------------------------------------------------------

    def chosen(self, selector: Selector) -> list[FakeVm]:
        """VMs that a selector matches."""
        gpus = {gpu["gpu"]: (gpu["gpu"], gpu["uuid"]) for gpu in self.gpus()}
        return [
            vm for vm in self.vms.values() if selector.matches_vm(vm.name) and selector.matches_gpu(*gpus[str(vm.gpu)])
        ]

    def elements(self, selector: Selector) -> list[tuple[FakeVm, int]]:
        """Elements that a selector matches."""
        return [(vm, pe) for vm in self.chosen(selector) for pe in selector.pes_of(vm.pes)]
