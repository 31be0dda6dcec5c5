"""The CUDA engine's own options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from vhost_backend.engines.base import EngineOptions
from vhost_backend.engines.cuda.driver import DEFAULT_LIBRARY
from vhost_backend.errors import EngineError


@dataclass(frozen=True, slots=True)
class CudaOptions:
    """The engine's own options, as a configuration has them."""

    device: str | None = None
    """By index or UUID; None: the first."""
    driver: str = DEFAULT_LIBRARY
    binaries: bool = False
    """The guest may bring PTX, cubins and fatbins."""
    heap: int = 8 << 20
    """Bytes for ``malloc`` in kernels."""
    compiler: str = "auto"
    """For whoever compiles; nothing is compiled here."""
    hooks: str = "auto"
    """For whoever compiles, too."""
    completion: str = "auto"
    """How the end of work is seen: words that the GPU writes ("memory"), or events ("event") where it cannot."""

    @classmethod
    def parse(cls, options: EngineOptions) -> Self:
        """:raise EngineError: an option is unknown, or its value is of the wrong kind."""
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
                    ("driver", str())
                    | ("compiler", "auto" | "nvrtc" | "nvcc")
                    | ("hooks", "auto" | "on" | "off")
                    | ("completion", "auto" | "memory" | "event")
                    | ("binaries", bool())
                ):
                    found[name] = value
                case _:
                    raise EngineError(
                        f"cuda engine: option {name:.40} is {value!r:.80}; allowed: device (index or UUID), driver"
                        " (path), compiler (auto,"
                        " nvrtc, nvcc), hooks (auto, on, off), completion (auto, memory, event), binaries (true,"
                        " false), heap (bytes)"
                    )
        return cls(**found)
