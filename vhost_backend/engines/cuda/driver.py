"""The CUDA driver as Python calls it: found, initialised, and every error turned into a sentence.

Calls go through cuda-bindings, which fetches each function from ``libcuda.so.1`` when it is first called. Only
functions whose signatures are the same from CUDA 12.4 to 13.x are used, so bindings and driver need not match.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vhost_backend.errors import EngineError

__all__ = ["DEFAULT_LIBRARY", "INSTALL", "CudaError", "Driver", "start"]

DEFAULT_LIBRARY: Final = "libcuda.so.1"
INSTALL: Final = "pip install 'virtio-gpu-compute[cuda]'"
"""How to get everything of the engine that is not the driver."""

_SONAME: Final = DEFAULT_LIBRARY
_OLDEST: Final = (12, 4)
_NO_DEVICE: Final = 100

ENVIRONMENT: Final = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # as nvidia-smi counts them
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # streams that share one wait for each other's hanging kernels
    "CUDA_MODULE_LOADING": "EAGER",  # behind the walls nothing is loaded later, and no launch waits for loading
}

# What helps, by CUresult. The first sentence of each is cuda.h's own, through cuGetErrorString.
_ADVICE: Final = {
    2: "other processes hold the GPU's memory: see nvidia-smi",
    34: "this libcuda.so.1 is the toolkit's stub: install NVIDIA's driver, and take folders named stubs out of"
    " LD_LIBRARY_PATH",
    36: "NVIDIA's driver is too old: install a newer one",
    46: "another process has the GPU for itself: see nvidia-smi, and allow several with nvidia-smi -c DEFAULT",
    _NO_DEVICE: "nvidia-smi -L shows what the driver has found; CUDA_VISIBLE_DEVICES may hide it",
    802: "start the fabric manager: systemctl start nvidia-fabricmanager",
    803: "driver library and kernel module are of different versions: reboot, or load the new module",
    804: "a forward-compatibility libcuda.so.1 is in the way of the driver's own: see ldconfig -p",
    999: "see the kernel's log (dmesg); loading the module nvidia_uvm may help: nvidia-modprobe -u",
}


class CudaError(EngineError):
    """A call of the driver failed with `code`, a CUresult."""

    def __init__(self, call: str, code: int, name: str, text: str) -> None:
        self.code = code
        advice = f"; {_ADVICE[code]}" if code in _ADVICE else ""
        super().__init__(f"{call}: {name} ({code}), {text}{advice}")


@dataclass(frozen=True, slots=True)
class Driver:
    """An initialised driver. There is one in a process: `start`."""

    bindings: Any
    """The module ``cuda.bindings.driver``: types and enumerations."""
    library: str
    """The file that was loaded."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver: its result, a tuple of results, or None where there is none.

        :raise CudaError: it fails.
        :raise EngineError: this driver does not have the function.
        """
        try:
            code, *results = getattr(self.bindings, name)(*arguments)
        except RuntimeError as error:  # how cuda-bindings says that there is no such symbol
            raise EngineError(f"{name} is missing from the driver: {error}; install a newer one") from error
        except ValueError as error:  # a code that these bindings have no name for
            raise EngineError(f"{name}: {error}") from error
        if int(code) != 0:
            raise CudaError(name, int(code), self._about(code, "cuGetErrorName"), self._about(code, "cuGetErrorString"))
        return results[0] if len(results) == 1 else tuple(results) or None

    def version(self) -> tuple[int, int]:
        """The CUDA version that the driver knows."""
        number = self.call("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def _about(self, code: Any, function: str) -> str:
        status, text = getattr(self.bindings, function)(code)
        return text.decode(errors="replace") if int(status) == 0 and text else "unknown error"


def start(library: str = DEFAULT_LIBRARY, visible: str | None = None) -> Driver:
    """Loads and initialises the driver. `visible`: the only device that it shall see, by UUID.

    Sets the environment of this process, for that is where the driver looks. Must be called before threads start.

    :raise EngineError: there is no driver, or it does not work here; the text says what to do.
    """
    bindings = _bindings()
    path = _load(library)
    os.environ.update(ENVIRONMENT)
    if visible is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    driver = Driver(bindings, path)
    try:
        driver.call("cuInit", 0)
    except CudaError as error:
        if error.code == _NO_DEVICE and visible is not None:
            raise EngineError(f"there is no device {visible:.80}; nvidia-smi -L lists those there are") from error
        raise EngineError("; ".join(filter(None, (str(error), closed_nodes())))) from error
    if driver.version() < _OLDEST:
        found, oldest = (".".join(map(str, version)) for version in (driver.version(), _OLDEST))
        raise EngineError(f"the driver knows CUDA {found}; at least {oldest} is needed: install driver 550 or newer")
    return driver


def closed_nodes(folder: str = "/dev") -> str:
    """A sentence about the driver's device nodes that this process may not open, or ""."""
    barred = [path for path in _nodes(folder) if not os.access(path, os.R_OK | os.W_OK)]
    if not barred:
        return ""
    return f"no permission to read and write {', '.join(map(str, barred))}: see ls -l, and the group that owns them"


def _nodes(folder: str) -> Iterable[Path]:
    return (path for path in sorted(Path(folder).glob("nvidia*")) if path.is_char_device())


@contextmanager
def _no_search() -> Iterator[None]:
    """Keeps NVIDIA's module from looking for libdl, whose name it knows: ctypes would start a compiler, which there is
    not behind the walls, and neither is there a place for temporary files.
    """
    search = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None  # noqa: ARG005  its signature
    try:
        yield
    finally:
        ctypes.util.find_library = search


def _bindings() -> Any:
    try:
        with _no_search():
            return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise EngineError(f"{error}: {INSTALL}") from error


def _load(library: str) -> str:
    """Makes `library` the one that cuda-bindings finds when it asks for the SONAME; the path of its file."""
    try:
        path = _open(library)
    except OSError as error:
        if library == DEFAULT_LIBRARY and "No such file" in str(error):
            raise EngineError(f"{library} not found: install NVIDIA's driver") from error
        raise EngineError(f"driver {library}: {error}") from error
    try:
        found = _open(_SONAME)
    except OSError:
        found = ""
    if not path or path != found:
        raise EngineError(f"driver {library}: it is no {_SONAME}, or another one was loaded before ({found or 'none'})")
    return path


class _SymbolInfo(ctypes.Structure):
    """Dl_info [dladdr(3)]."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("symbol", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


def _open(library: str) -> str:
    """Loads a library for all of this process: the file that it is, or "" if it is none of CUDA's."""
    opened = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    if not hasattr(opened, "cuInit"):
        return ""
    info = _SymbolInfo()
    ctypes.CDLL(None).dladdr(ctypes.cast(opened.cuInit, ctypes.c_void_p), ctypes.byref(info))
    return os.path.realpath(os.fsdecode(info.file))
