"""Base class of engines, for the worker and the daemon: a small class in front of a ``struct vgc_engine``.

An engine is opened inside the worker and never by the daemon. The daemon only asks its class how a source is compiled
(`Engine.compile_job`) and what a worker must see of the host (`Engine.view`); neither runs anything.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from vhost_backend._dataplane import lib
from vhost_backend.compiler.job import CompileJob
from vhost_backend.errors import DriverError, EngineError
from virtio_proto.schema import ParamKind

__all__ = [
    "CodeRange",
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
    """An image needs more device memory than is free."""


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
    """`ParamKind` of each parameter; empty: all are unknown."""
    num_registers: int = 0
    """Registers of a thread; 0: unknown."""
    local_bytes: int = 0
    """Local memory of a thread, as far as it is known."""

    def kinds(self) -> tuple[int, ...]:
        """`ParamKind` of each parameter, never empty unless `params` is."""
        return self.param_kinds or (ParamKind.UNKNOWN,) * len(self.params)


@dataclass(frozen=True, slots=True)
class GlobalInfo:
    """A ``__device__`` or ``__constant__`` variable of a loaded program."""

    name: str
    address: int
    size: int


@dataclass(frozen=True, slots=True)
class CodeRange:
    """A function's code in this process, for tools of the host that sample it."""

    address: int
    size: int
    name: str
    """Printable ASCII."""


@dataclass(frozen=True, slots=True)
class LoadedProgram:
    """Program that `Engine.load_program` has loaded. `private` is for the engine alone."""

    functions: tuple[FunctionInfo, ...]
    globals: tuple[GlobalInfo, ...]
    private: Any = None
    charged_bytes: int = 0
    """Bytes charged to the VM's memory quota while the program is loaded, at least `Engine.image_bytes`."""
    constant_bytes: int = 0
    """Bytes of its variables in constant memory."""


@dataclass(frozen=True, slots=True)
class ProgramPlace:
    """Address of a loaded program, and its parts that may differ from its image by now."""

    base: int
    """Argument of `Engine.load_program_at` that loads the program there again."""
    writable: tuple[tuple[int, int], ...]
    """Address and size of the parts that kernels may have changed."""


@dataclass(frozen=True, slots=True)
class HostView:
    """Parts of the host that a worker must see to open its engine, besides Python and the system's libraries."""

    devices: tuple[Path, ...] = ()
    """Device nodes that the worker can open, if their own permissions let it."""
    paths: tuple[Path, ...] = ()
    """Files and folders that the worker can read."""
    proc: bool = False
    """True if the worker gets a read-only /proc of its own PID namespace."""
    memory_bytes: int = 0
    """Host memory that the engine's driver may need, beyond what every worker does."""
    pe_memory_bytes: int = 0
    """Host memory that each processing element may need, beyond what every thread does."""
    threads: int = 0
    """Threads that the engine's driver may start."""
    cpus: int | None = None
    """Processors that the engine may keep busy; None: as many as it has processing elements."""


@dataclass(frozen=True, slots=True)
class WorkerNeeds:
    """Permissions that an open engine still needs inside the sandbox, beyond those of every worker. Each weakens it."""

    kept_fds: tuple[int, ...] = ()
    """Descriptors that stay open; with 1, stdout belongs to the engine and is not made /dev/null."""
    system_calls: tuple[str, ...] = ()
    """System calls that are allowed with any arguments."""
    keeps_root: bool = False
    """True if paths stay valid: the worker keeps the read-only view of the host instead of an empty root."""
    unfiltered_at_best_effort: bool = False
    """True if its system calls are not known for certain: a sandbox that need not be strict does not filter them."""
    threads: int = 0
    files: int = 0
    private_bytes: int = 0
    address_space_bounded: bool = True


class Engine(ABC):
    """An open engine. `close` it when nothing uses it any more."""

    kind: ClassVar[str]
    name: str
    """Name for people, at most 63 bytes of UTF-8."""
    num_pes: int
    features: int
    """Bits of ``virtio_proto.schema.DeviceFeature``."""
    handle: Any
    """``struct vgc_engine *``"""
    names_code: bool = False
    """True if the operator wants to see the names of kernels' code (`code_of`)."""
    missing_builtins: str = ""
    """Reason why the engine lacks built-in functions that it has elsewhere; "" if it lacks none."""
    reserved_bytes: int = 0
    """Bytes of address space reserved beside the VM's memory; the sandbox's limits leave room for them."""

    @classmethod
    @abstractmethod
    def open(cls, options: EngineOptions, pes: int, memory_bytes: int, deadline_ns: int) -> Self:
        """Opens the engine with at most this many processing elements and bytes of memory.

        :raise EngineError: the device is missing, or an option is unknown.
        """

    @staticmethod
    def view(options: EngineOptions) -> HostView:  # noqa: ARG004  most engines need to see nothing
        """Parts of the host that a worker must see to open the engine with these options. Called by the daemon."""
        return HostView()

    @property
    def needs(self) -> WorkerNeeds:
        """Permissions that the open engine needs inside the sandbox. Read once, before the sandbox is built."""
        return WorkerNeeds()

    @property
    def control_pes(self) -> int:
        """Number of processing elements in the control system: all of the device's, not only `num_pes`."""
        return self.num_pes

    @property
    def control_rows(self) -> int:
        """Number of the control area's rows: more than `control_pes` where a device may number elements with gaps."""
        return self.control_pes

    def set_arena(self, base: int, size: int) -> None:
        """Sets the VM's range of addresses (``vgc_engine_set_arena``), right after the engine was opened.

        :raise EngineError: no process can have these addresses.
        """
        if lib.vgc_engine_set_arena(self.handle, base, size) != 0:
            raise EngineError(f"{size} bytes of addresses from {base:#x}; allowed: addresses that a process can have")

    def renew_grant(self, fd: int) -> None:  # noqa: B027  most take no turns
        """Reads grants of the gate that `set_gate` has set from another page from now on; `fd` stays the caller's.

        :raise OSError: the page cannot be mapped; then nothing has changed.
        """

    def set_gate(self, grant: Buffer, account: Buffer, bell: int) -> None:  # noqa: B027  most take no turns
        """Makes launches take turns with those of other VMs, as `vhost_backend.worker_protocol.gate_pages` says.

        Called before `start`. The pages stay mapped until the process ends, and the descriptor open.
        """

    def start(self) -> None:  # noqa: B027  most engines have nothing to do
        """Starts threads. Called once, inside the sandbox and before the first operation."""

    def pause(self) -> bool:
        """Pauses work on the device; True once nothing runs there that loading or unloading would wait for.

        False: call again soon. Ended by `resume`.
        """
        return True

    def resume(self) -> None:  # noqa: B027  most engines have nothing to do
        """Ends a `pause`, granted or not."""

    @abstractmethod
    def image_bytes(self, image_fd: int, size: int) -> int:
        """Bytes of the quota that a compiled image in a sealed memfd takes at least; nothing of it is loaded.

        The worker charges them before it loads the image, and then the rest of `LoadedProgram.charged_bytes`.

        :raise ProgramError: when the image is not one of this engine's.
        """

    @abstractmethod
    def load_program(self, image_fd: int, size: int, context: int) -> LoadedProgram:
        """Loads a compiled image from a sealed memfd, which stays the caller's.

        :raise ProgramError: when the image is not one of this engine's.
        """

    def provide(self, program: LoadedProgram) -> None:  # noqa: B027  most engines have nothing to do
        """Allocates device memory that launches of a program need beside its image; called after it was charged.

        :raise ProgramMemoryError: not enough device memory is free; the program must be unloaded.
        """

    @abstractmethod
    def unload_program(self, program: LoadedProgram) -> None:
        """Frees a program of which no launch is in flight."""

    # ---- programs of its own ----

    @staticmethod
    def host_source(name: str) -> bytes | None:  # noqa: ARG004  most need none
        """CUDA source of a program that the engine's own functions need; None: it has none of this name.

        Called by the daemon.
        """
        return None

    def wanted_programs(self) -> Iterable[str]:
        """Names of its own programs that operations wait for, each once: `use_program` or `refuse_program` follows."""
        return ()

    def use_program(self, name: str, program: LoadedProgram) -> None:  # noqa: B027  most need none
        """Lets the operations that wait for a program of the engine's own go on; it is loaded and provided.

        :raise DriverError: the engine has too little memory.
        """

    def refuse_program(self, name: str, error: DriverError) -> None:  # noqa: B027  most need none
        """Fails the operations that wait for a program of the engine's own; later ones want it again."""

    def code_of(self, program: LoadedProgram, most: int) -> tuple[CodeRange, ...]:  # noqa: ARG002  most have no code here
        """Functions of a loaded program, at most so many; empty unless `names_code`."""
        return ()

    # ---- migration of a VM's work to another worker ----

    def program_place(self, program: LoadedProgram) -> ProgramPlace:  # noqa: ARG002  most cannot
        """Address of a program and its writable parts.

        :raise ProgramError: programs of this engine cannot be migrated.
        """
        raise ProgramError(f"programs of the {self.kind} engine cannot be migrated to another worker")

    def program_image(self, program: LoadedProgram) -> Buffer:  # noqa: ARG002  most cannot
        """Image of a program, readable while the program is loaded.

        :raise ProgramError: programs of this engine cannot be migrated.
        """
        raise ProgramError(f"programs of the {self.kind} engine cannot be migrated to another worker")

    def migrated_bytes(self, image: bytes) -> int:  # noqa: ARG002  most cannot
        """Bytes of the quota, like `image_bytes`, of an image that comes from another worker of the VM.

        :raise ProgramError: when the image is not one of this engine's.
        """
        raise ProgramError(f"programs of the {self.kind} engine cannot be migrated to another worker")

    def load_program_at(self, image: bytes, context: int, base: int) -> LoadedProgram:  # noqa: ARG002  most cannot
        """Loads a program, like `load_program`, at the address that it had in another worker of the VM.

        :raise ProgramError: the program cannot be loaded there, or programs of this engine cannot be migrated.
        """
        raise ProgramError(f"the {self.kind} engine loads no programs at fixed addresses")

    def settle_program(self, program: LoadedProgram) -> None:  # noqa: B027  most have nothing to settle
        """Completes a migrated program, once its writable parts have the contents that they had in another worker.

        :raise ProgramError: the program differs from the migrated one.
        """

    def load_firmware(self, image_fd: int, size: int, slot: int, version: int) -> None:  # noqa: ARG002  it has none
        """Loads control code into a firmware slot that no element runs. Callable from any thread.

        :raise EngineError: the code is not compiled for this engine, the slot is used, or the control code is built in.
        """
        raise EngineError(f"the {self.kind} engine's control code is built in")

    @abstractmethod
    def close(self) -> None:
        """Frees the engine; programs must have been unloaded."""

    @staticmethod
    @abstractmethod
    def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
        """Job that compiles a source of a ``ProgramKind`` (its name); `settings` are those of the `Target`.

        :raise ValueError: this engine does not compile that kind, or an option is not allowed.
        """
