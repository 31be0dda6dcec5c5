"""Fake device for libvgc in this process: serves requests on a thread, in Python, from memory in Python.

It behaves like a correct device (docs/device.md); `override` replaces the answer to an opcode by an error, a wrong
answer or no answer.
"""

from __future__ import annotations

import os
import select
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.link import GuestLink
from tests.fakes.ring import DeviceRing
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto import schema
from virtio_proto._vring import ffi, lib
from virtio_proto.schema import ArgKind, Opcode, ParamKind, Status

TIMEOUT_S: Final = ANSWERS_WITHIN_S


@dataclass(frozen=True, slots=True)
class Ask:
    """A request; `rest` are the bytes behind the body."""

    opcode: Opcode
    context: int
    stream: int
    body: Any
    rest: bytes
    room: int
    """Largest payload that the answer may have, in bytes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response. `payload_len` may be wrong if a test wants that."""

    status: Status = Status.OK
    payload: bytes = b""
    value: int = 0
    aux: int = 0
    payload_len: int | None = None


@dataclass(frozen=True, slots=True)
class FakeFunction:
    """A kernel that the fake device "compiles": its parameters, and the effect of a CALL on its buffers."""

    name: str
    param_sizes: tuple[int, ...] = ()
    param_kinds: tuple[ParamKind, ...] = ()
    linker_name: str = ""
    max_threads: int = 1024
    call: Callable[[list[bytes]], list[bytes]] = field(default=lambda buffers: buffers)

    @property
    def mangled(self) -> str:
        return self.linker_name or f"_Z{len(self.name)}{self.name}v"


SILENCE: Final = Answer(value=-1)
"""Result of an override by which the request stays in flight until the device is closed."""


def program_table(
    functions: list[FakeFunction], variables: dict[str, tuple[int, int]], log: str, memory_bytes: int = 0
) -> bytes:
    """Payload of a PROGRAM_LOAD response."""
    strings, entries, params = b"", b"", b""
    for number, function in enumerate(functions, 1):
        names = [function.mangled.encode(), function.name.encode()]
        offsets = [len(strings), len(strings) + len(names[0])]
        strings += b"".join(names)
        offset, first = 0, len(params) // 16
        kinds = function.param_kinds or (ParamKind.UNKNOWN,) * len(function.param_sizes)
        for size, kind in zip(function.param_sizes, kinds, strict=True):
            offset = -(-offset // size) * size
            params += struct.pack("<4I", offset, size, kind, 0)
            offset += size
        entries += struct.pack(
            "<12I",
            *(number, offsets[0], len(names[0]), offsets[1], len(names[1])),
            *(first, len(function.param_sizes), offset, 0, function.max_threads, 0, 0),
        )
    table_globals = b""
    for name, (address, size) in variables.items():
        table_globals += struct.pack("<IIQQ", len(strings), len(name), address, size)
        strings += name.encode()
    counts = (len(functions), len(params) // 16, len(variables), len(strings), len(log))
    head = struct.pack("<6IQ", *counts, 0, memory_bytes)
    return head + entries + params + table_globals + strings + log.encode()


class FakeDevice:
    """Serves all rings of a link until closed. `seen` lists the requests, in order."""

    def __init__(self, link: GuestLink) -> None:
        self.link = link
        kinds = (ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER, ParamKind.POINTER)
        self.functions = [FakeFunction("saxpy", (4, 4, 8, 8), kinds), FakeFunction("empty")]
        self.variables: dict[str, tuple[int, int]] = {}
        self.log = ""
        self.program_bytes = 0
        """Bytes of the quota that each program takes."""
        self.allotment = 0
        """Number of the quota that responses bear."""
        self.seen: list[Ask] = []
        self.contexts: set[int] = set()
        self.memory: dict[int, bytearray] = {}
        self.exported: dict[tuple[int, int], tuple[int, int]] = {}
        """Address or event of each key, and the context that it belongs to."""
        self.override: dict[Opcode, Callable[[Ask], Answer | None]] = {}
        self._next_id = 1
        self._clock = 0
        self._stop_fd = os.eventfd(0, os.EFD_CLOEXEC)
        self._silenced: list[tuple[int, int]] = []
        self._rings = [DeviceRing(link.region, at, event_idx=True, indirect=True) for at in link.rings]
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._thread = threading.Thread(target=self._run, name="fake device")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.eventfd_write(self._stop_fd, 1)
        self._thread.join()
        os.close(self._stop_fd)

    def opcodes(self) -> list[Opcode]:
        """Opcodes of the requests so far."""
        with self._lock:
            return [ask.opcode for ask in self.seen]

    def answer_silenced(self, answer: Answer, count: int = 1) -> None:
        """Answers the requests that an override has left unanswered, once there are `count` of them."""
        with self._lock:
            assert self._changed.wait_for(lambda: len(self._silenced) >= count, TIMEOUT_S), "too few requests came"
            silenced, self._silenced = self._silenced, []
            for queue, head in silenced:
                self._rings[queue].rewalk(head)
                self._respond(queue, answer)
                self._call(queue)

    # ---- rings -----------------------------------------------------------------------------------

    def _run(self) -> None:
        poller = select.poll()
        queues = {fd: queue for queue, fd in enumerate(self.link.kick_fds)}
        for fd in (self._stop_fd, *queues):
            poller.register(fd, select.POLLIN)
        while True:
            ready = [fd for fd, _ in poller.poll()]
            if self._stop_fd in ready:
                return
            for fd in ready:
                os.eventfd_read(fd)
                with self._lock:
                    self._serve(queues[fd])

    def _serve(self, queue: int) -> None:
        ring = self._rings[queue]
        while True:
            while (popped := ring.pop()) == 1:
                answer = self._answer(self._read(ring))
                if answer is SILENCE:
                    self._silenced.append((queue, int(ring.chain.head)))
                    self._changed.notify_all()
                else:
                    self._respond(queue, answer)
                self._call(queue)
            assert popped == 0, f"libvgc published a chain that vring.c refuses: {popped}"
            if not lib.vgc_vq_enable_kick(ring.vq):
                return

    def _call(self, queue: int) -> None:
        if lib.vgc_vq_should_call(self._rings[queue].vq):
            os.eventfd_write(self.link.call_fds[queue], 1)

    def _read(self, ring: DeviceRing) -> Ask:
        chain = ring.popped()
        data = b"".join(self.link.region.memory[at : at + size] for at, size in chain.readable)
        head = schema.REQUEST.construct.parse(data)
        opcode = Opcode(head.opcode)
        at = schema.REQUEST.construct.sizeof()
        body = None
        if opcode in schema.BODIES:
            body = schema.BODIES[opcode].construct.parse(data[at:])
            at += schema.BODIES[opcode].construct.sizeof()
        room = sum(size for _, size in chain.writable) - schema.RESPONSE.construct.sizeof()
        return Ask(opcode, head.context, head.stream, body, data[at:], room)

    def _respond(self, queue: int, answer: Answer) -> None:
        ring = self._rings[queue]
        chain = ring.popped()
        fields = {
            "detail": 0,
            "queued_ns": 5,
            "exec_ns": 7,
            "allotment": self.allotment,
            "value": answer.value,
            "aux": answer.aux,
        }
        stated = len(answer.payload) if answer.payload_len is None else answer.payload_len
        data = schema.RESPONSE.construct.build(fields | {"status": answer.status, "payload_len": stated})
        data += answer.payload
        left = data
        for at, size in chain.writable:
            part, left = left[:size], left[size:]
            self.link.region.memory[at : at + len(part)] = part
        ring.push(chain.head, min(len(data) - len(left), 2**32 - 1))

    # ---- requests --------------------------------------------------------------------------------

    def _answer(self, ask: Ask) -> Answer:
        self.seen.append(ask)
        override = self.override.get(ask.opcode)
        answer = override(ask) if override is not None else None
        if answer is not None:
            return answer
        no_context_needed = ask.opcode in (Opcode.NOP, Opcode.QUERY, Opcode.CONTEXT_CREATE)
        if not no_context_needed and ask.context not in self.contexts:
            return Answer(Status.NO_CONTEXT, b"no such context")
        handler: Callable[[Ask], Answer] = getattr(self, f"_do_{ask.opcode.name.lower()}")
        return handler(ask)

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _do_nop(self, _ask: Ask) -> Answer:
        return Answer()

    def _do_query(self, _ask: Ask) -> Answer:
        used = sum(map(len, self.memory.values()))
        numbers = {"memory_used_bytes": used, "num_contexts": len(self.contexts)}
        zeros = {f.name: 0 for f in schema.fields(schema.USAGE)}
        return Answer(payload=schema.USAGE.construct.build(zeros | numbers))

    def _do_context_create(self, _ask: Ask) -> Answer:
        context = self._new_id()
        self.contexts.add(context)
        return Answer(value=context)

    def _do_context_destroy(self, ask: Ask) -> Answer:
        self.contexts.discard(ask.context)
        return Answer()

    def _do_program_load(self, ask: Ask) -> Answer:
        if b"error" in ask.rest:
            return Answer(Status.COMPILE_FAILED, b"line 1: error: no such thing")
        payload = program_table(self.functions, self.variables, self.log, self.program_bytes)
        return Answer(payload=payload[: ask.room], value=self._new_id(), aux=len(payload))

    def _do_program_unload(self, _ask: Ask) -> Answer:
        return Answer()

    def _do_function_lookup(self, ask: Ask) -> Answer:
        return Answer(Status.NOT_FOUND, f"no function '{ask.rest.decode()}'".encode())

    def _do_alloc(self, ask: Ask) -> Answer:
        address = 0x10_0000_0000 + (self._new_id() << 24)
        self.memory[address] = bytearray(ask.body.size)
        return Answer(value=address)

    def _do_free(self, ask: Ask) -> Answer:
        return Answer() if self.memory.pop(ask.body.address, None) is not None else Answer(Status.INVALID_ADDRESS)

    def _range(self, address: int, size: int) -> memoryview | None:
        for base, memory in self.memory.items():
            if base <= address and address + size <= base + len(memory):
                return memoryview(memory)[address - base : address - base + size]
        return None

    def _do_copy_in(self, ask: Ask) -> Answer:
        to = self._range(ask.body.dst, ask.body.size)
        if to is None or len(ask.rest) != ask.body.size:
            return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
        to[:] = ask.rest
        return Answer()

    def _do_copy_out(self, ask: Ask) -> Answer:
        source = self._range(ask.body.src, ask.body.size)
        if source is None:
            return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
        return Answer(payload=bytes(source))

    def _do_copy_device(self, ask: Ask) -> Answer:
        source, to = self._range(ask.body.src, ask.body.size), self._range(ask.body.dst, ask.body.size)
        if source is None or to is None:
            return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
        to[:] = bytes(source)
        return Answer()

    def _do_fill(self, ask: Ask) -> Answer:
        to = self._range(ask.body.dst, ask.body.size)
        if to is None:
            return Answer(Status.INVALID_ADDRESS, b"outside of all allocations")
        unit = ask.body.value.to_bytes(8, "little")[: ask.body.unit]
        to[:] = unit * (ask.body.size // ask.body.unit)
        return Answer()

    def _do_launch(self, _ask: Ask) -> Answer:
        return Answer()

    def _do_call(self, ask: Ask) -> Answer:
        """Passes buffers through the function's `call`, in the order of the arguments; OUT buffers are zeros."""
        body = ask.body
        name, rest = ask.rest[: body.name_len].decode(), ask.rest[body.name_len :]
        function = next((f for f in self.functions if name in (f.name, f.mangled)), None)
        if function is None:
            return Answer(Status.NOT_FOUND, f"no function {name}".encode())
        args = [struct.unpack_from("<IIQ", rest, 16 * index) for index in range(body.num_args)]
        rest = rest[16 * body.num_args + body.value_len :]
        buffers = []
        for kind, _, size in args:
            if kind in (ArgKind.IN, ArgKind.INOUT):
                buffers.append(rest[:size])
                rest = rest[size:]
            elif kind == ArgKind.OUT:
                buffers.append(bytes(size))
        kinds = [kind for kind, _, _ in args if kind != ArgKind.VALUE]
        results = function.call(buffers)
        return Answer(payload=b"".join(r for r, kind in zip(results, kinds, strict=True) if kind != ArgKind.IN))

    def _do_event_create(self, _ask: Ask) -> Answer:
        return Answer(value=self._new_id())

    def _do_event_destroy(self, _ask: Ask) -> Answer:
        return Answer()

    def _do_event_record(self, _ask: Ask) -> Answer:
        self._clock += 1000
        return Answer(value=self._clock)

    def _do_event_wait(self, _ask: Ask) -> Answer:
        return Answer()

    def _do_event_query(self, _ask: Ask) -> Answer:
        return Answer(value=1)

    def _do_event_sync(self, _ask: Ask) -> Answer:
        return Answer()

    def _export(self, named: int, context: int) -> Answer:
        key = next((key for key, (other, _) in self.exported.items() if other == named), (self._new_id(), 1 << 63))
        self.exported[key] = named, context
        return Answer(value=key[0], aux=key[1])

    def _do_event_export(self, ask: Ask) -> Answer:
        return self._export(ask.body.event, ask.context)

    def _do_memory_export(self, ask: Ask) -> Answer:
        if ask.body.address not in self.memory:
            return Answer(Status.INVALID_ADDRESS, b"no allocation begins there")
        return self._export(ask.body.address, ask.context)

    def _open(self, ask: Ask) -> Answer | int:
        """The memory or event of a key, or the refusal."""
        named, owner = self.exported.get(tuple(ask.body.key), (0, 0))
        if owner == ask.context:
            return Answer(Status.INVALID_ARGUMENT, b"it is the context's own")
        return named or Answer(Status.NOT_FOUND, b"nothing has this key")

    def _do_event_open(self, ask: Ask) -> Answer:
        opened = self._open(ask)
        return opened if isinstance(opened, Answer) else Answer(value=self._new_id())

    def _do_memory_open(self, ask: Ask) -> Answer:
        opened = self._open(ask)
        return opened if isinstance(opened, Answer) else Answer(value=opened, aux=len(self.memory[opened]))

    def _do_memory_close(self, _ask: Ask) -> Answer:
        return Answer()


def address_of(data: Any) -> int:
    """The address of a buffer, for comparisons in tests."""
    return int(ffi.cast("uintptr_t", ffi.from_buffer(data)))
