"""Configuration space of a VM's device, and the interrupt that announces its changes to the guest."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vhost_backend.daemon.allotment import Allotment
from vhost_backend.daemon.runstate import Lifecycle
from vhost_backend.fds import Fd
from vhost_backend.log import Logger
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import BackendRequest
from virtio_proto import schema
from virtio_proto.schema import EngineKind

_DONT_WAIT: Final = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_DRIVER_ACK: Final = next(f for f in schema.fields(schema.CONFIG) if f.name == "driver_ack")


@dataclass(slots=True)
class ConfigSpace:
    """Fields that the driver can read, and `driver_ack`, which it can write."""

    allotment: Allotment
    state: Lifecycle
    """State of the VM, which gives the health."""
    engine_kind: EngineKind = EngineKind.CPU
    asked_pes: int = 0
    """Processing elements shown until an engine says how many it has."""
    generation: int = 0
    engine_name: str = ""
    device_features: int = 0
    pes: int = 0
    """Processing elements of the worker."""
    offered_pes: int = 0
    """Processing elements that take the guest's work, if not all of the worker's do; else 0."""
    region_device_address: int = 0

    def read(self) -> bytes:
        """The whole space, zero-padded to its largest size."""
        vm = self.allotment.told
        quota = vm.quota
        packed = schema.CONFIG.construct.build(
            {
                "magic": schema.CONFIG_MAGIC,
                "version": schema.WIRE_VERSION,
                "fingerprint": schema.FINGERPRINT,
                "device_features": self.device_features,
                "num_queues": vm.num_queues,
                "queue_depth": quota.queue_depth,
                "region_size": vm.region_bytes,
                "region_device_address": self.region_device_address,
                "engine_kind": self.engine_kind,
                "health": self.state.health,
                "generation": self.generation,
                "quota_pes": self.offered_pes or self.pes or self.asked_pes,
                "quota_memory_bytes": quota.memory_bytes,
                "deadline_ns": vm.deadline_ns,
                "max_contexts": quota.contexts,
                "max_streams": quota.streams,
                "uuid": vm.uuid.bytes,
                "engine_name": _padded(self.engine_name),
                "vm_name": _padded(vm.name),
                "driver_ack": self.allotment.acknowledged,
                "allotment": self.allotment.number,
            }
        )
        return bytes(packed).ljust(schema.LIMITS["CONFIG_SIZE"], b"\0")

    def write(self, offset_bytes: int, data: bytes) -> None:
        """Takes `driver_ack` from a driver's write; QEMU sends the whole space with each."""
        space = bytearray(self.read())
        space[offset_bytes : offset_bytes + len(data)] = data
        start = _DRIVER_ACK.offset_bytes
        self.allotment.acknowledge(int.from_bytes(space[start : start + _DRIVER_ACK.size_bytes], "little"))


class ChangeNotice:
    """Raises the guest's config interrupt [vhost-user: BACKEND_CONFIG_CHANGE_MSG] if the frontend has a channel for it.

    Sent only while an enabled ring runs: QEMU 11.1 crashes on this message while the device is not started. A notice that
    could not be sent is sent when a ring is enabled, which is the last step of QEMU's to start a device.
    """

    def __init__(self, log: Logger, may_be_sent: Callable[[], bool]) -> None:
        self._log = log
        self._may_be_sent = may_be_sent
        self._channel: socket.socket | None = None
        self._pending = False

    def set_channel(self, channel: Fd) -> None:
        """Takes over the socket on which the frontend reads the backend's messages."""
        self.close()
        self._channel = socket.socket(fileno=channel.release())

    def close(self) -> None:
        """Closes the channel; notices are not sent any more."""
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    @property
    def channel(self) -> socket.socket | None:
        """Socket on which the frontend reads, which stays ours; None: it has sent no socket."""
        return self._channel

    @property
    def is_pending(self) -> bool:
        """True if the guest has yet to be told."""
        return self._pending

    def restore(self, channel: Fd | None, *, pending: bool) -> None:
        """Takes over the channel that another daemon had."""
        if channel is not None:
            self.set_channel(channel)
        self._pending = pending

    def send(self) -> None:
        """Tells the guest that the configuration space has changed, now or as soon as it may be told."""
        self._pending = not self._may_be_sent()
        if self._channel is None or self._pending:
            return
        try:
            self._channel.send(messages.build(BackendRequest.CONFIG_CHANGE_MSG), _DONT_WAIT)
        except BlockingIOError:
            self._log.debug("config_change_pending", reason="the frontend does not read", guest=True)
        except OSError as error:
            self._log.info("backend_channel_lost", error=str(error))
            self.close()

    def send_pending(self) -> None:
        """Sends a notice that had to wait, if any, and if it may be sent now."""
        if self._pending:
            self.send()


def _padded(text: str) -> bytes:
    """`text` in 64 bytes, cut between characters, with at least one NUL."""
    raw = text.encode()[:63]
    return raw.decode(errors="ignore").encode().ljust(64, b"\0")
