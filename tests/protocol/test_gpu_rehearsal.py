"""Rehearsal of the first run on hardware: the kit of ``make gpu-kit``, a bare Python, and half a toolkit beside it.

The machine is imitated: a Python 3.12 whose packages are NumPy and CUDA's own, as PyTorch brings them, NVRTC without
ptxas and CCCL among them, an installed toolkit elsewhere, a copy of the sources without their repository, and the fake
driver. Where no Python 3.12 can be found, this one takes its place.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.fakes import cuda_driver
from tools.common import REPOSITORY
from tools.gpu import kit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2400),
    pytest.mark.filterwarnings("default:no Python:UserWarning"),
]

LIMIT_S: Final = 8000
TEN: Final = 10
WHOLE_TREE: Final = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
MACHINE_HAS: Final = {"numpy": "2.3.5", "cuda_bindings": "13.0.3", "cuda_pathfinder": "1.3.3"}
ROWS: Final = ("cuda_null_launch_us_*", "cuda_copy_in_*", "cuda_hook_*")
"""Benchmark rows, one of each kind; all rows would take as long as the rest of the rehearsal."""


class RehearsalWarning(UserWarning):
    """The machine is imitated less well than it could be; pytest shows it in its summary."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine before the project arrives."""

    python: Path
    version: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    folder = tmp_path_factory.mktemp("machine")
    version = kit.TARGET_PYTHON
    folder.chmod(0o755)  # workers are another user
    base = kit.find_python(version)
    if base is None:
        base, version = Path(sys.executable), f"{sys.version_info.major}.{sys.version_info.minor}"
        warnings.warn(f"no Python {kit.TARGET_PYTHON} here: rehearsing with {version}", RehearsalWarning, stacklevel=1)
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    packages = folder / "lib" / f"python{version}" / "site-packages"
    for wheel in kit.fetch(MACHINE_HAS, version):
        zipfile.ZipFile(wheel).extractall(packages)
    toolkit = installed_toolkit()
    leave_half(toolkit, packages / "nvidia" / toolkit.name)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "LANG") if name in os.environ}
    return Machine(folder / "bin" / "python", version, kept | {"CUDA_HOME": str(toolkit)})


def installed_toolkit() -> Path:
    """A toolkit made of this environment's wheels, in place of /usr/local/cuda."""
    spec = importlib.util.find_spec("nvidia")
    assert spec is not None
    assert spec.submodule_search_locations
    return next(Path(folder) / "cu13" for folder in spec.submodule_search_locations)


def leave_half(toolkit: Path, half: Path) -> None:
    """Copies the wheels of NVRTC and of the runtime: no programs, no headers of CCCL."""
    for name in ("lib", "include"):
        shutil.copytree(toolkit / name, half / name, copy_function=link, ignore=shutil.ignore_patterns("cccl", "*.a"))
    assert not (half / "bin").exists()


def link(source: str, target: str) -> None:
    """Makes a hard link where the file system allows it, since the libraries are large; else copies."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory, machine: Machine) -> Path:
    """The sources as an operator carries them to the machine, with the kit."""
    folder = tmp_path_factory.mktemp("carried")
    listed = subprocess.run(WHOLE_TREE, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (REPOSITORY / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, folder / name)
    kit.make(folder / "build" / "gpu-kit", machine.version)
    return folder


def rehearse(machine: Machine, tree: Path, out: Path, *argv: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [machine.python, "build/gpu-kit/run.py", *argv, "--out", out, "--seconds", str(LIMIT_S)],
        cwd=tree,
        env=machine.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S + 100,
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_first_run_needs_nothing_but_the_kit(machine: Machine, tree: Path, tmp_path: Path) -> None:
    rows = [word for glob in ROWS for word in ("--rows", glob)]
    done = rehearse(machine, tree, tmp_path, "--first", "--driver", cuda_driver.build(), *rows)
    summary = (tmp_path / "summary.txt").read_text()
    assert done.returncode == 0, summary
    assert read(tmp_path / "look.json")["missing"] == []
    lines = summary.splitlines()[-TEN:]
    assert lines[1].startswith("stages: ok look build clock stand rest contract rows;")
    assert lines[2].startswith("stood up: computing ")
    assert lines[3] == "did not: nothing"
    assert "cuda_null_launch_us_p50" in (tmp_path / "rows.log").read_text()
    assert read(tmp_path / "clock.json")["hooks"]
    assert lines[0].endswith(f"commit {read(tree / 'build/gpu-kit/kit.json')['commit']}")


def test_without_the_kit_the_look_stage_names_missing_packages(machine: Machine, tree: Path, tmp_path: Path) -> None:
    argv: list[str | Path] = [machine.python, "-m", "tools.gpu", "look", "--out", tmp_path]
    argv += ["--driver", cuda_driver.build()]
    done = subprocess.run(
        argv, cwd=tree, env=machine.environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )
    assert done.returncode == 1
    wanted = "missing Python packages: cffi setuptools construct cryptography msgpack msgspec pyyaml structlog pytest"
    assert wanted in (tmp_path / "summary.txt").read_text()
