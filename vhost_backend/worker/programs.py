"""Programs that the VM has loaded: which functions and variables they have, and how the guest is told."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from vhost_backend.engines.base import Engine, FunctionInfo, GlobalInfo, LoadedProgram
from vhost_backend.errors import DriverError
from vhost_backend.worker.moving_plane import MovingPlane
from vhost_backend.worker.plane import DataPlane, DataPlaneError
from virtio_proto import schema
from virtio_proto.schema import Status


@dataclass(frozen=True, slots=True)
class Function:
    """A function with the id that the guest launches it by."""

    id: int
    info: FunctionInfo


@dataclass(frozen=True, slots=True)
class LoadedEntry:
    """A program with its id, of one context."""

    id: int
    context: int
    loaded: LoadedProgram
    functions: tuple[Function, ...] = field(default=())


class Programs:
    """All programs of the VM, in order of loading. Keeps engine and data plane in step."""

    def __init__(self, engine: Engine, plane: DataPlane) -> None:
        self._engine = engine
        self._plane = plane
        self._entries: dict[int, LoadedEntry] = {}
        self.before_change: Callable[[], None] = lambda: None
        """Called before a program's addresses become invalid, and before functions of a new one can be launched."""

    def add(self, context: int, loaded: LoadedProgram) -> LoadedEntry:
        """Registers what the engine has loaded for the context of this engine number.

        :raise DriverError: the VM has too many; the program is unloaded again.
        """
        self.before_change()
        program = -1
        try:
            program = self._plane.add_program(context, loaded.charged_bytes)
            functions = tuple(Function(self._add_function(program, info), info) for info in loaded.functions)
            for variable in loaded.globals:
                self._plane.add_global(program, variable.address, variable.size)
            self._plane.publish_programs()
        except DataPlaneError as error:
            if program >= 0:
                self._plane.remove_program(program)
            self._engine.unload_program(loaded)
            raise self._refusal(error, loaded) from error
        entry = LoadedEntry(program, context, loaded, functions)
        self._entries[program] = entry
        return entry

    def add_moved(
        self, moving: MovingPlane, program: int, context: int, loaded: LoadedProgram, function_ids: Sequence[int]
    ) -> None:
        """Registers a program with the ids that another worker gave it; `publish` must follow.

        :raise DataPlaneError: ids or addresses are taken, or the quota does not allow it.
        """
        moving.load_program(program, context, loaded.charged_bytes)
        functions = tuple(Function(*pair) for pair in zip(function_ids, loaded.functions, strict=True))
        for function in functions:
            info = function.info
            moving.load_function(program, function.id, info.kernel, info.name, info.short_name)
        for variable in loaded.globals:
            self._plane.add_global(program, variable.address, variable.size)
        self._entries[program] = LoadedEntry(program, context, loaded, functions)

    def publish(self) -> None:
        """Lets functions be called by name."""
        self._plane.publish_programs()

    def __iter__(self) -> Iterator[LoadedEntry]:
        """In order of loading."""
        return iter(self._entries.values())

    def remove(self, program: int) -> None:
        """Unloads; the data plane has seen to it that nothing of it runs."""
        self.before_change()
        entry = self._entries.pop(program)
        self._plane.remove_program(program)
        self._engine.unload_program(entry.loaded)

    def any_of(self, context: int) -> bool:
        """Has the context programs?"""
        return any(entry.context == context for entry in self._entries.values())

    def remove_context(self, context: int) -> None:
        for entry in [entry for entry in self._entries.values() if entry.context == context]:
            self.remove(entry.id)

    def close(self) -> None:
        for program in list(self._entries):
            self.remove(program)

    def find_function(self, context: int, program: int, name: str) -> Function:
        """By full name, or by the source's; of the latest program that has it. `program` 0: any of the context.

        :raise DriverError: there is none.
        """
        for entry in self._candidates(context, program):
            for function in entry.functions:
                if name in (function.info.name, function.info.short_name):
                    return function
        raise DriverError(Status.NOT_FOUND, f"no function '{name[:200]}'; there are: {self._names(context, program)}")

    def find_global(self, context: int, program: int, name: str) -> GlobalInfo:
        """As `find_function`."""
        for entry in self._candidates(context, program):
            for variable in entry.loaded.globals:
                if variable.name == name:
                    return variable
        raise DriverError(Status.NOT_FOUND, f"no variable '{name[:200]}'")

    def _refusal(self, error: DataPlaneError, loaded: LoadedProgram) -> DriverError:
        if error.number != errno.EDQUOT:
            return DriverError(Status.RESOURCES_EXHAUSTED, str(error))
        used = self._plane.usage().memory_used_bytes
        text = f"the program takes {loaded.charged_bytes} bytes of device memory; {used} bytes of the quota are used"
        return DriverError(Status.OUT_OF_MEMORY, text)

    def _add_function(self, program: int, info: FunctionInfo) -> int:
        return self._plane.add_function(program, info.kernel, info.name, info.short_name)

    def _candidates(self, context: int, program: int) -> Iterator[LoadedEntry]:
        """Latest first.

        :raise DriverError: `program` is not one of the context's.
        """
        if program != 0 and (program not in self._entries or self._entries[program].context != context):
            raise DriverError(Status.NOT_FOUND, f"no program {program} in this context")
        for entry in reversed(self._entries.values()):
            if entry.context == context and program in (0, entry.id):
                yield entry

    def _names(self, context: int, program: int) -> str:
        names = [
            function.info.short_name for entry in self._candidates(context, program) for function in entry.functions
        ]
        return ", ".join(names)[:500] or "none"


# --------------------------------------------------------------------------------------------------
# As the guest is told
# --------------------------------------------------------------------------------------------------


class _Strings:
    """The strings of a program table."""

    def __init__(self) -> None:
        self.data = bytearray()

    def add(self, text: str) -> tuple[int, int]:
        """Offset and length."""
        raw = text.encode()
        offset = len(self.data)
        self.data += raw
        return offset, len(raw)


def _function_entry(function: Function, strings: _Strings | None, first_param: int) -> bytes:
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
        }
    )


def _params(info: FunctionInfo) -> bytes:
    build = schema.PARAM_ENTRY.construct.build
    return b"".join(
        build({"offset": offset, "size": size, "kind": kind, "reserved": 0})
        for (offset, size), kind in zip(info.params, info.kinds(), strict=True)
    )


def _global_entry(variable: GlobalInfo, strings: _Strings | None) -> bytes:
    name = strings.add(variable.name) if strings else (0, 0)
    return schema.GLOBAL_ENTRY.construct.build(
        {"name_off": name[0], "name_len": name[1], "address": variable.address, "size": variable.size}
    )


def program_table(entry: LoadedEntry, log: str) -> bytes:
    """Payload of a ``PROGRAM_LOAD`` response."""
    strings = _Strings()
    functions = bytearray()
    params = bytearray()
    for function in entry.functions:
        functions += _function_entry(function, strings, len(params) // schema.PARAM_ENTRY.size_bytes)
        params += _params(function.info)
    variables = b"".join(_global_entry(variable, strings) for variable in entry.loaded.globals)
    raw_log = log.encode(errors="replace")
    header = schema.PROGRAM_TABLE.construct.build(
        {
            "num_functions": len(entry.functions),
            "num_params": len(params) // schema.PARAM_ENTRY.size_bytes,
            "num_globals": len(entry.loaded.globals),
            "strings_len": len(strings.data),
            "log_len": len(raw_log),
            "reserved": 0,
        }
    )
    return bytes(header + functions + params + variables + strings.data + raw_log)


def function_payload(function: Function) -> bytes:
    """Payload of a ``FUNCTION_LOOKUP`` response."""
    return _function_entry(function, None, 0) + _params(function.info)


def global_payload(variable: GlobalInfo) -> bytes:
    """Payload of a ``GLOBAL_LOOKUP`` response."""
    return _global_entry(variable, None)
