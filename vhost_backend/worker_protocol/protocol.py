"""Messages between the daemon and a worker.

They are connected by one ``AF_UNIX``/``SOCK_SEQPACKET`` socket pair. A message is one packet: the name of its type and its
fields in MessagePack, at most `Message.MAX_BYTES` of its type, with file descriptors beside it (``SCM_RIGHTS``).
Both directions are declared here as frozen structs, and a packet is decoded once, strictly: unknown or
missing fields, wrong types, values out of range and a wrong number of descriptors are all `codec.ProtocolError`.
A worker may contain guest code, so the daemon treats any error of receiving as the worker's fault.

Sequence::

    daemon                          worker
    setup            ->                       fds: in-flight memory; with a control system, its area and record socket;
                                              with a gate, its pages and bell
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
    look_at_functions ->
                     <-             functions
                     <-             ack
    limits           ->
                     <-             stats     resources that the VM holds under the new limits, unless it was refused
                     <-             ack
    vring_stop       ->
                     <-             ack       base
    resume           ->                       by a daemon that has taken over
                     <-             resumed
                     <-             compile, host_program, register   again, those that have no answer yet
                     <-             ack
                     <-             compile   of a source file, which the daemon may read until `program`
                     <-             host_program   of a source that the daemon has
    program          ->                       fds: sealed memfd with the image, if ok
                     <-             vring_broken, stats, log, marks, code_names   at any time
    shutdown         ->                       (the worker exits; end of file says so)

Every message of the daemon carries a `seq` that the daemon chooses and the worker's `Ack` echoes. `Setup` is
answered by `Ready`, or by a failed `Ack`; `Program` and `Shutdown` are not answered.
"""

from __future__ import annotations

import socket
import time
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

from msgspec import Meta

from vhost_backend.worker_protocol import codec, gate_pages
from vhost_backend.worker_protocol.codec import U16, U32, U62, U64, Message, Part, Positive, Scalars
from vhost_backend.worker_protocol.control_messages import CONTROL_MESSAGES, NO_CONTROL, ControlMessage, ControlSetup
from vhost_backend.worker_protocol.marks import Marks
from vhost_backend.worker_protocol.migration_messages import (
    MIGRATION_MESSAGES,
    NO_ARENA,
    ArenaSetup,
    Measured,
    MigrationMessage,
    Saved,
)
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES, Options, SourceNumber
from vhost_backend.worker_protocol.registration_messages import (
    REGISTRATION_MESSAGES,
    Register,
    RegistrationMessage,
    Unregister,
)
from virtio_proto.control.latency import NUM_CLASSES
from virtio_proto.schema import Status

MAX_PES: Final = 4096
"""Most elements of a worker. The daemon makes tables for as many as a worker claims to have, so it must be bounded."""

MAX_REGIONS: Final = 32
MAX_QUEUES: Final = 64
MAX_LOG_CHARS: Final = 10_000
"""Longest compiler log in a `Program`, such that it fits into a packet: UTF-8 may need four bytes per character."""
MAX_LOG_BYTES: Final = 8 << 10
"""Longest packet of a worker's `Log`, so that it cannot flood the host's."""
MAX_CODE_RANGES: Final = 512
"""Most functions of a program whose code is named."""
MAX_CODE_NAME: Final = 100
"""Longest name of a function, such that all of a program fit into a packet."""
NUM_STATUSES: Final = max(Status) + 1
MAX_FUNCTIONS: Final = 48
"""Most functions that a worker tells the work of, graphs and all others included, such that they fit into a packet."""
MAX_FUNCTION_NAME: Final = 96
MAX_FDS: Final = MAX_REGIONS + 4
"""Most descriptors of one of the daemon's messages."""
MAX_FDS_OF_WORKER: Final = 1
"""Most descriptors of one of a worker's messages (`CallListener`)."""

SandboxMode: TypeAlias = Literal["strict", "best-effort", "permissive", "off"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


# --------------------------------------------------------------------------------------------------
# Parts of messages
# --------------------------------------------------------------------------------------------------


class EngineSetup(Part, frozen=True):
    """Engine that the worker opens, with the engine's own options from the VM's configuration."""

    kind: Annotated[str, Meta(max_length=32)]
    options: Scalars


class CodeRange(Part, frozen=True):
    """Code of a function in the worker's address space."""

    address: U64
    size: Positive
    name: Annotated[str, Meta(max_length=MAX_CODE_NAME, pattern=r"\A[ -~]+\Z")]


class FunctionFigures(Part, frozen=True):
    """Launches of one function, of graphs, or of all functions without a place."""

    name: Annotated[str, Meta(max_length=MAX_FUNCTION_NAME, pattern=r"\A[ -~]+\Z")]
    launches: U64
    busy_ns: U64
    times: Annotated[tuple[U64, ...], Meta(max_length=NUM_CLASSES)]
    """Launches that the engine has timed, by latency class; classes after the last one that is not 0 are left out."""


class Quota(Part, frozen=True):
    """Limits on what the VM may use at once."""

    pes: Annotated[int, Meta(ge=1, le=1 << 16)]
    memory_bytes: U62
    queue_depth: Annotated[int, Meta(ge=1, le=64 * 256)]


class MemRegion(Part, frozen=True):
    """Piece of guest memory: `size` bytes from `offset` in the file whose fd goes with the message."""

    gpa: U64
    uva: U64
    size: Positive
    offset: U62


# --------------------------------------------------------------------------------------------------
# Daemon to worker
# --------------------------------------------------------------------------------------------------


class Setup(Message, frozen=True):
    """First message: the VM's identity, its engine, quota, limits and sandbox mode.

    fds: the in-flight memory (see `vhost_backend.daemon.inflight`); `NUM_SOURCES` files that carry source code to the
    daemon, because a worker cannot send descriptors; with a control system also its area, a sealed memfd, and the
    worker's end of the record socket (`SOCK_SEQPACKET`, see `vhost_backend.channels.packets`); and with a gate that of
    `vhost_backend.worker_protocol.gate_pages`.
    """

    TYPE: ClassVar[str] = "setup"
    seq: U32
    vm: Annotated[str, Meta(max_length=64)]
    engine: EngineSetup
    num_queues: Annotated[int, Meta(ge=1, le=MAX_QUEUES)]
    quota: Quota
    deadline_ns: Positive
    max_contexts: Annotated[int, Meta(ge=1, le=256)]
    max_streams: Annotated[int, Meta(ge=1, le=64)]
    generation: U32
    sandbox: SandboxMode
    control: ControlSetup = NO_CONTROL
    arena: ArenaSetup = NO_ARENA
    allotment: U32 = 0  # number of the limits, which responses to the guest bear; 0: none
    gate: bool = False  # launches take turns with other VMs of the GPU

    def num_fds(self) -> int:
        return 1 + NUM_SOURCES + (2 if self.control.area_bytes else 0) + (gate_pages.NUM_FDS if self.gate else 0)


class MemTable(Message, frozen=True):
    """Replaces the whole memory table. Running rings pause, are translated anew, and continue."""

    TYPE: ClassVar[str] = "mem_table"
    seq: U32
    regions: Annotated[tuple[MemRegion, ...], Meta(max_length=MAX_REGIONS)]
    region_address: U64 = 0  # device address of the largest region; 0: anywhere

    def num_fds(self) -> int:
        return len(self.regions)


class VringStart(Message, frozen=True):
    """Starts a ring at avail index `base`. With `recover`, first completes requests that the in-flight memory names."""

    TYPE: ClassVar[str] = "vring_start"
    seq: U32
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]
    size: Annotated[int, Meta(ge=0, le=1 << 15)]
    base: U16
    desc_uva: U64
    avail_uva: U64
    used_uva: U64
    event_idx: bool
    indirect: bool
    enabled: bool
    recover: bool
    has_kick: bool
    has_call: bool
    has_err: bool

    def num_fds(self) -> int:
        return self.has_kick + self.has_call + self.has_err


class VringCall(Message, frozen=True):
    """Replaces the call eventfd of a running ring; without fd, the driver wants no calls."""

    TYPE: ClassVar[str] = "vring_call"
    seq: U32
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]
    has_fd: bool

    def num_fds(self) -> int:
        return int(self.has_fd)


class VringKick(Message, frozen=True):
    """Replaces the kick eventfd of a running ring; without fd, the ring is polled."""

    TYPE: ClassVar[str] = "vring_kick"
    seq: U32
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]
    has_fd: bool

    def num_fds(self) -> int:
        return int(self.has_fd)


class VringEnable(Message, frozen=True):
    """Enables or disables serving of a started ring."""

    TYPE: ClassVar[str] = "vring_enable"
    seq: U32
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]
    enabled: bool


class VringStop(Message, frozen=True):
    """Stops a ring; the ack's `base` is the avail index to restart it at. Requests in flight stay with the worker."""

    TYPE: ClassVar[str] = "vring_stop"
    seq: U32
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]


class Limits(Message, frozen=True):
    """Changes the VM's limits. Work and memory beyond the new ones stay; what asks for more is refused.

    The worker sends `Stats` before its ack.
    """

    TYPE: ClassVar[str] = "limits"
    seq: U32
    quota: Quota
    deadline_ns: Positive
    max_contexts: Annotated[int, Meta(ge=1, le=256)]
    max_streams: Annotated[int, Meta(ge=1, le=64)]
    allotment: U32


class LookAtFunctions(Message, frozen=True):
    """Asks for `Functions`, which the worker sends before its ack."""

    TYPE: ClassVar[str] = "look_at_functions"
    seq: U32


class Program(Message, frozen=True):
    """Answer to `Compile` or `HostProgram` number `request`. `log` is the compiler's log, cut to `MAX_LOG_CHARS`."""

    TYPE: ClassVar[str] = "program"
    seq: U32
    request: U32
    ok: bool
    log: Annotated[str, Meta(max_length=MAX_LOG_CHARS)]
    log_bytes: U32  # of the whole log, as UTF-8
    from_cache: bool

    def num_fds(self) -> int:
        return int(self.ok)


class Ping(Message, frozen=True):
    """Asks for an ack, which the worker sends when its data plane's loop has gone round."""

    TYPE: ClassVar[str] = "ping"
    seq: U32


class Resume(Message, frozen=True):
    """Says that another daemon has taken the place of the one before, whose channels and whose migration end here.

    The guest notices nothing. The worker answers with `Resumed`, then asks again for what it has got no answer to, and then
    acknowledges. Rings that run are not started again: their next `VringStart` only brings descriptors. One fd with `gate`: the
    grant that takes the place of the gate's (`vhost_backend.worker_protocol.gate_pages`).
    """

    TYPE: ClassVar[str] = "resume"
    seq: U32
    gate: bool = False

    def num_fds(self) -> int:
        return int(self.gate)


class Shutdown(Message, frozen=True):
    """Ends the worker."""

    TYPE: ClassVar[str] = "shutdown"
    seq: U32


# --------------------------------------------------------------------------------------------------
# Worker to daemon
# --------------------------------------------------------------------------------------------------


class CallListener(Message, frozen=True):
    """Asks the daemon to answer the worker's filtered system calls (``sandbox: permissive``). One fd: the listener."""

    TYPE: ClassVar[str] = "call_listener"
    MAX_BYTES: ClassVar[int] = 64

    def num_fds(self) -> int:
        return 1


class Ready(Message, frozen=True):
    """Answer to `Setup`: the engine is open, the sandbox entered. `sandbox` lists the walls in force, for the log."""

    TYPE: ClassVar[str] = "ready"
    MAX_BYTES: ClassVar[int] = 8 << 10
    engine_name: Annotated[str, Meta(max_length=63)]
    num_pes: Annotated[int, Meta(ge=0, le=MAX_PES)]
    features: U64  # virtio_proto DeviceFeature bits
    sandbox: Annotated[str, Meta(max_length=1024)]
    control_pes: Annotated[int, Meta(ge=0, le=MAX_PES)] = 0  # number of elements in the control system; 0: num_pes
    control_rows: Annotated[int, Meta(ge=0, le=MAX_PES)] = 0  # rows of the control area, at least control_pes


class Resumed(Message, frozen=True):
    """Answer to `Resume`: what `Ready` said, and the numbers of the VM's registered programs."""

    TYPE: ClassVar[str] = "resumed"
    MAX_BYTES: ClassVar[int] = 16 << 10
    ready: Ready
    programs: Annotated[tuple[U32, ...], Meta(max_length=1024)]


class Ack(Message, frozen=True):
    """Answer to the daemon's message `seq`: executed, or failed with `error`."""

    TYPE: ClassVar[str] = "ack"
    MAX_BYTES: ClassVar[int] = 16 << 10
    seq: U32
    ok: bool
    error: Annotated[str, Meta(max_length=2048)]
    base: U16  # of a stopped ring
    region_device_address: U64  # of a new memory table; 0: kernels do not see the region
    again: bool = False  # of a failed message: sent again later, it may succeed


class Compile(Message, frozen=True):
    """Asks for a compilation of the program in source file number `source`, which the daemon copies.

    The worker chooses `request`, and leaves the file alone until the answer has come.
    """

    TYPE: ClassVar[str] = "compile"
    MAX_BYTES: ClassVar[int] = 20 << 10
    """Enough for `LIMITS["MAX_OPTIONS_BYTES"]`, which the guest's request may have, in `MAX_OPTIONS` options."""
    request: U32
    context: U32
    program_kind: U32
    options: Options
    source: SourceNumber


class HostProgram(Message, frozen=True):
    """Asks for a compilation of a program that comes with the host (`Engine.host_source`). Numbers are as of `Compile`."""

    TYPE: ClassVar[str] = "host_program"
    MAX_BYTES: ClassVar[int] = 128
    request: U32
    name: Annotated[str, Meta(max_length=32, pattern=r"\A[a-z_]+\Z")]


class CodeNames(Message, frozen=True):
    """Names the code of a program, in place of what was said of it before; without code, the program is unloaded.

    Only from workers whose `EngineSetup` has the option `perf_maps`.
    """

    TYPE: ClassVar[str] = "code_names"
    program: U32
    code: Annotated[tuple[CodeRange, ...], Meta(max_length=MAX_CODE_RANGES)]


class VringBroken(Message, frozen=True):
    """Reports a ring that can no longer be trusted and is not served any more; its err eventfd was signalled."""

    TYPE: ClassVar[str] = "vring_broken"
    MAX_BYTES: ClassVar[int] = 8 << 10
    index: Annotated[int, Meta(ge=0, le=MAX_QUEUES - 1)]
    reason: Annotated[str, Meta(max_length=1024)]


class Stats(Message, frozen=True):
    """Resources that the VM holds and counts of its requests; sent at most once a second, and only when changed."""

    TYPE: ClassVar[str] = "stats"
    MAX_BYTES: ClassVar[int] = 192 + 9 * (NUM_CLASSES + NUM_STATUSES)
    memory_used_bytes: U64
    requests_done: U64
    requests_failed: U64
    busy_ns: U64
    num_contexts: U32
    num_programs: U32
    num_allocations: U32
    in_flight: U32
    latency: Annotated[tuple[U64, ...], Meta(max_length=NUM_CLASSES)] = ()
    """Operations of the engine by latency class; classes after the last one that is not 0 are left out."""
    memory_peak_bytes: U64 = 0
    """Most memory that the VM has held since the worker's start."""
    failures: Annotated[tuple[U64, ...], Meta(max_length=NUM_STATUSES)] = ()
    """Requests that were not answered with OK, by status; statuses after the last one that is not 0 are left out."""


class Functions(Message, frozen=True):
    """Work by function, of those that have a place in the data plane's table."""

    TYPE: ClassVar[str] = "functions"
    functions: Annotated[tuple[FunctionFigures, ...], Meta(max_length=MAX_FUNCTIONS)]


class Log(Message, frozen=True):
    """Event for the daemon's log."""

    TYPE: ClassVar[str] = "log"
    MAX_BYTES: ClassVar[int] = MAX_LOG_BYTES
    level: LogLevel
    event: Annotated[str, Meta(max_length=128)]
    fields: Scalars


DaemonMessage: TypeAlias = (
    Setup
    | MemTable
    | VringStart
    | VringCall
    | VringKick
    | VringEnable
    | VringStop
    | Limits
    | LookAtFunctions
    | Program
    | Ping
    | Resume
    | Shutdown
    | ControlMessage
    | MigrationMessage
    | RegistrationMessage
)
WorkerMessage: TypeAlias = (
    CallListener
    | Ready
    | Resumed
    | Ack
    | Compile
    | HostProgram
    | CodeNames
    | Register
    | Unregister
    | VringBroken
    | Stats
    | Functions
    | Log
    | Marks
    | Measured
    | Saved
)
AnyMessage: TypeAlias = DaemonMessage | WorkerMessage

DAEMON_MESSAGES: Final[tuple[type[DaemonMessage], ...]] = (
    Setup,
    MemTable,
    VringStart,
    VringCall,
    VringKick,
    VringEnable,
    VringStop,
    Limits,
    LookAtFunctions,
    Program,
    Ping,
    Resume,
    Shutdown,
    *CONTROL_MESSAGES,
    *MIGRATION_MESSAGES,
    *REGISTRATION_MESSAGES,
)
WORKER_MESSAGES: Final[tuple[type[WorkerMessage], ...]] = (
    CallListener,
    Ready,
    Resumed,
    Ack,
    Compile,
    HostProgram,
    CodeNames,
    Register,
    Unregister,
    VringBroken,
    Stats,
    Functions,
    Log,
    Marks,
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
