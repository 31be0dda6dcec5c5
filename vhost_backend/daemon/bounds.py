"""Bounds of workers that the daemon sets from outside: what the VM's quota gives, and what a process of ours needs beside.

They hold for whatever runs in a worker: a control group's, where the host has them, for all that it uses, and in any case the
address space of the worker that is ready. RLIMIT_DATA is not enough: pages count no more once they are read-only.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.limits import MAX_WEIGHT, USUAL_WEIGHT, Limits
from vhost_backend.config.daemon import VmConfig
from vhost_backend.cores import threads
from vhost_backend.daemon.engines import Choice
from vhost_backend.engines.base import HostView
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from virtio_proto.schema import LIMITS

_MIB: Final = 1 << 20
_PROCESS_BYTES: Final = 256 * _MIB
"""Python, the data plane, loaded programs' code, and the kernel's memory for the process."""
_MAPPED_FOR_MEMORY: Final = 3
"""Address space for each byte of device memory: a page, and one before and behind it that nobody can access."""
_BESIDE_ALLOCATIONS: Final = 4
"""Part of the quota that kernels of the software GPU may write to beside their allocations, in the memory at their ends."""
_THREAD_BYTES: Final = 8 * _MIB
_REQUEST_BYTES: Final = 16 << 10
_THREADS: Final = 64
"""Threads beside those of processing elements. A bound against floods; the sandbox's own limit is tighter."""
_SERVING_CPUS: Final = 2
"""Processors for the data plane and for the thread that talks to the daemon."""
_ELEMENTS: Final = "elements"
"""Control group of the threads of processing elements, within their worker's."""
_ELEMENT_NAMES: Final = "vgc-pe"
"""Beginning of the names of these threads (`vhost_backend/engines/cpu/pe.c`)."""


def vm_limits(config: VmConfig) -> Limits:
    """Limits of a VM's worker and its compilers together: its weight and, if its elements are cores, their number."""
    pes = config.quota.pes if config.engine.kind == "cpu" else None
    return Limits(cpus=None if pes is None else pes + _SERVING_CPUS, weight=config.quota.weight)


def worker_limits(choice: Choice, view: HostView, area_bytes: int) -> Limits:
    """Limits of one worker of `choice`, whose engine sees `view` of the host.

    Memory that is shared with the daemon or the guest counts for whoever touches it first, so all of it is added:
    the region, the control area of `area_bytes`, and the sources of programs.
    """
    config = choice.config
    pes = choice.pes or os.cpu_count() or 1
    shared = config.region_bytes + area_bytes + NUM_SOURCES * LIMITS["MAX_SOURCE_BYTES"]
    tables = config.quota.queue_depth * _REQUEST_BYTES
    own = config.quota.memory_bytes + _PROCESS_BYTES + view.memory_bytes
    if choice.engine == "cpu":
        own += config.quota.memory_bytes // _BESIDE_ALLOCATIONS
    return Limits(
        memory_bytes=own + shared + tables + (pes + _THREADS // 8) * _THREAD_BYTES + pes * view.pe_memory_bytes,
        processes=pes + _THREADS + view.threads,
        cpus=_SERVING_CPUS + (pes if view.cpus is None else view.cpus),
    )


def bound_elements(pid: int, group: Cgroup, pes: int) -> None:
    """Bounds the threads of a worker's processing elements to `pes` processors, whatever threads guest code starts there.

    Only while no guest code has run: later a thread may have any name.

    :raise OSError: the worker is gone, or this host does not allow it.
    """
    group.bound_threads(_ELEMENTS, elements_of(pid), _element_limits(pes))


def elements_of(pid: int) -> frozenset[int]:
    """Threads of a worker's processing elements, as far as no guest code has run: later a thread may have any name.

    :raise OSError: the worker is gone.
    """
    return threads.named(pid, _ELEMENT_NAMES)


def move_processors(config: VmConfig, group: Cgroup, limits: Limits, *, pes: int, are_more: bool) -> None:
    """Moves the bounds of a VM that computes on `pes` processing elements from now on: those of its own group and of its
    worker's `group`, which gets `limits`, and of the elements in it.

    `are_more`: the VM had fewer before. In version 1 no group may be allowed less than one within it.

    :raise OSError: the worker is gone, or this host does not allow it.
    """
    steps: list[Callable[[], None]] = [
        partial(group.limit, limits),
        lambda: group.bound_threads(_ELEMENTS, (), _element_limits(pes)),
    ]
    steps.insert(0, partial(config.quarters.set_processors, vm_limits(config)))
    for step in steps if are_more else reversed(steps):
        step()


def _element_limits(pes: int) -> Limits:
    """Limits of processing elements together: each weighs as much as it would by itself, beside the threads that serve."""
    return Limits(cpus=pes, weight=min(MAX_WEIGHT, pes * USUAL_WEIGHT))


class ProcessBounds:
    """Bounds of a worker's process that is ready: what it has mapped, and what its guest may still have it map.

    The worker's own limits have room for any region and any engine, as they are set before either is known.

    :raise OSError: the worker is gone, or this process may not look at it.
    """

    def __init__(self, pid: int, config: VmConfig, area_bytes: int, engine_bytes: int) -> None:
        """`config`: with the limits that the worker has had from its start; `engine_bytes`: what its processing elements
        may still map.
        """
        self._pid = pid
        self._given = config
        self._beside_bytes = area_bytes + engine_bytes + _PROCESS_BYTES
        self._mapped_bytes = int(Path(f"/proc/{pid}/statm").read_text().split()[0]) * resource.getpagesize()
        self._private_bytes = resource.prlimit(pid, resource.RLIMIT_DATA)[0]

    def move(self, config: VmConfig) -> None:
        """Moves the bounds to the limits of `config`; the worker's bound on private memory is only raised.

        :raise OSError: the worker is gone, or this process may not limit it, or not that high.
        """
        memory_bytes = config.quota.memory_bytes
        more = 2 * config.region_bytes + _MAPPED_FOR_MEMORY * memory_bytes + self._beside_bytes
        self._set(resource.RLIMIT_AS, self._mapped_bytes + more)
        memory = max(0, memory_bytes - self._given.quota.memory_bytes)
        requests = max(0, config.quota.queue_depth - self._given.quota.queue_depth)
        private = memory + memory // _BESIDE_ALLOCATIONS + requests * _REQUEST_BYTES
        if private and self._private_bytes != resource.RLIM_INFINITY:
            self._set(resource.RLIMIT_DATA, self._private_bytes + private)

    def _set(self, what: int, limit: int) -> None:
        """Sets a limit; for good, if the worker has no system call filter that keeps it from raising it."""
        _, hard = resource.prlimit(self._pid, what)
        resource.prlimit(self._pid, what, (limit, hard if hard == resource.RLIM_INFINITY else limit))
