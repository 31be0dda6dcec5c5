"""Quarters of sandboxed processes: the user and the control group by which the kernel tells one VM's from another's, the
weight of the VM, and its place among the processors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final

from vhost_backend.cgroups.group import Cgroup
from vhost_backend.cgroups.limits import USUAL_WEIGHT, Limits
from vhost_backend.cgroups.weights import Sharing, has_nice, highest, least_nice, nice_of, renice, sharing
from vhost_backend.cores.pool import Place

_numbers: Final = count(1)
_LEAST_CHANGE: Final = 0.005
"""Least change of a factor of weights that is worth telling the kernel."""


@dataclass(slots=True)
class Weight:
    """Weight of a VM, which all of its quarters share. It may change while processes run."""

    value: int = USUAL_WEIGHT
    factor: float = 1.0
    """Factor by which control groups have another weight, so that the VM gets its share after all."""
    companions: int = 0
    """Processes that use the share beside the worker, such as compilers."""


@dataclass(frozen=True, slots=True)
class Quarters:
    """User and control group of a VM's processes, or of one of them."""

    user: int | None = None
    """Uid and gid, which the daemon claims (`vhost_backend.users`); None: those of all VMs that have none."""
    cgroup: Cgroup | None = None
    """Group that processes join; None: they stay in the daemon's."""
    weight: Weight = field(default_factory=Weight)
    """Share of the host's processors beside other VMs that have work, too. A control group has it already."""
    keeper: int | None = None
    """Process with which workers end; None: their parent."""
    place: Place | None = None
    """Processors of the VM; None: its processes stay on those of the daemon."""

    @property
    def nice(self) -> int:
        """Nice value of processes, which gives them their weight where there is no control group to do it."""
        return 0 if self.cgroup is not None else nice_of(self.weight.value, least_nice())

    @property
    def reached_weight(self) -> int:
        """Weight that processes have: without a control group, no more than nice values give that this process may set."""
        return self.weight.value if self.cgroup is not None else min(self.weight.value, highest(least_nice()))

    @property
    def sharing(self) -> Sharing:
        """Unit that the weight counts for."""
        if self.cgroup is None:
            return sharing()
        return "cgroup2" if self.cgroup.version == 2 else "cgroup1"

    def room(self, name: str, limits: Limits) -> Quarters:
        """Makes quarters for one process, with a control group of its own within this one; `vacate` them.

        :raise OSError: the host cannot make the group.
        """
        if self.cgroup is None:
            return self
        return replace(self, cgroup=self.cgroup.child(f"{name}-{os.getpid()}.{next(_numbers)}", limits))

    def vacate(self, room: Quarters) -> None:
        """Removes the control group of `room`, whose processes have ended."""
        if self.cgroup is not None and room.cgroup is not None and room is not self:
            self.cgroup.leave(room.cgroup)

    def keep(self, room: Quarters) -> None:
        """Keeps the control group of `room`, whose processes have ended, for the next call of `used_room`."""
        if self.cgroup is not None and room.cgroup is not None and room is not self:
            self.cgroup.keep(room.cgroup)

    def used_room(self, name: str, limits: Limits) -> Quarters:
        """Makes quarters as `room` does, of a control group that was kept if there is one; `keep` them, or `vacate` them.

        :raise OSError: the host cannot make the group.
        """
        kept = None if self.cgroup is None else self.cgroup.reuse(limits)
        return self.room(name, limits) if kept is None else replace(self, cgroup=kept)

    def place_of(self, room: Quarters) -> tuple[str, int] | None:
        """Name of the control group of `room`, and OOM kills there that do not count; None: it is not one of its own."""
        if self.cgroup is None or room.cgroup is None or room.cgroup is self.cgroup:
            return None
        return room.cgroup.name, room.cgroup.earlier_kills

    def resumed_room(self, place: tuple[str, int] | None) -> Quarters:
        """Quarters of a process that an earlier daemon has started, by its `place_of`."""
        if self.cgroup is None or place is None:
            return self
        return replace(self, cgroup=self.cgroup.resumed(*place))

    def weigh(self, weight: int, worker: int | None) -> None:
        """Gives the VM another weight, and its `worker`, the process that runs in these quarters, if there is one.

        :raise OSError: the host does not allow it; then the weight is as before.
        """
        before, self.weight.value = self.weight.value, weight
        try:
            if self.cgroup is not None:
                self.cgroup.weigh(weight * self.weight.factor)
            elif worker is not None:
                renice(worker, self.nice)
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has just ended
        except OSError:
            self.weight.value = before
            raise

    def correct(self, factor: float) -> None:
        """Multiplies the weight of the control group, if there is one, by `factor`, in place of the factor before.

        :raise OSError: the host does not allow it; then the factor is as before.
        """
        if self.cgroup is not None and abs(factor / self.weight.factor - 1) >= _LEAST_CHANGE:
            self.cgroup.weigh(self.weight.value * factor)
            self.weight.factor = factor

    @contextmanager
    def accompanied(self) -> Iterator[None]:
        """Counts a process that uses the VM's share beside its worker, until the block ends."""
        self.weight.companions += 1
        try:
            yield
        finally:
            self.weight.companions -= 1

    def catch_up(self, worker: int) -> None:
        """Gives a process that was started in these quarters the weight that the VM has got since.

        :raise OSError: it is gone, or the host does not allow it.
        """
        if self.cgroup is None and not has_nice(worker, self.nice):
            renice(worker, self.nice)

    def limit(self, limits: Limits) -> None:
        """Gives the control group, which is that of one process, other limits.

        :raise OSError: the host does not allow it.
        """
        if self.cgroup is not None:
            self.cgroup.limit(limits)

    def set_processors(self, limits: Limits) -> None:
        """Gives the control group, which is that of a VM, other limits on processors.

        :raise OSError: the host does not allow it.
        """
        if self.cgroup is not None:
            self.cgroup.set_processors(limits)
            if self.weight.factor != 1.0:
                self.cgroup.weigh(limits.weight * self.weight.factor)

    def oom_kills(self) -> int:
        """Number of processes here that the kernel has killed because they used more memory than they may."""
        return 0 if self.cgroup is None else self.cgroup.oom_kills()


NOWHERE: Final = Quarters()
"""Quarters of processes that share a user with others, and the daemon's control group."""
