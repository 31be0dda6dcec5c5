"""Compilation of CUDA source for this host's CPU."""

from __future__ import annotations

import functools
import hashlib
import re
import time
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import INSIDE, CompileJob, may_have
from vhost_backend.engines.cpu import cccl, preludes
from vhost_backend.engines.cpu.host_headers import host_headers
from vhost_backend.engines.interpreter import Interpreter, interpreter, sources
from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

HERE: Final = Path(__file__).resolve().parent
COMPILER: Final = HERE / "compiler" / "build" / "vgc-cpucc"
INCLUDE_DIR: Final = HERE.parents[2] / "kernels" / "cpu" / "include"
CUDA12_NAMES_DIR: Final = INCLUDE_DIR / "vgc_cccl"
"""Headers named as those of CUB and Thrust, which include these and add names of release 2 to release 3."""
CONTROL_DIR: Final = HERE.parents[2] / "kernels" / "control"
"""Headers of the control system; kernels may include those in its folder ``include``."""
LLVM_DIR: Final = Path("/usr/lib/llvm-19")
_LIBRARY: Final = "lib/clang/19/lib/linux/libclang_rt.builtins-x86_64.a"
"""Functions for operations that the processor does not have, such as divisions of 128 bits; linked into images."""
_LLVM_FILES: Final = ("lib/clang/19/include", _LIBRARY)
"""Files below `LLVM_DIR` that ``vgc-cpucc`` uses."""

FOLDERS: Final = {
    INSIDE / "kernels" / "cpu" / "include": INCLUDE_DIR,
    INSIDE / "kernels" / "control": CONTROL_DIR,
    INSIDE / "llvm": LLVM_DIR,
    INSIDE / "host": Path("/"),
}
"""Folders of headers that a compiler sees, and the host's. All compilers know them by these names, isolated or not."""

INPUTS: Final = {
    "CUDA_SOURCE": "source.cu",
    "CUDA_UNITS": "units",
    "PTX": "module.ptx",
    "FATBIN": "guest.fatbin",
}
"""Name of the compiler's input, by the kinds of programs that it compiles."""
_FORMS: Final = {"CUDA_UNITS": ("--units",), "PTX": ("--ptx",)}
"""Option for inputs that are no CUDA source."""
_UNPACKER: Final = "cpu.unpacker"
"""Program that takes PTX out of fatbins, before the compiler."""
_CONTAINED: Final = re.compile(rb"\x50\xed\x55\xba|\x7fELF")
"""First bytes of fatbins, and of the host objects that have some."""
_HOSTED: Final = re.compile(rb"include|std\s*::|<<\s*<")
"""Words without which a source needs no header of the host; ``source.cpp`` looks closer."""
_CPU_FIELDS: Final = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


def compile_job(
    options: tuple[str, ...],
    source: bytes | None = None,
    libraries: str = cccl.AUTO,
    *,
    lockstep: bool = False,
    symbols: bool = False,
    kind: str = "CUDA_SOURCE",
) -> CompileJob:
    """Job that runs ``vgc-cpucc``, which refuses unknown options.

    :param lockstep: the VM's programs are compiled with ``--lockstep``.
    :param symbols: images have names of their code.
    :param source: a source that cannot ask for headers of the host is compiled without them, as each costs a mount.
    :param libraries: folder of CUB, Thrust and libcu++, "auto" or "off".

    :raise HostError: the compiler has not been built, or headers are missing.
    """
    if not COMPILER.exists():
        raise HostError(f"{COMPILER} is missing", hint="python -m tools.build")
    if not (LLVM_DIR / _LIBRARY).exists():
        raise HostError(f"{LLVM_DIR / _LIBRARY} is missing", hint="apt-get install libclang-rt-19-dev")
    headers = host_headers(COMPILER, LLVM_DIR)
    hosted = kind not in ("PTX", "FATBIN") and (source is None or may_have(_HOSTED, source))
    folders = [path for path in headers.folders if hosted or path.is_relative_to(LLVM_DIR)]
    named = hosted and (source is None or cccl.names_cccl(source))
    nvidias = cccl.cccl(libraries) if named else None
    offered = _offered(COMPILER, nvidias, int(time.monotonic()))
    argv: tuple[str | Path, ...] = (
        COMPILER,
        *_folder("--llvm", LLVM_DIR),
        *_folder("--include-dir", INCLUDE_DIR),
        *_folder("--parent-dir", CONTROL_DIR),  # its headers include ../vgc_control.h
        *_folder("--include-dir", CONTROL_DIR / "include"),
        *(_libraries(nvidias) if nvidias else ()),
        *(word for folder in folders for word in _folder("--system-dir", folder)),
        *(word for path in offered for word in ("--prelude", path)),
        *(("--symbols",) if symbols else ()),
        "--output",
        "image",
        "--",
        *(("--lockstep",) if lockstep else ()),
        *options,
    )
    is_packed = kind == "FATBIN" or (kind == "CUDA_UNITS" and (source is None or may_have(_CONTAINED, source)))
    unpacker = interpreter(_UNPACKER) if is_packed else None
    return CompileJob(
        argv=_reading(kind, argv, unpacker),
        input_name=INPUTS[kind],
        output_name="image",
        visible=(
            *_visible(),
            *_shown(offered),
            *(headers.visible if hosted else ()),
            *(nvidias.visible if nvidias else ()),
            *(unpacker.visible if unpacker else ()),
        ),
        identity=" ".join(
            (
                identity(),
                *((nvidias.identity,) if nvidias else ()),
                *((_unpackers_identity(),) if unpacker else ()),
                *(name for name, is_on in (("lockstep", lockstep), ("symbols", symbols)) if is_on),
            )
        ),
        is_alone=True,
    )


def _reading(kind: str, argv: tuple[str | Path, ...], unpacker: Interpreter | None) -> tuple[str | Path, ...]:
    """Command of the compiler for an input, by the program that takes fatbins apart if there may be some."""
    compiler, *words = argv
    if unpacker is None:
        return (compiler, *_FORMS.get(kind, ()), "--input", INPUTS[kind], *words)
    return (*unpacker.command, INPUTS[kind], kind, compiler, *words)


def precompile_argv(libraries: cccl.Cccl, folder: Path) -> tuple[str | Path, ...]:
    """Command that makes the preludes with CUB and Thrust in `folder`."""
    return (
        COMPILER,
        *("--make-preludes", folder, "--host-root", str(INSIDE / "host")),
        *_folder("--llvm", LLVM_DIR),
        *_folder("--include-dir", INCLUDE_DIR),
        *_folder("--include-dir", CONTROL_DIR / "include"),
        *_libraries(libraries),
    )


def made_preludes() -> tuple[preludes.Prelude, ...]:
    """The preludes that the build has left, with what is wrong with each."""
    return preludes.preludes(COMPILER, FOLDERS)


def made_cccl_preludes(libraries: cccl.Cccl) -> tuple[preludes.Prelude, ...]:
    """The preludes with this release of CUB and Thrust, with what is wrong with each; none if nobody has made any."""
    if not (COMPILER.parent / preludes.CCCL_FOLDER / f"{preludes.CCCL_KINDS[0]}.made").exists():
        return ()
    names = {cccl.KNOWN_AS: libraries.folder, **FOLDERS}
    return preludes.preludes(COMPILER, names, preludes.CCCL_KINDS, preludes.CCCL_FOLDER)


@functools.lru_cache(maxsize=8)
def _offered(_compiler: Path, libraries: cccl.Cccl | None, _second: int) -> tuple[Path, ...]:
    """Preludes that are whole. They are looked at once a second: the look takes a fifth of loading a cached program."""
    made = (*(made_cccl_preludes(libraries) if libraries else ()), *made_preludes())
    return tuple(prelude.path for prelude in made if not prelude.fault)


def _shown(offered: tuple[Path, ...]) -> tuple[Bind, ...]:
    """The folders of preludes, unless none is offered."""
    return tuple(Bind(folder, INSIDE / folder.name) for folder in dict.fromkeys(path.parent for path in offered))


@functools.cache
def _folder(option: str, folder: Path) -> tuple[str | Path, ...]:
    """Words of the command line for a folder of headers, and for the name under which clang knows it."""
    for inside, outside in FOLDERS.items():
        if folder.is_relative_to(outside) and not folder.is_relative_to(INSIDE):
            return option, folder, "--known-as", str(inside / folder.relative_to(outside))
    return option, folder


def _libraries(found: cccl.Cccl) -> tuple[str | Path, ...]:
    """Words for the folders of CUB, Thrust and libcu++: one with names that CUDA 12's had comes before theirs."""
    return (
        *_folder("--system-dir", CUDA12_NAMES_DIR),
        *("--system-dir", found.folder, "--known-as", str(cccl.KNOWN_AS)),
    )


@functools.cache
def _visible() -> tuple[Bind, ...]:
    """Compiler, its parts of LLVM, and the headers of kernels."""
    return (
        Bind(COMPILER, INSIDE / "bin" / COMPILER.name),
        Bind(INCLUDE_DIR, INSIDE / "kernels" / "cpu" / "include"),
        Bind(CONTROL_DIR, INSIDE / "kernels" / "control"),
        *(Bind(LLVM_DIR / name, INSIDE / "llvm" / name) for name in _LLVM_FILES),
    )


@functools.cache
def _unpackers_identity() -> str:
    """Digest of the program that takes fatbins apart."""
    digest = hashlib.sha256()
    for path in sources(_UNPACKER):
        digest.update(path.read_bytes())
    return f"unpacker {digest.hexdigest()}"


@functools.cache
def identity() -> str:
    """Digest of everything besides source and options that determines an image: compiler, headers, this host's CPU."""
    digest = hashlib.sha256(COMPILER.read_bytes())
    digest.update((LLVM_DIR / _LIBRARY).read_bytes())
    digest.update(host_headers(COMPILER, LLVM_DIR).identity.encode())
    for header in sorted([*INCLUDE_DIR.rglob("*"), *CONTROL_DIR.rglob("*.h")]):
        if header.is_file():
            digest.update(header.read_bytes())
    for field in _CPU_FIELDS:
        digest.update(_cpu_field(field).encode())
    return f"cpu {digest.hexdigest()}"


@functools.cache
def _cpu_field(name: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""
