"""Sums of what VMs may use, compared with what the host and its GPUs have.

Processing elements count for VMs whose quota names a number: a VM without one shares all that there are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from vhost_backend.config.daemon import VmConfig
from vhost_backend.cores import lists
from vhost_backend.daemon.gpus import Gpu
from virtio_proto.yaml_values import GIB, MIB

_MEMINFO: Final = Path("/proc/meminfo")
_OWN_LIMITS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""Limit of the container that this process may be in, in either version of control groups."""
_GPU_NODES: Final = (Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Device nodes of which a host has one if it has an NVIDIA GPU: Linux's, and WSL's."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """Processors and memory of a host, as far as this process may use them."""

    cores: frozenset[int]
    memory_bytes: int

    @classmethod
    def of_host(cls) -> Self:
        total = next(line for line in _MEMINFO.read_text().splitlines() if line.startswith("MemTotal:"))
        limits = [int(total.split()[1]) << 10]
        for path in _OWN_LIMITS:
            text = path.read_text().strip() if path.is_file() else ""
            limits += [int(text)] if text.isdecimal() else []
        return cls(frozenset(os.sched_getaffinity(0)), min(limits))


@dataclass(frozen=True, slots=True)
class Share:
    """A VM with the GPU that it gets; None: it computes on the host's cores, or that is not known."""

    vm: VmConfig
    gpu: Gpu | None = None

    @property
    def uses_cores(self) -> bool:
        kind = self.vm.engine.kind
        return self.gpu is None and (kind == "cpu" or (kind == "auto" and not self._may_find_gpu))

    @property
    def _may_find_gpu(self) -> bool:
        return "driver" in self.vm.engine.options or any(map(Path.exists, _GPU_NODES))


@dataclass(frozen=True, slots=True)
class Excess:
    """More of something than there is."""

    text: str
    """Amount that is asked, by whom, and the amount that there is."""
    remedy: str
    """Change that would make it fit."""
    is_allowable: bool = True
    """True if a configuration may allow it."""

    def __str__(self) -> str:
        return f"{self.text}; allowed: {self.remedy}{', or overcommit: true' if self.is_allowable else ''}"


def excesses(shares: Sequence[Share], host: Capacity) -> list[Excess]:
    """Excesses of what the VMs may use together over what is there; none if all fits."""
    on_host = [share.vm for share in shares if share.uses_cores]
    found = [*_of_cores([share.vm for share in shares], host.cores)]
    found += _of_elements(on_host, len(host.cores), "this host has", "core")
    needs = {
        share.vm.name: share.vm.region_bytes + (share.vm.quota.memory_bytes if share.uses_cores else 0)
        for share in shares
    }
    found += _of_memory(needs, host.memory_bytes, "this host has", "quota.memory and region")
    gpus = {share.gpu.uuid: share.gpu for share in shares if share.gpu is not None}
    for gpu in gpus.values():
        there = [share.vm for share in shares if share.gpu is gpu]
        has = f"GPU {gpu.index} ({gpu.name}) has"
        found += _of_elements(there, gpu.num_pes, has, "multiprocessor")
        found += _of_memory({vm.name: vm.quota.memory_bytes for vm in there}, gpu.memory_bytes, has, "quota.memory")
    return found


def _of_cores(vms: Iterable[VmConfig], there: frozenset[int]) -> Iterator[Excess]:
    """Excesses of the cores that VMs are to have for their own."""
    owners: dict[int, str] = {}
    asked: dict[str, int] = {}
    for vm in vms:
        cores = vm.quota.cores
        if cores is None:
            continue
        asked[vm.name] = vm.quota.pes or 0
        if cores == "own":
            continue
        shown = f"vms.{vm.name}.quota.cores is {lists.shown(cores)}"
        if strange := cores - there:
            text = f"{shown}, and vgcd may not use {lists.shown(strange)} here"
            yield Excess(text, f"of {lists.shown(there)}", is_allowable=False)
        if twice := cores & owners.keys():
            others = ", ".join(f"vms.{owner}" for owner in sorted({owners[core] for core in twice}))
            text = f"{shown}, and {lists.shown(twice)} {'is' if len(twice) == 1 else 'are'} for {others}"
            yield Excess(text, "cores that no other VM has for its own", is_allowable=False)
        owners |= dict.fromkeys(cores, vm.name)
    total, most = sum(asked.values()), len(there) - 1
    if total > most:
        own = "its own" if len(asked) == 1 else "their own"
        has = f"this host has {len(there)}, of which one stays for all others"
        text = f"{_told(asked)} {'is' if len(asked) == 1 else 'are'} to have {total} cores for {own}, and {has}"
        yield Excess(text, f"{most} in all", is_allowable=False)


def _of_elements(vms: Iterable[VmConfig], most: int, has: str, name: str) -> Iterator[Excess]:
    asked = {vm.name: vm.quota.pes for vm in vms if vm.quota.pes is not None}
    total = sum(asked.values())
    if total > most:
        what = f"{_told(asked)} {_may(asked)} use {total} processing elements"
        yield Excess(
            f"{what}, and {has} {most} {name}{'s' * (most != 1)}",
            f"quota.pes of {most} in all, or none, which shares them",
        )


def _of_memory(needs: dict[str, int], most: int, has: str, keys: str) -> Iterator[Excess]:
    total = sum(needs.values())
    if total > most:
        size = _size if _size(total) != _size(most) else _mebibytes
        what = f"{_told(needs, size)} {_may(needs)} use {size(total)} of memory"
        yield Excess(f"{what}, and {has} {size(most)}", f"{keys} of {size(most)} in all")


def _told(asked: dict[str, int], shown: Callable[[int], str] = str, most: int = 8) -> str:
    """Names of the VMs, those that ask the most first; with what each asks, if there are several."""
    if len(asked) == 1:
        return f"the VM {next(iter(asked))}"
    names = sorted(asked, key=lambda name: -asked[name])
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return "the VMs " + ", ".join(f"{name} ({shown(asked[name])})" for name in names[:most]) + more


def _may(asked: dict[str, int]) -> str:
    return "may" if len(asked) == 1 else "together may"


def _size(size_bytes: int) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes >= GIB else _mebibytes(size_bytes)


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / MIB:.0f} MiB"
