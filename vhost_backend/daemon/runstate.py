"""States of a VM in the daemon, and the transitions between them, in the manner of qemu.qmp's `Runstate`.

Only `TABLE` says how a state looks to the guest and to the control API, and to which states it leads. Quiescing is not a
state: a VM can be quiesced in every state, and stays so over workers and frontends. worker_slot.py maps the states with
a frontend to objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from vhost_backend.log import Logger
from virtio_proto.control.api import VmState
from virtio_proto.schema import Health


class Runstate(Enum):
    """State of a VM."""

    NO_FRONTEND = auto()
    """Nothing is connected; the VM has no worker."""
    NO_ENGINE = auto()
    """A frontend is connected, and the host has no engine for the VM: no worker is started."""
    STARTING = auto()
    """A worker gets ready for a fresh device, or is about to be started."""
    READY = auto()
    """A worker serves the guest."""
    UNRESPONSIVE = auto()
    """The worker that serves the guest does not answer the daemon's heartbeat."""
    MIGRATING = auto()
    """A worker serves the guest, and a second one is to take its place."""
    RECOVERING = auto()
    """The worker that served the guest is gone; the next one gets ready."""
    FAILED = auto()
    """Workers end again and again before they are ready; the daemon still tries, ever more slowly."""
    DISCONNECTING = auto()
    """The frontend is gone; its workers are being killed and reaped."""
    CLOSED = auto()
    """The daemon ends."""


@dataclass(frozen=True, slots=True)
class Row:
    """Row of the table: how a state looks from outside, and the transitions out of it."""

    shown: VmState
    """State in the control API."""
    health: Health
    """Health in the configuration space, which a guest can read while a frontend is connected."""
    leads_to: Mapping[Runstate, str]
    """Next states, each with the event that leads there; the state itself where an event may keep the VM in it."""


TABLE: Final[Mapping[Runstate, Row]] = {
    Runstate.NO_FRONTEND: Row(
        "stopped",
        Health.STARTING,
        {
            Runstate.STARTING: "a frontend connected",
            Runstate.NO_ENGINE: "a frontend connected, and the configured engine cannot be had",
            Runstate.CLOSED: "the daemon ends, or serves the VM no more",
        },
    ),
    Runstate.NO_ENGINE: Row(
        "failed",
        Health.FAILED,
        {Runstate.DISCONNECTING: "the frontend went"},
    ),
    Runstate.STARTING: Row(
        "starting",
        Health.STARTING,
        {
            Runstate.READY: "the worker is ready",
            Runstate.FAILED: "too many workers ended before they were ready",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.READY: Row(
        "ready",
        Health.READY,
        {
            Runstate.UNRESPONSIVE: "the worker's answer is late",
            Runstate.MIGRATING: "a migration began",
            Runstate.RECOVERING: "the worker died or was replaced",
            Runstate.STARTING: "the guest reset the device",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.UNRESPONSIVE: Row(
        "unresponsive",
        Health.RECOVERING,
        {
            Runstate.READY: "the worker has answered after all",
            Runstate.RECOVERING: "the worker died or was replaced",
            Runstate.STARTING: "the guest reset the device",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.MIGRATING: Row(
        "migrating",
        Health.READY,
        {
            Runstate.READY: "the migration ended, and one of the two workers serves",
            Runstate.RECOVERING: "the serving worker died or was replaced",
            Runstate.STARTING: "the guest reset the device",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.RECOVERING: Row(
        "recovering",
        Health.RECOVERING,
        {
            Runstate.READY: "the next worker is ready",
            Runstate.RECOVERING: "the next worker ended before it was ready",
            Runstate.FAILED: "too many workers ended before they were ready",
            Runstate.STARTING: "the guest reset the device",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.FAILED: Row(
        "failed",
        Health.FAILED,
        {
            Runstate.READY: "a worker is ready after all",
            Runstate.RECOVERING: "the VM falls back to the CPU engine, or a worker lived for long",
            Runstate.FAILED: "the next worker ended before it was ready",
            Runstate.STARTING: "the guest reset the device",
            Runstate.DISCONNECTING: "the frontend went",
        },
    ),
    Runstate.DISCONNECTING: Row(
        "stopped",
        Health.STARTING,
        {
            Runstate.NO_FRONTEND: "all workers are reaped",
            Runstate.CLOSED: "the daemon ends, and something went wrong on the way",
        },
    ),
    Runstate.CLOSED: Row("stopped", Health.STARTING, {}),
}


class StateError(Exception):
    """A transition that the table does not have: a bug of the daemon's."""

    def __init__(self, vm: str, old: Runstate, new: Runstate) -> None:
        self.vm = vm
        self.old = old
        self.new = new
        allowed = ", ".join(state.name for state in TABLE[old].leads_to) or "none"
        super().__init__(f"VM {vm} goes from {old.name} to {new.name}; allowed: {allowed}")


class Lifecycle:
    """State of one VM, and its transitions."""

    def __init__(self, vm: str, log: Logger) -> None:
        self._vm = vm
        self._log = log
        self._now = Runstate.NO_FRONTEND

    @property
    def now(self) -> Runstate:
        return self._now

    @property
    def shown(self) -> VmState:
        """State as the control API shows it."""
        return TABLE[self._now].shown

    @property
    def health(self) -> Health:
        """Health as the guest reads it."""
        return TABLE[self._now].health

    @property
    def is_ending(self) -> bool:
        """True if the frontend is gone, so that messages and ends of its workers change nothing any more."""
        return self._now in (Runstate.DISCONNECTING, Runstate.CLOSED)

    def enter(self, new: Runstate) -> None:
        """Goes to the next state.

        A transition that is missing in the table is made all the same: its cause has happened (a worker died, a
        frontend went), and staying would show the guest a wrong health. Nor is an error raised here, in the middle of
        a callback that still has to reap a process or to schedule the next one. The loop's exception handler gets the
        `StateError`: in production it logs an error with both states, in tests it fails the test.
        """
        old, self._now = self._now, new
        if new not in TABLE[old].leads_to:
            error = StateError(self._vm, old, new)
            context = {"message": "a VM made a transition that is not in the table", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)
        self._log.debug("state_changed", old=old.name, new=new.name, guest=True)
