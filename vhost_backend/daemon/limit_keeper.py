"""Keeper of the limits of a worker that serves: brings changed ones to it, and moves its outer bounds along."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Final

from msgspec import structs

from vhost_backend.cgroups.limits import Limits
from vhost_backend.config.daemon import VmConfig
from vhost_backend.daemon import worker_messages
from vhost_backend.daemon.allotment import limits_of, with_limits
from vhost_backend.daemon.bounds import ProcessBounds, move_processors, worker_limits
from vhost_backend.daemon.engines import Choice
from vhost_backend.daemon.process import host_view, worker_of
from vhost_backend.daemon.supervisor import Supervisor
from vhost_backend.daemon.vm_parts import VmParts
from vhost_backend.errors import HostError
from vhost_backend.worker_protocol.link import Answer, WorkerLink
from vhost_backend.worker_protocol.migration_messages import ArenaSetup
from vhost_backend.worker_protocol.protocol import Stats

CHANGE_ELEMENTS: Final = ("cpu",)
"""Engines whose workers can take fewer of their processing elements, and more again, while they compute."""
ARENA_SHARE: Final = 2
"""Divisor: memory up to this part of its addresses is allowed to a worker that runs already."""


class LimitKeeper:
    """Limits of one worker, from when it is ready to its end. Its bounds are never below what its guest holds."""

    def __init__(
        self,
        vm: VmParts,
        supervisor: Supervisor,
        link: WorkerLink,
        *,
        choice: Choice,
        given: VmConfig,
        arena: ArenaSetup,
        num_pes: int,
    ) -> None:
        """Bounds the worker's process.

        `choice`, `given`: the engine with which it was set up, and the VM's settings then; `num_pes`: the elements that it
        has.
        """
        self._given = given
        self._vm = vm
        self._supervisor = supervisor
        self._link = link
        self._choice = choice
        self._arena = arena
        self._num_pes = num_pes
        self._bound_for = self._enforced = self._asked = given
        self._is_torn = False
        """True if moving bounds has failed halfway: which ones hold is not known."""
        self._bounds = self._process_bounds()

    def live(self, wanted: VmConfig) -> VmConfig:
        """The VM's settings with those limits of `wanted` that the worker can be given while it runs."""
        now = self._vm.config
        quota = wanted.quota
        if quota.pes != now.quota.pes and not self._can_have(quota.pes):
            quota = replace(quota, pes=now.quota.pes)
        asked = replace(now, quota=quota, deadline_ns=wanted.deadline_ns)
        if not self._has_room(asked):
            asked = replace(asked, quota=replace(quota, memory_bytes=now.quota.memory_bytes))
        return asked

    def elements(self, config: VmConfig) -> int:
        """Number of elements that take work under the limits of `config`."""
        if self._choice.engine not in CHANGE_ELEMENTS or config.quota.pes == self._given.quota.pes:
            return self._num_pes
        return max(1, min(config.quota.pes or self._num_pes, self._num_pes))

    def enforce(self, config: VmConfig) -> None:
        """Has the worker enforce the limits of `config`."""
        self._asked = config
        self._bound(replace(config, quota=replace(config.quota, memory_bytes=self._memory_for(config))))
        message = worker_messages.limits(config, self.elements(config), self._vm.allotment.number)
        answer = self._link.post(lambda seq: structs.replace(message, seq=seq))
        answer.add_done_callback(partial(self._on_answer, config))

    def on_stats(self, stats: Stats) -> None:
        """Lowers bounds of memory that were kept up for what the guest held, as it holds less now."""
        quota = self._bound_for.quota
        wanted = max(self._enforced.quota.memory_bytes, self._asked.quota.memory_bytes)  # it may answer only later
        least = max(wanted, min(stats.memory_used_bytes, quota.memory_bytes))
        if least < quota.memory_bytes:
            self._bound(replace(self._bound_for, quota=replace(quota, memory_bytes=least)))

    # ----------------------------------------------------------------------------------------------

    def _on_answer(self, config: VmConfig, answer: Answer) -> None:
        ack = answer.result()
        if ack is None:
            return
        if ack.ok:
            self._enforced = config
            self._vm.allotment.enforces(config)
        else:
            self._vm.allotment.refuses(config, ack.error)

    def _can_have(self, pes: int | None) -> bool:
        wanted = pes or os.cpu_count() or 1
        return self._choice.engine in CHANGE_ELEMENTS and wanted <= self._num_pes

    def _has_room(self, config: VmConfig) -> bool:
        """True if the worker's process may use the memory of `config`, or is given it now."""
        memory_bytes = config.quota.memory_bytes
        if memory_bytes <= self._bound_for.quota.memory_bytes:
            return True
        if self._choice.gpu is not None and memory_bytes > self._given.quota.memory_bytes:
            return False  # the driver's pool has its size from the start
        if memory_bytes + config.region_bytes > self._arena.size // ARENA_SHARE:
            return False
        return self._bound(config)

    def _memory_for(self, config: VmConfig) -> int:
        """Memory to bound the worker for: lowered only by `on_stats`, once the worker enforces less."""
        return max(config.quota.memory_bytes, self._bound_for.quota.memory_bytes)

    def _bound(self, config: VmConfig) -> bool:
        """Bounds the process for the limits of `config`; False: the host does not allow it."""
        if limits_of(config) == limits_of(self._bound_for) and not self._is_torn:
            return True
        try:
            self._bound_groups(config)
            if self._bounds is not None:
                self._bounds.move(config)
        except (FileNotFoundError, ProcessLookupError):
            return False  # the worker has just ended
        except (OSError, HostError) as error:
            self._is_torn = True
            self._vm.log.warning("bounds_not_moved", pid=self._supervisor.pid, why=str(error))
            return False
        self._bound_for, self._is_torn = config, False
        return True

    def _bound_groups(self, config: VmConfig) -> None:
        """:raise OSError: the worker is gone, or the host does not allow it."""
        room, limits = self._supervisor.room, self._group_limits(config)
        before, pes = self.elements(self._bound_for), self.elements(config)
        if room is None or room.cgroup is None:
            return
        if pes == before and not self._is_torn:
            room.limit(limits)
        else:
            move_processors(config, room.cgroup, limits, pes=pes, are_more=pes >= before)

    def _group_limits(self, config: VmConfig) -> Limits:
        choice = replace(
            self._choice, config=replace(self._choice.config, quota=config.quota), pes=self.elements(config)
        )
        view = host_view(choice.config)
        at_start = worker_limits(self._choice, view, self._vm.area_bytes)
        return replace(worker_limits(choice, view, self._vm.area_bytes), processes=at_start.processes)

    def _process_bounds(self) -> ProcessBounds | None:
        """Bounds the process for the first time. A GPU's driver reserves addresses for the memory of all GPUs and the host."""
        pid = self._supervisor.pid
        if pid is None or self._choice.gpu is not None:
            return None
        try:
            engine_bytes = self._num_pes * host_view(self._choice.config).pe_memory_bytes
            bounds = ProcessBounds(worker_of(pid), self._given, self._vm.area_bytes, engine_bytes)
            bounds.move(self._given)
        except (FileNotFoundError, ProcessLookupError):
            return None  # the worker has just ended
        except OSError as error:
            self._vm.log.warning("address_space_not_bounded", pid=pid, why=str(error))
            return None
        return bounds


def limited(choice: Choice, before: VmConfig, config: VmConfig) -> Choice:
    """The choice with the limits of `config` in place of those of `before`; a migration may have given it fewer elements."""
    quota, pes = config.quota, choice.pes
    if quota.pes == before.quota.pes:
        quota = replace(quota, pes=choice.config.quota.pes)
    else:
        pes = quota.pes or os.cpu_count() or 1
    own = replace(with_limits(choice.config, config), quota=quota)
    fallback = None if choice.fallback is None else limited(choice.fallback, before, config)
    return replace(choice, config=own, pes=pes, fallback=fallback)
