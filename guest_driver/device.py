"""Open devices, and the devices of this machine."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, TypeVar

from guest_driver import arguments, byte_order, errors, job
from guest_driver._lib import check, ffi, lib, text
from guest_driver.functions.device_host import DeviceHost
from guest_driver.functions.groups import BuiltinFunctions
from guest_driver.handle import Handle
from guest_driver.known_functions import KnownFunctions
from guest_driver.listing import ListedFunction, list_functions
from guest_driver.memory import DeviceArray, DeviceMemory, OpenedMemory
from guest_driver.named import NamedFunctions, Outcome
from guest_driver.output import Output
from guest_driver.program import LEAK_CHECK, Extent, Function, Program, Unit, geometry
from guest_driver.stream import Event, Stream
from guest_driver.texture import Edge, KernelObject, TextureArray, edges_of, texture_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from guest_driver.job import Job, Timing

ENGINES: Final = {0: "null", 1: "cpu", 2: "cuda"}
HEALTH: Final = {0: "starting", 1: "ready", 2: "recovering", 3: "failed"}
SOURCE_KINDS: Final = {"cuda": 1, "ptx": 2, "cubin": 3, "fatbin": 4}
CHECKS: Final = {
    "memory": "--memcheck",
    "initialisation": "--initcheck",
    "races": "--racecheck",
    "leaks": LEAK_CHECK,
}
"""Options of the software GPU's compiler, by the errors that checked programs report."""
REGION_KINDS: Final = {lib.VGC_REGION_FILE: "file", lib.VGC_REGION_BAR: "ivshmem", lib.VGC_REGION_DAX: "NVDIMM"}
MAX_DEVICES: Final = 32
MAX_PROCESSES: Final = 64
"""Processes that libvgc lets use a device at once."""

_Local = TypeVar("_Local", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """Properties of a device, and this VM's share of it. Sizes in bytes."""

    address: str
    region_address: str
    """Address of the ivshmem function, or the name of the NVDIMM in devdax mode."""

    region_kind: str
    vm_name: str
    engine: str
    engine_name: str
    health: str
    generation: int
    processing_elements: int
    memory_bytes: int
    queue_depth: int
    deadline_ns: int
    num_queues: int
    ring_size: int
    max_contexts: int
    max_streams: int
    context: int
    features: int
    fingerprint: int
    uuid: str
    region_bytes: int
    region_device_address: int
    read_bytes_per_s: float
    region_cached: bool
    interrupts: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """Resources that all processes of the VM together hold, and counts of their requests."""

    memory_used_bytes: int
    memory_quota_bytes: int
    requests_done: int
    requests_failed: int
    busy_ns: int
    num_contexts: int
    num_programs: int
    num_allocations: int
    num_pes: int
    in_flight: int
    generation: int


@dataclass(frozen=True, slots=True)
class Process:
    """Process of this VM that computes on a device, and the device memory that it has allocated."""

    pid: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """PCI function that may be a virtio-gpu-compute device."""

    address: str
    driver: str
    uio: str
    region_address: str
    region_bytes: int
    """Size of that function's memory; 0: there is no such function."""


def devices() -> list[FoundDevice]:
    """Lists the PCI functions of this machine that may be such devices; changes nothing."""
    found = ffi.new("struct vgc_found[]", MAX_DEVICES)
    count = ffi.new("size_t *")
    check(lib.vgc_list(found, MAX_DEVICES, count))
    return [
        FoundDevice(text(one.address), text(one.driver), text(one.uio), text(one.region_address), int(one.region_bytes))
        for one in found[0 : count[0]]
    ]


def grant(group_id: int, address: str | None = None, index: int = 0) -> None:
    """Gives a group of this guest's users a device, until it is unplugged or the guest starts again.

    That is as much as root rights in the guest: who programs a PCI function can have it write anywhere. Takes root rights.
    """
    options, _keep = _options(address, index)
    check(lib.vgc_grant(options, group_id))


def _options(address: str | None, index: int, **seconds: float | None) -> tuple[Any, list[Any]]:
    options = ffi.new("struct vgc_options *")
    keep = []
    options.index = index
    if address is not None:
        keep.append(ffi.new("char[]", address.encode()))
        options.address = keep[-1]
    for name, value in seconds.items():
        if value is not None:
            setattr(options, name, max(int(value * 1e9), 1))
    return options, keep


def _units(given: Iterable[Unit]) -> list[Unit]:
    """The units of a program.

    :raise TypeError: there is something else.
    """
    units = list(given) if isinstance(given, Iterable) else [given]
    for unit in units:
        if not isinstance(unit, Unit):
            raise TypeError(f"a {type(unit).__name__} as a unit of a program; allowed: a list of Unit(name, source)")
    return units


def _checked(options: Sequence[str], checks: Sequence[str], lockstep: bool, profile: bool) -> list[str]:
    """Options of a program with checks, lockstep and a profile.

    :raise errors.InvalidArgument: a check is unknown.
    """
    unknown = [name for name in checks if name not in CHECKS]
    if unknown:
        raise errors.InvalidArgument(f"check {unknown[0]!r}; allowed: {', '.join(CHECKS)}")
    flags = {"--lockstep": lockstep, "--profile": profile}
    return [*options, *(CHECKS[name] for name in checks), *(flag for flag, wanted in flags.items() if wanted)]


class Device(BuiltinFunctions):
    """Open device with its own context.

    :param index: number of the device among the VM's; alternatively `address`, its PCI address.
    :param region_address: PCI address of the ivshmem function, or name of the NVDIMM in devdax mode (``dax0.0``), that is its
        region; default: found by its size.
    :param spin_s: time to poll for an answer before sleeping.
    :param output: file for text that kernels print, written when their launch or call is waited for; default:
        ``sys.stdout``.
    :param look: no context is made: only `info`, `usage`, `limits`, `processes` and `nop` work.
    :param recover: after `errors.DeviceLost`, which is raised once, the next use of the device makes a new context, as `reset`
        does. Programs and functions are loaded again under the same objects. Device memory, streams, textures and surfaces
        are gone, and raise `errors.ObjectLost` until they are written as a whole, or made again. Only the thread that has
        opened the device may use it.
    :param on_recovered: called with the device, whose context is new, before its first use: it puts the program's data back.
        What it raises is passed on; a device that is lost meanwhile recovers again, and calls it again, a few times.
    :raise errors.NoDevice: the VM has no such device; the text says what is missing.
    :raise errors.VgcError: the device cannot be used; the text says why.
    """

    def __init__(
        self,
        index: int = 0,
        *,
        address: str | None = None,
        region_address: str | None = None,
        state_dir: str | None = None,
        open_timeout_s: float | None = None,
        request_timeout_s: float | None = None,
        spin_s: float | None = None,
        output: TextIO | None = None,
        look: bool = False,
        recover: bool = False,
        on_recovered: Callable[[Device], object] | None = None,
    ) -> None:
        if on_recovered is not None and not recover:
            raise errors.InvalidArgument("on_recovered without recover; allowed: together with recover=True")
        options, keep = _options(
            address, index, open_timeout_ns=open_timeout_s, request_timeout_ns=request_timeout_s, spin_ns=spin_s
        )
        for name, value in (("state_dir", state_dir), ("region_address", region_address)):
            if value is not None:
                keep.append(ffi.new("char[]", value.encode()))
                setattr(options, name, keep[-1])
        options.flags = lib.VGC_OPEN_LOOK if look else 0
        self._on_recovered = on_recovered
        self._handle = Handle(options, Output(output), self._restore, recovers=recover)
        self._known = KnownFunctions(self._handle)
        self.functions: Final = NamedFunctions(self._handle, self._known)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees everything of the device, on the host too. Region arrays stay readable; they keep the region mapped."""
        if self._handle.is_open and not self._handle.is_busy():
            self._known.unload()
        self._known.clear()
        self._handle.close()

    def __repr__(self) -> str:
        if not self._handle.is_open:
            return "<closed device>"
        info = self.info()
        return f"<device {info.address}: {info.engine_name}, {info.processing_elements} processing elements>"

    # ---- state -----------------------------------------------------------------------------------

    def info(self) -> DeviceInfo:
        """Reads the device's properties."""
        raw = ffi.new("struct vgc_info *")
        check(lib.vgc_info(self._handle.pointer, raw))
        return DeviceInfo(
            address=text(raw.address),
            region_address=text(raw.region_address),
            region_kind=REGION_KINDS.get(raw.region_kind, f"kind {raw.region_kind}"),
            vm_name=text(raw.vm_name),
            engine=ENGINES.get(raw.engine_kind, f"engine {raw.engine_kind}"),
            engine_name=text(raw.engine_name),
            health=HEALTH.get(raw.health, f"health {raw.health}"),
            generation=raw.generation,
            processing_elements=raw.num_pes,
            memory_bytes=raw.memory_bytes,
            queue_depth=raw.queue_depth,
            deadline_ns=raw.deadline_ns,
            num_queues=raw.num_queues,
            ring_size=raw.ring_size,
            max_contexts=raw.max_contexts,
            max_streams=raw.max_streams,
            context=raw.context,
            features=raw.device_features,
            fingerprint=raw.fingerprint,
            uuid=bytes(raw.uuid).hex(),
            region_bytes=raw.region_bytes,
            region_device_address=raw.region_device_address,
            read_bytes_per_s=raw.read_bytes_per_s,
            region_cached=bool(raw.region_cached),
            interrupts=bool(raw.interrupts),
        )

    def usage(self) -> Usage:
        """Reads the VM's usage."""
        raw = ffi.new("struct vgc_device_usage *")
        check(lib.vgc_device_usage(self._handle.pointer, raw))
        return Usage(**{name: int(getattr(raw, name)) for name in Usage.__slots__})

    def limits(self) -> dict[str, int]:
        """Reads numbers that the device tells of itself, by their names in ``struct vgc_device_limits``; 0: not told."""
        raw = ffi.new("struct vgc_device_limits *")
        check(lib.vgc_device_limits(self._handle.pointer, raw))
        return {name: int(getattr(raw, name)) for name, _ in ffi.typeof("struct vgc_device_limits").fields}

    def processes(self) -> list[Process]:
        """Lists the processes of this VM that compute on the device."""
        found, count = ffi.new("struct vgc_process[]", MAX_PROCESSES), ffi.new("size_t *")
        check(lib.vgc_processes(self._handle.pointer, found, MAX_PROCESSES, count))
        return [Process(one.pid, one.memory_bytes) for one in found[0 : count[0]]]

    def nop(self) -> Timing:
        """Sends a request that does nothing: a round trip to the host."""
        check(lib.vgc_nop(self._handle.pointer, 0, ffi.NULL))
        return job.last_timing()

    def reset(self) -> None:
        """Makes a new context after `errors.DeviceLost`, once the device is ready. Older objects are invalid.

        With `recover`, uses of a lost device do so by themselves, and programs stay valid.
        """
        self._handle.reset()

    def _restore(self) -> None:
        if not self._handle.recovers:
            self._known.clear()
            return
        self._known.forget()
        if self._on_recovered is not None:
            self._on_recovered(self)

    def claim_queue(self) -> None:
        """Reserves a queue for this thread, which then shares none with other threads."""
        check(lib.vgc_thread_claim_queue(self._handle.pointer))

    def release_queue(self) -> None:
        """Releases this thread's reserved queue."""
        lib.vgc_thread_release_queue(self._handle.pointer)

    @property
    def _host(self) -> DeviceHost:
        return DeviceHost(self._known, self.empty, self.call)

    # ---- memory ----------------------------------------------------------------------------------

    def alloc(self, nbytes: int) -> DeviceMemory:
        """Allocates device memory, with undefined contents.

        :raise errors.OutOfMemory: the VM's share is used up.
        """
        return DeviceMemory(self._handle, nbytes)

    def open_memory(self, key: bytes) -> OpenedMemory:
        """Opens memory that another process of the VM has exported (`DeviceMemory.export`), at the same address.

        Opening it twice is as once: free it once.

        :raise errors.NotFound: nothing has the key, or no longer.
        """
        return OpenedMemory(self._handle, key)

    def empty(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> DeviceArray:
        """Allocates an array on the device, with undefined contents."""
        return DeviceArray(self._handle, shape, dtype, self._host)

    def zeros(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> DeviceArray:
        """Allocates an array of zeros on the device."""
        array = self.empty(shape, dtype)
        unit = 8 if array.nbytes % 8 == 0 else 1
        array.fill_bytes(bytes(unit))
        return array

    def to_device(self, array: ArrayLike) -> DeviceArray:
        """Copies a numpy array, or numbers that ``numpy.asarray`` takes, to a new array on the device.

        :raise TypeError: it is on a device already, or is no array of numbers.
        """
        import numpy as np

        if isinstance(array, DeviceArray):
            raise TypeError("the array is on a device already; see DeviceArray.copy, or .get() for a numpy array")
        given = np.asarray(array)
        if given is not array and given.dtype.kind not in "biufc":
            raise TypeError(f"a {type(array).__name__} on the device; allowed: numpy arrays, and sequences of numbers")
        copy = self.empty(given.shape, given.dtype)
        copy.set(given)
        return copy

    def texture_array(self, shape: int | Sequence[int], dtype: DTypeLike = "float32", **kinds: Any) -> TextureArray:
        """Allocates an array for textures and surfaces: see `TextureArray`."""
        return TextureArray(self._handle, shape, dtype, **kinds)

    def texture(
        self,
        source: TextureArray | DeviceMemory,
        *,
        edge: Edge = "clamp",
        linear: bool = False,
        normalised: bool = False,
        as_float: bool = False,
        srgb: bool = False,
        linear_levels: bool = False,
        border: Sequence[float] = (0, 0, 0, 0),
        levels: tuple[float, float] = (0, 1000),
        bias: float = 0,
        dtype: DTypeLike | None = None,
        channels: int = 1,
        pitch: tuple[int, int, int] | None = None,
    ) -> KernelObject:
        """Makes a texture object of an array or of device memory.

        :param normalised: coordinates run from 0 to 1. :param as_float: integers of 8 and 16 bits are read as floats.
        :param levels: smallest and largest level of detail.
        :param dtype: type of the channels in memory, and `channels` their number; an array has its own.
        :param pitch: width and height in texels, and bytes from row to row, of a texture over memory; without it, its
            texels are fetched by index.
        """
        flags = lib.VGC_TEXTURE_NORMALISED * normalised + lib.VGC_TEXTURE_AS_FLOAT * as_float
        flags += lib.VGC_TEXTURE_SRGB * srgb + lib.VGC_TEXTURE_LINEAR * linear
        flags += lib.VGC_TEXTURE_LINEAR_LEVELS * linear_levels
        form: dict[str, Any] = {"flags": flags, "edges": edges_of(edge), "border": list(border), "bias": bias}
        form |= {"min_level": levels[0], "max_level": levels[1]}
        if not isinstance(source, TextureArray):
            form["channels"] = channels
        return texture_of(self._handle, source, form, dtype, pitch)

    def region_buffer(self, nbytes: int) -> Any:
        """Allocates a writable buffer in the shared region, which the host maps too: copies need no staging."""
        return self._handle.region_buffer(nbytes)

    def region_array(self, shape: int | Sequence[int], dtype: DTypeLike = "float32") -> NDArray[Any]:
        """Allocates a numpy array in the shared region: zero-copy source and target of copies and calls. It is
        little-endian, as kernels see it.
        """
        import numpy as np

        kind = byte_order.on_device(np.dtype(dtype))
        numbers = (shape,) if isinstance(shape, int) else tuple(shape)
        count = math.prod(numbers)
        buffer = self.region_buffer(max(count * kind.itemsize, 1))
        return np.frombuffer(buffer, kind, count).reshape(numbers)

    # ---- running ---------------------------------------------------------------------------------

    def compile(
        self,
        source: str | bytes,
        options: Sequence[str] = (),
        kind: str = "cuda",
        *,
        checks: Sequence[str] = (),
        lockstep: bool = False,
        profile: bool = False,
    ) -> Program:
        """Has the host compile and load a program; or load ``kind="ptx"``, ``"cubin"``, ``"fatbin"`` if the engine can.

        It stays loaded until `Program.unload`, `reset` or `close`, even without references: `call` finds it by name.

        :param checks: errors for which the software GPU looks when kernels run (`CHECKS`); a launch in which it finds some
          fails. Other engines refuse checks, lockstep and profiles.
        :param lockstep: warps go in step, for programs that rely on it without ``__syncwarp()``.
        :param profile: each launch prints in the end in which lines of the source its time went (software GPU only).

        :raise errors.CompileError: the program does not compile; `log` has the compiler's output.
        """
        if kind not in SOURCE_KINDS:
            raise errors.InvalidArgument(f"kind {kind!r}; allowed: {', '.join(SOURCE_KINDS)}")
        data = source.encode() if isinstance(source, str) else source
        return self._add(data, _checked(options, checks, lockstep, profile), SOURCE_KINDS[kind])

    def load_ptx(self, module: str | bytes | PathLike[str], options: Sequence[str] = ()) -> Program:
        """Loads a PTX module, of nvcc, NVRTC, Triton, numba and the like: its text, or the path of its file.

        :param module: a ``str`` is the text; a path is a ``pathlib.Path`` or other path-like object.
        :raise ValueError: the ``str`` seems to be a path.
        :raise errors.CompileError: the module does not compile; `log` names line and column.
        :raise OSError: the file cannot be read.
        """
        if isinstance(module, str) and module.endswith(".ptx"):
            raise ValueError(f"{module!r} as the text of a module; allowed: the text, or pathlib.Path({module!r})")
        data = Path(module).read_bytes() if isinstance(module, PathLike) else module
        return self.compile(data, options, kind="ptx")

    def link(
        self,
        units: Sequence[Unit],
        options: Sequence[str] = (),
        *,
        checks: Sequence[str] = (),
        lockstep: bool = False,
        profile: bool = False,
    ) -> Program:
        """Has the host compile several sources and link them to one program, as ``nvcc -rdc=true`` does.

        They may use each other's ``__device__`` functions and variables, and launch each other's kernels. Static kernels
        and variables whose name several units have are found as ``NAME@UNIT``. Otherwise like `compile`. On the software
        GPU, units may also be PTX, fatbins and host objects: ``Unit("b.ptx", Path("b.ptx").read_bytes())``.

        :raise TypeError: something else than units is given.
        :raise errors.CompileError: a unit does not compile, or the units do not fit together.
        """
        return self._add(_units(units), _checked(options, checks, lockstep, profile), SOURCE_KINDS["cuda"])

    def register(
        self, source: str | bytes, options: Sequence[str] = (), kind: str = "cuda", *, keep: bool = False
    ) -> Program:
        """Has the host compile a program, and registers its functions for the whole VM.

        All processes find them by name (`function`, `call`), behind those of programs that they have compiled themselves,
        until `unregister`. A program that is registered already is not loaded again. `Program.unload` only ends the
        handle.

        :param keep: the program stays registered when the guest, or the host's daemon, has been restarted.
        :raise errors.InvalidArgument: a different registered program has a function of the same name.
        :raise errors.CompileError: the program does not compile.
        """
        if kind not in SOURCE_KINDS:
            raise errors.InvalidArgument(f"kind {kind!r}; allowed: {', '.join(SOURCE_KINDS)}")
        data = source.encode() if isinstance(source, str) else source
        self._known.forget()
        return Program(self._handle, data, options, SOURCE_KINDS[kind], register=True, keep=keep)

    def unregister(self, name: str) -> None:
        """Unregisters the program that has a function of this name, with all of its functions, once their launches have
        ended.

        :raise errors.NotFound: no registered program has one.
        """
        self._known.forget()
        check(lib.vgc_unregister(self._handle.pointer, name.encode()))

    def function(self, name: str) -> Function:
        """Finds a function by its name: of a program that was compiled here, of the VM, or of the host.

        One of the VM ends with its registered program: find it again if it is registered anew.

        :raise errors.NotFound: nothing has this name.
        :raise errors.CompileError: its registered program does not compile any more.
        """
        return self._known.find(name)

    def list_functions(self) -> list[ListedFunction]:
        """Lists functions that all processes of the VM find: those that were registered, and those of the host."""
        return list_functions(self._handle)

    def _add(self, source: bytes | Sequence[Unit], options: Sequence[str], kind: int) -> Program:
        program = Program(self._handle, source, options, kind)
        self._known.add(program)
        return program

    def stream(self) -> Stream:
        """Makes a new stream."""
        return Stream(self._handle)

    def event(self) -> Event:
        """Makes a new event, not recorded yet."""
        return Event(self._handle)

    def open_event(self, key: bytes) -> Event:
        """Opens an event that another process of the VM has exported (`Event.export`); all may record it.

        :raise errors.NotFound: nothing has the key, or no longer.
        """
        return Event(self._handle, key)

    def synchronize(self) -> None:
        """Waits for all work of this process."""
        check(lib.vgc_synchronize(self._handle.pointer))
        self._handle.show_output()

    def call(
        self,
        name: str,
        *,
        grid: Extent,
        block: Extent,
        args: Sequence[Any] = (),
        shared_bytes: int = 0,
        cooperative: bool = False,
        stream: Stream | None = None,
    ) -> Job | Timing:
        """Runs a kernel by name (as for `function`) on buffers of the guest, in one round trip: sends inputs, runs it,
        returns outputs.

        `args` are `In`, `Out`, `InOut` of buffers, and values. With a stream it returns a job at once.

        :raise TypeError: an argument does not fit its parameter.
        :raise errors.VgcError: the call failed.
        """
        device = self._handle.pointer
        function = self._known.of_call(name)
        packed, keep = arguments.pack_call(function.name, function.params, args)
        where = geometry(grid, block, shared_bytes, stream, cooperative)
        word = ffi.new("char[]", function.linker_name.encode())
        with self._known.calling(name):
            done = job.run_call(
                self._handle,
                lambda out: lib.vgc_call(device, word, where, packed, len(args), out),
                asynchronous=stream is not None,
                keep=(keep, tuple(args)),
            )
        return stream.track(done) if stream is not None and isinstance(done, job.Job) else done

    def local(self, name: str) -> Callable[[_Local], _Local]:
        """Decorator that registers a function as the local version of `name`, for `call_named`.

        It is called with the buffers and values of the call, and changes the buffers in place.
        """
        return self.functions.local(name)

    def call_named(self, name: str, *args: Any, **options: Any) -> Outcome:
        """Calls a function by its name, on the host or in its local version: see `NamedFunctions.call`."""
        return self.functions.call(name, *args, **options)
