"""The walls of the house: which package may import which (docs: architecture, "Folders")."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {
    "virtio_proto": set[str](),
    "kernels": set[str](),
    "vhost_backend": {"virtio_proto", "kernels"},
    "guest_driver": {"virtio_proto"},
    "control_center": {"virtio_proto"},
    "libvirt_xml": set[str](),
}
"""What each package may import of ours; itself always."""


def imported_packages(source: str) -> set[str]:
    """Top-level names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


def trespasses(package: str, source: str) -> set[str]:
    """Packages of ours that `source`, a module of `package`, imports although it must not."""
    return (imported_packages(source) & ALLOWED.keys()) - ALLOWED[package] - {package}


@pytest.mark.parametrize("package", [name for name in ALLOWED if (ROOT / name).is_dir()])
def test_package_imports_only_packages_above_it(package: str) -> None:
    found = {
        str(path.relative_to(ROOT)): bad
        for path in sorted((ROOT / package).rglob("*.py"))
        if (bad := trespasses(package, path.read_text()))
    }
    assert not found


def test_a_trespass_is_found() -> None:
    assert trespasses("guest_driver", "def f():\n    from vhost_backend.cli import main\n") == {"vhost_backend"}
    assert trespasses("vhost_backend", "import virtio_proto.schema\n") == set()
