"""What the control centre asks of a recorder: the seam between `control_center.cluster` and `control_center.recorder`.

The centre tells a `Recorder` of every batch of records, every event and every command as they happen, and asks it for
what was. Telling never waits: a recorder has a bounded queue of its own, counts what it had to leave out (`status`)
and says so in the recording. `host` is always the name that the centre has the daemon registered under.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, TypedDict

from virtio_proto.control.api import EventPush, LoadInfo, RecordsPush, SnapshotInfo
from virtio_proto.control.selector import Selector

ExportFormat: TypeAlias = Literal["perfetto", "csv"]


class RecordRow(TypedDict):
    """One record as clients see it: of ``GET /api/v1/records`` and the stream."""

    time_ns: int
    """CLOCK_REALTIME of its host."""
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
    """Of its channel up to the batch that it came in."""


class EventRow(TypedDict):
    """One event of a host as clients see it."""

    time_ns: int
    host: str
    event: str
    vm: str | None
    detail: dict[str, Any]


class CommandRow(TypedDict):
    """A command that somebody gave, and what came of it: `error` is None when it was done."""

    time_ns: int
    host: str
    user: str
    verb: str
    arguments: dict[str, Any]
    """Of the daemon's API; bytes as they are. Input that was sent is here, for feeding it to a later run."""
    error: str | None


class LoadRow(TypedDict):
    """How loaded a host was."""

    time_ns: int
    hosts: dict[str, LoadInfo]
    """That one."""


Row: TypeAlias = (
    tuple[Literal["record"], RecordRow] | tuple[Literal["event"], EventRow] | tuple[Literal["load"], LoadRow]
)
"""What a replay yields, in the order of time."""


class TimelineBin(TypedDict):
    """A piece of the time line and how much happened in it."""

    start_ns: int
    end_ns: int
    records: dict[str, int]
    """By function."""
    events: dict[str, int]
    """By event."""
    commands: int
    lost: int


class RecorderStatus(TypedDict):
    """``recorder`` in ``GET /api/v1/self``."""

    url: str
    """Without a password."""
    bytes: int
    first_ns: int | None
    last_ns: int | None
    records: int
    """In the store now."""
    left_out: int
    """Batches and events that the recorder had no room for since it was started."""


@dataclass(frozen=True, slots=True)
class Query:
    """Which part of the recording: what `selector` matches, from `from_ns` (inclusive) to `to_ns` (exclusive)."""

    selector: Selector = field(default_factory=Selector)
    from_ns: int | None = None
    to_ns: int | None = None
    vms: frozenset[str] | None = None
    """The only VMs that who asks may see, each ``vm`` (on any host) or ``host/vm``; None: all. With it there are no
    events and commands that are of no VM."""


class Recorder(Protocol):
    """A store of records, events and commands of all hosts."""

    async def start(self) -> None:
        """Opens the store.

        :raise OSError: it cannot be opened; the text says why.
        """

    async def close(self) -> None:
        """Writes what is still queued and closes the store."""

    def record_batch(self, push: RecordsPush, host: str) -> None:
        """Takes a batch. Its fields were checked, its records were not; `dictionary` holds what is new since the VM's last batch."""

    def record_event(self, push: EventPush, host: str) -> None: ...

    def record_command(self, command: CommandRow) -> None: ...

    def record_snapshot(self, info: SnapshotInfo, host: str, name: str) -> None:
        """`name` is the same for all hosts of one snapshot."""

    def record_load(self, info: LoadInfo, host: str) -> None: ...

    async def query(self, query: Query, limit: int) -> list[RecordRow]:
        """The last `limit` records of what `query` chooses, oldest first."""

    async def timeline(self, query: Query, bins: int) -> list[TimelineBin]:
        """`bins` pieces of equal length from `query.from_ns` to `query.to_ns`, by default all that is recorded."""

    def export(self, query: Query, form: ExportFormat) -> AsyncIterator[bytes]:
        """A Perfetto trace (JSON of the Trace Event Format) or CSV, in pieces."""

    def replay(self, query: Query) -> AsyncIterator[Row]:
        """Records, events and loads in the order of time, as fast as they are asked for: keeping time is the asker's."""

    def status(self) -> RecorderStatus: ...
