"""Events of the control system, one type for each: what `vhost_backend.control.event_bus.EventBus` delivers.

`vhost_backend.control.api.event_pushes` says which of them go to the API's clients, and in which form. Times are
CLOCK_REALTIME.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vhost_backend.control.event_bus import Event
from vhost_backend.control.links.channel_port import Loss
from vhost_backend.control.links.firmware import FirmwareFound, FirmwareReport
from vhost_backend.worker_protocol.marks import Mark
from virtio_proto.control.api import FaultInfo, MigrationInfo

# ---- VMs and their workers -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class VmConnected(Event):
    """A frontend has connected for the VM: it has a guest."""

    vm: str


@dataclass(frozen=True, slots=True)
class VmDisconnected(Event):
    """The VM's frontend has gone."""

    vm: str


@dataclass(frozen=True, slots=True)
class VmAdded(Event):
    """The host serves the VM from now on."""

    vm: str


@dataclass(frozen=True, slots=True)
class VmLeft(Event):
    """The VM has left the host, and all that belonged to it: a later one of this name is another VM."""

    vm: str


@dataclass(frozen=True, slots=True)
class WorkerReady(Event):
    """The VM has a worker, in which all of the VM's channels are bound."""

    vm: str
    generation: int
    pes: int
    """Number of its processing elements."""


@dataclass(frozen=True, slots=True)
class WorkerLost(Event):
    """The VM's worker is gone, and everything it left in its control area has been delivered; or a worker died before it
    was ready.
    """

    vm: str
    generation: int
    loss: Loss


@dataclass(frozen=True, slots=True)
class DeviceError(Event):
    """A GPU's driver has reported an Xid error."""

    gpu_uuid: str
    xid: int


@dataclass(frozen=True, slots=True)
class MigrationChanged(Event):
    """A migration or confinement of a VM has entered another state."""

    vm: str
    info: MigrationInfo


# ---- instances and their channels ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class InstanceOpened(Event):
    """An instance has been opened and its channels are bound."""

    instance: int
    function: str
    selector: str
    owner: str
    vm: str | None
    """The VM of the instance; None if it covers several, or none."""
    internal: bool
    """True if the control system itself opened it; clients do not see it."""


@dataclass(frozen=True, slots=True)
class InstanceClosed(Event):
    """An instance has been closed, and everything its channels held has been delivered. Fields as of `InstanceOpened`."""

    instance: int
    selector: str
    owner: str
    vm: str | None
    internal: bool
    expired: bool
    """True if its time to live ended."""


@dataclass(frozen=True, slots=True)
class InputSent(Event):
    """A client's standard input has been put into the channel of a processing element."""

    vm: str
    instance: int
    pe: int
    data: bytes
    eof: bool


@dataclass(frozen=True, slots=True)
class SamplingChanged(Event):
    """The governor has changed how many of its records a channel keeps: one of 2**sample."""

    vm: str
    channel: int
    pe: int
    function: str
    sample: int


# ---- reports of kernels --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FaultReported(Event):
    """A record of a processing element reports a fault. Guest code may have made it up."""

    gpu: str
    vm: str
    pe: int
    code: int
    """``enum vgc_ctl_fault``."""
    text: str
    time_ns: int


@dataclass(frozen=True, slots=True)
class ThresholdCrossed(Event):
    """A gauge has left the range that was set for it, or has come back."""

    vm: str
    pe: int
    name: str
    value: float
    threshold: float
    time_ns: int
    """Time stated by the record: guest code may have written any."""


@dataclass(frozen=True, slots=True)
class InputWanted(Event):
    """A kernel waits for standard input."""

    vm: str
    pe: int
    time_ns: int
    """Time stated by the record: guest code may have written any."""


# ---- marks of programs ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GuestMarked(Event):
    """Programs of a VM have marked ranges or instants. Guest code may have made up all of it, times included."""

    vm: str
    process: int
    """Its number in the guest."""
    name: str
    dropped: int
    """Marks that were left out before these, because they were too many."""
    marks: tuple[Mark, ...]


# ---- faults and policies -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FaultNoted(Event):
    """A fault has been entered into the fault book, or counted there; at most once a second for each entry."""

    vm: str
    info: FaultInfo


@dataclass(frozen=True, slots=True)
class FaultCleared(Event):
    """A client has cleared an entry of the fault book."""

    vm: str
    fault: int
    by: str


@dataclass(frozen=True, slots=True)
class PolicyActed(Event):
    """A policy's action on a VM has ended, or was left out."""

    vm: str
    policy: str
    action: str
    fault: int
    result: str


# ---- firmware ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FirmwareReported(Event):
    """A processing element has reported the state of one of its firmware slots."""

    vm: str
    report: FirmwareReport


@dataclass(frozen=True, slots=True)
class FirmwareTold(Event):
    """A worker that was taken over has told of its firmware."""

    vm: str
    found: FirmwareFound


@dataclass(frozen=True, slots=True)
class FirmwareChanged(Event):
    """Firmware was staged, activated or rolled back, or a problem with it was found; `vm` None: on several VMs."""

    vm: str | None
    detail: Mapping[str, Any]
    """Fields of the API's push."""
