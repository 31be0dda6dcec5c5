"""Fake guest driver: requests through vring.c's driver side, on a memfd and two eventfds.

The driver does not depend on how the device sees the region: give the same region, ring placements and eventfds to
a data plane in this process, or to a daemon through the fake frontend.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Final, Self

from tests.fakes.region import Block, Region
from tests.fakes.ring import RawRing, RingPlacement
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto import schema
from virtio_proto._vring import ffi, lib
from virtio_proto.schema import Opcode, Status

RESPONSE_BYTES: Final = schema.RESPONSE.size_bytes
UNWRITTEN: Final = 0xA5
"""Byte that fills writable buffers before the device gets them."""


class DriverTimeoutError(Exception):
    """The device has not answered in time."""


class RingFullError(Exception):
    """The ring has too few free descriptors."""


class DeviceMisbehavedError(Exception):
    """The device returned a head that was not in flight."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request."""

    used_len: int
    status: Status
    detail: int
    value: int
    aux: int
    queued_ns: int
    exec_ns: int
    payload: bytes
    """`payload_len` bytes, but not more than the device claims to have written."""

    raw: bytes
    """Contents of all writable memory of the request, response included."""

    @property
    def text(self) -> str:
        """Error text."""
        return self.payload.decode()

    @property
    def allotment(self) -> int:
        """Number of the device's latest quota."""
        return int(schema.RESPONSE.construct.parse(self.raw).allotment)

    @classmethod
    def parse(cls, raw: bytes, used_len: int) -> Reply:
        """Parses a response without trusting it: one that is too short becomes BAD_REQUEST."""
        if used_len < RESPONSE_BYTES or used_len > len(raw):
            return cls(used_len, Status.BAD_REQUEST, 0, 0, 0, 0, 0, b"", raw)
        head = schema.RESPONSE.construct.parse(raw)
        end = min(RESPONSE_BYTES + head.payload_len, used_len)
        return cls(
            used_len,
            Status(head.status),
            head.detail,
            head.value,
            head.aux,
            head.queued_ns,
            head.exec_ns,
            raw[RESPONSE_BYTES:end],
            raw,
        )


@dataclass(slots=True)
class Pending:
    """A request in flight. Its memory is returned to the region when it is done."""

    head: int
    readable: list[Block]
    writable: list[Block]
    owned: list[Block] = field(default_factory=list)
    used_len: int | None = None
    reply: Reply | None = None


def pack_request(
    opcode: int,
    body: Mapping[str, object] | bytes = b"",
    *,
    context: int = 0,
    stream: int = 0,
    request_id: int = 0,
    flags: int = 0,
) -> bytes:
    """Packs a request's header and body; a mapping is packed by the schema of `opcode`."""
    header = schema.REQUEST.construct.build(
        {
            "opcode": opcode,
            "flags": flags,
            "context": context,
            "stream": stream,
            "reserved": 0,
            "request_id": request_id,
        }
    )
    if opcode == Opcode.CONTEXT_CREATE and body == b"":
        body = {"fingerprint": schema.FINGERPRINT}
    if isinstance(body, bytes):
        return header + body
    construct = schema.BODIES[Opcode(opcode)]
    zeroed = schema.zeroes(construct)
    unknown = set(body) - set(zeroed)
    if unknown:
        raise ValueError(f"{construct.name} has no fields {sorted(unknown)}; it has {sorted(zeroed)}")
    return header + construct.construct.build(zeroed | dict(body))


class FakeQueue:
    """Driver side of a virtqueue. Owns neither the region nor the eventfds."""

    def __init__(
        self,
        region: Region,
        at: RingPlacement,
        kick_fd: int,
        call_fd: int,
        *,
        event_idx: bool = True,
        indirect: bool = True,
    ) -> None:
        """Initialises a ring in zeroed memory; calls are disabled until a wait."""
        self.region, self.at, self.kick_fd, self.call_fd = region, at, kick_fd, call_fd
        self.indirect = indirect
        self.raw = RawRing(region, at)
        self._vq = ffi.new("struct vgc_vq_driver *")
        ring = ffi.new("struct vgc_ring *")
        ring.desc = ffi.cast("struct vgc_desc *", region.address + at.desc)
        ring.avail = ffi.cast("uint16_t *", region.address + at.avail)
        ring.used = ffi.cast("uint16_t *", region.address + at.used)
        ring.num = at.num
        if lib.vgc_vq_driver_init(self._vq, ring[0], event_idx):
            raise ValueError(f"{at.num} is not a queue size; allowed: powers of two up to 256")
        lib.vgc_vq_disable_call(self._vq)
        self._serial = 0  # number of the chain that was added last; it is the chain's token
        self._pending: dict[int, Pending] = {}

    @property
    def num_free(self) -> int:
        """Number of free descriptors."""
        return int(self._vq.num_free)

    @property
    def num_pending(self) -> int:
        """Number of requests that have not come back."""
        return len(self._pending)

    def add(self, readable: Sequence[Block], writable: Sequence[Block], *, kick: bool = True) -> Pending:
        """Publishes a chain, and kicks if the device wants it. The blocks stay the caller's.

        :raise RingFullError: there are too few free descriptors; nothing was published.
        """
        blocks = [*readable, *writable]
        table: Block | None = None
        if self.indirect and len(blocks) > 1:
            table = self.region.allocate(16 * len(blocks))
        sg = ffi.new("struct vgc_sg[]", [(block.gpa, block.size) for block in blocks])
        head = lib.vgc_vq_add(
            self._vq,
            sg,
            len(readable),
            len(writable),
            ffi.cast("struct vgc_desc *", self.region.address + table.offset if table else 0),
            table.gpa if table else 0,
            ffi.cast("void *", self._serial + 1),
        )
        owned = [table] if table else []
        if head < 0:
            self._release(owned)
            raise RingFullError(f"{len(blocks)} buffers do not fit {self.num_free} free descriptors")
        pending = Pending(head, list(readable), list(writable), owned)
        self._serial += 1
        self._pending[self._serial] = pending
        if kick:
            self.kick_if_wanted()
        return pending

    def kick_if_wanted(self) -> bool:
        """Kicks for all chains added since the last call, unless the device wants no kick."""
        wanted = bool(lib.vgc_vq_should_kick(self._vq))
        if wanted:
            self.kick()
        return wanted

    def kick(self) -> None:
        """Kicks unconditionally."""
        os.eventfd_write(self.kick_fd, 1)

    def poll(self) -> list[Pending]:
        """Takes all requests that have come back, without waiting.

        :raise DeviceMisbehavedError: the device returned a head that is not in flight.
        """
        done = []
        token, length = ffi.new("void **"), ffi.new("uint32_t *")
        while (taken := lib.vgc_vq_take(self._vq, token, length)) > 0:
            pending = self._pending.pop(int(ffi.cast("uintptr_t", token[0])))
            pending.used_len = int(length[0])
            raw = b"".join(self.region.read(block) for block in pending.writable)
            pending.reply = Reply.parse(raw, pending.used_len)
            self._release(pending.owned)
            done.append(pending)
        if taken < 0:
            raise DeviceMisbehavedError(f"used ring: {self.raw.used_entry(int(self._vq.last_used))}")
        return done

    def wait(self, pending: Pending, timeout_s: float = ANSWERS_WITHIN_S) -> Reply:
        """Sleep on the call eventfd until `pending` is done; others that finish meanwhile are kept.

        :raise DriverTimeoutError: the request is not done in time.
        """
        deadline = time.monotonic() + timeout_s  # noqa: TID251  for a device that hangs
        while pending.reply is None:
            self.poll()
            if pending.reply is None and not lib.vgc_vq_enable_call(self._vq):
                self._sleep(deadline)
            lib.vgc_vq_disable_call(self._vq)
        return pending.reply

    def replace_call(self, fd: int) -> None:
        """Takes over `fd`, which is readable once per call from now on."""
        os.close(self.call_fd)
        self.call_fd = fd

    def _sleep(self, deadline: float) -> None:
        poller = select.poll()
        poller.register(self.call_fd, select.POLLIN)
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))  # noqa: TID251
        if not poller.poll(left_ms):
            raise DriverTimeoutError(f"no call; {self.num_pending} requests in flight")
        os.read(self.call_fd, 8)

    def _release(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self.region.release(block)


class FakeDriver:
    """Driver of virtio-gpu-compute with one or more queues. Owns the eventfds, not the region."""

    def __init__(
        self,
        region: Region,
        *,
        num_queues: int = 1,
        queue_size: int = 128,
        event_idx: bool = True,
        indirect: bool = True,
    ) -> None:
        """Places the queues in the region and makes a pair of eventfds for each."""
        self.region = region
        self.event_idx, self.indirect = event_idx, indirect
        self.queues = [
            FakeQueue(
                region,
                RingPlacement.allocate(region, queue_size),
                os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
                os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK),
                event_idx=event_idx,
                indirect=indirect,
            )
            for _ in range(num_queues)
        ]
        self._next_id = 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the eventfds; does nothing the second time."""
        for queue in self.queues:
            os.close(queue.kick_fd)
            os.close(queue.call_fd)
        self.queues = []

    def submit(
        self,
        opcode: int,
        body: Mapping[str, object] | bytes = b"",
        trailing: bytes = b"",
        payload_in: bytes | Block = b"",
        writable_len: int = 0,
        *,
        queue: int = 0,
        context: int = 0,
        stream: int = 0,
        flags: int = 0,
        cuts: Sequence[int] = (),
        payload_out: Block | None = None,
        kick: bool = True,
    ) -> Pending:
        """Publishes a request and returns at once.

        `writable_len`: room for payload besides the response; with `payload_out`, the device writes it into that block
        of the caller's. `cuts`: positions in header, body and trailing bytes where one descriptor ends and the next
        begins. Memory that is allocated here is freed by :meth:`wait`.
        """
        request_id, self._next_id = self._next_id, self._next_id + 1
        stream_bytes = trailing if isinstance(payload_in, Block) else trailing + payload_in
        head = pack_request(opcode, body, context=context, stream=stream, request_id=request_id, flags=flags)
        readable = [self._filled(piece) for piece in _cut(head + stream_bytes, cuts)]
        writable = [self._filled(bytes([UNWRITTEN]) * RESPONSE_BYTES)]
        if writable_len and payload_out is None:
            writable.append(self._filled(bytes([UNWRITTEN]) * writable_len))
        owned = [*readable, *writable]
        readable += [payload_in] if isinstance(payload_in, Block) else []
        writable += [payload_out] if payload_out else []
        try:
            pending = self.queues[queue].add(readable, writable, kick=kick)
        except RingFullError:
            self._release(owned)
            raise
        pending.owned += owned
        return pending

    def wait(self, pending: Pending, *, queue: int = 0, timeout_s: float = ANSWERS_WITHIN_S) -> Reply:
        """Wait for one request.

        :raise DriverTimeoutError: the request is not done in time.
        """
        return self.queues[queue].wait(pending, timeout_s)

    def request(
        self,
        opcode: int,
        body: Mapping[str, object] | bytes = b"",
        trailing: bytes = b"",
        payload_in: bytes | Block = b"",
        writable_len: int = 0,
        *,
        queue: int = 0,
        context: int = 0,
        stream: int = 0,
        flags: int = 0,
        cuts: Sequence[int] = (),
        payload_out: Block | None = None,
        timeout_s: float = ANSWERS_WITHIN_S,
    ) -> Reply:
        """Submits a request and waits for it."""
        pending = self.submit(
            opcode,
            body,
            trailing,
            payload_in,
            writable_len,
            queue=queue,
            context=context,
            stream=stream,
            flags=flags,
            cuts=cuts,
            payload_out=payload_out,
        )
        return self.wait(pending, queue=queue, timeout_s=timeout_s)

    def _filled(self, data: bytes) -> Block:
        block = self.region.allocate(len(data))
        self.region.write(block, data)
        return block

    def _release(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            self.region.release(block)


def _cut(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    """Splits `data` at ascending positions."""
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(edges)]
