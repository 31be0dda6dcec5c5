"""vhost-user session: the state that a frontend builds up over one connection.

A session checks every message against that state and calls its `Device` with the consequences. Refusals:

- A message that the protocol does not allow, or that this backend does not offer, is a `FrontendError`. If it asked
  for a reply, it is answered with a failure and the session continues; else the connection is dropped.
- A malformed message leaves a stream that cannot be trusted: the connection is dropped.
- Values that the *guest* chooses (ring sizes and addresses) never drop the connection, because QEMU would exit: the
  ring is not served, and its err descriptor is signalled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

from vhost_backend.errors import FrontendError
from vhost_backend.fds import Fd
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.connection import Connection, Message
from vhost_backend.vhost_user.events import check_event
from vhost_backend.vhost_user.memory import MappedRegion, MemoryTable
from vhost_backend.vhost_user.messages import (
    OFFERED_FEATURES,
    OFFERED_PROTOCOL_FEATURES,
    U64,
    ConfigAccess,
    MemTable,
    ProtocolFeature,
    Region,
    Request,
    VirtioFeature,
    VringAddr,
    VringFd,
    VringState,
)
from vhost_backend.vhost_user.records import SessionRecord, record_of_vring, restored_vring
from vhost_backend.vhost_user.vring import Vring

MAX_RING_SIZE: Final = 1 << 15  # [virtio 1.3 §2.7]
"""Largest size of a split ring. A larger one ends the session; smaller wrong sizes are the guest's choice."""


class Device(Protocol):
    """Interface of the device behind a session. No method may block or raise.

    `async` methods have taken effect on return, because the frontend acts on that (it unmaps memory, or assumes that a
    replaced descriptor can no longer deliver an interrupt); but they take a tenth of a second at most.
    """

    @property
    def num_queues(self) -> int: ...

    def config_read(self) -> bytes:
        """Whole configuration space, `CONFIG_SPACE_BYTES` long."""
        ...

    def config_write(self, offset_bytes: int, data: bytes) -> None:
        """Applies a write by the driver; read-only fields keep their values."""
        ...

    def backend_channel_set(self, channel: Fd) -> None:
        """Takes over the socket on which the backend may send messages to the frontend."""
        ...

    async def memory_changed(self, table: MemoryTable) -> None: ...

    async def vring_started(self, vring: Vring) -> None: ...

    async def vring_enabled(self, vring: Vring) -> None:
        """Called after `vring.enabled` of a running ring changed."""
        ...

    async def vring_fd_changed(self, vring: Vring, name: str) -> None:
        """Called after the "kick" or "call" descriptor of a running ring was replaced."""
        ...

    async def vring_stopped(self, vring: Vring) -> int:
        """Stops the ring; returns the avail index at which it can resume."""
        ...

    async def reset(self) -> None:
        """Drops all state of the guest on the device."""
        ...


class Session:
    """Serves one connection; owns memory table and vrings until `close`.

    Handlers are found by name: `_on_<request>`, the name of the request in lower case.
    """

    def __init__(self, connection: Connection, device: Device) -> None:
        self._connection = connection
        self._device = device
        self.acked_features = VirtioFeature(0)
        self.acked_protocol_features = ProtocolFeature(0)
        self.memory = MemoryTable()
        self.vrings = [Vring(index) for index in range(device.num_queues)]
        self.refused: Callable[[FrontendError], None] = lambda _error: None
        """Callback for each message that was answered with a failure."""
        self._handlers: dict[Request, Callable[[Message], Awaitable[bytes | None]]] = {
            request: getattr(self, f"_on_{request.name.lower()}") for request in Request
        }

    async def run(self) -> None:
        """Serves until the frontend closes the connection.

        :raise FrontendError: the frontend broke the protocol and the connection must be dropped.
        :raise OSError: the connection failed.
        """
        while (message := await self._connection.receive()) is not None:
            with message:
                await self._serve(message)
            await asyncio.sleep(0)  # a frontend that never pauses must not starve the others

    def close(self) -> None:
        """Closes the connection and every descriptor that the session holds."""
        self._connection.close()
        self.memory.clear()
        for vring in self.vrings:
            vring.close()

    # ---- for a daemon that takes over ---------------------------------------------

    def record(self) -> tuple[SessionRecord, dict[str, Fd]]:
        """The state between two messages, and its descriptors, which stay the session's."""
        fds = {f"m{number}": entry.fd for number, entry in enumerate(self.memory)}
        for vring in self.vrings:
            for name in ("kick", "call", "err"):
                fd: Fd | None = getattr(vring, name)
                if fd is not None:
                    fds[f"{name}{vring.index}"] = fd
        regions = tuple(
            (entry.region.gpa, entry.region.uva, entry.region.size_bytes, entry.region.offset_bytes)
            for entry in self.memory
        )
        vrings = tuple(record_of_vring(vring) for vring in self.vrings)
        return SessionRecord(int(self.acked_features), int(self.acked_protocol_features), regions, vrings), fds

    def restore(self, record: SessionRecord, fds: Mapping[str, Fd]) -> None:
        """Takes over the state, and the descriptors, that another daemon's session had. To be called first."""
        self.acked_features = VirtioFeature(record.features)
        self.acked_protocol_features = ProtocolFeature(record.protocol_features)
        for number, (gpa, uva, size, offset) in enumerate(record.regions):
            region = Region(messages.Gpa(gpa), size, messages.Uva(uva), offset)
            self.memory.restore(MappedRegion(region, fds[f"m{number}"]))
        self.vrings = [restored_vring(index, one, fds) for index, one in enumerate(record.vrings)]

    # ----------------------------------------------------------------------------------------------

    async def _serve(self, message: Message) -> None:
        """Handles one message and sends its reply, if it needs one."""
        request, need_reply = message.header.request, message.header.need_reply
        if need_reply and not self._may_need_reply(message):
            raise FrontendError(request.name, "flags", "need_reply", "only after REPLY_ACK was negotiated")
        status = 0
        reply = None
        try:
            self._check_negotiated(request)
            reply = await self._handlers[request](message)
        except FrontendError as error:
            if not need_reply:
                raise
            self.refused(error)
            status = 1
        if reply is None and need_reply:
            reply = messages.u64(status)
        await self._connection.answer(b"" if reply is None else messages.build_reply(request, reply))

    def _may_need_reply(self, message: Message) -> bool:
        """True if REPLY_ACK is negotiated. Linux as the frontend asks for a reply to the message that negotiates it."""
        acked = int(self.acked_protocol_features)
        if message.header.request is Request.SET_PROTOCOL_FEATURES:
            assert isinstance(message.payload, U64)
            acked |= message.payload.value
        return bool(acked & ProtocolFeature.REPLY_ACK)

    def _check_negotiated(self, request: Request) -> None:
        needed = messages.required_feature(request)
        if needed is not None and not self.acked_protocol_features & needed:
            raise FrontendError(request.name, "protocol feature", "not negotiated", f"only with {needed.name}")

    def _vring(self, request: Request, index: int) -> Vring:
        if index >= len(self.vrings):
            raise FrontendError(request.name, "vring index", index, f"0 to {len(self.vrings) - 1}")
        return self.vrings[index]

    async def _stopped_vring(self, request: Request, index: int) -> Vring:
        vring = self._vring(request, index)
        if vring.running and not vring.enabled:
            await self._stop_disabled()
        if vring.running:
            raise FrontendError(request.name, f"vring {index}", "running", "only while it is stopped or disabled")
        return vring

    async def _stop_disabled(self) -> None:
        """Stops all disabled rings, because one of them is set up anew.

        QEMU has stopped it with GET_VRING_BASE by then. Linux as the frontend never sends that: its driver disables all
        rings when it lets go of the device, and those of the next driver lie elsewhere.
        """
        for vring in self.vrings:
            if vring.running and not vring.enabled:
                await self._stop(vring)

    # ---- features --------------------------------------------------------------------------------

    async def _on_get_features(self, _message: Message) -> bytes:
        return messages.u64(OFFERED_FEATURES)

    async def _on_set_features(self, message: Message) -> None:
        assert isinstance(message.payload, U64)
        wanted = message.payload.value
        if wanted & ~OFFERED_FEATURES:
            raise FrontendError("SET_FEATURES", "features", hex(wanted), f"bits of {OFFERED_FEATURES:#x}")
        if wanted != self.acked_features:
            await self._stop_disabled()
            if any(vring.running for vring in self.vrings):
                allowed = "other features only while all are stopped or disabled"
                raise FrontendError("SET_FEATURES", "vrings", "running", allowed)
        self.acked_features = VirtioFeature(wanted)
        if not wanted & VirtioFeature.PROTOCOL_FEATURES:  # [vhost-user: Ring states] no message will
            for vring in self.vrings:
                vring.enabled = True

    async def _on_get_protocol_features(self, _message: Message) -> bytes:
        return messages.u64(OFFERED_PROTOCOL_FEATURES)

    async def _on_set_protocol_features(self, message: Message) -> None:
        assert isinstance(message.payload, U64)
        wanted = message.payload.value
        if wanted & ~OFFERED_PROTOCOL_FEATURES:
            allowed = f"bits of {OFFERED_PROTOCOL_FEATURES:#x}"
            raise FrontendError("SET_PROTOCOL_FEATURES", "features", hex(wanted), allowed)
        self.acked_protocol_features = ProtocolFeature(wanted)

    async def _on_set_owner(self, _message: Message) -> None:
        """Accepts the message; a connection has only one frontend."""

    async def _on_get_queue_num(self, _message: Message) -> bytes:
        return messages.u64(len(self.vrings))

    async def _on_get_max_mem_slots(self, _message: Message) -> bytes:
        return messages.u64(messages.MAX_MEM_SLOTS)

    async def _on_set_backend_req_fd(self, message: Message) -> None:
        channel = message.fds.take()
        if not channel.is_unix_stream():
            channel.close()
            raise FrontendError("SET_BACKEND_REQ_FD", "fd", "something else", "a connected UNIX stream socket")
        self._device.backend_channel_set(channel)

    async def _on_reset_device(self, _message: Message) -> None:
        for vring in self.vrings:
            vring.reset()
        await self._device.reset()

    # ---- configuration space ---------------------------------------------------------------------

    async def _on_get_config(self, message: Message) -> bytes:
        assert isinstance(message.payload, ConfigAccess)
        start, size = message.payload.offset_bytes, len(message.payload.data)
        return messages.config(start, self._device.config_read()[start : start + size], message.payload.flags)

    async def _on_set_config(self, message: Message) -> None:
        assert isinstance(message.payload, ConfigAccess)
        if message.payload.flags:
            raise FrontendError("SET_CONFIG", "config flags", message.payload.flags, "0 (no live migration)")
        self._device.config_write(message.payload.offset_bytes, message.payload.data)

    # ---- memory ----------------------------------------------------------------------------------

    async def _on_set_mem_table(self, message: Message) -> None:
        assert isinstance(message.payload, MemTable)
        fds = message.fds.take_all()
        pairs = zip(message.payload.regions, fds, strict=True)
        self.memory.replace("SET_MEM_TABLE", [MappedRegion(region, fd) for region, fd in pairs])
        await self._device.memory_changed(self.memory)

    async def _on_add_mem_reg(self, message: Message) -> None:
        assert isinstance(message.payload, Region)
        self.memory.add("ADD_MEM_REG", MappedRegion(message.payload, message.fds.take()))
        await self._device.memory_changed(self.memory)

    async def _on_rem_mem_reg(self, message: Message) -> None:
        assert isinstance(message.payload, Region)
        self.memory.remove("REM_MEM_REG", message.payload)
        await self._device.memory_changed(self.memory)

    # ---- vrings ----------------------------------------------------------------------------------

    async def _on_set_vring_num(self, message: Message) -> None:
        assert isinstance(message.payload, VringState)
        vring = await self._stopped_vring(message.header.request, message.payload.index)
        if not 0 < message.payload.value <= MAX_RING_SIZE:
            raise FrontendError("SET_VRING_NUM", "num", message.payload.value, f"1 to {MAX_RING_SIZE}")
        vring.size = message.payload.value

    async def _on_set_vring_addr(self, message: Message) -> None:
        assert isinstance(message.payload, VringAddr)
        vring = self._vring(message.header.request, message.payload.index)
        if vring.address != message.payload:
            vring = await self._stopped_vring(message.header.request, message.payload.index)
        vring.address = message.payload

    async def _on_set_vring_base(self, message: Message) -> None:
        assert isinstance(message.payload, VringState)
        vring = await self._stopped_vring(message.header.request, message.payload.index)
        if message.payload.value >= 1 << 16:
            raise FrontendError("SET_VRING_BASE", "num", message.payload.value, "0 to 65535")
        vring.base = message.payload.value

    async def _on_get_vring_base(self, message: Message) -> bytes:
        assert isinstance(message.payload, VringState)
        vring = self._vring(message.header.request, message.payload.index)
        if vring.running:
            await self._stop(vring)
        return messages.vring_state(vring.index, vring.base)

    async def _on_set_vring_kick(self, message: Message) -> None:
        vring = self._take_event(message, "kick")
        if vring.running:
            await self._device.vring_fd_changed(vring, "kick")
            return
        if vring.size == 0 or vring.address is None:
            vring.drop("kick")
            allowed = "only after SET_VRING_NUM and SET_VRING_ADDR"
            raise FrontendError("SET_VRING_KICK", f"vring {vring.index}", "not set up", allowed)
        await self._start(vring)

    async def _on_set_vring_call(self, message: Message) -> None:
        vring = self._take_event(message, "call")
        if vring.running:
            await self._device.vring_fd_changed(vring, "call")

    async def _on_set_vring_err(self, message: Message) -> None:
        self._take_event(message, "err")

    async def _on_set_vring_enable(self, message: Message) -> None:
        """Enables or disables a ring. QEMU enables every queue of the device, also those that no driver has set up."""
        assert isinstance(message.payload, VringState)
        vring = self._vring(message.header.request, message.payload.index)
        if not self.acked_features & VirtioFeature.PROTOCOL_FEATURES:
            raise FrontendError("SET_VRING_ENABLE", "features", "not negotiated", "only with PROTOCOL_FEATURES")
        if message.payload.value not in (0, 1):
            raise FrontendError("SET_VRING_ENABLE", "num", message.payload.value, "0 or 1")
        enabled = bool(message.payload.value)
        if enabled != vring.enabled:
            vring.enabled = enabled
            if vring.running:
                await self._device.vring_enabled(vring)

    def _take_event(self, message: Message, name: str) -> Vring:
        """Replaces the ring's descriptor `name` by that of the message, or None."""
        assert isinstance(message.payload, VringFd)
        vring = self._vring(message.header.request, message.payload.index)
        if not message.payload.has_fd:
            vring.drop(name)
            return vring
        check_event(message.header.request, message.fds.first)
        vring.replace(name, message.fds.take())
        return vring

    async def _stop(self, vring: Vring) -> None:
        vring.running = False  # before the wait: a worker that is replaced meanwhile must not restart the ring
        vring.stop(await self._device.vring_stopped(vring))

    async def _start(self, vring: Vring) -> None:
        """Starts a ring. If it does not resume where it was stopped, the guest began anew: resets the device first."""
        if vring.stopped_as is not None and vring.stopped_as != vring.identity():
            for other in self.vrings:
                other.stopped_as = None
            await self._device.reset()
        vring.running = True
        await self._device.vring_started(vring)
