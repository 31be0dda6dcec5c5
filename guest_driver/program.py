"""Programs, and their kernels as callables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, TypeAlias

from guest_driver import arguments, errors, job
from guest_driver._lib import check, ffi, lib, text
from guest_driver.arguments import Param, ParamKind

if TYPE_CHECKING:
    from guest_driver.handle import Handle
    from guest_driver.job import Job, Timing
    from guest_driver.stream import Stream
    from guest_driver.texture import KernelObject

LEAK_CHECK: Final = "--leak-check"
"""Option of the software GPU's compiler: unloading a program prints its blocks of ``malloc()`` that were not freed."""

REPEATS: Final = 5
"""Times that a launch which may be repeated is repeated, when worker after worker dies."""

Extent: TypeAlias = int | Sequence[int]
"""Size of a grid or a block: one to three numbers."""


def extents(what: str, given: Extent) -> tuple[int, int, int]:
    """Extends one, two or three numbers to three.

    :raise TypeError: `given` has no number, or more than three.
    """
    numbers = (given,) if isinstance(given, int) else tuple(int(number) for number in given)
    if not 1 <= len(numbers) <= 3:
        raise TypeError(f"a {what} of {len(numbers)} dimensions; allowed: 1 to 3")
    if any(not 0 <= number < 2**32 for number in numbers):
        raise errors.InvalidArgument(f"{what} {numbers}: every extent is at least 1 and below 2**31")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def geometry(grid: Extent, block: Extent, shared_bytes: int, stream: Stream | None, cooperative: bool = False) -> Any:
    """Geometry of a launch, as libvgc's struct."""
    fields = ffi.new("struct vgc_geometry *")
    fields.grid = extents("grid", grid)
    fields.block = extents("block", block)
    fields.shared_bytes = shared_bytes
    fields.stream = 0 if stream is None else stream.number
    fields.flags = lib.VGC_LAUNCH_COOPERATIVE if cooperative else 0
    return fields


@dataclass(frozen=True, slots=True)
class Variable:
    """``__device__`` or ``__constant__`` variable of a program."""

    name: str
    address: int
    size_bytes: int


class Function:
    """Kernel: ``function[grid, block](arguments...)`` runs it and waits; so does `launch`."""

    def __init__(self, program: Program | FoundFunction, pointer: Any) -> None:
        self._program = program  # keeps the program loaded
        self.take(pointer)

    def take(self, pointer: Any) -> None:
        """Becomes the function of libvgc at `pointer`: its program was loaded, or loaded again."""
        info = ffi.new("struct vgc_function_info *")
        lib.vgc_function_info(pointer, info)
        self._pointer = pointer
        self.name = text(info.short_name)
        self.linker_name = text(info.name)
        self.param_bytes = int(info.param_bytes)
        self.shared_bytes = int(info.shared_bytes)
        self.max_threads = int(info.max_threads)
        self.params = [self._param(index) for index in range(info.num_params)]

    def _param(self, index: int) -> Param:
        param = ffi.new("struct vgc_param *")
        check(lib.vgc_function_param(self._pointer, index, param))
        return Param(int(param.offset), int(param.size), ParamKind(param.kind))

    def __repr__(self) -> str:
        return f"<kernel {self.name}({', '.join(map(str, self.params))})>"

    def __call__(self, *_values: Any) -> NoReturn:
        """Kernels need a grid and blocks.

        :raise TypeError: always.
        """
        raise TypeError(f"{self.name}: say how many blocks and threads, {self.name}[grid, block](arguments)")

    def __getitem__(self, geometry: tuple[Any, ...]) -> Configured:
        """Binds a geometry: ``[grid, block]``, optionally followed by ``shared_bytes`` and ``stream``."""
        if not isinstance(geometry, tuple) or not 2 <= len(geometry) <= 4:
            raise TypeError(f"{self.name}[grid, block, shared_bytes=0, stream=None]: two to four values")
        return Configured(self, *geometry)

    def launch(
        self,
        grid: Extent,
        block: Extent,
        *values: Any,
        shared_bytes: int = 0,
        cooperative: bool = False,
        repeat: bool = False,
    ) -> Timing:
        """Runs the kernel and waits for it. A kernel whose blocks wait for each other takes `cooperative` on GPUs.

        :param repeat: on a device that recovers, a launch that ends with `errors.DeviceLost` is repeated, up to `REPEATS`
            times, behind the recovery: it computes the same from the data that `on_recovered` puts back.
        :raise TypeError: an argument does not fit its parameter.
        :raise errors.ObjectLost: an argument went with the worker, and was not put back.
        :raise errors.VgcError: the launch failed.
        """
        if repeat and not self._program.handle.recovers:
            raise errors.InvalidArgument(f"{self.name}: repeat=True; allowed: on Device(recover=True)")
        for left in reversed(range(1 + REPEATS * repeat)):
            try:
                return self._launch(grid, block, values, shared_bytes, cooperative)
            except errors.ObjectLost:
                raise
            except errors.DeviceLost:
                if left == 0:
                    raise
        raise AssertionError("the last try returns or raises")

    def _launch(
        self, grid: Extent, block: Extent, values: tuple[Any, ...], shared_bytes: int, cooperative: bool
    ) -> Timing:
        self._program.check_loaded()
        done = self._start(geometry(grid, block, shared_bytes, None, cooperative), values, asynchronous=False)
        assert not isinstance(done, job.Job)
        return done

    def launch_async(
        self,
        grid: Extent,
        block: Extent,
        *values: Any,
        stream: Stream,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> Job:
        """Sends the kernel to a stream and returns at once."""
        self._program.check_loaded()
        done = self._start(geometry(grid, block, shared_bytes, stream, cooperative), values, asynchronous=True)
        assert isinstance(done, job.Job)
        return stream.track(done)

    def _start(self, where: Any, values: tuple[Any, ...], *, asynchronous: bool) -> Job | Timing:
        params = arguments.pack_all(self.name, self.params, self.param_bytes, values)
        return job.run_kernel(
            self._program.handle,
            lambda out: lib.vgc_launch_packed(self._pointer, where, params, len(params), out),
            asynchronous=asynchronous,
            keep=(values, self),
        )


@dataclass(frozen=True, slots=True)
class Configured:
    """Kernel with its geometry, callable with the arguments."""

    function: Function
    grid: Extent
    block: Extent
    shared_bytes: int = 0
    stream: Stream | None = None

    def __call__(self, *values: Any) -> Job | Timing:
        """Runs the kernel and waits; with a stream, returns a job at once."""
        if self.stream is None:
            return self.function.launch(self.grid, self.block, *values, shared_bytes=self.shared_bytes)
        return self.function.launch_async(
            self.grid, self.block, *values, stream=self.stream, shared_bytes=self.shared_bytes
        )


@dataclass(frozen=True, slots=True)
class Unit:
    """Source of a program of several, which the host links. Its options follow those of the program."""

    name: str
    """Name for errors, such as that of its file; unique in the program."""
    source: str | bytes
    options: Sequence[str] = ()


def _words(options: Sequence[str]) -> tuple[Any, list[Any]]:
    """Options as C has them, and what must live as long as these."""
    texts = [ffi.new("char[]", option.encode()) for option in options]
    return ffi.new("const char *[]", texts), texts


def _units(units: Sequence[Unit]) -> tuple[Any, list[Any]]:
    """Units as C has them, and what must live as long as these."""
    packed = ffi.new("struct vgc_source_unit[]", len(units))
    keep: list[Any] = []
    for unit, fields in zip(units, packed, strict=True):
        data = unit.source.encode() if isinstance(unit.source, str) else unit.source
        words, texts = _words(unit.options)
        keep += [ffi.new("char[]", unit.name.encode()), ffi.from_buffer(data), words, texts]
        fields.name, fields.text, fields.size = keep[-4], keep[-3], len(data)
        fields.options, fields.num_options = words, len(unit.options)
    return packed, keep


def _load(
    handle: Handle, source: bytes | Sequence[Unit], options: Sequence[str], kind: int, *, register: bool, keep: bool
) -> Any:
    """Has the host compile and load a program; returns libvgc's.

    :raise errors.VgcError: the host could not.
    """
    words, _keep = _words(options)
    out = ffi.new("struct vgc_program **")
    if register:
        check(lib.vgc_program_register(handle.pointer, kind, source, len(source), words, len(options), keep, out))
    elif isinstance(source, bytes):
        check(lib.vgc_program_load(handle.pointer, kind, source, len(source), words, len(options), out))
    else:
        units, _keep_units = _units(source)
        check(lib.vgc_program_link(handle.pointer, units, len(source), words, len(options), out))
    return out[0]


class FoundFunction:
    """Handle of a function of the VM or the host, which no program of this process has."""

    def __init__(self, handle: Handle, name: str) -> None:
        self.handle = handle
        self._name = name
        self.function = Function(self, self._find())

    def _find(self) -> Any:
        out = ffi.new("struct vgc_function **")
        check(lib.vgc_function_find(self.handle.pointer, self._name.encode(), out))
        self._epoch = self.handle.epoch
        self._release = self.handle.on_collect(self, lib.vgc_function_release, out[0])
        return out[0]

    def check_loaded(self) -> None:
        """Checks that the function can be used; after a recovery, it is found anew.

        :raise ValueError: its device is closed.
        :raise errors.VgcError: it cannot be found anew.
        """
        if not self._release.alive or not self.handle.is_open:
            raise ValueError("the function's device is closed")
        self.handle.recover()
        if self.handle.recovers and self._epoch != self.handle.epoch:
            before = self._release
            self.function.take(self._find())
            before()


class Program:
    """Loaded program. Its kernels: ``program["name"]`` or ``program.name``. `log` holds the compiler's warnings.

    On a device that recovers, it keeps its source, and is loaded again at its first use after a recovery: its variables
    have their initial values then, and nothing is bound.
    """

    def __init__(
        self,
        handle: Handle,
        source: bytes | Sequence[Unit],
        options: Sequence[str],
        kind: int,
        *,
        register: bool = False,
        keep: bool = False,
    ) -> None:
        load = partial(_load, handle, source, options, kind, register=register, keep=keep)
        self.handle = handle
        self._load_again: Callable[[], Any] | None = load if handle.recovers else None
        self._finds_leaks = LEAK_CHECK in options
        self._functions: dict[str, Function] = {}
        self._bound: dict[str, KernelObject] = {}
        self._take(load())

    def _take(self, pointer: Any) -> None:
        self._pointer = pointer
        self._epoch = self.handle.epoch
        self.log = text(lib.vgc_program_log(pointer))
        self._unload = self.handle.on_collect(self, lib.vgc_program_unload, pointer)
        for name in self._functions:
            self._functions[name].take(self._find(name))

    def _find(self, name: str) -> Any:
        out = ffi.new("struct vgc_function **")
        check(lib.vgc_program_function(self._pointer, name.encode(), out))
        return out[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unload()

    def __repr__(self) -> str:
        return f"<program with {', '.join(self)}>" if self.is_loaded else "<unloaded program>"

    @property
    def is_loaded(self) -> bool:
        return self._unload.alive and self.handle.is_open

    def check_loaded(self) -> None:
        """Checks that the program can be used; after a recovery, it is loaded again.

        :raise ValueError: it was unloaded, or its device is closed.
        :raise errors.VgcError: it cannot be loaded again.
        """
        if not self.is_loaded:
            raise ValueError("the program was unloaded, or its device is closed")
        self.handle.recover()
        if self._load_again is not None and self._epoch != self.handle.epoch:
            before = self._unload
            self._bound.clear()
            self._take(self._load_again())
            before()

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of the kernels, as in the source."""
        self.check_loaded()
        for index in range(lib.vgc_program_num_functions(self._pointer)):
            info = ffi.new("struct vgc_function_info *")
            lib.vgc_function_info(lib.vgc_program_function_at(self._pointer, index), info)
            yield text(info.short_name)

    def __getitem__(self, name: str) -> Function:
        """Finds a kernel by its name in the source, or the linker's name.

        :raise errors.NotFound: the program has no such kernel.
        """
        self.check_loaded()
        if name not in self._functions:
            self._functions[name] = Function(self, self._find(name))
        return self._functions[name]

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_") and not name.startswith("_Z"):  # the linker's names of C++
            raise AttributeError(name)
        try:
            return self[name]
        except errors.NotFound as error:
            raise AttributeError(str(error)) from None

    def variable(self, name: str) -> Variable:
        """Finds a ``__device__`` or ``__constant__`` variable.

        :raise errors.NotFound: the program has no such variable.
        """
        self.check_loaded()
        address, size = ffi.new("uint64_t *"), ffi.new("uint64_t *")
        check(lib.vgc_program_global(self._pointer, name.encode(), address, size))
        return Variable(name, int(address[0]), int(size[0]))

    def bind(self, name: str, bound: KernelObject) -> None:
        """Binds a texture or surface reference (``texture<float, 2> name``) to an object, and keeps that alive.

        :raise errors.NotFound: the program has no such variable.
        :raise ValueError: the object was freed.
        """
        self.check_loaded()
        if not bound.is_alive:
            raise ValueError("this texture or surface was freed")
        check(lib.vgc_reference_bind(self.handle.pointer, self._pointer, name.encode(), bound.number, 0))
        self._bound[name] = bound

    def unload(self) -> None:
        """Unloads the program; a second call does nothing. Its kernels must not be used again.

        A program that was compiled with ``checks=("leaks",)`` prints blocks of its ``malloc()`` that were not freed.
        """
        self._functions.clear()
        self._bound.clear()
        self._unload()
        if self._finds_leaks:
            self.handle.show_output(asked=True)
