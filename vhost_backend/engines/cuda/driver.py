"""The CUDA driver for Python: finding and initialising it, with errors that say what to do.

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
"""Command that installs all requirements of the engine except the driver."""

_SONAME: Final = DEFAULT_LIBRARY
_OLDEST: Final = (12, 4)
_NO_DEVICE: Final = 100

ENVIRONMENT: Final = {
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # the order of nvidia-smi
    "CUDA_DEVICE_MAX_CONNECTIONS": "32",  # with fewer connections, a hung kernel of one stream blocks other streams
    "CUDA_MODULE_LOADING": "EAGER",  # inside the sandbox nothing can be loaded later, and no launch waits for loading
}

# Advice by CUresult, appended to cuda.h's own text (cuGetErrorString).
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
    """An initialised driver; `start` makes the only one of a process."""

    bindings: Any
    """Module ``cuda.bindings.driver``: functions, types and enumerations."""
    library: str
    """Path of the loaded file."""

    def call(self, name: str, *arguments: Any) -> Any:
        """Calls a function of the driver; returns its result, a tuple of results, or None if it has none.

        :raise CudaError: the call fails.
        :raise EngineError: this driver does not have the function.
        """
        try:
            code, *results = getattr(self.bindings, name)(*arguments)
        except RuntimeError as error:  # cuda-bindings has not found the symbol
            raise EngineError(f"{name} is missing from the driver: {error}; install a newer one") from error
        except ValueError as error:  # an error code that these bindings do not know
            raise EngineError(f"{name}: {error}") from error
        if int(code) != 0:
            raise CudaError(name, int(code), self._about(code, "cuGetErrorName"), self._about(code, "cuGetErrorString"))
        return results[0] if len(results) == 1 else tuple(results) or None

    def version(self) -> tuple[int, int]:
        """Newest CUDA version that the driver supports."""
        number = self.call("cuDriverGetVersion")
        return number // 1000, number % 1000 // 10

    def _about(self, code: Any, function: str) -> str:
        status, text = getattr(self.bindings, function)(code)
        return text.decode(errors="replace") if int(status) == 0 and text else "unknown error"


def start(library: str = DEFAULT_LIBRARY, visible: str | None = None) -> Driver:
    """Loads and initialises the driver. `visible`: UUID of the only device that it shall show.

    Sets environment variables of this process, which the driver reads. Must be called before threads start.

    :raise EngineError: the driver is missing or does not work here; the text says what to do.
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
        raise EngineError("; ".join(filter(None, (str(error), inaccessible_device_nodes())))) from error
    if driver.version() < _OLDEST:
        found, oldest = (".".join(map(str, version)) for version in (driver.version(), _OLDEST))
        raise EngineError(f"the driver knows CUDA {found}; at least {oldest} is needed: install driver 550 or newer")
    return driver


def inaccessible_device_nodes(folder: str = "/dev") -> str:
    """Text about the driver's device nodes that this process may not open; "" if it may open all."""
    barred = [path for path in _nodes(folder) if not os.access(path, os.R_OK | os.W_OK)]
    if not barred:
        return ""
    return f"no permission to read and write {', '.join(map(str, barred))}: see ls -l, and the group that owns them"


def _nodes(folder: str) -> Iterable[Path]:
    return (path for path in sorted(Path(folder).glob("nvidia*")) if path.is_char_device())


@contextmanager
def _without_library_search() -> Iterator[None]:
    """Keeps cuda-bindings from searching libdl: ctypes would start a compiler and write temporary files, and a sandbox
    has neither a compiler nor a place for files. cuda-bindings falls back to the library's well-known name.
    """
    search = ctypes.util.find_library
    ctypes.util.find_library = lambda name: None  # noqa: ARG005  its signature
    try:
        yield
    finally:
        ctypes.util.find_library = search


def _bindings() -> Any:
    try:
        with _without_library_search():
            return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise EngineError(f"{error}: {INSTALL}") from error


def _load(library: str) -> str:
    """Loads `library` so that cuda-bindings finds it by its SONAME; returns the path of its file."""
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
        raise EngineError(
            f"driver {library}: it is not a {_SONAME}, or another driver was loaded before ({found or 'none'})"
        )
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
    """Loads a library with global symbols; returns the path of its file, or "" if it is not a CUDA driver."""
    opened = ctypes.CDLL(library, mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    if not hasattr(opened, "cuInit"):
        return ""
    info = _SymbolInfo()
    ctypes.CDLL(None).dladdr(ctypes.cast(opened.cuInit, ctypes.c_void_p), ctypes.byref(info))
    return os.path.realpath(os.fsdecode(info.file))
