"""Arrays, textures and surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from guest_driver import byte_order, job
from guest_driver._lib import check, ffi, lib
from guest_driver.memory import DeviceMemory

if TYPE_CHECKING:
    from numpy.typing import DTypeLike, NDArray

    from guest_driver.handle import Handle

EDGES: Final = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
_KINDS: Final = {"i": 0, "u": 1, "f": 2}


def _format(dtype: DTypeLike, channels: int) -> dict[str, int]:
    """Fields `kind`, `bits` and `channels` for texels.

    :raise TypeError: no texture has channels of this type.
    """
    import numpy as np

    kind = np.dtype(dtype)
    if kind.kind not in _KINDS or kind.itemsize not in (1, 2, 4):
        raise TypeError(f"channels of {kind}; allowed: integers of 1, 2, 4 bytes, floats of 2, 4 bytes")
    return {"kind": _KINDS[kind.kind], "bits": 8 * kind.itemsize, "channels": channels}


class TextureArray:
    """CUDA array: texels for textures and surfaces. A new one holds zeroes.

    :param shape: extents in texels as numpy counts them: (x,), (y, x) or (z, y, x); with `layered`, the first extent
        counts layers, with `cubemap`, faces.
    :param levels: levels of a mipmap.
    :param surface: surfaces may be made of it.
    :raise errors.Unsupported: the device has no textures.
    """

    def __init__(
        self,
        handle: Handle,
        shape: int | Sequence[int],
        dtype: DTypeLike = "float32",
        *,
        channels: int = 1,
        levels: int = 1,
        layered: bool = False,
        cubemap: bool = False,
        surface: bool = False,
        gather: bool = False,
    ) -> None:
        import numpy as np

        self.shape: tuple[int, ...] = (shape,) if isinstance(shape, int) else tuple(int(extent) for extent in shape)
        self.dtype: np.dtype[Any] = byte_order.here(np.dtype(dtype))
        self.channels = channels
        self.levels = levels
        self.is_layered = layered or cubemap
        if not 1 + self.is_layered <= len(self.shape) <= 3 or min(self.shape) < 1:
            raise ValueError(f"shape {self.shape}; allowed: up to three extents of 1 and more, layers among them")
        wanted = ffi.new("struct vgc_array_shape *", _format(dtype, channels) | self._extents() | {"levels": levels})
        wanted.flags = (
            lib.VGC_ARRAY_LAYERED * layered
            + lib.VGC_ARRAY_SURFACE * surface
            + lib.VGC_ARRAY_CUBEMAP * cubemap
            + lib.VGC_ARRAY_GATHER * gather
        )
        out = ffi.new("struct vgc_array **")
        check(lib.vgc_array_create(handle.pointer, wanted, out))
        self._handle = handle
        self._pointer = out[0]
        self._destroy = handle.on_collect(self, lib.vgc_array_destroy, self._pointer)

    def _extents(self) -> dict[str, int]:
        planes, rows = (self.shape[0], self.shape[1:]) if self.is_layered else (0, self.shape)
        extents = (*rows[::-1], 0, 0)
        return {"width": extents[0], "height": extents[1], "depth": planes or extents[2]}

    def __repr__(self) -> str:
        return f"<{self.shape} array of {self.channels} x {self.dtype} for textures>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    @property
    def pointer(self) -> Any:
        """Pointer for libvgc's functions.

        :raise ValueError: the array or its device is closed.
        """
        if not self._destroy.alive or not self._handle.is_open:
            raise ValueError("the array was freed, or its device closed")
        return self._pointer

    def free(self) -> None:
        """Frees the array, whose objects must not be used any more; a second call does nothing."""
        self._destroy()

    def level_shape(self, level: int) -> tuple[int, ...]:
        """Shape of a level as a numpy array; channels, if there are several, are its last axis."""
        extents = [
            extent if self.is_layered and axis == 0 else max(extent >> level, 1)
            for axis, extent in enumerate(self.shape)
        ]
        return (*extents, self.channels) if self.channels > 1 else tuple(extents)

    def set(self, texels: NDArray[Any], level: int = 0) -> None:
        """Copies a numpy array to a level.

        :raise ValueError: it has another shape or type than the level.
        """
        import numpy as np

        self._check_like(texels, level)
        with DeviceMemory(self._handle, texels.nbytes) as memory:
            memory.write(np.ascontiguousarray(texels, byte_order.on_device(self.dtype)))
            self._copy(self._side(level), self._memory_side(memory, level), level)

    def get(self, level: int = 0) -> NDArray[Any]:
        """Copies a level to a numpy array."""
        import numpy as np

        out = np.empty(self.level_shape(level), byte_order.on_device(self.dtype))
        with DeviceMemory(self._handle, out.nbytes) as memory:
            self._copy(self._memory_side(memory, level), self._side(level), level)
            memory.read_into(out)
        return out.astype(self.dtype, copy=False)

    def _check_like(self, texels: NDArray[Any], level: int) -> None:
        shape = self.level_shape(level)
        if texels.shape != shape or byte_order.here(texels.dtype) != self.dtype:
            raise ValueError(f"{texels.dtype} of shape {texels.shape}; level {level} is {self.dtype} of shape {shape}")

    def _box(self, level: int) -> tuple[int, int, int]:
        """Bytes of a row, rows and slices of a level."""
        shape = self.level_shape(level)
        extents = shape[:-1] if self.channels > 1 else shape
        width = extents[-1] * self.channels * self.dtype.itemsize
        if self.is_layered:
            return width, extents[1] if len(extents) > 2 else 1, extents[0]
        return width, extents[-2] if len(extents) > 1 else 1, extents[-3] if len(extents) > 2 else 1

    def _side(self, level: int) -> Any:
        return ffi.new("struct vgc_side *", {"array": self.pointer, "level": level})

    def _memory_side(self, memory: DeviceMemory, level: int) -> Any:
        width, height, _ = self._box(level)
        return ffi.new("struct vgc_side *", {"address": memory.address, "pitch": width, "slice": width * height})

    def _copy(self, dst: Any, src: Any, level: int) -> None:
        device, box = self._handle.pointer, self._box(level)
        job.run(
            self._handle,
            lambda out: lib.vgc_copy_box(device, dst, src, *box, 0, out),
            asynchronous=False,
            keep=(self,),
        )

    def surface(self, level: int = 0) -> KernelObject:
        """Makes a surface of a level."""
        out = ffi.new("uint64_t *")
        check(lib.vgc_surface_create(self.pointer, level, out))
        return KernelObject(self._handle, int(out[0]), self)


class KernelObject:
    """Texture or surface object, an argument for kernels. Keeps its array or memory alive."""

    def __init__(self, handle: Handle, number: int, source: TextureArray | DeviceMemory) -> None:
        self._handle = handle
        self._number = number
        self._epoch = handle.epoch
        self._source = source
        self._destroy = handle.on_collect_number(self, lib.vgc_object_destroy, number)

    @property
    def number(self) -> int:
        """Number for kernels.

        :raise errors.ObjectLost: the object went with an earlier context.
        """
        self._handle.check_epoch(self._epoch, "this texture or surface; allowed: making array and object again")
        return self._number

    def __repr__(self) -> str:
        return f"<object {self._number:#x} of {self._source}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    @property
    def is_alive(self) -> bool:
        return bool(self._destroy.alive)

    def free(self) -> None:
        """Destroys the object; a second call does nothing."""
        self._destroy()


Edge: TypeAlias = str | Sequence[str]
"""Treatment of coordinates outside of a texture: one of `EDGES`, or one for each of x, y and z."""


def edges_of(edge: Edge) -> list[int]:
    """Numbers of the modes along x, y and z.

    :raise ValueError: there is no such mode, or there are not three.
    """
    names = (edge,) * 3 if isinstance(edge, str) else tuple(edge)
    if len(names) != 3 or not set(names) <= set(EDGES):
        raise ValueError(f"edge {edge!r}; allowed: {', '.join(EDGES)}, or three of these")
    return [EDGES[name] for name in names]


def texture_of(
    handle: Handle,
    source: TextureArray | DeviceMemory,
    form: dict[str, Any],
    dtype: DTypeLike | None,
    pitch: tuple[int, int, int] | None,
) -> KernelObject:
    """Makes a texture of an array, or of memory: `pitch` is its width, its height and the bytes from row to row.

    :raise TypeError: memory has no type.
    """
    device = handle.pointer
    if isinstance(source, TextureArray):
        form["array"] = source.pointer
    else:
        kind = dtype if dtype is not None else getattr(source, "dtype", None)
        if kind is None:
            raise TypeError("memory has no type of its own: name the texels' dtype")
        form |= _format(kind, form.get("channels", 1)) | {"address": source.address}
        texel = form["channels"] * form["bits"] // 8
        width, height, bytes_ = pitch or (source.nbytes // texel, 1, 0)
        form |= {"width": width, "height": height, "pitch": bytes_}
    out = ffi.new("uint64_t *")
    check(lib.vgc_texture_create(device, ffi.new("struct vgc_texture_form *", form), out))
    return KernelObject(handle, int(out[0]), source)
