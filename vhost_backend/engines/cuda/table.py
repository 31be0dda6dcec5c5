"""Names under which a guest finds a program's kernels and variables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from vhost_backend.engines.cuda import kinds, names
from vhost_backend.engines.cuda.cubin import Cubin
from vhost_backend.engines.cuda.kinds import Declared

__all__ = ["AmbiguousNameError", "Named", "kernels", "variables"]

_AT: Final = "@"
"""Between a name that several sources have and the name of the source."""


class AmbiguousNameError(ValueError):
    """Two kernels or variables of a program would have the same name for the guest."""


@dataclass(frozen=True, slots=True)
class Named:
    """A name of a kernel or variable. A kernel or variable may have several."""

    index: int
    """Place in the image's list of kernels or variables."""
    name: str
    """The linker's, as clang makes it if the program was compiled from source."""
    short_name: str
    """The source's, unqualified. Further names of the same thing are no name of the source: they stand here again."""


@dataclass(frozen=True, slots=True)
class _Thing:
    """A kernel or variable, its possible names, and the number of its source if only that knows it."""

    index: int
    candidates: tuple[str, ...]
    short_name: str
    unit: int | None


def kernels(parsed: Cubin, declared: Declared) -> tuple[Named, ...]:
    """Names of the kernels: in the order of the image, then further possible names.

    :raise AmbiguousNameError: two kernels have the same name.
    """
    things = []
    for index, kernel in enumerate(parsed.kernels):
        plain, is_static, unit = names.parts(kernel.name)
        found = names.function_names(plain, is_local=kernel.is_local or is_static)
        candidates = found if kinds.is_source(declared) else (kernel.name,)
        things.append(_Thing(index, candidates, names.short_name(candidates[0]), unit))
    return tuple(_named(things, declared))


def variables(parsed: Cubin, declared: Declared) -> tuple[Named, ...]:
    """Names of the variables: in the order of the image, then further possible names.

    :raise AmbiguousNameError: two variables have the same name.
    """
    things = []
    for index, variable in enumerate(parsed.variables):
        plain, is_static, unit = names.parts(variable.name)
        found = names.variable_names(plain, is_local=variable.is_local, is_static=is_static)
        candidates = found if kinds.is_source(declared) else (variable.name,)
        things.append(_Thing(index, candidates, candidates[0], unit))
    return tuple(_named(things, declared))


def _named(things: Sequence[_Thing], declared: Declared) -> Iterator[Named]:
    counts = Counter(thing.candidates[0] for thing in things)
    suffixes = [_suffix(thing, declared) if counts[thing.candidates[0]] > 1 else "" for thing in things]
    taken: set[str] = set()
    for thing, suffix in zip(things, suffixes, strict=True):
        name = thing.candidates[0] + suffix
        if name in taken:
            raise AmbiguousNameError(f"the program has two kernels or variables of the name {name:.200}")
        taken.add(name)
        yield Named(thing.index, name, thing.short_name + suffix)
    for thing, suffix in zip(things, suffixes, strict=True):
        for name in thing.candidates[1:]:
            if name + suffix not in taken:
                taken.add(name + suffix)
                yield Named(thing.index, name + suffix, name + suffix)


def _suffix(thing: _Thing, declared: Declared) -> str:
    """Addition that tells a name from the same one of another source."""
    return "" if thing.unit is None else f"{_AT}{kinds.unit_name(declared, thing.unit)}"
