"""Port between the control system and the channels of one VM: commands down to the worker, packets up from it.

The control system decides which channels exist, with which numbers and generations (`Binding`) and on which terms
(`Terms`); the driver, in the VM's worker, makes room in the control area and binds them while kernels run.
`vhost_backend.control.links.worker_channels` implements the port over a worker's link, `tests.fakes.control_vm` for unit
tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from vhost_backend._dataplane import lib
from vhost_backend.control.links.firmware import FirmwareFound, FirmwareReport
from vhost_backend.worker_protocol.control_messages import Terms

DRIFT_DIVISOR: Final = int(lib.VGC_CLOCK_DRIFT)
"""Largest drift between a device's clock and the host's: one part in this number."""

MAX_COUNT: Final = 1 << 62
"""Largest plausible count of one element: a larger one was made up by guest code or by a worker. With this bound all sums
fit the API's numbers, so that one VM's counts cannot make answers about other VMs fail."""


class ChannelError(Exception):
    """The worker could not do a command; the text is the worker's."""


class WorkerGoneError(ChannelError):
    """No worker is running, or it was lost before it answered; `Listener.on_ready` is called for the next one."""


class AgainError(ChannelError):
    """The worker cannot do the command now; nothing has changed, and the command may be tried again."""


@dataclass(frozen=True, slots=True)
class Binding:
    """Device channel: its number, unique in the VM; its generation, never used before; its element."""

    channel: int
    generation: int
    pe: int


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
    """Offset from a record's time to CLOCK_REALTIME."""
    data: bytes


@dataclass(frozen=True, slots=True)
class ElementFigures:
    """Counts of one element since its worker began; counters and gauges by name."""

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
    """State of one element in a snapshot; times are CLOCK_REALTIME, 0: never."""

    pe: int
    kernel: str | None
    launch: int
    block: int
    warps: int
    since_ns: int
    last_record_ns: int
    at_ns: int


@dataclass(frozen=True, slots=True)
class DeviceClock:
    """Error of a device's clock, which stamps records."""

    error_ns: int | None
    """Largest error of times when the clock was last read; None: unknown."""
    read_ns: int
    """Time of that reading, CLOCK_MONOTONIC; 0: the device has the host's clock."""

    def error_at(self, now_ns: int) -> int | None:
        """Largest error of times now, as the two clocks drift apart."""
        if self.error_ns is None or self.read_ns == 0:
            return self.error_ns
        return self.error_ns + max(0, now_ns - self.read_ns) // DRIFT_DIVISOR


@dataclass(frozen=True, slots=True)
class Loss:
    """End of a worker."""

    reason: str
    """Cause in words: the worker's own last words, or how its process ended."""
    fault: str | None = None
    """Kind of the fault that it died of (`virtio_proto.control.api.FAULT_KINDS`); None: it left no known cause."""
    died: bool = True
    """True if the worker died by itself; False if it was replaced, its work has migrated, or its guest has gone."""


class Listener(Protocol):
    """The one receiver of a VM's channels, registered with `VmChannels.listen` while it is constructed.

    Called from the event loop; must not block or raise. Direct calls, and not events of the bus: batches are the hot path,
    and each call must come before the next packet of the same worker is read.
    """

    def on_ready(self, num_pes: int) -> None:
        """A worker is ready, with no channel bound in it yet."""
        ...

    def on_lost(self, loss: Loss) -> None:
        """The worker is gone; everything left in its control area has been delivered before."""
        ...

    def on_batch(self, batch: Batch) -> None: ...

    def on_texts(self, texts: Mapping[int, str]) -> None:
        """Formats and names that later batches of this worker refer to, by device address."""
        ...

    def on_figures(self, time_ns: int, figures: Sequence[ElementFigures]) -> None: ...

    def on_samples(self, samples: Mapping[int, int]) -> None:
        """The governor has changed the sampling of channels; `samples` has the new values, by channel."""
        ...

    def on_firmware(self, report: FirmwareReport) -> None: ...

    def on_firmware_found(self, found: FirmwareFound) -> None:
        """A worker that was taken over tells of its firmware."""
        ...

    def on_device(self, clock: DeviceClock, num_pes: int) -> None:
        """The device has described itself. Its elements' numbers are below `num_pes`; 0: unknown."""
        ...


class VmChannels(Protocol):
    """Channels of one VM. Each command returns when the worker has done it.

    :raise WorkerGoneError: no worker is running, or it was lost meanwhile.
    :raise ChannelError: the worker refused.
    """

    def listen(self, listener: Listener) -> None:
        """Registers the receiver of all reports, before the VM's first worker."""
        ...

    @property
    def ready(self) -> bool:
        """True if a worker is running that takes commands."""
        ...

    @property
    def num_pes(self) -> int:
        """Number of elements of the running worker; 0 without a worker."""
        ...

    async def open(self, terms: Terms, bindings: Sequence[Binding]) -> None:
        """Binds channels; on failure none of `bindings` is bound."""
        ...

    async def close(self, channels: Sequence[int]) -> None:
        """Releases channels; everything in them has been delivered when this returns."""
        ...

    async def set(self, channels: Sequence[int], level: int, sample: int) -> None: ...

    async def send(self, channel: int, data: bytes, *, eof: bool) -> None:
        """Puts standard input into a channel's in link."""
        ...

    async def threshold(self, pes: Sequence[int], name: str, low: float, high: float) -> None: ...

    async def snapshot(self, deadline_ms: int) -> Sequence[ElementState]:
        """States of the elements; elements that did not answer in time are left out."""
        ...

    async def confine(self, pes: Sequence[int]) -> None:
        """Lets only these elements take blocks; an empty `pes` lets all elements take blocks."""
        ...

    async def stage_firmware(self, slot: int, version: int, image_fd: int) -> None:
        """Loads an image into a slot. The caller keeps `image_fd`, a sealed memfd."""
        ...

    async def activate_firmware(self, slot: int, pes: Sequence[int]) -> None:
        """Has elements change to a slot at their next poll point; each reports the outcome to `Listener.on_firmware`."""
        ...
