"""Interface between the control centre and a recorder.

The centre gives a `Recorder` every batch of records, every event and every command as they happen, and queries it.
The methods `record_...` never wait: a recorder has a bounded queue, counts what it had to leave out (`status`) and notes
the gap in the recording. `host` is always the name under which the daemon is registered with the centre.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, Protocol, TypeAlias, TypedDict

from virtio_proto.control.api import EventPush, LoadInfo, RecordAccount, RecorderStatus, RecordsPush, SnapshotInfo
from virtio_proto.control.selector import Selector

ExportFormat: TypeAlias = Literal["perfetto", "csv"]


class RecordRow(TypedDict):
    """Record as clients see it in ``GET /api/v1/records`` and in the stream."""

    time_ns: int
    """Host's CLOCK_REALTIME."""
    host: str
    gpu: str
    vm: str
    pe: int
    fn: str
    level: int
    kind: str
    text: str
    block: int
    warp: int
    sequence: int
    lost: int
    """Number of records that the channel had lost up to this record's batch."""
    taken: NotRequired[int]
    """Live records of the kind ``took`` only: bytes of input that the kernel took."""


class EventRow(TypedDict):
    """Event of a host as clients see it."""

    time_ns: int
    host: str
    event: str
    vm: str | None
    detail: dict[str, Any]


class CommandRow(TypedDict):
    """Command of a user, and its result: `error` is None if the command succeeded."""

    time_ns: int
    host: str
    user: str
    verb: str
    arguments: dict[str, Any]
    """Arguments of the daemon's API, with bytes unchanged; includes input that was sent, to be fed to a later run."""
    error: str | None


class LoadRow(TypedDict):
    """Load of a host."""

    time_ns: int
    hosts: dict[str, LoadInfo]
    """Load by host; the row has one host."""


Row: TypeAlias = (
    tuple[Literal["record"], RecordRow] | tuple[Literal["event"], EventRow] | tuple[Literal["load"], LoadRow]
)
"""Row of a replay, with its kind."""


class TimelineBin(TypedDict):
    """Piece of the time line, with the numbers of records, events and commands in it."""

    start_ns: int
    end_ns: int
    records: dict[str, int]
    """Records by function."""
    events: dict[str, int]
    """Events by name."""
    commands: int
    lost: int


@dataclass(frozen=True, slots=True)
class Query:
    """Part of a recording: what `selector` matches, from `from_ns` (inclusive) to `to_ns` (exclusive)."""

    selector: Selector = field(default_factory=Selector)
    from_ns: int | None = None
    to_ns: int | None = None
    vms: frozenset[str] | None = None
    """VMs that the caller may see, each ``vm`` (on any host) or ``host/vm``; None: all. If given, events and commands
    without a VM are left out."""


class Recorder(Protocol):
    """Store of records, events and commands of all hosts."""

    async def start(self) -> None:
        """Opens the store.

        :raise OSError: the store cannot be opened; the text says why.
        """

    async def close(self) -> None:
        """Writes what is still queued and closes the store."""

    def record_batch(self, push: RecordsPush, host: str) -> None:
        """Records a batch. Its fields were checked, its records were not; its `dictionary` holds the texts that are new
        since the VM's last batch.
        """

    def record_event(self, push: EventPush, host: str) -> None: ...

    def record_command(self, command: CommandRow) -> None: ...

    def record_snapshot(self, info: SnapshotInfo, host: str, name: str) -> None:
        """Records a snapshot of one host; `name` is equal for all hosts of one snapshot."""

    def record_load(self, info: LoadInfo, host: str) -> None: ...

    async def query(self, query: Query, limit: int) -> list[RecordRow]:
        """Last `limit` records that `query` chooses, oldest first."""

    async def timeline(self, query: Query, bins: int) -> list[TimelineBin]:
        """Counts in `bins` pieces of equal length from `query.from_ns` to `query.to_ns`, by default the whole recording."""

    def export(self, query: Query, form: ExportFormat) -> AsyncIterator[bytes]:
        """Writes a Perfetto trace (JSON of the Trace Event Format) or CSV, in pieces."""

    def replay(self, query: Query) -> AsyncIterator[Row]:
        """Yields records, events and loads in the order of time, without waiting between them."""

    def accounts(self) -> list[RecordAccount]:
        """Accounts of all VMs' records since the recorder's start, by host and VM."""

    def status(self) -> RecorderStatus: ...
