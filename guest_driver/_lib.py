"""Interface to libvgc through cffi, in ABI mode: one package for every Python, no compiler in the guest.

The declarations are read from vgc.h. ``$VGC_LIBRARY`` names a different build of the library.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import cffi

from guest_driver import errors

LIBVGC_DIR: Final = Path(__file__).resolve().parent / "libvgc"
HEADER: Final = LIBVGC_DIR / "vgc.h"
DEFAULT_LIBRARY: Final = LIBVGC_DIR / "build" / "libvgc.so"


def declarations(header: str) -> str:
    """Returns the part of vgc.h that is marked for cffi, without macros that cffi cannot read."""
    marked = re.search(r"/\* \[cdef\].*?\*/(.*)/\* \[/cdef\] \*/", header, flags=re.DOTALL)
    if marked is None:
        raise ValueError("vgc.h has no [cdef] marks")
    return marked.group(1).replace("VGC_API ", "")


def library_path() -> Path:
    """Path of libvgc.so."""
    return Path(os.environ.get("VGC_LIBRARY") or DEFAULT_LIBRARY)


def _load() -> tuple[Any, Any]:
    path = library_path()
    interface = cffi.FFI()
    interface.cdef(declarations(HEADER.read_text()))
    try:
        return interface, interface.dlopen(str(path))
    except OSError as error:
        raise ImportError(
            f"libvgc cannot be loaded from {path}: {error}; build it with `make -C guest_driver/libvgc`, "
            "or set VGC_LIBRARY"
        ) from error


ffi, lib = _load()


def text(pointer: Any) -> str:
    """Decodes a C string; "" for NULL."""
    return "" if pointer == ffi.NULL else ffi.string(pointer).decode(errors="replace")


def check(result: int) -> None:
    """Raises the exception for a result of libvgc, with libvgc's error text.

    :raise errors.VgcError: the result is not VGC_OK; the subclass depends on the result.
    """
    if result != lib.VGC_OK:
        raise errors.from_result(result, text(lib.vgc_last_error()), text(lib.vgc_last_log()))
