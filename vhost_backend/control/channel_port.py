"""The seam between the control system interface and the user-mode driver of one VM: commands down, packets up.

The interface decides which channels there are, with which numbers and generations (`Binding`) and on which terms
(`Terms`); the driver, in the VM's worker, makes room in the control area and binds them while kernels run.
`vhost_backend.control.worker_channels` implements this over a worker's link, `tests.fakes.control_vm` for unit tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vhost_backend.control.firmware.elements import FirmwareReport
from virtio_proto.control.records import Function


class ChannelError(Exception):
    """The worker could not do what it was told; the text is its own."""


class WorkerGoneError(ChannelError):
    """There is no worker, or it was lost before it answered: `Listener.on_ready` says when the next one is there."""


class AgainError(ChannelError):
    """It cannot be done now; nothing has changed, and it may be tried again."""


@dataclass(frozen=True, slots=True)
class Binding:
    """One device channel: its number, unique in the VM; its generation, never used before; its element."""

    channel: int
    generation: int
    pe: int


@dataclass(frozen=True, slots=True)
class Terms:
    """How a device channel works. `policy` is a name of `virtio_proto.control.api.OpenRequest`."""

    level: int
    policy: str
    sample: int = 0
    slots: int = 256
    in_bytes: int = 0
    """Room for standard input; a power of two, or 0 for none."""
    wait_ns: int = 0
    period_ms: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Records of one channel, and the channel's counts so far."""

    channel: int
    generation: int
    records: int
    lost: int
    skipped: int
    forged: int
    cost_ns: int
    clock_ns: int
    """To add to a record's time to have CLOCK_REALTIME."""
    data: bytes


@dataclass(frozen=True, slots=True)
class ElementFigures:
    """What has been counted on one element since its worker began; counters and gauges by name."""

    pe: int
    blocks: int = 0
    warps: int = 0
    launches: int = 0
    busy_ns: int = 0
    stall_ns: int = 0
    faults: int = 0
    counters: Mapping[str, int] = field(default_factory=dict)
    gauges: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ElementState:
    """What one element was doing when it was looked at; times are CLOCK_REALTIME, 0: never."""

    pe: int
    kernel: str | None
    launch: int
    block: int
    warps: int
    since_ns: int
    last_record_ns: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class Loss:
    """Why a worker is gone. `fault` is the kind of fault that it died of (`virtio_proto.control.api.FaultInfo`), if any."""

    reason: str
    fault: str | None = None
    died: bool = True
    """Of itself; False: it was replaced, or its work has moved, or its guest has gone."""


class Listener(Protocol):
    """Whom a VM's channels report to. Called from the loop; must not block or raise."""

    def on_ready(self, num_pes: int) -> None:
        """A worker is ready, and no channel is bound in it."""
        ...

    def on_lost(self, loss: Loss) -> None:
        """It is gone; what was left in its area has been passed on before."""
        ...

    def on_batch(self, batch: Batch) -> None: ...

    def on_texts(self, texts: Mapping[int, str]) -> None:
        """Formats and names that later batches of this worker refer to, by device address."""
        ...

    def on_figures(self, time_ns: int, figures: Sequence[ElementFigures]) -> None: ...

    def on_samples(self, samples: Mapping[int, int]) -> None:
        """Sampling that is in force now, by channel: the governor has changed it."""
        ...

    def on_firmware(self, report: FirmwareReport) -> None: ...


class VmChannels(Protocol):
    """The channels of one VM. Each call returns when the worker has done it.

    :raise WorkerGoneError: there is none, or it was lost meanwhile.
    :raise ChannelError: the worker refused.
    """

    def listen(self, listener: Listener) -> None:
        """Reports to `listener` from now on."""
        ...

    @property
    def ready(self) -> bool:
        """Whether there is a worker that can be told anything."""
        ...

    @property
    def num_pes(self) -> int:
        """Elements of the worker that is ready; 0 if none is."""
        ...

    async def open(self, function: Function, terms: Terms, bindings: Sequence[Binding]) -> None:
        """Binds channels; on failure none of `bindings` is bound."""
        ...

    async def close(self, channels: Sequence[int]) -> None:
        """Releases channels; what was in them has been passed on when this returns."""
        ...

    async def set(self, channels: Sequence[int], level: int, sample: int) -> None: ...

    async def send(self, channel: int, data: bytes, *, eof: bool) -> None:
        """Puts standard input into a channel's in link."""
        ...

    async def threshold(self, pes: Sequence[int], name: str, low: float, high: float) -> None: ...

    async def snapshot(self, deadline_ms: int) -> Sequence[ElementState]:
        """What elements are doing; those that did not answer in time are left out."""
        ...

    async def confine(self, pes: Sequence[int]) -> None:
        """Lets only these elements take blocks; none: all of them do."""
        ...

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        """Loads an image into a slot; `image_fd`, a sealed memfd, stays the caller's."""
        ...

    async def activate_firmware(self, slot: int, pes: Sequence[int]) -> None:
        """Has elements change to a slot at their next poll point; `Listener.on_firmware` says how that went."""
        ...
