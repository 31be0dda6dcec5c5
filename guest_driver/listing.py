"""Functions that every process of the VM finds: those that were registered for it, and those of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guest_driver._lib import check, ffi, lib, text
from guest_driver.arguments import Param, ParamKind
from guest_driver.functions.names import SUFFIX
from guest_driver.local_functions import duration
from virtio_proto.parameter_text import signature

if TYPE_CHECKING:
    from guest_driver.handle import Handle


@dataclass(frozen=True, slots=True)
class ListedFunction:
    """Function of the VM or the host. Counts are of all processes, since the host's worker has started."""

    name: str
    """Name in the source."""
    linker_name: str
    params: tuple[Param, ...]
    program: int
    """Number that the functions of a registered program share; 0: it is the host's."""
    is_kept: bool
    """It stays registered when the guest is restarted."""
    problem: str
    """Reason why its program does not compile or load any more; "" if it does."""
    launches: int
    busy_ns: int
    p99_ns: int
    """Time that 99 of 100 launches did not exceed; 0: none was timed."""

    @property
    def mean_ns(self) -> float:
        """Mean time of a launch."""
        return self.busy_ns / self.launches if self.launches else 0.0

    @property
    def signature(self) -> str:
        """Name and types of the parameters."""
        return signature(self.name, ((param.kind, param.size) for param in self.params))


def list_functions(handle: Handle) -> list[ListedFunction]:
    """Lists the functions. See `Device.list_functions`."""
    out = ffi.new("struct vgc_listing **")
    check(lib.vgc_functions(handle.pointer, out))
    try:
        size = lib.vgc_listing_size(out[0])
        return [_listed(lib.vgc_listing_at(out[0], index)) for index in range(size)]
    finally:
        lib.vgc_listing_free(out[0])


def _listed(raw: Any) -> ListedFunction:
    params = tuple(Param(int(p.offset), int(p.size), ParamKind(p.kind)) for p in raw.params[0 : raw.num_params])
    return ListedFunction(
        name=text(raw.short_name),
        linker_name=text(raw.name),
        params=params,
        program=int(raw.program),
        is_kept=bool(raw.is_kept),
        problem=text(raw.problem),
        launches=int(raw.launches),
        busy_ns=int(raw.busy_ns),
        p99_ns=int(raw.p99_ns),
    )


def describe(functions: Sequence[ListedFunction]) -> str:
    """Formats functions for people: registered ones, then those of the host, with their types in one line."""
    registered = [one for one in functions if one.program]
    lines = [] if registered else ["no functions are registered for this VM: vgc register FILE.cu"]
    rows = [_row(one.signature, _state(one), [one]) for one in registered]
    rows += [
        _row(f"{name}: {types}" if types else name, "host", group) for name, types, group in _host_functions(functions)
    ]
    if rows:
        lines += _table([("function", "program", "launches", "mean", "p99"), *rows])
    problems = {one.program: one.problem for one in functions if one.problem}
    lines += [f"program {program} is broken: {problem.strip()}" for program, problem in problems.items()]
    return "\n".join(lines)


def _host_functions(functions: Sequence[ListedFunction]) -> list[tuple[str, str, list[ListedFunction]]]:
    """Functions of the host: name without the type, types, and the functions of these types."""
    groups: dict[str, list[ListedFunction]] = {}
    for one in functions:
        if not one.program:
            groups.setdefault(SUFFIX.sub("", one.name), []).append(one)
    return [(name, " ".join(one.name[len(name) + 1 :] for one in group), group) for name, group in groups.items()]


def _state(one: ListedFunction) -> str:
    return f"{one.program} {'broken' if one.problem else 'kept' if one.is_kept else 'registered'}"


def _row(name: str, where: str, group: Sequence[ListedFunction]) -> tuple[str, ...]:
    """Row of functions that are shown as one. The largest time that 99 of 100 did not exceed holds for all."""
    launches, p99_ns = sum(one.launches for one in group), max(one.p99_ns for one in group)
    mean_ns = sum(one.busy_ns for one in group) / launches if launches else 0.0
    return name, where, str(launches), duration(round(mean_ns), launches), duration(p99_ns, p99_ns)


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
