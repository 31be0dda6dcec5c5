"""How what a guest sends becomes a cubin: which compiler, what it sees, and what its result depends on.

Runs in the daemon and compiles nothing itself: the work is done in the compile sandbox, by ``compiler/``. That is a
Python program: it parses what guests send, and starts NVRTC 10 ms later than a C program would (52 ms beside 42 for an
empty kernel).
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vhost_backend.compiler.job import CompileJob
from vhost_backend.engines.cuda import toolkits
from vhost_backend.engines.cuda.driver import INSTALL
from vhost_backend.engines.cuda.toolkits import Toolkit, Version, version_text
from vhost_backend.errors import HostError
from vhost_backend.sandbox.launch import SYSTEM_PATHS

HERE: Final = Path(__file__).resolve().parent
PROGRAM: Final = HERE / "compiler"
KERNELS: Final = HERE.parents[2] / "kernels"
INCLUDE_DIR: Final = KERNELS / "cuda" / "include"
CONTROL_DIRS: Final = (KERNELS / "control" / "include", KERNELS / "cuda" / "control", KERNELS / "control")
"""The control system's device API, what its hooks call, and the GPU domain that they are made of."""
INSTALL_12: Final = "pip install 'virtio-gpu-compute[cuda12]'"
"""For drivers of CUDA 12, which do not take what a compiler of CUDA 13 makes."""
COMPILERS: Final = ("auto", "nvrtc", "nvcc")
"""What the setting ``compiler`` may say."""
USE_NVCC: Final = "--use-nvcc"
"""A guest's option for sources that NVRTC does not take."""

HOOKS: Final = ("on", "off")
"""What the setting ``hooks`` may say: whether the control system can see what is compiled."""

_HOOKS: Final = "vgc_hooks.h"
_UNHEARD: Final = "vgc_unheard.h"
"""Instead, for sources that include ``<vgc.h>`` all the same."""
_START: Final = (
    f"import sys; sys.path.append({str(HERE)!r}); from compiler.main import main; sys.exit(main(sys.argv[1:]))"
)
_INPUTS: Final = {"CUDA_SOURCE": "source.cu", "PTX": "guest.ptx", "CUBIN": "guest.cubin", "FATBIN": "guest.fatbin"}
_LAUNCH: Final = b"<<<"


@dataclass(frozen=True, slots=True)
class _Tool:
    """What one run uses: its part of the command line, what it must see, and the files that shape its result."""

    name: str
    arguments: tuple[str, ...] = ()
    visible: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    version: Version = (0, 0)


def compile_job(kind: str, source: bytes, options: tuple[str, ...], settings: Mapping[str, str]) -> CompileJob:
    """A run of ``vgc-cudacc``, whose image is a cubin for ``settings["arch"]``, with or without ``settings["hooks"]``.

    :raise ValueError: a kind or setting that is not known, or a compiler that this host does not have.
    """
    if kind not in _INPUTS:
        raise ValueError(f"the CUDA engine does not compile {kind}; allowed: {', '.join(_INPUTS)}")
    if settings["hooks"] not in HOOKS:
        raise ValueError(f"hooks {settings['hooks']!r} is unknown; allowed: {', '.join(HOOKS)}")
    tool = _choose(kind, source, options, settings)
    paths = ("--arch", settings["arch"], "--input", _INPUTS[kind], "--output", "image")
    return CompileJob(
        argv=(*_interpreter(), tool.name, *tool.arguments, *paths, "--", *options),
        input_name=_INPUTS[kind],
        output_name="image",
        readonly_paths=(*_interpreter_paths(), PROGRAM, INCLUDE_DIR, *CONTROL_DIRS, *tool.visible),
        identity=_identity(tool, settings["arch"]),
    )


def missing(arch: str, driver: str, compiler: str = "auto") -> str | None:
    """Why this host cannot compile for `arch` and a driver of that CUDA version, and what to do; None: it can.

    Runs the compiler once, to ask for its architectures: some 20 ms.
    """
    try:
        tool = _source_tool(driver, compiler, has_launches=False, has_hooks=False)
        version, known = _supported(tool)
    except (ValueError, HostError) as error:
        return str(error)
    if arch in known:
        return None
    return f"{tool.name} {version} does not know {arch}; it knows {', '.join(known)}"


@functools.cache
def _supported(tool: _Tool) -> tuple[str, tuple[str, ...]]:
    """The version of a compiler and the architectures that it compiles for.

    :raise HostError: it cannot be used.
    """
    if tool.name == "nvcc":
        return version_text(tool.version), tuple(_asked(str(tool.files[0]), "--list-gpu-code"))
    version, *numbers = _asked(*_interpreter(), "describe", "--library", str(tool.files[0]))
    return version, tuple(f"sm_{number}" for number in numbers)


def _asked(*argv: str) -> list[str]:
    """The words that a program prints.

    :raise HostError: it cannot be used.
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
            return _source_tool(settings["driver"], wanted, has_launches=_LAUNCH in source, has_hooks=has_hooks)


def _wanted(compiler: str, options: tuple[str, ...]) -> str:
    """The guest chooses where the host leaves the choice.

    :raise ValueError: it does not.
    """
    if USE_NVCC not in options or compiler == "nvcc":
        return compiler
    if compiler != "auto":
        raise ValueError(f"option '{USE_NVCC}' is not allowed: this host compiles with {compiler} alone")
    return "nvcc"


@functools.cache
def _source_tool(driver: str, wanted: str, *, has_launches: bool, has_hooks: bool) -> _Tool:
    """NVRTC takes a fifth of the time; nvcc takes host code too, of which a launch (``<<<``) is the sure sign.

    :raise ValueError: none is here; the text says how to get one.
    """
    if wanted not in COMPILERS:
        raise ValueError(f"compiler {wanted!r} is unknown; allowed: {', '.join(COMPILERS)}")
    kits = toolkits.usable(toolkits.parse_version(driver))
    nvrtc = next((_nvrtc(kit, kit.nvrtc, has_hooks) for kit in kits if kit.nvrtc is not None), None)
    host = toolkits.host_compiler()
    nvcc = next((_nvcc(kit, kit.nvcc, host, has_hooks) for kit in kits if kit.nvcc and host), None)
    candidates = {"nvrtc": (nvrtc,), "nvcc": (nvcc,), "auto": (nvcc, nvrtc) if has_launches else (nvrtc, nvcc)}
    for tool in candidates[wanted]:
        if tool is not None:
            return tool
    raise ValueError(_nothing(wanted, driver))


def _nothing(wanted: str, driver: str) -> str:
    what = {
        "nvrtc": "NVRTC",
        "nvcc": "nvcc (with a C++ compiler)",
        "auto": "CUDA compiler, neither NVRTC nor nvcc with a C++ compiler",
    }[wanted]
    newer = [str(kit) for kit in toolkits.installed() if kit.version[0] > toolkits.parse_version(driver)[0]]
    why = f" ({', '.join(newer)} is newer than the driver)" if newer else ""
    return f"this host has no {what} for a driver of CUDA {driver}{why}: {_install(driver)}"


def _install(driver: str) -> str:
    """How to get the compilers for it."""
    return INSTALL_12 if toolkits.parse_version(driver)[0] == 12 else INSTALL


def _nvrtc(kit: Toolkit, library: Path, has_hooks: bool) -> _Tool:
    includes = (INCLUDE_DIR, *CONTROL_DIRS, *kit.include_dirs)
    arguments = ("--library", str(library), *_included(includes), *_hooks(kit, has_hooks))
    ptxas = () if kit.ptxas is None else (kit.ptxas,)
    visible = (library.parent, *kit.include_dirs, *ptxas)
    return _Tool("nvrtc", arguments, visible, (library, *ptxas, *_landmarks(kit)), kit.version)


def _nvcc(kit: Toolkit, nvcc: Path, host: Path, has_hooks: bool) -> _Tool:
    system = (Path(name) for name in ("/bin", "/usr/bin", "/usr/include", "/usr/libexec"))
    visible = (*kit.roots, host.parent, *(path for path in system if path.is_dir()))
    arguments = ("--nvcc", str(nvcc), "--host-compiler", str(host), *_included(CONTROL_DIRS), *_hooks(kit, has_hooks))
    return _Tool("nvcc", arguments, visible, (nvcc, host.resolve(), *_landmarks(kit)), kit.version)


def _included(folders: Iterable[Path]) -> Iterable[str]:
    return (word for path in folders for word in ("--include", str(path)))


def _hooks(kit: Toolkit, has_hooks: bool) -> tuple[str, ...]:
    """Programs get hooks where they shall, and there is an assembler for what they are put into."""
    hooks = () if kit.ptxas is None or not has_hooks else ("--ptxas", str(kit.ptxas), "--hooks", _HOOKS)
    return ("--unheard", _UNHEARD, *hooks)


@functools.cache
def _ptxas(driver: str, name: str) -> _Tool:
    """Fat binaries can do without ptxas, as long as there is machine code in them.

    :raise ValueError: PTX cannot, and there is none.
    """
    found = [kit for kit in toolkits.usable(toolkits.parse_version(driver)) if kit.ptxas is not None]
    # The newest one knows the newest PTX; what it makes is code, which needs no newer driver.
    ptxas = max(found, key=lambda kit: kit.version).ptxas if found else None
    if ptxas is not None:
        return _Tool(name, ("--ptxas", str(ptxas)), (ptxas,), (ptxas,))
    if name == "fatbin":
        return _Tool(name)
    raise ValueError(f"this host has no ptxas for a driver of CUDA {driver}, which PTX needs: {_install(driver)}")


def _landmarks(kit: Toolkit) -> tuple[Path, ...]:
    """Files that another release of the toolkit's headers has with another size or time."""
    names = ("cuda.h", "cuda_fp16.hpp", "cuda/std/version", "cuda/version")
    return tuple(path for folder in kit.include_dirs for name in names if (path := folder / name).exists())


def _identity(tool: _Tool, arch: str) -> str:
    """Files are known by path, size and time: hashing a compiler would take longer than compiling."""
    digest = hashlib.sha256(f"{_own_digest()} {'--hooks' in tool.arguments}\n".encode())
    for path in tool.files:
        status = path.stat()
        digest.update(f"{path} {status.st_size} {status.st_mtime_ns}\n".encode())
    return f"cuda {tool.name} {arch} {digest.hexdigest()}"


@functools.cache
def _own_digest() -> str:
    """Of our own headers, the control system's among them, and of the program that runs the compilers."""
    digest = hashlib.sha256()
    headers = (path for folder in (INCLUDE_DIR, *CONTROL_DIRS) for path in folder.rglob("*.h*"))
    for path in sorted([*headers, *INCLUDE_DIR.rglob("*"), *PROGRAM.glob("*.py")]):
        if path.is_file():
            digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


@functools.cache
def _interpreter() -> tuple[str, ...]:
    """Python without site-packages and without the user's settings: it starts in 5 ms."""
    return (os.path.realpath(sys.executable), "-I", "-S", "-c", _START)


@functools.cache
def _interpreter_paths() -> tuple[Path, ...]:
    """The interpreter and its library, if the sandbox does not show them anyway."""
    executable = Path(sys.executable).resolve()
    libraries = (Path(sys.base_prefix) / name for name in ("lib", "lib64"))
    return (executable, *_hidden(path for path in libraries if path.is_dir()))


def _hidden(paths: Iterable[Path]) -> Iterable[Path]:
    return (path for path in paths if not any(path.is_relative_to(shown) for shown in SYSTEM_PATHS))
