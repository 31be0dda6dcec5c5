"""Compile jobs of the CUDA engine: choice of the compiler, the files that it sees, and the identity of its result.

Runs in the daemon and compiles nothing itself: ``compiler/`` does that in the compile sandbox. It is a Python program,
as it parses guest data; it starts NVRTC 10 ms later than a C program would (52 instead of 42 ms for an empty kernel).
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import INSIDE, CompileJob
from vhost_backend.engines.cuda import host_code, host_compiler, toolkits
from vhost_backend.engines.cuda.driver import INSTALL
from vhost_backend.engines.cuda.toolkits import Piece, Toolkit, version_text
from vhost_backend.engines.interpreter import interpreter, sources
from vhost_backend.errors import HostError
from vhost_backend.sandbox.terms import Bind

KERNELS: Final = Path(__file__).resolve().parents[3] / "kernels"
INCLUDE_DIR: Final = KERNELS / "cuda" / "include"
HOST_DIR: Final = KERNELS / "cuda" / "host"
"""Header of the runtime that only nvcc sees, with what host code of older programs needs."""
LATER_DIR: Final = HOST_DIR / "later"
"""Headers that toolkits may lack, for host code, and cuRAND's for kernels. Most are the software GPU's."""
_OF_CPU: Final = KERNELS / "cpu" / "include"
_SHARED: Final = ("curand*.h", "vgc_rand_*.h", "nvToolsExt*.h", "nvtx3")
"""The software GPU's headers that ``LATER_DIR`` includes."""
CONTROL_DIRS: Final = (KERNELS / "control" / "include", KERNELS / "cuda" / "control", KERNELS / "control")
"""Folders of the control system: its device API, the functions that hooks call, and the control code."""
INSTALL_12: Final = "pip install 'virtio-gpu-compute[cuda12]'"
"""Command that installs compilers for drivers of CUDA 12, which do not load programs of CUDA 13's compilers."""
COMPILERS: Final = ("auto", "nvrtc", "nvcc")
"""Values of the setting ``compiler``."""
USE_NVCC: Final = "--use-nvcc"
"""Option of a guest for sources that NVRTC does not compile."""
LOWERED_NAMES: Final = "--lowered-names"
"""Option of a guest's NVRTC: its programs have no host code, and only NVRTC tells these names."""

_SANITIZER: Final = "NVIDIA's compute-sanitizer checks programs there, where they run on their own"
_ELSEWHERE: Final = {
    "--memcheck": _SANITIZER,
    "--initcheck": _SANITIZER,
    "--racecheck": _SANITIZER,
    "--leak-check": _SANITIZER,
    "--profile": "NVIDIA's Nsight Compute shows hot lines there, of programs with -lineinfo that run on their own",
    "--lockstep": "lanes of a warp wait for one another with __syncwarp() there",
}
"""Options of the software GPU's compiler, with the reason why a GPU's programs cannot have them."""

HOOKS: Final = ("on", "off")
"""Values of the setting ``hooks``: whether programs are compiled with the control system's hooks."""

_HOOKS: Final = "vgc_hooks.h"
_UNHEARD: Final = "vgc_unheard.h"
"""Header for sources that include ``<vgc.h>`` but are compiled without hooks."""
_HEADERS: Final = tuple(
    Bind(KERNELS / name, INSIDE / "kernels" / name) for name in ("cuda/include", "cuda/host", "cuda/control", "control")
)
"""Folders of headers, in their places, as they include each other by relative paths."""
_SHARED_HEADERS: Final = tuple(
    Bind(path, INSIDE / "kernels" / path.relative_to(KERNELS))
    for name in _SHARED
    for path in sorted(_OF_CPU.glob(name))
)
_NVCC_FILES: Final = (
    *("bin/nvlink", "bin/nvcc", "bin/nvcc.profile", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "bin/crt"),
    *("nvvm/bin/cicc", "nvvm/libdevice"),
)
"""Files of a toolkit that nvcc uses."""
_PROGRAM: Final = "cuda.compiler"
_INPUTS: Final = {
    "CUDA_SOURCE": "source.cu",
    "CUDA_UNITS": "units",
    "PTX": "guest.ptx",
    "CUBIN": "guest.cubin",
    "FATBIN": "guest.fatbin",
}


@dataclass(frozen=True, slots=True)
class _Tool:
    """A compiler for a job: its arguments, the paths that it must see, and the files that determine its result."""

    name: str
    arguments: tuple[str | Path, ...] = ()
    visible: tuple[Bind, ...] = ()
    files: tuple[Path, ...] = ()
    kit: Toolkit | None = None
    """Toolkit of a compiler of sources; None for other tools."""
    host: Path | None = None
    """C++ compiler of nvcc."""


def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
    """Job that runs ``vgc-cudacc``; its image is a cubin for ``settings["arch"]``, with hooks by ``settings["hooks"]``.

    :raise ValueError: the kind or a setting is unknown, or this host does not have the compiler.
    """
    if kind not in _INPUTS:
        raise ValueError(f"the CUDA engine does not compile {kind}; allowed: {', '.join(_INPUTS)}")
    for option in options:
        if option in _ELSEWHERE:
            raise ValueError(f"option '{option}' is for the software GPU, not for a GPU: {_ELSEWHERE[option]}")
    if settings["hooks"] not in HOOKS:
        raise ValueError(f"hooks {settings['hooks']!r} is unknown; allowed: {', '.join(HOOKS)}")
    tool = _choose(kind, source, options, settings)
    paths = ("--arch", settings["arch"], "--input", _INPUTS[kind], "--output", "image")
    return CompileJob(
        argv=(*interpreter(_PROGRAM).command, tool.name, *tool.arguments, *paths, "--", *options),
        input_name=_INPUTS[kind],
        output_name="image",
        visible=(*interpreter(_PROGRAM).visible, *_HEADERS, *tool.visible, *host_compiler.visible(tool.host)),
        identity=_identity(tool, settings["arch"]),
    )


def missing(arch: str, driver: str, compiler: str = "auto") -> str | None:
    """Reason why this host cannot compile for `arch` and a driver of that CUDA version, and advice; None: it can.

    Runs the compiler once, for the list of its architectures, which takes some 20 ms.
    """
    try:
        tool = _source_tool(driver, compiler, has_host_code=False, has_hooks=False)
        version, known = _supported(tool)
    except (ValueError, HostError) as error:
        return str(error)
    if arch in known:
        return None
    return f"{tool.name} {version} does not know {arch}; it knows {', '.join(known)}"


def pieces(driver: str, compiler: str = "auto") -> tuple[Piece, ...]:
    """Optional pieces, present or missing, of the toolkit that compiles for a driver of that CUDA version.

    :raise ValueError: this host has no compiler for it.
    """
    tool = _source_tool(driver, compiler, has_host_code=False, has_hooks=False)
    return () if tool.kit is None else toolkits.pieces(tool.kit)


def unhooked(driver: str, compiler: str = "auto") -> str | None:
    """Reason why sources cannot get the control system's hooks on this host, and advice; None: they can."""
    try:
        tool = _source_tool(driver, compiler, has_host_code=False, has_hooks=True)
    except ValueError as error:
        return str(error)
    if tool.kit is None or "--hooks" in tool.arguments:
        return None
    ptxas, _ = toolkits.pieces(tool.kit)
    version = version_text(tool.kit.version)
    return f"{tool.kit} has no ptxas of {version} or a newer {tool.kit.version[0]}.x beside {tool.name}: {ptxas.hint}"


@functools.cache
def _supported(tool: _Tool) -> tuple[str, tuple[str, ...]]:
    """Version of a compiler, and its architectures.

    :raise HostError: the compiler cannot be used.
    """
    if tool.name == "nvcc" and tool.kit is not None:
        return version_text(tool.kit.version), tuple(_asked(tool.files[0], "--list-gpu-code"))
    version, *numbers = _asked(*interpreter(_PROGRAM).command, "describe", "--library", tool.files[0])
    return version, tuple(f"sm_{number}" for number in numbers)


def _asked(*argv: str | Path) -> list[str]:
    """Words that a program prints.

    :raise HostError: the program fails.
    """
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise HostError(f"{argv[-1]}: {done.stdout}{done.stderr}".strip(), hint=INSTALL)
    return done.stdout.split()


def _choose(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> _Tool:
    match kind:
        case "CUBIN":
            return _Tool("cubin")
        case "PTX":
            return _ptxas(settings["driver"], "ptxas")
        case "FATBIN":
            return _ptxas(settings["driver"], "fatbin")
        case _:
            wanted = _wanted(settings["compiler"], options)
            has_hooks = settings["hooks"] == "on"
            if kind == "CUDA_UNITS":
                tool = _units(settings["driver"], wanted, has_hooks=has_hooks)
                is_free = settings.get("binaries") == "on"
                return replace(tool, arguments=(*tool.arguments, "--binaries", "on")) if is_free else tool
            is_free = wanted == "auto" and LOWERED_NAMES not in options
            has_host_code = is_free and host_code.is_likely(source, _folders(settings["driver"]))
            return _source_tool(settings["driver"], wanted, has_host_code=has_host_code, has_hooks=has_hooks)


def _wanted(compiler: str, options: tuple[str, ...]) -> str:
    """Compiler to use: the guest's option counts if the host's setting is auto.

    :raise ValueError: the setting forbids the option.
    """
    if USE_NVCC not in options or compiler == "nvcc":
        return compiler
    if compiler != "auto":
        raise ValueError(f"option '{USE_NVCC}' is not allowed: this host compiles with {compiler} alone")
    return "nvcc"


@functools.cache
def _folders(driver: str) -> tuple[Path, ...]:
    """Folders in which NVRTC finds headers."""
    kits = toolkits.usable(toolkits.parse_version(driver))
    kit = next((kit for kit in kits if kit.nvrtc is not None), None)
    return (INCLUDE_DIR, *CONTROL_DIRS, *(() if kit is None else kit.include_dirs))


@functools.cache
def _source_tool(driver: str, wanted: str, *, has_host_code: bool, has_hooks: bool) -> _Tool:
    """Chooses a compiler of sources. NVRTC takes a fifth of the time; nvcc compiles host code, too.

    If the choice is free, NVRTC's job has what nvcc needs, too, for a source whose host code does not show
    (`host_code`).

    :raise ValueError: this host has no such compiler; the text says how to get one.
    """
    if wanted not in COMPILERS:
        raise ValueError(f"compiler {wanted!r} is unknown; allowed: {', '.join(COMPILERS)}")
    kits = toolkits.usable(toolkits.parse_version(driver))
    nvrtc = next((_nvrtc(kit, kit.nvrtc, has_hooks) for kit in kits if kit.nvrtc is not None), None)
    host = toolkits.host_compiler()
    nvcc = next((_nvcc(kit, kit.nvcc, host, has_hooks) for kit in kits if kit.nvcc and host), None)
    if wanted == "auto" and nvrtc is not None:
        if nvcc is None:
            return replace(nvrtc, arguments=(*nvrtc.arguments, "--hostless", _hostless(driver)))
        return nvcc if has_host_code else _with_fallback(nvrtc, nvcc)
    for tool in {"nvrtc": (nvrtc,), "nvcc": (nvcc,), "auto": (nvcc,)}[wanted]:
        if tool is not None:
            return tool
    raise ValueError(_nothing(wanted, driver))


def _hostless(driver: str) -> str:
    """Reason why host code cannot be compiled, and advice."""
    if toolkits.host_compiler() is None:
        return "this host has no C++ compiler for nvcc: apt-get install g++"
    return f"this host has no nvcc for a driver of CUDA {driver}: {_install_nvcc(driver)}"


def _with_fallback(nvrtc: _Tool, nvcc: _Tool) -> _Tool:
    """NVRTC, with nvcc of the same toolkit for sources that NVRTC refuses; otherwise NVRTC alone, as two toolkits do not
    fit into one sandbox.
    """
    if nvrtc.kit != nvcc.kit:
        return nvrtc
    visible = {bind.target: bind for bind in (*nvrtc.visible, *nvcc.visible)}
    return replace(
        nvrtc,
        arguments=(*nvrtc.arguments, *nvcc.arguments),
        visible=tuple(visible.values()),
        files=(*nvrtc.files, *nvcc.files),
        host=nvcc.host,
    )


@functools.cache
def _units(driver: str, wanted: str, *, has_hooks: bool) -> _Tool:
    """Tools nvcc, ptxas and nvlink, for programs of several units.

    :raise ValueError: this host lacks them, or may not use them; the text says how to get them.
    """
    if wanted == "nvrtc":
        raise ValueError("programs of several sources need nvcc, and this host compiles with nvrtc alone")
    tool = _source_tool(driver, "nvcc", has_host_code=True, has_hooks=False)
    newest = _newest(driver)
    if tool.kit is None or newest is None:
        raise ValueError(f"{tool.kit} has no nvlink, which links programs of several sources: {_install_nvcc(driver)}")
    ptxas, nvlink = newest
    unhooked = ("--unhooked", "it has several sources") if has_hooks else ()
    runtime = tool.kit.device_runtime
    arguments = (*tool.arguments, "--nvlink", nvlink, "--ptxas", ptxas, *unhooked)
    shown = {
        bind.target: bind for bind in (*tool.visible, _shown_assembler(ptxas), Bind(nvlink, INSIDE / "bin/nvlink"))
    }
    files = (*tool.files, nvlink, ptxas)
    if runtime is not None:
        arguments = (*arguments, "--device-runtime", runtime)
        shown[INSIDE / "lib" / runtime.name] = Bind(runtime, INSIDE / "lib" / runtime.name)
        files = (*files, runtime)
    return replace(tool, name="units", arguments=arguments, visible=tuple(shown.values()), files=files)


def _newest(driver: str) -> tuple[Path, Path] | None:
    """Newest ptxas and nvlink of a toolkit. They know what older tools have made, also those of a guest, and machine code
    of theirs needs no newer driver. None: this host has none.
    """
    kits = toolkits.usable(toolkits.parse_version(driver))
    found = [(kit.version, kit.ptxas, kit.nvlink) for kit in kits if kit.ptxas and kit.nvlink]
    if not found:
        return None
    _, ptxas, nvlink = max(found)
    return ptxas, nvlink


def _nothing(wanted: str, driver: str) -> str:
    what = {
        "nvrtc": "NVRTC",
        "nvcc": "nvcc (with a C++ compiler)",
        "auto": "CUDA compiler, neither NVRTC nor nvcc with a C++ compiler",
    }[wanted]
    versions = [kit.version for kit in toolkits.installed() if kit.version[0] > toolkits.parse_version(driver)[0]]
    newer = ", ".join(f"CUDA {version_text(version)}" for version in versions)
    why = f" ({newer} is newer than the driver)" if newer else ""
    return f"this host has no {what} for a driver of CUDA {driver}{why}: {_install(driver)}"


def _install_nvcc(driver: str) -> str:
    """Advice how to install nvcc, which NVIDIA's wheels have since CUDA 13."""
    if toolkits.parse_version(driver)[0] == 12:
        return "install NVIDIA's CUDA toolkit 12, as the wheels of CUDA 12 have no nvcc"
    return INSTALL


def _install(driver: str) -> str:
    """Command that installs compilers for a driver."""
    return INSTALL_12 if toolkits.parse_version(driver)[0] == 12 else INSTALL


def _nvrtc(kit: Toolkit, library: Path, has_hooks: bool) -> _Tool:
    includes = (INCLUDE_DIR, *CONTROL_DIRS, *kit.include_dirs)
    arguments = ("--library", library, *_included(includes), *_hooks(kit, has_hooks))
    ptxas = _assembler(kit)
    libraries = (library, *sorted(library.parent.glob("libnvrtc-builtins.so.*")))
    visible = (*_shown(kit, (*libraries, *kit.include_dirs)), *map(_shown_assembler, ptxas))
    return _Tool("nvrtc", arguments, visible, (library, *ptxas, *_landmarks(kit)), kit)


def _nvcc(kit: Toolkit, nvcc: Path, host: Path, has_hooks: bool) -> _Tool:
    ptxas = _assembler(kit)
    tools = (path for root in kit.roots for name in _NVCC_FILES if (path := root / name).exists())
    visible = (*_shown(kit, (*tools, *kit.include_dirs)), *map(_shown_assembler, ptxas))
    later = (word for path in (*kit.nvcc_lacks(), LATER_DIR) for word in ("--include-later", path))
    folders = (word for path in (*CONTROL_DIRS, HOST_DIR) for word in ("--include-nvcc", path))
    arguments = ("--nvcc", nvcc, "--host-compiler", host, *folders, *later)
    visible = (*visible, *_SHARED_HEADERS)
    files = (nvcc, host.resolve(), *ptxas, *_landmarks(kit))
    return _Tool("nvcc", (*arguments, *_hooks(kit, has_hooks)), visible, files, kit, host)


def _shown(kit: Toolkit, paths: Iterable[Path]) -> tuple[Bind, ...]:
    """Shows files and folders of a toolkit, in their places below a neutral name of each of its roots."""
    names = {root: INSIDE / f"cuda{number}" for number, root in enumerate(kit.roots)}
    places = {
        path: next(name / path.relative_to(root) for root, name in names.items() if path.is_relative_to(root))
        for path in paths
    }
    return tuple(Bind(path, place) for path, place in places.items() if places.keys().isdisjoint(path.parents))


def _shown_assembler(ptxas: Path) -> Bind:
    return Bind(ptxas, INSIDE / "bin" / "ptxas")


def _assembler(kit: Toolkit) -> tuple[Path, ...]:
    """The ptxas that assembles programs with hooks; empty without one."""
    found = toolkits.assembler(kit)
    return () if found is None else (found,)


def _included(folders: Iterable[Path]) -> Iterable[str | Path]:
    return (word for path in folders for word in ("--include", path))


def _hooks(kit: Toolkit, has_hooks: bool) -> tuple[str | Path, ...]:
    """Arguments for hooks: programs get them if they shall and the host has an assembler, which is named in any case.
    Without an assembler, each program's log says so.
    """
    ptxas = _assembler(kit)
    if not has_hooks:
        return ("--unheard", _UNHEARD, *(word for path in ptxas for word in ("--ptxas", path)))
    if not ptxas:
        return ("--unheard", _UNHEARD, "--unhooked", f"the host has no ptxas for CUDA {version_text(kit.version)}")
    return ("--unheard", _UNHEARD, "--ptxas", ptxas[0], "--hooks", _HOOKS)


@functools.cache
def _ptxas(driver: str, name: str) -> _Tool:
    """Tool for PTX and fat binaries. A fat binary with machine code needs no ptxas.

    :raise ValueError: PTX needs ptxas, and this host has none.
    """
    found = [kit for kit in toolkits.usable(toolkits.parse_version(driver)) if kit.ptxas is not None]
    # The newest ptxas knows the newest PTX; its output is machine code, which needs no newer driver.
    ptxas = max(found, key=lambda kit: kit.version).ptxas if found else None
    if ptxas is not None:
        return _Tool(name, ("--ptxas", ptxas), (_shown_assembler(ptxas),), (ptxas,))
    if name == "fatbin":
        return _Tool(name)
    raise ValueError(f"this host has no ptxas for a driver of CUDA {driver}, which PTX needs: {_install(driver)}")


def _landmarks(kit: Toolkit) -> tuple[Path, ...]:
    """Files whose size or time differs between releases of the toolkit's headers."""
    names = ("cuda.h", "cuda_fp16.hpp", "cuda/std/version", "cuda/version")
    return tuple(path for folder in kit.include_dirs for name in names if (path := folder / name).exists())


def _identity(tool: _Tool, arch: str) -> str:
    """Digest of all that determines a result. Files count by path, size and time, as hashing a compiler would take
    longer than compiling. The arguments have the folders of headers, in order, and the hooks.
    """
    digest = hashlib.sha256(f"{_own_digest()} {tool.arguments}\n".encode())
    for path in tool.files:
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"cuda {tool.name} {arch} {digest.hexdigest()}"


@functools.cache
def _own_digest() -> str:
    """Digest of this project's headers, the control system's included, and of the compile program."""
    digest = hashlib.sha256()
    folders = (INCLUDE_DIR, HOST_DIR, *CONTROL_DIRS, *(bind.source for bind in _SHARED_HEADERS))
    headers = (path for folder in folders for path in ((folder,) if folder.is_file() else folder.rglob("*.h*")))
    for path in sorted([*headers, *INCLUDE_DIR.rglob("*"), *sources(_PROGRAM)]):
        if path.is_file():
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()
