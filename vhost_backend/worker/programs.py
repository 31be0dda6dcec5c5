"""Programs that the VM has loaded, their functions and variables, and the payloads that describe them to the guest."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import (
    CodeRange,
    Engine,
    FunctionInfo,
    GlobalInfo,
    LoadedProgram,
    ProgramError,
    ProgramMemoryError,
)
from vhost_backend.errors import DriverError
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from vhost_backend.worker_protocol.protocol import MAX_CODE_RANGES
from virtio_proto import schema
from virtio_proto.schema import Status

OF_VM: Final = 0
"""In place of a context's engine number: the program is registered for the VM."""
OF_HOST: Final = int(lib.VGC_OF_HOST)
"""In place of a context's engine number: the program is the engine's own, and guests do not see it."""
_WORK_BYTES: Final = int(ffi.sizeof("struct vgc_function_work"))
"""Bytes that the data plane keeps for each function of a registered program."""
_MAY_RAISE: Final = "; the host's operator may raise it: vgcctl vm limits VM --memory"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Function:
    """Function with the id by which the guest launches it."""

    id: int
    info: FunctionInfo


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """Loaded program of one context, of the VM (`OF_VM`) or of the engine (`OF_HOST`), with its id."""

    id: int
    context: int
    loaded: LoadedProgram
    functions: tuple[Function, ...] = field(default=())

    @property
    def charged_bytes(self) -> int:
        """Bytes charged to the quota."""
        return _charge_of(self.context, self.loaded)


def _names_of(loaded: LoadedProgram) -> Iterator[str]:
    """Names by which the program's functions are found; some may come twice."""
    for info in loaded.functions:
        yield info.name
        yield info.short_name


def _charge_of(context: int, loaded: LoadedProgram) -> int:
    return loaded.charged_bytes + (_WORK_BYTES * len(loaded.functions) if context == OF_VM else 0)


def _text(pointer: Any) -> str:
    return str(ffi.string(pointer), errors="replace")


def _built_in(function_id: int, kernel: Any) -> Function:
    params = [kernel.params[i] for i in range(kernel.num_params)]
    name = _text(kernel.name)
    info = FunctionInfo(
        name=name,
        short_name=name,
        params=tuple((param.offset, param.size) for param in params),
        param_bytes=kernel.param_bytes,
        shared_bytes=0,
        max_threads=kernel.max_threads,
        kernel=kernel,
        param_kinds=tuple(param.kind for param in params),
    )
    return Function(function_id, info)


class FunctionLoader(Protocol):
    """Registers functions of migrated programs: `vhost_backend.worker.migration.plane.MigrationPlane`."""

    def load_function(self, program: int, function: int, kernel: Any, name: str, short_name: str) -> None: ...


class Programs:
    """Table of the VM's programs, in order of loading. Keeps engine and data plane in step."""

    def __init__(self, engine: Engine, plane: DataPlane) -> None:
        self._engine = engine
        self._plane = plane
        self._entries: dict[int, LoadedEntry] = {}
        self._built_in: dict[str, Function] | None = None
        """Functions of the host, by name; None before someone asked."""
        self._names_of_vm: set[str] = set()
        """Names of the functions of registered programs."""
        self.before_change: Callable[[], None] = lambda: None
        """Hook called before a program's addresses become invalid and before a new program's functions can run."""
        self.name_code: Callable[[int, tuple[CodeRange, ...]], None] = lambda _program, _code: None
        """Hook called with a program's id and code once it is loaded, and without code once it is unloaded; only if
        the engine names code."""

    def add(self, context: int, image_fd: int, size: int) -> LoadedEntry:
        """Charges a program to the quota, and loads it for the context with this engine number, the VM or the engine.

        :raise DriverError: a program of the VM has one of the names already, the image is not the engine's, or the VM
            has too many programs or too little memory; nothing of the program is left.
        """
        self.before_change()
        try:
            needed = self._engine.image_bytes(image_fd, size)
            program = self._charged(needed, 0, lambda: self._plane.add_program(context, needed))
            entry = self._load(program, context, image_fd, size, needed)
        except ProgramMemoryError as error:
            raise DriverError(Status.OUT_OF_MEMORY, str(error)) from error
        except ProgramError as error:
            raise DriverError(Status.COMPILE_FAILED, f"the image cannot be loaded: {error}") from error
        except DataPlaneError as error:
            raise DriverError(Status.RESOURCES_EXHAUSTED, str(error)) from error
        self._enter(entry)
        return entry

    def _enter(self, entry: LoadedEntry) -> None:
        self._entries[entry.id] = entry
        if entry.context == OF_VM:
            self._names_of_vm.update(_names_of(entry.loaded))
        self._name(entry.id, entry.loaded)

    def _load(self, program: int, context: int, image_fd: int, size: int, charged: int) -> LoadedEntry:
        """Loads a program that is charged so many bytes already.

        :raise ProgramError: the engine refuses it; nothing of it is left.
        :raise DataPlaneError: the VM has too many functions or variables; nothing of it is left.
        """
        loaded: LoadedProgram | None = None
        try:
            loaded = self._engine.load_program(image_fd, size, 0 if context == OF_HOST else context)
            total = _charge_of(context, loaded)
            self._charged(total, charged, lambda: self._plane.charge_program(program, total))
            if context == OF_VM:
                self._check_names(loaded)
            self._engine.provide(loaded)
            functions = self._publish(program, loaded) if context != OF_HOST else ()
        except (DataPlaneError, ProgramError, DriverError):
            self._plane.remove_program(program)
            if loaded is not None:
                self._engine.unload_program(loaded)
            raise
        return LoadedEntry(program, context, loaded, functions)

    def _publish(self, program: int, loaded: LoadedProgram) -> tuple[Function, ...]:
        """Gives guests the program's functions and variables.

        :raise DataPlaneError: the VM has too many.
        """
        functions = tuple(Function(self._add_function(program, info), info) for info in loaded.functions)
        for variable in loaded.globals:
            self._plane.add_global(program, variable.address, variable.size)
        self._plane.publish_programs()
        return functions

    def _check_names(self, loaded: LoadedProgram) -> None:
        """Checks that no program of the VM has a name of the program's.

        :raise DriverError: one has.
        """
        taken = [name for name in _names_of(loaded) if name in self._names_of_vm]
        if taken:
            raise DriverError(
                Status.INVALID_ARGUMENT,
                f"function '{taken[0][:200]}' is registered already, by another program; allowed: a name that no "
                "registered program has, or to unregister that one before",
            )

    def add_migrated(
        self, plane: FunctionLoader, program: int, context: int, loaded: LoadedProgram, function_ids: Sequence[int]
    ) -> None:
        """Completes a program that the data plane knows, with the ids that another worker gave it; `publish` must follow.

        :raise DataPlaneError: ids or addresses are taken, or the quota does not allow it.
        :raise ProgramMemoryError: the device has too little memory.
        """
        self._plane.charge_program(program, _charge_of(context, loaded))
        self._engine.provide(loaded)
        functions = tuple(Function(*pair) for pair in zip(function_ids, loaded.functions, strict=True))
        for function in functions:
            info = function.info
            plane.load_function(program, function.id, info.kernel, info.name, info.short_name)
        for variable in loaded.globals:
            self._plane.add_global(program, variable.address, variable.size)
        self._enter(LoadedEntry(program, context, loaded, functions))

    def _name(self, program: int, loaded: LoadedProgram | None) -> None:
        if self._engine.names_code:
            self.name_code(program, () if loaded is None else self._engine.code_of(loaded, MAX_CODE_RANGES))

    def publish(self) -> None:
        """Lets functions be launched by name."""
        self._plane.publish_programs()

    def __iter__(self) -> Iterator[LoadedEntry]:
        """Iterates over programs in order of loading."""
        return iter(self._entries.values())

    def is_of_vm(self, program: int) -> bool:
        """True if this is the id of a registered program."""
        return program in self._entries and self._entries[program].context == OF_VM

    def remove(self, program: int) -> None:
        """Unloads a program; the data plane has made sure that none of its kernels runs."""
        self.before_change()
        entry = self._entries.pop(program)
        if entry.context == OF_VM:
            self._names_of_vm.difference_update(_names_of(entry.loaded))
        self._plane.remove_program(program)
        self._engine.unload_program(entry.loaded)
        self._name(program, None)

    def any_of(self, context: int) -> bool:
        """True if the context has programs."""
        return any(entry.context == context for entry in self._entries.values())

    def remove_context(self, context: int) -> None:
        for entry in [entry for entry in self._entries.values() if entry.context == context]:
            self.remove(entry.id)

    def close(self) -> None:
        for program in list(self._entries):
            self.remove(program)

    def find_function(self, context: int, program: int, name: str) -> Function:
        """Finds a function by its full or its source name, in the latest program that has it.

        `program` 0 searches all programs of the context, then the host's built-in functions, then programs of the VM: no
        other context can take the name of a built-in function.

        :raise DriverError: no program has it.
        """
        is_built_in = program == 0 and name in self.built_in
        for entry in self._candidates(context, program):
            if is_built_in and entry.context == OF_VM:
                break
            for function in entry.functions:
                if name in (function.info.name, function.info.short_name):
                    return function
        if is_built_in:
            return self.built_in[name]
        raise DriverError(
            Status.NOT_FOUND, f"no function '{name[:200]}'; there are: {self._names(context, program, name)}"
        )

    @property
    def built_in(self) -> Mapping[str, Function]:
        """Functions that come with the host, by name."""
        if self._built_in is None:
            functions = (_built_in(*found) for found in self._plane.builtins())
            self._built_in = {function.info.name: function for function in functions}
        return self._built_in

    def find_global(self, context: int, program: int, name: str) -> GlobalInfo:
        """Finds a variable, as `find_function` finds a function."""
        for entry in self._candidates(context, program):
            for variable in entry.loaded.globals:
                if variable.name == name:
                    return variable
        raise DriverError(Status.NOT_FOUND, f"no variable '{name[:200]}'")

    def _charged(self, total: int, charged: int, charge: Callable[[], _T]) -> _T:
        """Result of `charge`, which charges a program `total` bytes; so many are charged already.

        :raise ProgramMemoryError: the quota has too little left.
        """
        try:
            return charge()
        except DataPlaneError as error:
            if error.number != errno.EDQUOT:
                raise
            quota = self._plane.memory_bytes
            free = quota - self._plane.usage().memory_used_bytes + charged
            text = f"the program takes {total} bytes of device memory, {free} of {quota} bytes free{_MAY_RAISE}"
            raise ProgramMemoryError(text) from error

    def _add_function(self, program: int, info: FunctionInfo) -> int:
        return self._plane.add_function(program, info.kernel, info.name, info.short_name)

    def _candidates(self, context: int, program: int) -> Iterator[LoadedEntry]:
        """Programs to search, latest first.

        :raise DriverError: the context has no such program.
        """
        if program != 0 and (program not in self._entries or self._entries[program].context not in (context, OF_VM)):
            raise DriverError(Status.NOT_FOUND, f"no program {program} in this context, nor in the VM")
        for owner in (context, OF_VM):
            for entry in reversed(self._entries.values()):
                if entry.context == owner and program in (0, entry.id):
                    yield entry

    def _names(self, context: int, program: int, wanted: str) -> str:
        names = [
            function.info.short_name for entry in self._candidates(context, program) for function in entry.functions
        ]
        return (", ".join(names)[:500] or "none") + (self._about_built_in(wanted) if program == 0 else "")

    def _about_built_in(self, wanted: str) -> str:
        group = wanted.partition(".")[0] + "."
        alike = ", ".join(name for name in self.built_in if name.startswith(group))[:500]
        missing = self._engine.missing_builtins
        text = f"; and {len(self.built_in)} built-in ones" if self.built_in else ""
        text += f", among them {alike}" if alike else ""
        return text + (f"; built-in ones are missing: {missing}" if missing else "")


# --------------------------------------------------------------------------------------------------
# Payloads of responses
# --------------------------------------------------------------------------------------------------


class Strings:
    """String area of a program table."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, text: str) -> tuple[int, int]:
        """Appends a string; returns its offset and length."""
        raw = text.encode()
        offset = len(self.data)
        self.data += raw
        return offset, len(raw)


def _function_entry(function: Function, strings: Strings | None, first_param: int) -> bytes:
    info = function.info
    name = strings.add(info.name) if strings else (0, 0)
    short = strings.add(info.short_name) if strings else (0, 0)
    return schema.FUNCTION_ENTRY.construct.build(
        {
            "id": function.id,
            "name_off": name[0],
            "name_len": name[1],
            "short_off": short[0],
            "short_len": short[1],
            "first_param": first_param,
            "num_params": len(info.params),
            "param_bytes": info.param_bytes,
            "shared_bytes": info.shared_bytes,
            "max_threads": info.max_threads,
            "num_registers": info.num_registers,
            "local_bytes": info.local_bytes,
        }
    )


def param_entries(info: FunctionInfo) -> bytes:
    """Parameters of a function, as ``vgc_param_entry``."""
    build = schema.PARAM_ENTRY.construct.build
    return b"".join(
        build({"offset": offset, "size": size, "kind": kind, "reserved": 0})
        for (offset, size), kind in zip(info.params, info.kinds(), strict=True)
    )


def _global_entry(variable: GlobalInfo, strings: Strings | None) -> bytes:
    name = strings.add(variable.name) if strings else (0, 0)
    return schema.GLOBAL_ENTRY.construct.build(
        {"name_off": name[0], "name_len": name[1], "address": variable.address, "size": variable.size}
    )


def program_table(entry: LoadedEntry, log: str) -> bytes:
    """Payload of a ``PROGRAM_LOAD`` response."""
    strings = Strings()
    functions = bytearray()
    params = bytearray()
    for function in entry.functions:
        functions += _function_entry(function, strings, len(params) // schema.PARAM_ENTRY.size_bytes)
        params += param_entries(function.info)
    variables = b"".join(_global_entry(variable, strings) for variable in entry.loaded.globals)
    raw_log = log.encode(errors="replace")
    header = schema.PROGRAM_TABLE.construct.build(
        {
            "num_functions": len(entry.functions),
            "num_params": len(params) // schema.PARAM_ENTRY.size_bytes,
            "num_globals": len(entry.loaded.globals),
            "strings_len": len(strings.data),
            "log_len": len(raw_log),
            "constant_bytes": entry.loaded.constant_bytes,
            "memory_bytes": entry.charged_bytes,
        }
    )
    return bytes(header + functions + params + variables + strings.data + raw_log)


def function_payload(function: Function) -> bytes:
    """Payload of a ``FUNCTION_LOOKUP`` response."""
    return _function_entry(function, None, 0) + param_entries(function.info)


def global_payload(variable: GlobalInfo) -> bytes:
    """Payload of a ``GLOBAL_LOOKUP`` response."""
    return _global_entry(variable, None)
