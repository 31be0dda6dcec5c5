"""Allotment of a VM: the limits that its guest is told, what the guest has acknowledged, and what its worker enforces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from vhost_backend.cgroups.limits import USUAL_WEIGHT
from vhost_backend.config.daemon import QuotaConfig, VmConfig
from vhost_backend.log import Logger
from virtio_proto.control.api import AllotmentState
from virtio_proto.control.verbs.vms import LimitFigures

ACKNOWLEDGE_WITHIN_S: Final = 1.0
"""Time after which lower limits are enforced although the guest has not acknowledged them."""

Enforce: TypeAlias = Callable[[VmConfig], None]
"""Has the worker enforce the limits of a configuration; `Allotment.enforces` or `Allotment.refuses` follows."""


class Allotment:
    """Limits of one VM, numbered from 1 on. A change is pending until the worker enforces all of it.

    What a change raises is enforced at once, as it hurts nobody; then the guest is told. What it lowers is enforced when
    the guest has acknowledged the change, and after `ACKNOWLEDGE_WITHIN_S` in any case.
    """

    def __init__(self, config: VmConfig, log: Logger) -> None:
        self.config = config
        """Present settings of the VM."""
        self.told = config
        """Settings whose limits the guest can read."""
        self.number = 1
        """Number of the limits that the guest can read."""
        self.acknowledged = 0
        """Number that the guest has written, which may be any; 0: none."""
        self.enforced = config
        """Settings whose limits the worker enforces, or the next one will."""
        self._log = log
        self._first = 1
        """First number that the present guest could read."""
        self._complained = False
        self._asked = config
        """Settings whose limits the worker was told last."""
        self._raise: VmConfig | None = None
        """Raised limits that the worker has to enforce before the guest is told; None: it was told."""
        self._enforce: Enforce | None = None
        self._announced: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_pending(self) -> bool:
        """True if the worker does not enforce the limits yet, or the guest was not told."""
        return not limits_of(self.enforced) == limits_of(self.told) == limits_of(self.config)

    def state(self, *, uses_rings: bool) -> AllotmentState:
        """How the guest stands to its allotment. `uses_rings`: it has a ring that runs."""
        if self.acknowledged == 0:
            return "never acknowledged" if uses_rings else "unused"
        if not self._first <= self.acknowledged <= self.number:
            return "wrong"
        return "taken" if self.acknowledged == self.number else "pending"

    def begin(self, announced: Callable[[], None]) -> None:
        """Begins anew with another guest, which has acknowledged nothing. `announced` is called when it can read others."""
        self._announced = announced
        self._first = self.number
        self._complained = False
        self.acknowledged = 0

    @property
    def numbers(self) -> tuple[int, int, int]:
        """Number of the limits that the guest can read, the first that it could, and the one that it has acknowledged."""
        return self.number, self._first, self.acknowledged

    def restore(self, number: int, first: int, acknowledged: int) -> None:
        """Goes on with the numbers of another daemon."""
        self.number, self._first, self.acknowledged = number, first, acknowledged

    def end(self) -> None:
        """The guest is gone."""
        self.lose_worker()
        self._announced = None
        self.acknowledged = 0

    def forget_acknowledgement(self) -> None:
        """The guest has reset its device."""
        self.acknowledged = 0

    def serve_by(self, enforce: Enforce, given: VmConfig) -> None:
        """Begins with another worker, which has had the limits of `given` from its start."""
        self.lose_worker()
        self._enforce = enforce
        self.enforced = self._asked = given
        if limits_of(given) != limits_of(self.config):
            self._bring()

    def lose_worker(self) -> None:
        """The worker is gone. The next one has the limits from its start."""
        self._cancel()
        self._enforce = None
        if self._raise is not None:
            self._announce()
        self.enforced = self._asked = self.config

    def change(self, config: VmConfig) -> None:
        """Brings the limits of `config` to the worker, and to the guest under another number."""
        self.config = config
        self._cancel()
        if self._enforce is None or not (_raises(self._asked, config) or _raises(self.enforced, config)):
            self._announce()
        else:
            self._raise = _highest(self._asked, config)
            self._ask(self._raise)

    def acknowledge(self, number: int) -> None:
        """Takes what a guest has written; hostile guests write anything."""
        before, self.acknowledged = self.acknowledged, number
        match self.state(uses_rings=True):
            case "taken" if number != before:
                self._log.info("allotment_taken", allotment=number, guest=True)
            case "wrong" if not self._complained:
                self._complained = True
                given = f"{self._first} to {self.number}" if self._first < self.number else str(self.number)
                self._log.warning("allotment_unknown", acknowledged=number, given=given, guest=True)
        if number == self.number and self._timer is not None:
            self._finish()

    def enforces(self, config: VmConfig) -> None:
        """The worker enforces the limits of `config` from now on."""
        self.enforced = config
        if self._raise is config:
            self._announce()
        elif not self.is_pending:
            self._log.info("allotment_enforced", allotment=self.number, acknowledged=self.acknowledged == self.number)

    def refuses(self, config: VmConfig, error: str) -> None:
        """The worker does not enforce the limits of `config`. The guest is told all the same: the next worker will."""
        self._log.error("allotment_refused", allotment=self.number, error=error)
        if self._raise is config:
            self._announce()

    def _announce(self) -> None:
        """Tells the guest the present limits."""
        self._raise = None
        self.told = self.config
        self.number += 1
        self._log.info("allotment_changed", allotment=self.number, **figures(self.told))
        if self._enforce is None:
            self.enforced = self._asked = self.config
        else:
            self._bring()
        if self._announced is not None:
            self._announced()

    def _bring(self) -> None:
        """Gives the worker the number, with limits that take nothing away, and starts the time for those that do."""
        first = _highest(self._asked, self.config)
        self._ask(first)
        if limits_of(first) != limits_of(self.config):
            self._timer = asyncio.get_running_loop().call_later(ACKNOWLEDGE_WITHIN_S, self._finish)

    def _finish(self) -> None:
        self._cancel()
        self._ask(self.config)

    def _ask(self, config: VmConfig) -> None:
        self._asked = config
        if self._enforce is not None:
            self._enforce(config)

    def _cancel(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()


def limits_of(config: VmConfig) -> tuple[QuotaConfig, int]:
    """Settings that guest and worker have to know of: quota and deadline, without the weight, which the host alone knows."""
    return replace(config.quota, weight=USUAL_WEIGHT), config.deadline_ns


def with_limits(config: VmConfig, other: VmConfig) -> VmConfig:
    """The settings of `config` with the limits of `other`. Weight and cores stay, as the worker does not know them;
    elements that have cores of their own are as many as these.
    """
    own, wanted = config.quota, other.quota
    pes = wanted.pes if own.cores is None and wanted.cores is None else own.pes
    quota = replace(wanted, weight=own.weight, cores=own.cores, pes=pes)
    return replace(config, quota=quota, deadline_ns=other.deadline_ns)


def figures(config: VmConfig) -> LimitFigures:
    """Limits by name."""
    quota = config.quota
    return {
        "pes": quota.pes,
        "memory_bytes": quota.memory_bytes,
        "queue_depth": quota.queue_depth,
        "contexts": quota.contexts,
        "streams": quota.streams,
        "weight": quota.weight,
        "deadline_ns": config.deadline_ns,
    }


def _raises(one: VmConfig, other: VmConfig) -> bool:
    """True if a limit of `other` is higher than that of `one`."""
    return limits_of(_highest(one, other)) != limits_of(one)


def _highest(one: VmConfig, other: VmConfig) -> VmConfig:
    """The settings of `other`, with each limit as high as in either of the two."""
    a, b = one.quota, other.quota
    quota = replace(
        b,
        pes=None if a.pes is None or b.pes is None else max(a.pes, b.pes),
        memory_bytes=max(a.memory_bytes, b.memory_bytes),
        queue_depth=max(a.queue_depth, b.queue_depth),
        contexts=max(a.contexts, b.contexts),
        streams=max(a.streams, b.streams),
    )
    return replace(other, quota=quota, deadline_ns=max(one.deadline_ns, other.deadline_ns))
