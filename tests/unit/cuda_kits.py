"""Hosts with made-up CUDA toolkits: wheels and installations with empty files in place of compilers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from vhost_backend.engines.cuda import toolchain, toolkits


def forget() -> None:
    """Clears caches, so that the next question looks at the host again."""
    importlib.invalidate_caches()
    for cached in (
        toolkits.installed,
        toolkits.host_compiler,
        toolkits.ptxas_version,
        toolchain._source_tool,
        toolchain._ptxas,
        toolchain._folders,
        toolchain._units,
    ):
        cached.cache_clear()


def use(monkeypatch: pytest.MonkeyPatch, packages: Sequence[Path], installed: Sequence[Path | str]) -> None:
    """Restricts the search: wheels in `packages` only, installations in `installed` only."""
    monkeypatch.setattr(sys, "path", [str(path) for path in packages])
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(toolkits, "_INSTALLED", tuple(map(str, installed)))
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    forget()


def put(*paths: Path, content: str = "") -> None:
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def put_ptxas(path: Path, version: str) -> Path:
    """Writes a ptxas that reports the version of its CUDA, and does nothing else."""
    put(path, content=f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.88'\n")
    path.chmod(0o755)
    return path
