"""View of the host's files that a compiler gets: those of its job, and the libraries of programs among them."""

from __future__ import annotations

import functools
from typing import Final

from vhost_backend.compiler.job import INSIDE
from vhost_backend.sandbox.libraries import libraries_of
from vhost_backend.sandbox.terms import Bind

LIBRARIES: Final = INSIDE / "lib"
"""Folder of the libraries, to which ``LD_LIBRARY_PATH`` must point."""


def binds(visible: tuple[Bind, ...]) -> tuple[Bind, ...]:
    """Adds the libraries of the programs in `visible`, and their dynamic linkers, which have the only fixed paths.

    The first call for some files takes as long as their dynamic linker, some 10 ms for each program; so does one after
    the host has replaced a library.

    :raise HostError: a file cannot be read, or lacks a library.
    """
    found = _binds(visible)
    if all(bind.source.exists() for bind in found):
        return found
    _binds.cache_clear()
    return _binds(visible)


@functools.cache
def _binds(visible: tuple[Bind, ...]) -> tuple[Bind, ...]:
    found = libraries_of(bind.source for bind in visible if bind.source.is_file())
    libraries = (Bind(path, LIBRARIES / name) for name, path in found.by_name.items())
    linkers = (Bind(path.resolve(), path) for path in found.linkers)
    return tuple({bind.target: bind for bind in (*libraries, *linkers, *visible)}.values())
