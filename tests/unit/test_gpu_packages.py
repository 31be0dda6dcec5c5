"""The packages that ``make gpu`` requires are complete: with these alone, all modules of a run can be imported."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any, Final

from tests.limits import HANGS_AFTER_S
from tools.common import REPOSITORY
from tools.gpu import packages

PYTHON: Final = f"{sys.version_info.major}.{sys.version_info.minor}"
FOLDERS: Final = ("virtio_proto", "kernels", "vhost_backend", "guest_driver", "bench", "tests/gpu", "tools/gpu")
OURS: Final = {"virtio_proto", "kernels", "vhost_backend", "guest_driver", "control_center", "bench", "tests", "tools"}

IMPORT_ALL: Final = """
import importlib, json, sys

hidden = set(json.loads(sys.argv[1]))

class Hides:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in hidden:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hides())
failed = {}
for name in sys.argv[2:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failed[name] = str(error)
print(json.dumps({"failed": failed, "loaded": sorted({name.partition(".")[0] for name in sys.modules})}))
"""
"""Program that imports modules while the packages `hidden` cannot be found."""

BY_OTHERS: Final = {"setuptools", "pytest_timeout", "cuda_bindings"}
"""Packages without an import in our code: imported by cffi's build, by pytest as a plugin, by a worker by name."""

TOOLKIT: Final = "nvidia"
"""Packages that are searched for compilers and not imported; a toolkit of the system replaces them."""

LAZY: Final = {
    "aiohttp": "bench/rows/centre.py: rows about the control centre, which are no CUDA rows",
    "packaging": "tools/gpu/packages.py: makes the kit; pytest brings it",
}
"""Packages imported inside functions that a run on a GPU does not call."""


def files() -> list[Path]:
    """Files of the daemon, the guest's side, the benchmarks, the tests on the GPU and the tool."""
    return [path for folder in FOLDERS for path in sorted((REPOSITORY / folder).rglob("*.py"))]


def modules() -> list[str]:
    names = [path.relative_to(REPOSITORY) for path in files() if not _is_for_elsewhere(path)]
    return [".".join(name.with_suffix("").parts).removesuffix(".__init__") for name in names]


def _is_for_elsewhere(path: Path) -> bool:
    """True for programs that run on import, and for modules that run in guests or in a compiler's sandbox."""
    parts = path.relative_to(REPOSITORY).parts
    return path.name == "__main__.py" or parts[:2] == ("bench", "guest") or "compiler" in parts


def import_all(available: Iterable[str]) -> dict[str, Any]:
    """Import every module with only these packages present; returns failures and loaded packages."""
    found = metadata.packages_distributions()
    there = {*available, "virtio_gpu_compute"}
    hidden = [
        name
        for name, owners in found.items()
        if name != TOOLKIT and not {packages.normalized(owner) for owner in owners} & there
    ]
    argv = [sys.executable, "-c", IMPORT_ALL, json.dumps(hidden), *modules()]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=HANGS_AFTER_S)
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def asked_for() -> dict[str, str]:
    return packages.with_dependencies(packages.PACKAGES.values(), PYTHON)


def test_all_modules_can_be_imported_with_the_required_packages() -> None:
    told = import_all(asked_for())
    assert told["failed"] == {}
    names = {packages.normalized(name) for name in packages.PACKAGES.values()}
    owners = metadata.packages_distributions()
    loaded = {packages.normalized(owner) for name in told["loaded"] for owner in owners.get(name, ())}
    assert names - loaded - BY_OTHERS == set(), "asked for, and nobody imports it"


def test_a_missing_package_is_detected() -> None:
    told = import_all(asked_for().keys() - {"cryptography"})
    assert told["failed"]["vhost_backend.control.system"] == "No module named 'cryptography'"


def test_imports_inside_functions_are_required_too() -> None:
    known = {name.partition(".")[0] for name in packages.PACKAGES} | OURS | LAZY.keys() | set(sys.stdlib_module_names)
    unknown = {
        f"{path.relative_to(REPOSITORY)}: {name}"
        for path in files()
        for name in imported_by(path)
        if name not in known and not _is_for_elsewhere(path)
    }
    assert unknown == set()


def imported_by(path: Path) -> set[str]:
    """Top-level names of all imports in a file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.partition(".")[0])
    return names


def test_dependencies_are_evaluated_for_the_target_python() -> None:
    assert "typing_extensions" in packages.with_dependencies(["structlog"], "3.10")
    assert set(packages.with_dependencies(["structlog"], "3.12")) == {"structlog"}
    assert {"pytest", "pluggy", "iniconfig", "packaging"} <= set(packages.with_dependencies(["pytest"], "3.12"))
