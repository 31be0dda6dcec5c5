"""What an engine is to the worker and the daemon: a small class in front of a ``struct vgc_engine``.

An engine is opened inside the worker and never by the daemon. All that the daemon asks of its class is how a source
is compiled (`Engine.compile_job`) and what a worker must see of the host (`Engine.view`); neither runs anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from vhost_backend._dataplane import lib
from vhost_backend.compiler.job import CompileJob
from vhost_backend.errors import EngineError
from virtio_proto.schema import ParamKind

__all__ = [
    "CompileJob",
    "Engine",
    "EngineOptions",
    "FunctionInfo",
    "GlobalInfo",
    "HostView",
    "LoadedProgram",
    "ProgramError",
    "ProgramMemoryError",
    "ProgramPlace",
    "WorkerNeeds",
]

Buffer: TypeAlias = bytes | memoryview

EngineOptions = Mapping[str, str | int | float | bool | None]


class ProgramError(Exception):
    """An image cannot be loaded; the text goes to the guest."""


class ProgramMemoryError(ProgramError):
    """There is not so much device memory for it."""


@dataclass(frozen=True, slots=True)
class FunctionInfo:
    """A kernel of a loaded program. `kernel` (``struct vgc_kernel *``) lives until the program is unloaded."""

    name: str
    """The linker's (mangled) name."""
    short_name: str
    """The source's name, unqualified."""
    params: tuple[tuple[int, int], ...]
    """Offset and size of each parameter, in bytes."""
    param_bytes: int
    shared_bytes: int
    max_threads: int
    kernel: Any
    param_kinds: tuple[int, ...] = ()
    """`ParamKind` of each parameter; empty: nothing is known of any."""

    def kinds(self) -> tuple[int, ...]:
        """`ParamKind` of each parameter, as many as there are parameters."""
        return self.param_kinds or (ParamKind.UNKNOWN,) * len(self.params)


@dataclass(frozen=True, slots=True)
class GlobalInfo:
    """A ``__device__`` or ``__constant__`` variable of a loaded program."""

    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """What `Engine.load_program` made. `private` is the engine's own."""

    functions: tuple[FunctionInfo, ...]
    globals: tuple[GlobalInfo, ...]
    private: Any = None
    charged_bytes: int = 0
    """Of the VM's memory quota, for as long as it is loaded."""


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """Where a loaded program is, and what of it is not as its image says any more."""

    base: int
    """What the engine must be told to load it there again."""
    writable: tuple[tuple[int, int], ...]
    """Address and size of the parts that kernels may have changed."""


@dataclass(frozen=True, slots=True)
class HostView:
    """What of the host a worker must see to open its engine, besides Python and the system's libraries."""

    devices: tuple[Path, ...] = ()
    """Device nodes that it can open, as far as their own permissions let it."""
    paths: tuple[Path, ...] = ()
    """Files and folders that it can read."""
    proc: bool = False
    """A /proc of its own pid namespace, read-only."""


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """What an open engine still needs once the walls stand, beyond what every worker has. Each is a hole in a wall."""

    kept_fds: tuple[int, ...] = ()
    """Descriptors that stay open; 1 among them: stdout is the engine's, and not made /dev/null."""
    system_calls: tuple[str, ...] = ()
    """Allowed whatever their arguments are."""
    keeps_root: bool = False
    """Paths go on to be what they were: the read-only view of the host, in place of an empty root."""
    unfiltered_at_best_effort: bool = False
    """Its calls are not known for certain: where the sandbox need not be strict, there is no system call filter."""
    threads: int = 0
    files: int = 0
    private_bytes: int = 0
    address_space_bounded: bool = True


class Engine(ABC):
    """An open engine. `close` when nothing uses it any more."""

    kind: ClassVar[str]
    name: str
    """For people, at most 63 bytes of UTF-8."""
    num_pes: int
    features: int
    """Bits of ``virtio_proto.schema.DeviceFeature``."""
    handle: Any
    """``struct vgc_engine *``"""
    reserved_bytes: int = 0
    """Address space it reserves beside the VM's memory; the sandbox's limits leave room for it."""

    @classmethod
    @abstractmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:
        """Opens the engine with at most this many processing elements and bytes of memory.

        :raise EngineError: the device is not there, or an option is not known.
        """

    @staticmethod
    def view(options: EngineOptions) -> HostView:  # noqa: ARG004  most engines need to see nothing
        """What a worker must be shown before it opens the engine with these options; asked by the daemon."""
        return HostView()

    @property
    def needs(self) -> WorkerNeeds:
        """What the engine, which is open by now, needs behind the walls; asked once, before they are built."""
        return WorkerNeeds()

    @property
    def control_pes(self) -> int:
        """Numbers of processing elements in the control system: all of the device's, where `num_pes` are a part of it."""
        return self.num_pes

    def set_arena(self, base: int, size: int) -> None:
        """Addresses of the VM's own (``vgc_engine_set_arena``): right after it was opened.

        :raise EngineError: no process can have them.
        """
        if lib.vgc_engine_set_arena(self.handle, base, size) != 0:
            raise EngineError(f"{size} bytes of addresses from {base:#x} are none that a process can have")

    def start(self) -> None:  # noqa: B027  most engines have nothing to do
        """Called once, behind the sandbox's walls and before the first operation: threads start here."""

    def pause(self) -> bool:
        """Starts no more work on the device; True once nothing runs there that loading or unloading would wait for.

        False: ask again soon, the calling thread has other things to do. Ended by `resume`.
        """
        return True

    def resume(self) -> None:  # noqa: B027  most engines have nothing to do
        """Ends a `pause`, granted or not."""

    @abstractmethod
    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        """Loads a compiled image from a sealed memfd, which stays the caller's.

        :raise ProgramError: when the image is not one of this engine's.
        """

    @abstractmethod
    def unload_program(self, program: LoadedProgram) -> None:
        """Frees a program of which no launch is in flight."""

    # ---- moving a VM's work to another worker ----

    def program_place(self, program: LoadedProgram) -> ProgramPlace:  # noqa: ARG002  most cannot
        """Where it is.

        :raise ProgramError: programs of this engine cannot be moved.
        """
        raise ProgramError(f"programs of the {self.kind} engine cannot be moved to another worker")

    def program_image(self, program: LoadedProgram) -> Buffer:  # noqa: ARG002  most cannot
        """What it was loaded from, readable for as long as it is loaded.

        :raise ProgramError: as `program_place`.
        """
        raise ProgramError(f"programs of the {self.kind} engine cannot be moved to another worker")

    def load_program_at(self, image: bytes, context: int, base: int) -> LoadedProgram:  # noqa: ARG002  most cannot
        """As `load_program`, where another worker of the VM had it: addresses are the same.

        :raise ProgramError: it cannot be there, or as `program_place`.
        """
        raise ProgramError(f"the {self.kind} engine loads no programs at fixed addresses")

    def settle_program(self, program: LoadedProgram) -> None:  # noqa: B027  most have nothing to settle
        """After its writable parts have got the contents that they had in another worker.

        :raise ProgramError: it is not what it was.
        """

    def load_firmware(self, image_fd: int, size: int, slot: int, version: int) -> None:  # noqa: ARG002  it has none
        """Puts control code, compiled for this engine, into a firmware slot that no element runs. From any thread.

        :raise EngineError: it is not this engine's, the slot is used, or the engine's control code is built in.
        """
        raise EngineError(f"the {self.kind} engine's control code is built in")

    @abstractmethod
    def close(self) -> None:
        """Frees the engine; programs must have been unloaded."""

    @staticmethod
    @abstractmethod
    def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
        """How a source of a ``ProgramKind`` (its name) is compiled; `settings` are those of its `Target`.

        :raise ValueError: this engine does not compile that kind, or an option is not allowed.
        """
