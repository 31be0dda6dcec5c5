"""The device's configuration space, as the daemon keeps it for one VM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vhost_backend.config import VmConfig
from virtio_proto import schema
from virtio_proto.schema import EngineKind, Health

_DRIVER_ACK: Final = next(f for f in schema.fields(schema.CONFIG) if f.name == "driver_ack")


@dataclass(slots=True)
class ConfigSpace:
    """What the driver can read, and the one field it can write."""

    vm: VmConfig
    engine_kind: EngineKind = EngineKind.CPU
    asked_pes: int = 0
    """What stands there until an engine says what it has given."""
    health: Health = Health.STARTING
    generation: int = 0
    engine_name: str = ""
    device_features: int = 0
    pes: int = 0
    region_device_address: int = 0
    driver_ack: int = 0

    def read(self) -> bytes:
        """The whole space, zero-padded to its largest size."""
        quota = self.vm.quota
        packed = schema.CONFIG.construct.build(
            {
                "magic": schema.CONFIG_MAGIC,
                "version": schema.WIRE_VERSION,
                "fingerprint": schema.FINGERPRINT,
                "device_features": self.device_features,
                "num_queues": self.vm.num_queues,
                "queue_depth": quota.queue_depth,
                "region_size": self.vm.region_bytes,
                "region_device_address": self.region_device_address,
                "engine_kind": self.engine_kind,
                "health": self.health,
                "generation": self.generation,
                "quota_pes": self.pes or self.asked_pes,
                "quota_memory_bytes": quota.memory_bytes,
                "deadline_ns": self.vm.deadline_ns,
                "max_contexts": quota.contexts,
                "max_streams": quota.streams,
                "uuid": self.vm.uuid.bytes,
                "engine_name": _padded(self.engine_name),
                "vm_name": _padded(self.vm.name),
                "driver_ack": self.driver_ack,
                "reserved": 0,
            }
        )
        return bytes(packed).ljust(schema.LIMITS["CONFIG_SIZE"], b"\0")

    def write(self, offset_bytes: int, data: bytes) -> None:
        """A driver's write: QEMU sends the whole space, and only `driver_ack` is taken from it."""
        space = bytearray(self.read())
        space[offset_bytes : offset_bytes + len(data)] = data
        start = _DRIVER_ACK.offset_bytes
        self.driver_ack = int.from_bytes(space[start : start + _DRIVER_ACK.size_bytes], "little")


def _padded(text: str) -> bytes:
    """`text` in 64 bytes, cut between characters, with at least one NUL."""
    raw = text.encode()[:63]
    return raw.decode(errors="ignore").encode().ljust(64, b"\0")
