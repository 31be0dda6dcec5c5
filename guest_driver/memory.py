"""Device memory: raw bytes, and arrays with shape and type."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from guest_driver import byte_order, job
from guest_driver._lib import check, ffi, lib
from guest_driver.array_methods import ArrayMethods
from guest_driver.handle import key_of
from guest_driver.operators import ArrayOperators
from guest_driver.parts import part_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    from guest_driver.handle import Handle
    from guest_driver.job import Job
    from guest_driver.stream import Stream


def buffer_of(data: Any, *, writable: bool) -> Any:
    """Wraps a C-contiguous buffer as cffi memory.

    :raise TypeError: the buffer is not contiguous, or read-only although `writable`.
    """
    try:
        view = memoryview(data)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{type(data).__name__} is no buffer: {error}") from error
    if not view.c_contiguous:
        raise TypeError("the array is not C-contiguous: use numpy.ascontiguousarray")
    if writable and view.readonly:
        raise TypeError("the buffer is read-only")
    return ffi.from_buffer(data, require_writable=writable)


def numbers_of(given: Any) -> tuple[int, ...]:
    """Whole numbers, of Python's or numpy's, such as lengths of a shape: one, or a sequence.

    :raise TypeError: one is no whole number.
    """
    numbers = given if isinstance(given, Iterable) and not hasattr(given, "__index__") else (given,)
    try:
        return tuple(operator.index(number) for number in numbers)
    except TypeError:
        raise TypeError(f"{given!r}; allowed: a whole number, or several") from None


class DeviceMemory:
    """Device memory of `nbytes` bytes, freed by `free`, at the end of a `with` block, or when collected."""

    _REMEDY: ClassVar = "allowed: writing all of it, say in on_recovered, or allocating other memory"

    def __init__(self, handle: Handle, nbytes: int) -> None:
        self._handle = handle
        self.nbytes = nbytes
        self._allocate()

    def _allocate(self) -> None:
        out = ffi.new("uint64_t *")
        check(lib.vgc_alloc(self._handle.pointer, self.nbytes, out))
        self._take(int(out[0]), lib.vgc_free)

    def _take(self, address: int, release: Any) -> None:
        self._address = address
        self._epoch = self._handle.epoch
        self._free = self._handle.on_collect_number(self, release, address)

    @property
    def address(self) -> int:
        """Device address; 0 once the memory was freed.

        :raise errors.ObjectLost: the memory is lost.
        """
        if self._address:
            self._handle.check_epoch(self._epoch, f"{self.nbytes} bytes of device memory; {self._REMEDY}")
        return self._address

    @property
    def is_lost(self) -> bool:
        """True if the memory went with an earlier context. Writing all of it (`write`, `fill_bytes`, `copy_from`, an array's
        `set` and `fill`) allocates it anew, at another address.
        """
        return bool(self._address) and self._epoch != self._handle.epoch

    def _renew(self) -> None:
        """Allocates memory that is lost anew, for contents that are about to be written."""
        if self.is_lost:
            self._free()  # forgets the old address
            self._allocate()

    def _place(self) -> str:
        return "that is lost" if self.is_lost else f"at {self.address:#x}"

    def __repr__(self) -> str:
        return f"<{self.nbytes} bytes of device memory {self._place()}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def free(self) -> None:
        """Frees the memory; a second call does nothing."""
        self._free()
        self._address = 0

    def export(self) -> bytes:
        """Key by which other processes of the VM open the memory: see `Device.open_memory`.

        While one has it open, it outlives `free` and this process.
        """
        out = ffi.new("struct vgc_key *")
        check(lib.vgc_memory_export(self._handle.pointer, self._check_range(0, 0), out))
        return bytes(ffi.buffer(out))

    def _check_range(self, offset: int, size: int) -> int:
        if self.address == 0:
            raise ValueError("this device memory was freed")
        if offset < 0 or size < 0 or offset + size > self.nbytes:
            raise ValueError(f"bytes {offset} to {offset + size} of device memory that has {self.nbytes}")
        return self.address + offset

    def write(self, data: Any, offset: int = 0, stream: Stream | None = None) -> Job | None:
        """Copies a buffer in. With a stream it returns a job at once; the buffer must not change until that is done."""
        memory = buffer_of(data, writable=False)
        device, number = self._handle.pointer, _number(stream)
        if offset == 0 and len(memory) == self.nbytes:
            self._renew()
        address = self._check_range(offset, len(memory))
        done = job.run(
            self._handle,
            lambda out: lib.vgc_copy_in(device, address, memory, len(memory), number, out),
            asynchronous=stream is not None,
            keep=(memory, self),
        )
        return _tracked(done, stream)

    def read_into(self, data: Any, offset: int = 0, stream: Stream | None = None) -> Job | None:
        """Copies out into a writable buffer; with a stream it returns a job at once."""
        memory = buffer_of(data, writable=True)
        device, number = self._handle.pointer, _number(stream)
        address = self._check_range(offset, len(memory))
        done = job.run(
            self._handle,
            lambda out: lib.vgc_copy_out(device, memory, address, len(memory), number, out),
            asynchronous=stream is not None,
            keep=(memory, self),
        )
        return _tracked(done, stream)

    def read(self, size: int | None = None, offset: int = 0) -> bytes:
        """Copies out `size` bytes, by default all."""
        data = bytearray(self.nbytes - offset if size is None else size)
        self.read_into(data, offset)
        return bytes(data)

    def copy_from(self, other: DeviceMemory, stream: Stream | None = None) -> Job | None:
        """Copies all of `other` to this memory, on the device."""
        device, number = self._handle.pointer, _number(stream)
        source = other._check_range(0, other.nbytes)
        if other.nbytes == self.nbytes:
            self._renew()
        to = self._check_range(0, other.nbytes)
        done = job.run(
            self._handle,
            lambda out: lib.vgc_copy_device(device, to, source, other.nbytes, number, out),
            asynchronous=stream is not None,
            keep=(other, self),
        )
        return _tracked(done, stream)

    def fill_bytes(self, unit: bytes, stream: Stream | None = None) -> Job | None:
        """Fills the memory with repetitions of `unit` (1, 2, 4 or 8 bytes)."""
        device, number = self._handle.pointer, _number(stream)
        self._renew()
        address, value = self._check_range(0, self.nbytes), int.from_bytes(unit, "little")
        done = job.run(
            self._handle,
            lambda out: lib.vgc_fill(device, address, value, len(unit), self.nbytes, number, out),
            asynchronous=stream is not None,
            keep=(self,),
        )
        return _tracked(done, stream)


class OpenedMemory(DeviceMemory):
    """Device memory of another process of the VM. `free` gives it up, and the other process keeps it."""

    _REMEDY: ClassVar = "allowed: opening memory that its process has exported anew"

    def __init__(self, handle: Handle, key: bytes) -> None:
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        check(lib.vgc_memory_open(handle.pointer, key_of(key), address, size))
        self._handle = handle
        self.nbytes = int(size[0])
        self._take(int(address[0]), lib.vgc_memory_close)

    def _renew(self) -> None:
        """Does nothing: only the process that made the memory can allocate it."""


def _number(stream: Stream | None) -> int:
    return 0 if stream is None else stream.number


def _tracked(done: Any, stream: Stream | None) -> Job | None:
    return None if stream is None else stream.track(done)


class ArrayFunctions(Protocol):
    """Computes what numpy's functions and operators ask of arrays on the device. See numpy's NEP 13 and NEP 18."""

    def ufunc(self, ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Applies a universal function, or a method of it.

        :raise TypeError: it is not available for arrays on the device.
        """

    def function(self, function: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> Any:
        """Applies another function of numpy.

        :raise TypeError: it is not available for arrays on the device.
        """

    def convert(self, array: DeviceArray, dtype: DTypeLike) -> DeviceArray:
        """Converts the elements to another type, in a new array."""

    def select(self, array: DeviceArray, index: Any) -> DeviceArray:
        """Copies what a mask, or indices along the first axis, name to a new array.

        :raise TypeError: the index is no array of bool or integers.
        :raise errors.InvalidArgument: a mask has a different shape.
        """

    def assign(self, array: DeviceArray, mask: Any, value: Any) -> None:
        """Changes elements where a mask is true to one value.

        :raise errors.InvalidArgument: the mask has a different shape.
        """


class DeviceArray(ArrayOperators, ArrayMethods, DeviceMemory):
    """Array on the device, with numpy's shape and dtype, in C order. Its dtype is in this machine's byte order, its elements
    on the device are little-endian.

    Operators and many functions of numpy compute on the device (docs/guest.md); others raise TypeError.
    """

    def __init__(self, handle: Handle, shape: int | Sequence[int], dtype: DTypeLike, functions: ArrayFunctions) -> None:
        import numpy as np

        self._functions = functions
        self.shape: tuple[int, ...] = numbers_of(shape)
        self.dtype: np.dtype[Any] = byte_order.here(np.dtype(dtype))
        if self.dtype.hasobject:
            raise TypeError(f"elements of {self.dtype} on the device; allowed: numbers and other types without objects")
        if min(self.shape, default=0) < 0:
            raise ValueError(f"shape {self.shape}; allowed: extents of 0 and more")
        self.size = math.prod(self.shape)
        super().__init__(handle, max(self.size * self.dtype.itemsize, 1))

    def __repr__(self) -> str:
        return f"<{self.shape} array of {self.dtype} on the device {self._place()}>"

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[DeviceArray]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> DeviceArray:
        """Part that lies in one piece; it shares this array's memory and keeps it alive.

        An array as index, of bool or of whole numbers along the first axis, makes a copy of what it names.

        :param index: whole numbers for the first axes, and at most one slice in steps of 1 behind them; or an array.
        :raise IndexError: an axis does not have the number, or there are more numbers than axes.
        :raise TypeError: it is a different kind of index, or the part does not lie in one piece.
        """
        if _is_array(index):
            return self._functions.select(self, index)
        first, shape = part_of(self.shape, index)
        return ArrayView(self, shape, first)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Fills a part with a number, or copies an array of the part's shape there.

        Device arrays have the same type, others are converted. Where an array of bool is the index, elements become one
        number. Errors are those of reading the part, `set` and `fill`.
        """
        import numpy as np

        if _is_array(index):
            self._functions.assign(self, index, value)
            return
        part = self[index]
        if isinstance(value, DeviceArray):
            part.check_like(value)
            if value.address != part.address and part.size > 0:
                part.copy_from(value)
        elif np.ndim(value):
            part.set(np.asarray(value, self.dtype))
        else:
            part.fill(value)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def T(self) -> DeviceArray:  # noqa: N802  numpy's name
        """Array itself if it is no matrix.

        :raise TypeError: it has two dimensions or more: arrays on the device are in C order.
        """
        if len(self.shape) < 2:
            return self
        raise TypeError(
            f"an array of shape {self.shape} on the device is not transposed: it is in C order; allowed: transpose_a and "
            "transpose_b of Device.blas.gemm, transpose of Device.blas.gemv, or .get().T for a numpy array"
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return self._functions.ufunc(ufunc, method, inputs, options)

    def __array_function__(
        self, function: Callable[..., Any], types: Sequence[type], args: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        import numpy as np

        if not all(issubclass(one, DeviceArray | np.ndarray) for one in types):
            return NotImplemented
        return self._functions.function(function, args, options)

    def __array__(self, *_args: Any, **_options: Any) -> NDArray[Any]:
        """Copies to the guest are not made in passing.

        :raise TypeError: always.
        """
        raise TypeError("a device array where a numpy array is needed: use .get()")

    def item(self) -> Any:
        """Copies the only element out, as a number of Python.

        :raise ValueError: there are more elements, or none.
        """
        if math.prod(self.shape) != 1:
            raise ValueError(
                f"an array of shape {self.shape} as one number; allowed: one element, as of any() or all()"
            )
        return self.get().item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(
                f"{self.dtype} of shape {self.shape} as a whole number; allowed: integers without dimensions"
            )
        return int(self.item())

    def __format__(self, form: str) -> str:
        if not self.shape:
            return format(self.item(), form)
        if form:
            raise TypeError(f"format {form!r} of an array of shape {self.shape}; allowed: arrays without dimensions")
        return repr(self)

    def astype(self, dtype: DTypeLike) -> DeviceArray:
        """Converts the elements to another type on the device, in a new array.

        :raise TypeError: a type is not among those of built-in functions.
        """
        return self._functions.convert(self, dtype)

    def reshape(self, *shape: int | Sequence[int]) -> DeviceArray:
        """Array of another shape that shares this one's memory and keeps it alive; one length may be -1: the rest.

        :param shape: lengths, or one sequence of them.
        :raise ValueError: the shape has a different number of elements.
        """
        given = numbers_of(shape[0] if len(shape) == 1 else shape)
        lengths = list(given)
        if lengths.count(-1) == 1:
            others = -math.prod(lengths)
            lengths[lengths.index(-1)] = self.size // others if others else -1
        if min(lengths, default=0) < 0 or math.prod(lengths) != self.size:
            raise ValueError(f"an array of shape {self.shape} as {given}; allowed: shapes of {self.size} elements")
        return ArrayView(self, lengths)

    def view(self, dtype: DTypeLike) -> DeviceArray:
        """Array of another type over the same memory, which it keeps alive; the last length is that of as many bytes.

        :raise ValueError: an array without dimensions whose elements have another size, or a length that is no whole number.
        """
        import numpy as np

        wanted = np.dtype(dtype)
        if byte_order.here(wanted) != wanted and byte_order.is_swapped(wanted):
            raise ValueError(f"an array of {self.dtype} as {wanted}; allowed: little-endian types, or .get().view()")
        wanted = byte_order.here(wanted)
        if wanted.itemsize == self.dtype.itemsize:
            return ArrayView(self, self.shape, dtype=wanted)
        last, rest = divmod(self.shape[-1] * self.dtype.itemsize, wanted.itemsize or 1) if self.shape else (0, 1)
        if rest or wanted.itemsize == 0 or wanted.hasobject:
            raise ValueError(
                f"an array of {self.dtype} with shape {self.shape} as {wanted}; allowed: types that fit its rows"
            )
        return ArrayView(self, (*self.shape[:-1], last), dtype=wanted)

    @property
    def real(self) -> Any:
        """Real parts, as ``numpy.real``: a copy of those of complex numbers."""
        return self._functions.function(_numpy().real, (self,), {})

    @property
    def imag(self) -> Any:
        """Imaginary parts, as ``numpy.imag``: a copy."""
        return self._functions.function(_numpy().imag, (self,), {})

    def conj(self) -> Any:
        """Complex conjugates, as ``numpy.conj``."""
        return _numpy().conjugate(self)

    def first(self, count: int) -> DeviceArray:
        """Vector of the first elements in C order, which shares this array's memory and keeps it alive.

        :raise ValueError: there are fewer elements.
        """
        if not 0 <= count <= self.size:
            raise ValueError(f"the first {count} elements of {self.size}; allowed: 0 to {self.size}")
        return ArrayView(self, [count])

    def copy(self) -> DeviceArray:
        """Copies the array on the device."""
        copy = DeviceArray(self._handle, self.shape, self.dtype, self._functions)
        if self.size > 0:
            copy.copy_from(self)
        return copy

    def tolist(self) -> Any:
        """Copies the elements out, to nested lists of Python's numbers, as numpy's method does."""
        return self.get().tolist()

    def get(self, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Copies the contents to a numpy array, `out` if given.

        :raise ValueError: `out` has a different shape or type.
        """
        import numpy as np

        if out is None:
            out = np.empty(self.shape, self.dtype)
        self.check_like(out)
        if self.size > 0 and byte_order.on_device(out.dtype) == out.dtype:
            self.read_into(out)
        elif self.size > 0:
            told = np.empty(self.shape, byte_order.on_device(self.dtype))
            self.read_into(told)
            out[...] = told
        return out

    def set(self, array: NDArray[Any]) -> None:
        """Copies a numpy array of the same shape and type in."""
        import numpy as np

        self.check_like(array)
        if self.size > 0:
            self.write(np.ascontiguousarray(array, byte_order.on_device(self.dtype)))
        else:
            self._renew()

    def fill(self, value: Any) -> None:
        """Sets every element, on the device.

        :raise ValueError: there are several values. :raise TypeError: elements of this type are not 1, 2, 4 or 8 bytes long.
        """
        import numpy as np

        if self.dtype.itemsize not in (1, 2, 4, 8):
            raise TypeError(f"cannot fill elements of {self.dtype}: {self.dtype.itemsize} bytes; allowed: 1, 2, 4, 8")
        element = np.array(value, byte_order.on_device(self.dtype))
        if element.shape:
            raise ValueError(f"values of shape {element.shape} for every element; allowed: one number")
        if self.size > 0:
            self.fill_bytes(element.tobytes())
        else:
            self._renew()

    def check_like(self, array: DeviceArray | NDArray[Any]) -> None:
        """Checks that an array has this one's shape and type.

        :raise ValueError: it has not.
        """
        if array.shape != self.shape or byte_order.here(array.dtype) != self.dtype:
            raise ValueError(
                f"an array of {array.dtype} with shape {array.shape}; on the device it is {self.dtype} with shape "
                f"{self.shape}"
            )


def _numpy() -> Any:
    """numpy, which is imported when it is first needed."""
    import numpy as np

    return np


def _is_array(index: Any) -> bool:
    """Whether an index is an array with dimensions, not a number."""
    return bool(getattr(index, "shape", None)) and hasattr(index, "dtype")


class ArrayView(DeviceArray):
    """Array over a part of another array's memory. `free` ends the view alone.

    :param first: number of the other array's element where the part begins. :param dtype: type, by default the array's.
    """

    def __init__(
        self, base: DeviceArray, shape: Sequence[int], first: int = 0, *, dtype: np.dtype[Any] | None = None
    ) -> None:
        self._base: DeviceArray | None = base
        self._handle = base._handle  # noqa: SLF001  a view is made of its base's parts
        self._functions = base._functions  # noqa: SLF001
        self.shape = tuple(shape)
        self.dtype = base.dtype if dtype is None else dtype
        self.size = math.prod(self.shape)
        self.nbytes = max(self.size * self.dtype.itemsize, 1)
        self._begin = first * base.dtype.itemsize

    @property
    def is_lost(self) -> bool:
        """True if the array's memory went with an earlier context; a view of all of it can be written."""
        return self._base is not None and self._base.is_lost

    def _renew(self) -> None:
        if self._base is not None and self.nbytes == self._base.nbytes:
            self._base._renew()  # noqa: SLF001

    @property
    def address(self) -> int:
        """Device address; 0 once the view or its array was freed.

        :raise errors.ObjectLost: the array's memory is lost.
        """
        base = 0 if self._base is None else self._base.address
        return base and base + self._begin

    def free(self) -> None:
        """Ends the view. The memory stays as long as its array or other views need it."""
        self._base = None
