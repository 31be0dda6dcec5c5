"""What the daemon and a worker say to each other.

They are connected by one ``AF_UNIX``/``SOCK_SEQPACKET`` socket pair. A message is one packet: a UTF-8 JSON
object ``{"type": ..., ...}`` of at most `MAX_PACKET_BYTES`, with file descriptors beside it (``SCM_RIGHTS``).
Both directions are declared here as frozen dataclasses, and a packet is parsed once, strictly: unknown or
missing keys, wrong types, values out of range and a wrong number of descriptors are all `ProtocolError`.
A worker may contain guest code, so the daemon treats whatever this module raises as the worker's fault.

The conversation::

    daemon                          worker
    setup            ->                       fds: in-flight memory
                     <-             ready     (or ack ok=false, and the worker exits)
    mem_table        ->                       fds: one per region
                     <-             ack       region_device_address
    vring_start      ->                       fds: kick, call, err as far as has_* says
                     <-             ack
    vring_call, vring_kick, vring_enable ->   swaps and switches of a running ring
                     <-             ack
    vring_stop       ->
                     <-             ack       base
                     <-             compile   fds: file with the source, the daemon's to read until `program`
    program          ->                       fds: sealed memfd with the image, if ok
                     <-             vring_broken, stats, log   at any time
    shutdown         ->                       (the worker exits; end of file says so)

Every message of the daemon carries a `seq` of its choice, which the worker's `Ack` echoes. `Setup` is
answered by `Ready`, or by a failed `Ack`; `Program` and `Shutdown` are not answered.
"""

# ruff: noqa: RUF009  the helpers below are dataclasses.field with a parser
from __future__ import annotations

import array
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Final, Literal, TypeAlias, cast

from vhost_backend.rights import receive_with_fds

MAX_PACKET_BYTES: Final = 64 << 10
MAX_REGIONS: Final = 32
MAX_QUEUES: Final = 64
MAX_OPTIONS: Final = 256
MAX_OPTION_CHARS: Final = 4096
MAX_SCALAR_CHARS: Final = 4096
"""Of all names and strings in a flat object: a worker's `Log` is no way to fill the host's."""
MAX_LOG_CHARS: Final = 10_000
"""Longest compiler log in a `Program`: JSON may need six bytes per character."""

_MAX_FDS: Final = MAX_REGIONS + 4

Scalar: TypeAlias = str | int | float | bool | None
SandboxMode: TypeAlias = Literal["strict", "best-effort", "off"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]


class ProtocolError(Exception):
    """The peer sent something that is not in the protocol; the text says what, and what is allowed."""


# --------------------------------------------------------------------------------------------------
# Field parsers: (path, JSON value) -> checked value
# --------------------------------------------------------------------------------------------------

_Parser: TypeAlias = Callable[[str, object], Any]


def _uint(maximum: int, minimum: int = 0) -> Any:
    """A field that is an integer of minimum..maximum."""

    def parse(path: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not minimum <= value <= maximum:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: an integer of {minimum}..{maximum}")
        return value

    return field(metadata={"parse": parse})


def _u(bits: int) -> Any:
    return _uint((1 << bits) - 1)


def _parse_flag(path: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: true or false")
    return value


def _flag() -> Any:
    return field(metadata={"parse": _parse_flag})


def _text_parser(max_chars: int, allowed: tuple[str, ...] = ()) -> _Parser:
    def parse(path: str, value: object) -> str:
        if not isinstance(value, str) or len(value) > max_chars:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: a string of at most {max_chars} characters")
        if allowed and value not in allowed:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: {', '.join(allowed)}")
        if not value.isascii() and any("\ud800" <= char <= "\udfff" for char in value):
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: text that has a UTF-8 form")
        return value

    return parse


def _parse_option(path: str, value: object) -> str:
    """An argument of a compiler: without NUL, which no argument can hold."""
    option = cast("str", _text_parser(MAX_OPTION_CHARS)(path, value))
    if "\0" in option:
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: a string without NUL")
    return option


def _text(max_chars: int = 1024, allowed: tuple[str, ...] = ()) -> Any:
    return field(metadata={"parse": _text_parser(max_chars, allowed)})


def _tuple_of(parse_item: _Parser, max_items: int) -> Any:
    def parse(path: str, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or len(value) > max_items:
            raise ProtocolError(f"{path} is {value!r:.80}; allowed: a list of at most {max_items}")
        return tuple(parse_item(f"{path}[{i}]", item) for i, item in enumerate(value))

    return field(metadata={"parse": parse})


def _struct_parser(cls: type) -> _Parser:
    def parse(path: str, value: object) -> Any:
        return _parse_struct(cls, path, value)

    return parse


def _struct(cls: type) -> Any:
    return field(metadata={"parse": _struct_parser(cls)})


def _parse_scalars(path: str, value: object) -> dict[str, Scalar]:
    if not isinstance(value, dict) or len(value) > 64:
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: an object of at most 64 keys")
    for key, item in value.items():
        if not isinstance(item, str | int | float | bool | None):
            raise ProtocolError(f"{path}.{key} is {item!r:.80}; allowed: a string, number, boolean or null")
    chars = sum(len(text) for pair in value.items() for text in pair if isinstance(text, str))
    if chars > MAX_SCALAR_CHARS:
        raise ProtocolError(f"{path} holds {chars} characters; allowed: {MAX_SCALAR_CHARS}")
    return cast("dict[str, Scalar]", value)


def _scalars() -> Any:
    """A field that is a flat object: names to strings, numbers, booleans or null."""
    return field(metadata={"parse": _parse_scalars})


# --------------------------------------------------------------------------------------------------
# Parts of messages
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EngineSetup:
    """Which engine the worker opens, and the engine's own options from the VM's configuration."""

    kind: str = _text(32)
    options: Mapping[str, Scalar] = _scalars()


@dataclass(frozen=True, slots=True)
class Quota:
    """What the VM may use at once."""

    pes: int = _uint(1 << 16, minimum=1)
    memory_bytes: int = _u(62)
    queue_depth: int = _uint(64 * 256, minimum=1)


@dataclass(frozen=True, slots=True)
class MemRegion:
    """One piece of guest memory: `size` bytes from `offset` in the file that travels beside it."""

    gpa: int = _u(64)
    uva: int = _u(64)
    size: int = _uint((1 << 62) - 1, minimum=1)
    offset: int = _u(62)


# --------------------------------------------------------------------------------------------------
# Daemon to worker
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Setup:
    """First message: what to be. One fd: the in-flight memory (see `vhost_backend.worker.inflight`)."""

    TYPE: ClassVar[str] = "setup"
    seq: int = _u(32)
    vm: str = _text(64)
    engine: EngineSetup = _struct(EngineSetup)
    num_queues: int = _uint(MAX_QUEUES, minimum=1)
    quota: Quota = _struct(Quota)
    deadline_ns: int = _uint((1 << 62) - 1, minimum=1)
    max_contexts: int = _uint(256, minimum=1)
    max_streams: int = _uint(64, minimum=1)
    generation: int = _u(32)
    sandbox: SandboxMode = _text(16, ("strict", "best-effort", "off"))

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class MemTable:
    """Replaces the whole memory table. Running rings pause, are translated again, and go on."""

    TYPE: ClassVar[str] = "mem_table"
    seq: int = _u(32)
    regions: tuple[MemRegion, ...] = _tuple_of(_struct_parser(MemRegion), MAX_REGIONS)

    def num_fds(self) -> int:
        return len(self.regions)


@dataclass(frozen=True, slots=True)
class VringStart:
    """Starts a ring at avail index `base`. With `recover`, first answers what the in-flight memory names."""

    TYPE: ClassVar[str] = "vring_start"
    seq: int = _u(32)
    index: int = _uint(MAX_QUEUES - 1)
    size: int = _uint(1 << 15)
    base: int = _u(16)
    desc_uva: int = _u(64)
    avail_uva: int = _u(64)
    used_uva: int = _u(64)
    event_idx: bool = _flag()
    indirect: bool = _flag()
    enabled: bool = _flag()
    recover: bool = _flag()
    has_kick: bool = _flag()
    has_call: bool = _flag()
    has_err: bool = _flag()

    def num_fds(self) -> int:
        return self.has_kick + self.has_call + self.has_err


@dataclass(frozen=True, slots=True)
class VringCall:
    """Swaps the call eventfd of a running ring; without fd, the driver wants no calls."""

    TYPE: ClassVar[str] = "vring_call"
    seq: int = _u(32)
    index: int = _uint(MAX_QUEUES - 1)
    has_fd: bool = _flag()

    def num_fds(self) -> int:
        return int(self.has_fd)


@dataclass(frozen=True, slots=True)
class VringKick:
    """Swaps the kick eventfd of a running ring; without fd, the ring is polled."""

    TYPE: ClassVar[str] = "vring_kick"
    seq: int = _u(32)
    index: int = _uint(MAX_QUEUES - 1)
    has_fd: bool = _flag()

    def num_fds(self) -> int:
        return int(self.has_fd)


@dataclass(frozen=True, slots=True)
class VringEnable:
    """Lets a started ring be served, or not."""

    TYPE: ClassVar[str] = "vring_enable"
    seq: int = _u(32)
    index: int = _uint(MAX_QUEUES - 1)
    enabled: bool = _flag()

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class VringStop:
    """Stops a ring; the ack's `base` is where it would go on. Requests in flight stay with the worker."""

    TYPE: ClassVar[str] = "vring_stop"
    seq: int = _u(32)
    index: int = _uint(MAX_QUEUES - 1)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Program:
    """Answer to `Compile` number `request`. `log` is the compiler's, cut to `MAX_LOG_CHARS`."""

    TYPE: ClassVar[str] = "program"
    seq: int = _u(32)
    request: int = _u(32)
    ok: bool = _flag()
    log: str = _text(MAX_LOG_CHARS)
    log_bytes: int = _u(32)  # of the whole log, as UTF-8
    from_cache: bool = _flag()

    def num_fds(self) -> int:
        return int(self.ok)


@dataclass(frozen=True, slots=True)
class Shutdown:
    """Exit now."""

    TYPE: ClassVar[str] = "shutdown"
    seq: int = _u(32)

    def num_fds(self) -> int:
        return 0


# --------------------------------------------------------------------------------------------------
# Worker to daemon
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ready:
    """The engine is open and the sandbox closed. `sandbox` says what is in force, for the log."""

    TYPE: ClassVar[str] = "ready"
    engine_name: str = _text(63)
    num_pes: int = _u(32)
    features: int = _u(64)  # virtio_proto DeviceFeature bits
    sandbox: str = _text(1024)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Ack:
    """The daemon's message `seq` is done, or failed with `error`."""

    TYPE: ClassVar[str] = "ack"
    seq: int = _u(32)
    ok: bool = _flag()
    error: str = _text(2048)
    base: int = _u(16)  # of a stopped ring
    region_device_address: int = _u(64)  # of a new memory table; 0: kernels do not see the region

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Compile:
    """Please compile. One fd: a file with the source, which the daemon copies. `request` is the worker's own number."""

    TYPE: ClassVar[str] = "compile"
    request: int = _u(32)
    context: int = _u(32)
    program_kind: int = _u(32)
    options: tuple[str, ...] = _tuple_of(_parse_option, MAX_OPTIONS)

    def num_fds(self) -> int:
        return 1


@dataclass(frozen=True, slots=True)
class VringBroken:
    """A ring can no longer be trusted and is not served any more (its err eventfd has been signalled)."""

    TYPE: ClassVar[str] = "vring_broken"
    index: int = _uint(MAX_QUEUES - 1)
    reason: str = _text(1024)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Stats:
    """What the VM holds and has done; sent at most once a second, and only when changed."""

    TYPE: ClassVar[str] = "stats"
    memory_used_bytes: int = _u(64)
    requests_done: int = _u(64)
    requests_failed: int = _u(64)
    busy_ns: int = _u(64)
    num_contexts: int = _u(32)
    num_programs: int = _u(32)
    num_allocations: int = _u(32)
    in_flight: int = _u(32)

    def num_fds(self) -> int:
        return 0


@dataclass(frozen=True, slots=True)
class Log:
    """An event for the daemon's log."""

    TYPE: ClassVar[str] = "log"
    level: LogLevel = _text(16, ("debug", "info", "warning", "error"))
    event: str = _text(128)
    fields: Mapping[str, Scalar] = _scalars()

    def num_fds(self) -> int:
        return 0


DaemonMessage: TypeAlias = (
    Setup | MemTable | VringStart | VringCall | VringKick | VringEnable | VringStop | Program | Shutdown
)
WorkerMessage: TypeAlias = Ready | Ack | Compile | VringBroken | Stats | Log
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
    Shutdown,
)
WORKER_MESSAGES: Final[tuple[type[WorkerMessage], ...]] = (Ready, Ack, Compile, VringBroken, Stats, Log)


# --------------------------------------------------------------------------------------------------
# Packets
# --------------------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    """`value` as what json can write."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(cast("Any", value))}
    return dict(value) if isinstance(value, Mapping) else value


def encode(message: Message) -> bytes:
    """The packet of `message`.

    :raise ProtocolError: when it would be longer than `MAX_PACKET_BYTES`.
    """
    body = cast("dict[str, object]", _plain(message))
    packet = json.dumps({"type": message.TYPE, **body}, separators=(",", ":")).encode()
    if len(packet) > MAX_PACKET_BYTES:
        raise ProtocolError(f"a {message.TYPE} of {len(packet)} bytes; allowed: {MAX_PACKET_BYTES}")
    return packet


def _parse_struct(cls: type, path: str, value: object) -> Any:
    if not isinstance(value, dict):
        raise ProtocolError(f"{path} is {value!r:.80}; allowed: an object")
    expected = {f.name: f.metadata["parse"] for f in fields(cls)}
    if value.keys() != expected.keys():
        wrong = sorted(value.keys() ^ expected.keys())
        raise ProtocolError(f"{path}: missing or unknown {wrong!r:.120}; allowed: exactly {', '.join(expected)}")
    return cls(**{name: parse(f"{path}.{name}", value[name]) for name, parse in expected.items()})


def _reject_constant(name: str) -> float:
    raise ProtocolError(f"the packet holds {name}; allowed: finite numbers")


def decode(packet: bytes, allowed: Iterable[type[Message]]) -> Message:
    """The message in `packet`, which must be one of the `allowed` types.

    :raise ProtocolError: for anything else; nothing a peer sends raises another exception.
    """
    try:
        value = json.loads(packet.decode(), parse_constant=_reject_constant)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"a packet of {len(packet)} bytes is not JSON: {error!s:.120}") from None
    if not isinstance(value, dict):
        raise ProtocolError(f"the packet is {value!r:.80}; allowed: an object")
    name = value.pop("type", None)
    for cls in allowed:
        if name == cls.TYPE:
            return cast("Message", _parse_struct(cls, cls.TYPE, value))
    raise ProtocolError(f"type is {name!r:.80}; allowed: {', '.join(cls.TYPE for cls in allowed)}")


def close_fds(fds: Iterable[int]) -> None:
    """Closes descriptors that came with a message and are not wanted."""
    for fd in fds:
        os.close(fd)


def _send(sock: socket.socket, message: Message, fds: tuple[int, ...]) -> None:
    if len(fds) != message.num_fds():
        raise ProtocolError(f"{message.TYPE} with {len(fds)} fds; allowed: {message.num_fds()}")
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([encode(message)], rights, socket.MSG_NOSIGNAL)


def _receive(sock: socket.socket, allowed: tuple[type[Message], ...]) -> tuple[Message, tuple[int, ...]] | None:
    packet, fds, flags = receive_with_fds(sock, MAX_PACKET_BYTES, _MAX_FDS)
    if not packet:
        close_fds(fds)
        return None
    try:
        return _parse_packet(packet, fds, flags, allowed), fds
    except ProtocolError:
        close_fds(fds)
        raise


def _parse_packet(packet: bytes, fds: tuple[int, ...], flags: int, allowed: tuple[type[Message], ...]) -> Message:
    if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
        raise ProtocolError(f"a packet over {MAX_PACKET_BYTES} bytes or {_MAX_FDS} fds")
    message = decode(packet, allowed)
    if len(fds) != message.num_fds():
        raise ProtocolError(f"{message.TYPE} with {len(fds)} fds; allowed: {message.num_fds()}")
    return message


def send_to_worker(sock: socket.socket, message: DaemonMessage, fds: tuple[int, ...] = ()) -> None:
    """Sends with copies of `fds`, which stay the caller's.

    :raise OSError: as ``sendmsg``; ``BlockingIOError`` when the socket is non-blocking and full.
    """
    _send(sock, message, fds)


def send_to_daemon(sock: socket.socket, message: WorkerMessage, fds: tuple[int, ...] = ()) -> None:
    """As `send_to_worker`, the other way."""
    _send(sock, message, fds)


def receive_from_worker(sock: socket.socket) -> tuple[WorkerMessage, tuple[int, ...]] | None:
    """One message and its fds, which are the caller's from now on; None at the end of the stream.

    :raise ProtocolError: the worker sent something else; any fds are closed.
    :raise OSError: as ``recvmsg``; ``BlockingIOError`` when non-blocking and nothing is there.
    """
    return cast("tuple[WorkerMessage, tuple[int, ...]] | None", _receive(sock, WORKER_MESSAGES))


def receive_from_daemon(sock: socket.socket) -> tuple[DaemonMessage, tuple[int, ...]] | None:
    """As `receive_from_worker`, the other way."""
    return cast("tuple[DaemonMessage, tuple[int, ...]] | None", _receive(sock, DAEMON_MESSAGES))
