"""Functions by name, on the host or as Python callables: one call decides where a function runs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

from guest_driver import arguments, byte_order, job
from guest_driver._lib import check, ffi, lib
from guest_driver.arguments import In, InOut, Out
from guest_driver.errors import VgcError, from_result
from guest_driver.handle import Handle
from guest_driver.known_functions import KnownFunctions
from guest_driver.program import Extent, Function, geometry

Side = Literal["cpu", "host"]

SIDES: Final[dict[str, int]] = {
    "auto": lib.VGC_SIDE_AUTO,
    "cpu": lib.VGC_SIDE_CPU,
    "host": lib.VGC_SIDE_HOST,
    "gpu": lib.VGC_SIDE_HOST,
}
REASONS: Final[dict[int, str]] = {
    lib.VGC_WHY_FORCED: "forced",
    lib.VGC_WHY_RULE: "rule",
    lib.VGC_WHY_ONLY: "only side",
    lib.VGC_WHY_FASTER: "faster",
    lib.VGC_WHY_TRIED: "tried",
}
MAX_ROWS: Final = 128

_Local = TypeVar("_Local", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a call by name: the side that did the work, and why that one. Times are in nanoseconds, with copies."""

    side: Side
    why: str
    """forced, rule, only side, faster, or tried (to measure the side)."""

    fell_back: bool
    """The host had no room or was lost, and the call went on on the CPU as `falls_back` asked."""

    host_error: VgcError | None
    """The host's refusal, if the call went on on the CPU because of it."""

    took_ns: int
    host_ns: int
    """Time that was expected of the host; 0: unknown."""

    cpu_ns: int
    size: int
    """Bytes of all buffers, or what the caller gave for it."""


@dataclass(frozen=True, slots=True)
class Known:
    """Measured times of a function for sizes from `size_from` to below `size_to`; 0: that side was not measured."""

    size_from: int
    size_to: int
    host_ns: int
    host_samples: int
    cpu_ns: int
    cpu_samples: int
    side: Side
    """Side of the next call."""

    why: str


class NamedFunctions:
    """Table of functions by name, of a device and of this process; `Device.functions` is one.

    Without a device (None) all calls run in this process, as in a VM that has none.

    :param known: functions of the device, by whose parameters arguments are packed.
    """

    def __init__(self, handle: Handle | None = None, known: KnownFunctions | None = None) -> None:
        self._handle = handle
        self._known = known
        self._locals: dict[str, Callable[..., object]] = {}
        self._lock = threading.Lock()

    @property
    def _pointer(self) -> Any:
        return ffi.NULL if self._handle is None else self._handle.pointer

    def register(self, name: str, function: Callable[..., object]) -> None:
        """Registers a callable as the local version of `name`. It gets the buffers and values that a call is given.

        :raise errors.InvalidArgument: the name has a local version already, or is longer than 1024 bytes.
        """
        with self._lock:
            check(lib.vgc_local_register(self._pointer, _word(name), ffi.NULL, ffi.NULL))
            self._locals[name] = function

    def unregister(self, name: str) -> None:
        """Forgets the local version of `name`. Calls under way in other threads go on.

        :raise errors.NotFound: it is not registered.
        """
        with self._lock:
            check(lib.vgc_local_unregister(self._pointer, _word(name)))
            self._locals.pop(name, None)

    def local(self, name: str) -> Callable[[_Local], _Local]:
        """Decorator that registers a function: see `register`."""

        def add(function: _Local) -> _Local:
            self.register(name, function)
            return function

        return add

    def rules(self, rules: str) -> None:
        """Replaces the program's rules, such as ``"sum*=cpu:bytes<64K,host"``; those of ``$VGC_SIDE`` come first.

        :raise errors.InvalidArgument: a rule cannot be understood; the text says what is allowed.
        """
        check(lib.vgc_choice_rules(self._pointer, rules.encode()))

    def known(self, name: str) -> list[Known]:
        """Measured times of a function in ascending order of sizes."""
        rows, count = ffi.new("struct vgc_choice_row[]", MAX_ROWS), ffi.new("uint32_t *")
        check(lib.vgc_choice_rows(self._pointer, _word(name), rows, MAX_ROWS, count))
        return [
            Known(
                *(int(row.size_from), int(row.size_to), int(row.host_ns), int(row.host_samples)),
                *(int(row.cpu_ns), int(row.cpu_samples), _side(row.side), REASONS[row.why]),
            )
            for row in rows[0 : count[0]]
        ]

    def keep(self) -> None:
        """Writes measured times to their file, as closing the device and the end of the process do."""
        lib.vgc_choice_keep(self._pointer)

    def call(
        self,
        name: str,
        *args: Any,
        side: str = "auto",
        falls_back: bool = False,
        grid: Extent = 1,
        block: Extent = 1,
        shared_bytes: int = 0,
        size: int = 0,
    ) -> Outcome:
        """Calls a function on the side that `side`, a rule, or measured times choose.

        `args` are `In`, `Out`, `InOut` of buffers, and values. The local version gets what they wrap. Values for a function
        that the host did not know when it was first called are numpy scalars or bytes: their size must be known.

        :param side: auto, cpu or host. :param falls_back: the call goes on on the CPU if the host has no room or is lost.
        :param size: number by which rules and measured times go, in place of the bytes of all buffers.
        :raise errors.NotFound: no side has the function.
        :raise errors.VgcError: the host failed. What a local version raises is passed on, and is no measurement.
        """
        buffers = [value for value in args if isinstance(value, In | Out | InOut)]
        packed = ffi.new("struct vgc_arg[]", max(len(buffers), 1))
        memory = [arguments.fill_buffer(arg, value) for arg, value in zip(packed, buffers, strict=False)]
        choice = ffi.new("struct vgc_choice *")
        options, keep = _options(side, falls_back, size, buffers)
        check(lib.vgc_choose(self._pointer, _word(name), packed, len(buffers), options, choice))
        error = None
        if choice.side == lib.VGC_SIDE_HOST:
            where = geometry(grid, block, shared_bytes, None, cooperative=False)
            error = self._call_host(name, where, args, choice, list(zip(buffers, memory, strict=True)))
        elif choice.host_result != lib.VGC_OK:
            error = from_result(choice.host_result, "the host was lost or silent at an earlier call")
        if choice.side == lib.VGC_SIDE_CPU:
            self._call_local(name, args, choice, list(zip(buffers, memory, strict=True)))
        del keep
        return Outcome(
            *(_side(choice.side), REASONS[choice.why], bool(choice.fell_back), error, int(choice.took_ns)),
            *(int(choice.host_ns), int(choice.cpu_ns), int(choice.size)),
        )

    def _call_local(self, name: str, args: Sequence[Any], choice: Any, buffers: Sequence[tuple[Any, Any]]) -> None:
        function = self._locals.get(name)
        if function is None:
            raise from_result(lib.VGC_NOT_FOUND, f"no local function '{name}' is registered")
        for value, memory in buffers:
            if isinstance(value, Out):
                ffi.memmove(memory, bytes(len(memory)), len(memory))
        given = [value.data if isinstance(value, In | Out | InOut) else value for value in args]
        begin_ns = time.perf_counter_ns()
        function(*given)
        took_ns = time.perf_counter_ns() - begin_ns
        lib.vgc_choice_end(self._pointer, _word(name), choice, lib.VGC_OK, took_ns)

    def _call_host(
        self, name: str, where: Any, args: Sequence[Any], choice: Any, buffers: Sequence[tuple[Any, Any]]
    ) -> VgcError | None:
        """Calls the function on the host. Returns its refusal if the call is to go on on the CPU: `choice` says so."""
        assert self._handle is not None and self._known is not None  # noqa: PT018  vgc_choose has found a host
        device = self._handle.pointer
        in_place = [memory for value, memory in buffers if isinstance(value, InOut)] if choice.writes_in_place else []
        saved = [bytes(ffi.buffer(memory)) for memory in in_place]
        begin_ns = time.perf_counter_ns()
        try:
            with self._known.calling(name):
                linker_name, packed, keep = _host_args(name, self._known.if_known(name), args)
                job.run_call(
                    self._handle,
                    lambda out: lib.vgc_call(device, linker_name, where, packed, len(args), out),
                    asynchronous=False,
                    keep=(keep, tuple(args), [memory for _, memory in buffers]),
                )
        except VgcError as error:
            took_ns = time.perf_counter_ns() - begin_ns
            if not lib.vgc_choice_end(device, _word(name), choice, error.result, took_ns):
                raise
            for memory, before in zip(in_place, saved, strict=True):
                ffi.memmove(memory, before, len(before))
            return error.with_traceback(None)  # whose frames would keep the buffers
        lib.vgc_choice_end(device, _word(name), choice, lib.VGC_OK, time.perf_counter_ns() - begin_ns)
        return None


def _word(name: str) -> bytes:
    """Name for libvgc.

    :raise errors.InvalidArgument: there is a NUL in it.
    """
    word = os.fsencode(name)
    if b"\0" in word:
        raise from_result(lib.VGC_INVALID_ARGUMENT, f"a function name with a NUL: {name[:80]!r}")
    return word


def _side(number: int) -> Side:
    return "cpu" if number == lib.VGC_SIDE_CPU else "host"


def _options(side: str, falls_back: bool, size: int, buffers: Sequence[Any]) -> tuple[Any, Any]:
    if side not in SIDES:
        raise from_result(lib.VGC_INVALID_ARGUMENT, f"side {side!r}; allowed: {', '.join(SIDES)}")
    options = ffi.new("struct vgc_choice_options *")
    options.side, options.falls_back, options.size = SIDES[side], falls_back, size
    kind = next((value.data.dtype for value in buffers if hasattr(value.data, "dtype")), None)
    keep = ffi.NULL if kind is None else ffi.new("char[]", str(kind).encode())
    options.type = keep
    return options, keep


def _host_args(name: str, function: Function | None, args: Sequence[Any]) -> tuple[bytes, Any, list[Any]]:
    """Name and arguments for vgc_call, and the memory that must live as long."""
    if function is not None:
        return function.linker_name.encode(), *arguments.pack_call(function.name, function.params, args)
    packed, keep = ffi.new("struct vgc_arg[]", len(args)), []
    for index, value in enumerate(args):
        if isinstance(value, In | Out | InOut):
            keep.append(arguments.fill_buffer(packed[index], value))
        elif isinstance(value, bytes) or getattr(value, "ndim", None) == 0:
            keep.append(
                arguments.fill_value(
                    packed[index], value if isinstance(value, bytes) else byte_order.scalar_bytes(value)
                )
            )
        else:
            raise TypeError(
                f"argument {index} of {name}: a {type(value).__name__} has no size of its own, and no program of this "
                "process says what the function takes; allowed: In, Out, InOut, numpy scalars, bytes"
            )
    return _word(name), packed, keep
