"""Options of the CUDA engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from vhost_backend.engines.base import EngineOptions
from vhost_backend.engines.cuda.driver import DEFAULT_LIBRARY
from vhost_backend.errors import EngineError


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """Options of the engine in a configuration."""

    device: str | None = None
    """Index or UUID of the GPU; None: the first."""
    driver: str = DEFAULT_LIBRARY
    binaries: bool = False
    """True if the guest may load PTX, cubins and fatbins."""
    heap: int = 8 << 20
    """Bytes for ``malloc`` in kernels."""
    compiler: str = "auto"
    """Compiler for the guest's sources; used by `toolchain`, not by the engine."""
    hooks: str = "auto"
    """Compilation of sources with the control system's hooks; used by `toolchain`."""
    completion: str = "auto"
    """Detection of completed work: words that the GPU writes ("memory"), or events ("event") where it cannot."""

    memory: str = "pool"
    """Addresses of device memory: chosen by the driver ("pool"), or by the engine ("mapped")."""

    libraries: str = "off"
    """NVIDIA's libraries for built-in functions: "on" requires both, "auto" takes those that work."""
    cublas: str | None = None
    """Path of cuBLAS, which the daemon has found; None: it is not used."""
    cufft: str | None = None
    cudnn: str | None = None

    @classmethod
    def parse(cls, options: EngineOptions) -> Self:
        """Parses options.

        :raise EngineError: an option is unknown, or its value is of the wrong kind.
        """
        found: dict[str, Any] = {}
        for name, value in options.items():
            match name, value:
                case _, None:
                    pass
                case "device", str() | int() if value is not True and value is not False:
                    found[name] = str(value)
                case "heap", int() if value is not True and value > 0:
                    found[name] = value
                case (
                    ("driver" | "cublas" | "cufft" | "cudnn", str())
                    | ("compiler", "auto" | "nvrtc" | "nvcc")
                    | ("hooks" | "libraries", "auto" | "on" | "off")
                    | ("completion", "auto" | "memory" | "event")
                    | ("memory", "pool" | "mapped")
                    | ("binaries", bool())
                ):
                    found[name] = value
                case _:
                    raise EngineError(
                        f"cuda engine: option {name:.40} is {value!r:.80}; allowed: device (index or UUID), driver"
                        " (path), compiler (auto,"
                        " nvrtc, nvcc), hooks (auto, on, off), completion (auto, memory, event), memory"
                        " (pool, mapped), libraries (auto, on, off), cublas, cufft, cudnn (paths), binaries (true, false),"
                        " heap (bytes)"
                    )
        return cls(**found)
