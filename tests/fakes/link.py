"""The link between a guest that uses libvgc and a device on this machine: region, configuration file, eventfds.

The device can be `tests.fakes.device.FakeDevice`, a data plane in this process, or the real daemon through the fake
frontend.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.fakes.region import Region
from tests.fakes.ring import RingPlacement
from virtio_proto import schema
from virtio_proto.schema import DeviceFeature, EngineKind, Health

HEADER_BYTES: Final = 4096
FEATURES: Final = 1 << 28 | 1 << 29 | 1 << 32
"""RING_INDIRECT_DESC, RING_EVENT_IDX, VERSION_1."""


def _up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def placements(num_queues: int, ring_size: int) -> list[RingPlacement]:
    """Placements of the rings, as libvgc's transport.c lays them out."""
    avail = _up(16 * ring_size, 64)
    used = _up(avail + 6 + 2 * ring_size, 64)
    stride = _up(used + 6 + 8 * ring_size, 4096)
    bases = [HEADER_BYTES + stride * index for index in range(num_queues)]
    return [RingPlacement(base, base + avail, base + used, ring_size) for base in bases]


def shared_file(path: Path, size: int) -> int:
    """Makes a file of `size` zeros, with its folder; returns its descriptor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.ftruncate(fd, size)
    return fd


class GuestLink:
    """Everything that a guest's handle and a device share; owns it. `name` tells links of one state folder apart.

    In `folder`, the region and the configuration space are files of these names: ``region`` and ``config``.
    """

    def __init__(
        self,
        *,
        name: str = "vm",
        region_bytes: int = 4 << 20,
        num_queues: int = 2,
        ring_size: int = 64,
        folder: Path | None = None,
        **config: Any,
    ) -> None:
        self.name = name
        self.region = Region(region_bytes, fd=-1 if folder is None else shared_file(folder / "region", region_bytes))
        self.rings = placements(num_queues, ring_size)
        self.kick_fds = [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(num_queues)]
        self.call_fds = [os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK) for _ in range(num_queues)]
        self.config_fd = (
            os.memfd_create("config", os.MFD_CLOEXEC) if folder is None else shared_file(folder / "config", 0)
        )
        self.config: dict[str, Any] = {
            "magic": schema.CONFIG_MAGIC,
            "version": schema.WIRE_VERSION,
            "fingerprint": schema.FINGERPRINT,
            "device_features": DeviceFeature.CALL | DeviceFeature.EVENTS,
            "num_queues": num_queues,
            "queue_depth": 64,
            "region_size": region_bytes,
            "region_device_address": 0,
            "engine_kind": EngineKind.NULL,
            "health": Health.READY,
            "generation": 1,
            "quota_pes": 2,
            "quota_memory_bytes": 1 << 24,
            "deadline_ns": 10**9,
            "max_contexts": 4,
            "max_streams": 8,
            "uuid": bytes(range(16)),
            "engine_name": b"fake engine".ljust(64, b"\0"),
            "vm_name": b"fake vm".ljust(64, b"\0"),
            "driver_ack": 0,
            "allotment": 1,
        }
        self.set_config(**config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.region.close()
        for fd in (*self.kick_fds, *self.call_fds, self.config_fd):
            os.close(fd)

    def set_config(self, **fields: Any) -> None:
        """Changes fields of the configuration space that the guest sees."""
        self.config |= fields
        self.set_config_bytes(schema.CONFIG.construct.build(self.config))

    def set_config_bytes(self, data: bytes) -> None:
        """Replaces the whole configuration space, for example with a daemon's answer to GET_CONFIG."""
        os.pwrite(self.config_fd, data.ljust(schema.LIMITS["CONFIG_SIZE"], b"\0"), 0)

    @property
    def acknowledged(self) -> int:
        """Allotment that the guest says it has taken."""
        space = os.pread(self.config_fd, schema.CONFIG.construct.sizeof(), 0)
        return int(schema.CONFIG.construct.parse(space).driver_ack)

    @property
    def fds(self) -> list[int]:
        """Descriptors that a process that gets `description` must inherit."""
        return [self.region.fd, self.config_fd, *self.kick_fds, *self.call_fds]

    @property
    def description(self) -> str:
        """Value of VGC_MEMFD."""
        kicks, calls = (":".join(map(str, fds)) for fds in (self.kick_fds, self.call_fds))
        return (
            f"name={self.name},region={self.region.fd},config={self.config_fd},gpa={self.region.gpa:#x},"
            f"features={FEATURES:#x},ring={self.rings[0].num},kick={kicks},call={calls}"
        )
