"""Python packages that ``make gpu`` needs: finds missing ones, and the versions for the kit's wheels."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Final

PACKAGES: Final = {
    "cffi": "cffi",
    "setuptools": "setuptools",  # cffi builds with it, from Python 3.12 on
    "construct": "construct",
    "cryptography": "cryptography",
    "msgpack": "msgpack",
    "msgspec": "msgspec",
    "numpy": "numpy",
    "yaml": "pyyaml",
    "structlog": "structlog",
    "cuda.bindings.driver": "cuda-bindings",
    "pytest": "pytest",
    "pytest_timeout": "pytest-timeout",
}
"""Modules that the daemon, the tests on the GPU and the benchmarks import, and the names of their packages.

``tests/unit/test_gpu_packages.py`` imports all of them with no other package installed.
"""

LEFT_TO_MACHINE: Final = ("numpy", "cuda-bindings")
"""Packages that are too large for the kit. Most environments have NumPy; cuda-bindings comes with PyTorch since 2.10,
or with CUDA's Python packages."""


def missing() -> list[str]:
    """Packages that this Python does not find, by pip's names."""
    return [pip for module, pip in PACKAGES.items() if not _is_there(module)]


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def with_dependencies(names: Iterable[str], python: str) -> dict[str, str]:
    """The packages `names` and their dependencies: normalized names, and the versions installed here.

    :param python: version of Python, such as "3.12", since some dependencies are only for older versions.
    """
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        distribution = metadata.distribution(waiting.pop())
        name = normalized(distribution.metadata["Name"])
        if name not in found:
            found[name] = distribution.version
            waiting += _required_by(distribution, python)
    return found


def _required_by(distribution: metadata.Distribution, python: str) -> Iterator[str]:
    from packaging.requirements import Requirement  # comes with pytest; only needed where a kit is made

    target = {"python_version": python, "python_full_version": f"{python}.0", "extra": ""}
    for line in distribution.requires or ():
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate(target):
            yield requirement.name


def normalized(name: str) -> str:
    """Spells a package's name as wheels do, in lower case: pytest_timeout."""
    return name.lower().replace("-", "_").replace(".", "_")
