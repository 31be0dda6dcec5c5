"""Textures and surfaces of the CPU engine in device memory, by their descriptors alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.unit.cpu_rig import Rig
from tests.unit.texture_reference import Model

Array = np.ndarray[Any, Any]
TEXTURE, SURFACE = 0x58455456, 0x46525356
OTHER, NEAREST, LINEAR = range(3)
NORMALISED, AS_FLOAT, SRGB, FILTER, FILTER_LEVELS = 1, 2, 4, 8, 16

DESCRIPTOR = np.dtype([
    ("magic", "u4"), ("raw", "u1"), ("sample", "u1"), ("kind", "u1"), ("bits", "u1"), ("data", "u8"),
    ("width", "u4"), ("height", "u4"), ("depth", "u4"), ("layers", "u4"), ("pitch", "u8"), ("slice", "u8"),
    ("scale", "f4", 3), ("channels", "u1"), ("flags", "u1"), ("address", "u1", 3), ("reserved", "u1", 3),
    ("border", "f4", 4), ("bias", "f4"), ("min_level", "f4"), ("max_level", "f4"), ("levels", "u4"),
    ("level_layers", "u4"), ("rest", "u1", 24),
])  # fmt: skip
"""``struct vgc_texture`` of kernels/cpu/include/vgc_texture_layout.h."""


def _kind(dtype: np.dtype[Any]) -> int:
    return {"i": 0, "u": 1, "f": 2}[dtype.kind]


def _describe(rig: Rig, levels: list[Array], **fields: Any) -> np.uint64:
    first = levels[0]
    texels = rig.array((sum(level.size for level in levels),), first.dtype, np.concatenate([a.ravel() for a in levels]))
    layers, depth, height, width, channels = first.shape
    made = rig.array((1,), DESCRIPTOR)
    values = {
        "kind": _kind(first.dtype), "bits": 8 * first.itemsize, "data": texels.ctypes.data, "width": width,
        "height": height, "depth": depth, "layers": layers, "pitch": width * channels * first.itemsize,
        "slice": height * width * channels * first.itemsize, "channels": channels, "level_layers": layers,
        "levels": len(levels),
    }  # fmt: skip
    for name, value in (values | fields).items():
        made[name] = value
    return np.uint64(made.ctypes.data)


def texture(rig: Rig, model: Model, sample: int = OTHER) -> np.uint64:
    """Texture object for what a model describes. `sample`: samples that kernels compute themselves, if that fits."""
    first = model.levels[0]
    is_raw = first.itemsize == 4 or (first.dtype.kind != "f" and not model.as_float)
    flags = NORMALISED * model.normalised | AS_FLOAT * model.as_float | SRGB * model.srgb
    sizes = first.shape[3:0:-1]
    return _describe(
        rig, list(model.levels), magic=TEXTURE, raw=is_raw * first.itemsize * first.shape[4], sample=sample,
        scale=sizes if model.normalised else (1, 1, 1), address=model.address, border=model.border, bias=model.bias,
        min_level=model.level_range[0], max_level=model.level_range[1],
        flags=flags | FILTER * model.linear | FILTER_LEVELS * model.linear_levels,
    )  # fmt: skip


def surface(rig: Rig, texels: Array) -> tuple[np.uint64, Array]:
    """Surface object of texels (layer, z, y, x, channel), and its descriptor's memory as the texels."""
    layers, depth = texels.shape[:2]
    handle = _describe(
        rig, [texels], magic=SURFACE, raw=texels.itemsize * texels.shape[4], layers=layers * depth, depth=1
    )
    address, _ = rig.allocations[-2]
    return handle, view(address, texels.shape, texels.dtype)


def view(address: int, shape: tuple[int, ...], dtype: Any) -> Array:
    """Device memory as an array."""
    from vhost_backend._dataplane import ffi

    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.frombuffer(ffi.buffer(ffi.cast("char *", address), size), dtype).reshape(shape)
