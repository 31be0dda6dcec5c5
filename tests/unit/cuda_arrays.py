"""A guest's requests for arrays on the CUDA engine, over the fake driver."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from tests.fakes.cuda_driver import FakeDriver
from tests.fakes.driver import Reply
from tests.unit.cuda_rig import CUDA_LIMITS, IMAGE, fake_driver, plane
from tests.unit.plane_rig import Rig
from vhost_backend._dataplane import lib
from vhost_backend.worker.plane import PlaneLimits
from virtio_proto.schema import ArrayFlag, ChannelKind, Opcode, Status

Body = Mapping[str, Any]
PIECE: Final = 256 << 10
"""Bytes of a copy; the region holds no more than a few of these."""

FLOATS: Final[Body] = {"width": 16, "height": 8, "levels": 1, "kind": ChannelKind.FLOAT, "bits": 32, "channels": 1}
SHAPES: Final[dict[str, Body]] = {
    "1d": {"height": 0},
    "2d": {},
    "3d": {"depth": 5},
    "four channels": {"channels": 4, "bits": 16},
    "1d layered": {"height": 0, "depth": 3, "flags": ArrayFlag.LAYERED},
    "2d layered": {"depth": 3, "flags": ArrayFlag.LAYERED},
    "cubemap": {"width": 8, "depth": 6, "flags": ArrayFlag.CUBEMAP},
    "cubemaps": {"width": 8, "depth": 12, "flags": ArrayFlag.CUBEMAP | ArrayFlag.LAYERED},
    "mipmap": {"levels": 5},
    "3d mipmap": {"depth": 4, "levels": 3},
    "layered mipmap": {"depth": 3, "levels": 2, "flags": ArrayFlag.LAYERED},
    "more than the zeroes": {"width": 131072, "height": 9},
}
"""Changes of FLOATS."""


def level_size(shape: Body, level: int) -> tuple[int, int, int]:
    """Bytes of a row, rows, and slices, layers or faces of a level."""
    whole = {"depth": 0, "flags": 0} | dict(FLOATS) | dict(shape)
    width, height = (max(1, whole[name] >> level) for name in ("width", "height"))
    flat = whole["flags"] & (ArrayFlag.LAYERED | ArrayFlag.CUBEMAP)
    depth = whole["depth"] if flat else max(1, whole["depth"] >> level)
    return width * whole["channels"] * whole["bits"] // 8, height, depth


@dataclass
class Guest:
    """Short ways to requests of one context."""

    driver: FakeDriver
    rig: Rig
    context: int
    functions: dict[str, int]

    def ok(self, opcode: Opcode, body: Body | bytes = b"", trailing: bytes = b"", **options: Any) -> Reply:
        return self.rig.ok(opcode, body, trailing, **{"context": self.context} | options)

    def refused(self, opcode: Opcode, body: Body, context: int = 0) -> tuple[Status, str]:
        reply = self.rig.driver.request(opcode, body, writable_len=1024, context=context or self.context)
        assert reply.status is not Status.OK
        return reply.status, reply.text

    def array(self, **shape: Any) -> int:
        return self.ok(Opcode.ARRAY_CREATE, dict(FLOATS) | shape).value

    def upload(self, data: bytes) -> int:
        address = self.rig.alloc(self.context, len(data))
        for at in range(0, len(data), PIECE):
            piece = data[at : at + PIECE]
            self.ok(Opcode.COPY_IN, {"dst": address + at, "size": len(piece)}, payload_in=piece)
        return address

    def download(self, address: int, size: int) -> bytes:
        sizes = {at: min(PIECE, size - at) for at in range(0, size, PIECE)}
        return b"".join(
            self.ok(Opcode.COPY_OUT, {"src": address + at, "size": piece}, writable_len=piece).payload
            for at, piece in sizes.items()
        )

    def write(self, array: int, data: bytes, size: tuple[int, int, int], **place: int) -> None:
        """Copies rows that lie close together into an array."""
        row, height, depth = size
        box = {"src": self.upload(data), "src_pitch": row, "src_slice": row * height, "dst_array": array}
        self.ok(Opcode.COPY_BOX, box | {"width": row, "height": height, "depth": depth} | place)

    def read(self, array: int, size: tuple[int, int, int], **place: int) -> bytes:
        row, height, depth = size
        to = self.rig.alloc(self.context, row * height * depth)
        box = {"dst": to, "dst_pitch": row, "dst_slice": row * height, "src_array": array}
        self.ok(Opcode.COPY_BOX, box | {"width": row, "height": height, "depth": depth} | place)
        data = self.download(to, row * height * depth)
        self.ok(Opcode.FREE, {"address": to})
        return data

    def texel(self, made: int, x: int, y: int = 0, z: int = 0, size: int = 4) -> bytes:
        """A texel of a texture or surface, as a kernel reads it."""
        to = self.rig.alloc(self.context, 16)
        params = struct.pack("<QIIIxxxxQ", made, x, y, z, to)
        body = {"function": self.functions["read_texel"], "grid": [1, 1, 1], "block": [1, 1, 1]}
        self.ok(Opcode.LAUNCH, body | {"param_len": len(params)}, params, writable_len=512)
        return self.download(to, size)


@contextmanager
def guest(*settings: str, limits: PlaneLimits = CUDA_LIMITS, memory_kind: int = lib.VGC_CUDA_POOL) -> Iterator[Guest]:
    with (
        fake_driver(*settings) as driver,
        plane(driver, limits, lib.VGC_CUDA_MEMORY, memory_kind=memory_kind) as rig,
    ):
        context = rig.context()
        try:
            yield Guest(driver, rig, context, rig.load(context, IMAGE))
        finally:
            driver.go_on()
            driver.release()
