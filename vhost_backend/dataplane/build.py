"""Builds ``vhost_backend._dataplane``: the data plane and the engines that are written in C.

``python -m vhost_backend.dataplane.build`` compiles it next to the package. The control system's driver,
``vhost_backend/channels/``, and the table of built-in functions, ``vhost_backend/builtins/``, are part of it. Every engine
folder ``vhost_backend/engines/*/`` takes part: its ``*.c``, and those of its ``builtins/``, are compiled in, and its
``cdef.h``, if it has one, is declared to Python as is. ``VGC_ENGINES=a,b`` builds with only those folders.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

import cffi

from virtio_proto import codegen
from virtio_proto.build_vring import INCLUDE_DIR, cflags, compiled, ldflags
from virtio_proto.build_vring import SOURCES as VRING_SOURCES

HERE: Final = Path(__file__).resolve().parent
PACKAGE_DIR: Final = HERE.parent
ENGINES_DIR: Final = PACKAGE_DIR / "engines"
BUILTINS_DIR: Final = PACKAGE_DIR / "builtins"
CHANNELS_DIR: Final = PACKAGE_DIR / "channels"
REPOSITORY: Final = PACKAGE_DIR.parent

_ENGINE_TAIL: Final = re.compile(r"    struct vgc_black_box \*black_box;.*?^};", re.DOTALL | re.MULTILINE)


def _engine_declarations() -> str:
    """``vgc_engine.h`` for cffi, which does not support atomics: the engine's internal fields stay hidden."""
    text = codegen.declarations(HERE / "vgc_engine.h")
    text = _ENGINE_TAIL.sub("    ...;\n};", text)
    return text.replace("__attribute__((noreturn)) ", "")


def _engine_folders() -> list[Path]:
    wanted = os.environ.get("VGC_ENGINES")
    folders = sorted(path for path in ENGINES_DIR.iterdir() if path.is_dir() and any(path.glob("*.c")))
    return [path for path in folders if wanted is None or path.name in wanted.split(",")]


def _sources() -> list[str]:
    own = [source for folder in (HERE, BUILTINS_DIR, CHANNELS_DIR) for source in sorted(folder.glob("*.c"))]
    folders = [part for folder in _engine_folders() for part in (folder, folder / "builtins")]
    engines = [source for folder in folders for source in sorted(folder.glob("*.c"))]
    return [str(path) for path in (*own, *VRING_SOURCES, *engines)]


def ffibuilder() -> cffi.FFI:
    """Describes the extension module, ready to compile."""
    ffi = cffi.FFI()
    ffi.cdef(codegen.cdef())
    ffi.cdef(codegen.declarations(INCLUDE_DIR / "vgc_vring.h"))
    ffi.cdef("enum { VGC_BLACK_BOX_TEXT = 1024 };")
    ffi.cdef(_engine_declarations())
    ffi.cdef(codegen.declarations(HERE / "vgc_dataplane.h"))
    headers = ["vgc_dataplane.h", "vgc_inflight.h", "kernels/control/vgc_control.h"]
    ffi.cdef(codegen.declarations(REPOSITORY / "kernels" / "control" / "vgc_control.h"))
    for folder in (CHANNELS_DIR, *_engine_folders()):
        cdef = folder / "cdef.h"
        if cdef.exists():
            ffi.cdef(codegen.declarations(cdef))
            headers.append(str(cdef.relative_to(PACKAGE_DIR)))
    ffi.set_source(
        "vhost_backend._dataplane",
        "".join(f'#include "{header}"\n' for header in headers),
        sources=_sources(),
        include_dirs=[str(INCLUDE_DIR), str(HERE), str(PACKAGE_DIR), str(REPOSITORY)],
        extra_compile_args=cflags(),
        extra_link_args=[*ldflags(), "-pthread"],
    )
    return ffi


def main() -> None:
    """Builds the extension module beside the package's sources, if it has no undefined symbols."""
    with tempfile.TemporaryDirectory() as build_dir:
        built = compiled(ffibuilder(), Path(build_dir))
        if not os.environ.get("VGC_SANITIZE"):  # a sanitized module needs its runtime loaded first
            ctypes.CDLL(str(built), mode=os.RTLD_NOW)
        fresh = PACKAGE_DIR / f".{built.name}.new"
        shutil.copy(built, fresh)
    fresh.rename(PACKAGE_DIR / built.name)  # atomic: another process may be importing the old one


if __name__ == "__main__":
    main()
