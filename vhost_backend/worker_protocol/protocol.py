"""Messages between the daemon and a worker.

They are connected by one ``AF_UNIX``/``SOCK_SEQPACKET`` socket pair. A message is one packet: a UTF-8 JSON
object ``{"type": ..., ...}`` of at most `codec.MAX_PACKET_BYTES`, with file descriptors beside it (``SCM_RIGHTS``).
Both directions are declared here as frozen dataclasses, and a packet is parsed once, strictly: unknown or
missing keys, wrong types, values out of range and a wrong number of descriptors are all `codec.ProtocolError`.
A worker may contain guest code, so the daemon treats any error of receiving as the worker's fault.

Sequence::

    daemon                          worker
    setup            ->                       fds: in-flight memory; with a control system, its area and record socket
                     <-             call_listener   in permissive mode only; fds: the system call filter's listener
                     <-             ready     (or ack ok=false, and the worker exits)
    mem_table        ->                       fds: one per region
                     <-             ack       region_device_address
    vring_start      ->                       fds: kick, call, err, each only if has_* is true
                     <-             ack
    control_*        ->                       see `vhost_backend.worker_protocol.control_messages`
                     <-             ack
    migration_*      ->                       see `vhost_backend.worker_protocol.migration_messages`
                     <-             ack
    vring_call, vring_kick, vring_enable ->   swaps and switches of a running ring
                     <-             ack
    vring_stop       ->
                     <-             ack       base
                     <-             compile   fds: file with the source, which the daemon may read until `program`
    program          ->                       fds: sealed memfd with the image, if ok
                     <-             vring_broken, stats, log   at any time
    shutdown         ->                       (the worker exits; end of file says so)

Every message of the daemon carries a `seq` that the daemon chooses and the worker's `Ack` echoes. `Setup` is
answered by `Ready`, or by a failed `Ack`; `Program` and `Shutdown` are not answered.
"""

# ruff: noqa: RUF009  the codec's functions are dataclasses.field with a parser
from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Literal, TypeAlias, cast

from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.codec import (
    ProtocolError,
    Scalar,
    flag,
    integer,
    part,
    part_parser,
    scalars,
    text,
    text_parser,
    tuple_of,
    unsigned,
)
from vhost_backend.worker_protocol.control_messages import CONTROL_MESSAGES, NO_CONTROL, ControlMessage, ControlSetup
from vhost_backend.worker_protocol.migration_messages import (
    MIGRATION_MESSAGES,
    NO_ARENA,
    ArenaSetup,
    Measured,
    MigrationMessage,
    Saved,
)

MAX_PES: Final = 4096
"""Most elements of a worker. The daemon makes tables for as many as a worker claims to have, so it must be bounded."""

NUM_SOURCES: Final = 4
"""Number of a worker's source files, and so of a VM's programs that compile at a time."""

MAX_REGIONS: Final = 32
MAX_QUEUES: Final = 64
MAX_OPTIONS: Final = 256
MAX_OPTION_CHARS: Final = 4096
MAX_LOG_CHARS: Final = 10_000
"""Longest compiler log in a `Program`, such that it fits into a packet: JSON may need six bytes per character."""
MAX_FDS: Final = MAX_REGIONS + 4
"""Most descriptors of one of the daemon's messages."""
MAX_FDS_OF_WORKER: Final = 1
"""Most descriptors of one of a worker's messages (`CallListener`)."""

SandboxMode: TypeAlias = Literal["strict", "best-effort", "permissive", "off"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


# --------------------------------------------------------------------------------------------------
# Parts of messages
# --------------------------------------------------------------------------------------------------


def _parse_option(path: str, value: object) -> str:
    """Parses an argument of a compiler: a string without NUL, which no argument can hold."""
    option = cast("str", text_parser(MAX_OPTION_CHARS)(path, value))
    if "\0" in option:
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: a string without NUL")
    return option


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Engine that the worker opens, with the engine's own options from the VM's configuration."""

    kind: str = text(32)
    options: Mapping[str, Scalar] = scalars()


@dataclass(frozen=True, slots=True)
class Quota:
    """Limits on what the VM may use at once."""

    pes: int = integer(1 << 16, minimum=1)
    memory_bytes: int = unsigned(62)
    queue_depth: int = integer(64 * 256, minimum=1)


@dataclass(frozen=True, slots=True)
class MemRegion:
    """Piece of guest memory: `size` bytes from `offset` in the file whose fd goes with the message."""

    gpa: int = unsigned(64)
    uva: int = unsigned(64)
    size: int = integer((1 << 62) - 1, minimum=1)
    offset: int = unsigned(62)


# --------------------------------------------------------------------------------------------------
# Daemon to worker
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setup:
    """First message: the VM's identity, its engine, quota, limits and sandbox mode.

    fds: the in-flight memory (see `vhost_backend.daemon.inflight`); `NUM_SOURCES` files that carry source code to the
    daemon, because a worker cannot send descriptors; with a control system also its area, a sealed memfd, and the
    worker's end of the record socket (`SOCK_SEQPACKET`, see `vhost_backend.channels.packets`).
    """

    TYPE: ClassVar[str] = "setup"
    seq: int = unsigned(32)
    vm: str = text(64)
    engine: EngineSetup = part(EngineSetup)
    num_queues: int = integer(MAX_QUEUES, minimum=1)
    quota: Quota = part(Quota)
    deadline_ns: int = integer((1 << 62) - 1, minimum=1)
    max_contexts: int = integer(256, minimum=1)
    max_streams: int = integer(64, minimum=1)
    generation: int = unsigned(32)
    sandbox: SandboxMode = text(16, ("strict", "best-effort", "permissive", "off"))
    control: ControlSetup = part(ControlSetup, default=NO_CONTROL)
    arena: ArenaSetup = part(ArenaSetup, default=NO_ARENA)

    def num_fds(self) -> int:
        return 1 + NUM_SOURCES + (2 if self.control.area_bytes else 0)


@dataclass(frozen=True, slots=True)
class MemTable:
    """Replaces the whole memory table. Running rings pause, are translated anew, and continue."""

    TYPE: ClassVar[str] = "mem_table"
    seq: int = unsigned(32)
    regions: tuple[MemRegion, ...] = tuple_of(part_parser(MemRegion), MAX_REGIONS)
    region_address: int = unsigned(64, default=0)  # device address of the largest region; 0: anywhere

    def num_fds(self) -> int:
        return len(self.regions)


@dataclass(frozen=True, slots=True)
class VringStart:
    """Starts a ring at avail index `base`. With `recover`, first completes requests that the in-flight memory names."""

    TYPE: ClassVar[str] = "vring_start"
    seq: int = unsigned(32)
    index: int = integer(MAX_QUEUES - 1)
    size: int = integer(1 << 15)
    base: int = unsigned(16)
    desc_uva: int = unsigned(64)
    avail_uva: int = unsigned(64)
    used_uva: int = unsigned(64)
    event_idx: bool = flag()
    indirect: bool = flag()
    enabled: bool = flag()
    recover: bool = flag()
    has_kick: bool = flag()
    has_call: bool = flag()
    has_err: bool = flag()

    def num_fds(self) -> int:
        return self.has_kick + self.has_call + self.has_err


@dataclass(frozen=True, slots=True)
class VringCall:
    """Replaces the call eventfd of a running ring; without fd, the driver wants no calls."""

    TYPE: ClassVar[str] = "vring_call"
    seq: int = unsigned(32)
    index: int = integer(MAX_QUEUES - 1)
    has_fd: bool = flag()

    def num_fds(self) -> int:
        return int(self.has_fd)


@dataclass(frozen=True, slots=True)
class VringKick:
    """Replaces the kick eventfd of a running ring; without fd, the ring is polled."""

    TYPE: ClassVar[str] = "vring_kick"
    seq: int = unsigned(32)
    index: int = integer(MAX_QUEUES - 1)
    has_fd: bool = flag()

    def num_fds(self) -> int:
        return int(self.has_fd)


@dataclass(frozen=True, slots=True)
class VringEnable:
    """Enables or disables serving of a started ring."""

    TYPE: ClassVar[str] = "vring_enable"
    seq: int = unsigned(32)
    index: int = integer(MAX_QUEUES - 1)
    enabled: bool = flag()

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class VringStop:
    """Stops a ring; the ack's `base` is the avail index to restart it at. Requests in flight stay with the worker."""

    TYPE: ClassVar[str] = "vring_stop"
    seq: int = unsigned(32)
    index: int = integer(MAX_QUEUES - 1)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Program:
    """Answer to `Compile` number `request`. `log` is the compiler's log, cut to `MAX_LOG_CHARS`."""

    TYPE: ClassVar[str] = "program"
    seq: int = unsigned(32)
    request: int = unsigned(32)
    ok: bool = flag()
    log: str = text(MAX_LOG_CHARS)
    log_bytes: int = unsigned(32)  # of the whole log, as UTF-8
    from_cache: bool = flag()

    def num_fds(self) -> int:
        return int(self.ok)


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for an ack, which the worker sends when its data plane's loop has gone round."""

    TYPE: ClassVar[str] = "ping"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Ends the worker."""

    TYPE: ClassVar[str] = "shutdown"
    seq: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


# --------------------------------------------------------------------------------------------------
# Worker to daemon
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CallListener:
    """Asks the daemon to answer the worker's filtered system calls (``sandbox: permissive``). One fd: the listener."""

    TYPE: ClassVar[str] = "call_listener"

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class Ready:
    """Answer to `Setup`: the engine is open, the sandbox entered. `sandbox` lists the walls in force, for the log."""

    TYPE: ClassVar[str] = "ready"
    engine_name: str = text(63)
    num_pes: int = integer(MAX_PES)
    features: int = unsigned(64)  # virtio_proto DeviceFeature bits
    sandbox: str = text(1024)
    control_pes: int = integer(MAX_PES, default=0)  # number of elements in the control system; 0: num_pes
    control_rows: int = integer(MAX_PES, default=0)  # rows of the control area, at least control_pes

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Ack:
    """Answer to the daemon's message `seq`: executed, or failed with `error`."""

    TYPE: ClassVar[str] = "ack"
    seq: int = unsigned(32)
    ok: bool = flag()
    error: str = text(2048)
    base: int = unsigned(16)  # of a stopped ring
    region_device_address: int = unsigned(64)  # of a new memory table; 0: kernels do not see the region
    again: bool = flag(default=False)  # of a failed message: sent again later, it may succeed

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Compile:
    """Asks for a compilation of the program in source file number `source`, which the daemon copies.

    The worker chooses `request`, and leaves the file alone until the answer has come.
    """

    TYPE: ClassVar[str] = "compile"
    request: int = unsigned(32)
    context: int = unsigned(32)
    program_kind: int = unsigned(32)
    options: tuple[str, ...] = tuple_of(_parse_option, MAX_OPTIONS)
    source: int = integer(NUM_SOURCES - 1)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class VringBroken:
    """Reports a ring that can no longer be trusted and is not served any more; its err eventfd was signalled."""

    TYPE: ClassVar[str] = "vring_broken"
    index: int = integer(MAX_QUEUES - 1)
    reason: str = text(1024)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Stats:
    """Resources that the VM holds and counts of its requests; sent at most once a second, and only when changed."""

    TYPE: ClassVar[str] = "stats"
    memory_used_bytes: int = unsigned(64)
    requests_done: int = unsigned(64)
    requests_failed: int = unsigned(64)
    busy_ns: int = unsigned(64)
    num_contexts: int = unsigned(32)
    num_programs: int = unsigned(32)
    num_allocations: int = unsigned(32)
    in_flight: int = unsigned(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Log:
    """Event for the daemon's log."""

    TYPE: ClassVar[str] = "log"
    level: LogLevel = text(16, ("debug", "info", "warning", "error"))
    event: str = text(128)
    fields: Mapping[str, Scalar] = scalars()

    def num_fds(self) -> int:
        return 0


DaemonMessage: TypeAlias = (
    Setup
    | MemTable
    | VringStart
    | VringCall
    | VringKick
    | VringEnable
    | VringStop
    | Program
    | Ping
    | Shutdown
    | ControlMessage
    | MigrationMessage
)
WorkerMessage: TypeAlias = CallListener | Ready | Ack | Compile | VringBroken | Stats | Log | Measured | Saved
Message: TypeAlias = DaemonMessage | WorkerMessage

DAEMON_MESSAGES: Final[tuple[type[DaemonMessage], ...]] = (
    Setup,
    MemTable,
    VringStart,
    VringCall,
    VringKick,
    VringEnable,
    VringStop,
    Program,
    Ping,
    Shutdown,
    *CONTROL_MESSAGES,
    *MIGRATION_MESSAGES,
)
WORKER_MESSAGES: Final[tuple[type[WorkerMessage], ...]] = (
    CallListener,
    Ready,
    Ack,
    Compile,
    VringBroken,
    Stats,
    Log,
    Measured,
    Saved,
)


# --------------------------------------------------------------------------------------------------
# Sending and receiving
# --------------------------------------------------------------------------------------------------


def send_to_worker(sock: socket.socket, message: DaemonMessage, fds: tuple[int, ...] = ()) -> None:
    """Sends a message of the daemon, as `codec.send`."""
    codec.send(sock, message, fds)


def send_to_daemon(sock: socket.socket, message: WorkerMessage, fds: tuple[int, ...] = ()) -> None:
    """Sends a message of a worker, as `codec.send`; tries again while the host has no memory for it."""
    while True:
        try:
            codec.send(sock, message, fds)
            return
        except OSError as error:
            if error.errno not in codec.FOR_A_MOMENT:
                raise
        time.sleep(codec.RETRY_S)


def receive_from_worker(sock: socket.socket) -> tuple[WorkerMessage, tuple[int, ...]] | None:
    """Receives a message of a worker, as `codec.receive`."""
    return codec.receive(sock, WORKER_MESSAGES, MAX_FDS_OF_WORKER)


def receive_from_daemon(sock: socket.socket) -> tuple[DaemonMessage, tuple[int, ...]] | None:
    """Receives a message of the daemon, as `codec.receive`."""
    return codec.receive(sock, DAEMON_MESSAGES, MAX_FDS)
