"""Engine classes by the kind that configurations name. A module is imported only when its engine is used."""

from __future__ import annotations

import importlib
from typing import Final, cast

from vhost_backend.engines.base import Engine
from vhost_backend.errors import EngineError

_CLASSES: Final[dict[str, tuple[str, str]]] = {
    "null": ("vhost_backend.engines.null", "NullEngine"),
    "cpu": ("vhost_backend.engines.cpu", "CpuEngine"),
    "cuda": ("vhost_backend.engines.cuda.engine", "CudaEngine"),
}

KINDS: Final = tuple(_CLASSES)


def engine_class(kind: str) -> type[Engine]:
    """Class of the engine of this kind.

    :raise EngineError: the kind is unknown, or this host lacks a library that its module needs.
    """
    if kind not in _CLASSES:
        raise EngineError(f"engine {kind!r:.40} is unknown; allowed: {', '.join(KINDS)}")
    module, name = _CLASSES[kind]
    try:
        return cast("type[Engine]", getattr(importlib.import_module(module), name))
    except ImportError as error:
        raise EngineError(f"engine {kind} cannot be loaded: {error}") from error
