"""Functions that every process of the VM finds: those that were registered for it, and those of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from guest_driver._lib import check, ffi, lib, text
from guest_driver.arguments import Param, ParamKind
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
    """Formats functions for people."""
    if not functions:
        return "no functions are registered for this VM: vgc register FILE.cu"
    rows = [("function", "program", "launches", "mean", "p99")]
    for one in functions:
        state = "broken" if one.problem else "kept" if one.is_kept else "registered"
        where = f"{one.program} {state}" if one.program else "host"
        rows.append(
            (
                one.signature,
                where,
                str(one.launches),
                duration(round(one.mean_ns), one.launches),
                duration(one.p99_ns, one.p99_ns),
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    problems = {one.program: one.problem for one in functions if one.problem}
    lines += [f"program {program} is broken: {problem.strip()}" for program, problem in problems.items()]
    return "\n".join(lines)
