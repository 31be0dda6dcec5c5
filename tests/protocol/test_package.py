"""The installed package: a wheel in an environment of its own, away from the sources, serves a guest."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tests.fakes.attached import AttachedLink
from tests.fakes.guest import open_device
from tests.limits import HANGS_AFTER_S
from tests.protocol.test_vgcd import wait_for
from tests.protocol.worker_rig import needs_walls
from tools.common import REPOSITORY
from vhost_backend.engines.cpu.preludes import KINDS

pytestmark = [pytest.mark.slow, needs_walls]
SOURCE: Final = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}"""
COUNT: Final = 1000


@dataclass(frozen=True, slots=True)
class Installed:
    """An environment with the package and its dependencies only."""

    folder: Path

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Runs a program of the environment, from outside of the repository."""
        return subprocess.run(
            [self.folder / "bin" / argv[0], *argv[1:]],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            check=True,
            timeout=HANGS_AFTER_S,
        )


def environment() -> dict[str, str]:
    """Environment variables, without those that lead back to the sources."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def pip(*words: str | Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words],
        cwd=REPOSITORY,
        check=True,
        timeout=HANGS_AFTER_S,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    folder = tmp_path_factory.mktemp("installed")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)  # workers are another user
    venv.create(folder / "env", with_pip=False)
    found = Installed(folder / "env")
    pip("wheel", "--no-deps", "--wheel-dir", folder, REPOSITORY)
    (wheel,) = folder.glob("*.whl")
    pip("--python", found.folder / "bin" / "python", "install", f"{wheel}[control]")
    return found


def test_everything_comes_from_the_wheel(installed: Installed) -> None:
    asks = "import vhost_backend._dataplane, guest_driver, control_center, kernels, vgc_kubernetes.terms, vgc_libvirt; print(vhost_backend.__file__)"
    assert Path(installed.run("python", "-c", asks).stdout.strip()).is_relative_to(installed.folder)


def test_precompiled_headers_are_whole(installed: Installed) -> None:
    asks = "from vhost_backend.engines.cpu import toolchain; print([one.fault for one in toolchain.made_preludes()])"
    assert installed.run("python", "-c", asks).stdout.splitlines()[-1] == str([""] * len(KINDS))


@pytest.mark.parametrize("program", ["vgcd", "vgc", "vgcctl", "vgc-control-center"])
def test_programs_tell_their_version(installed: Installed, program: str) -> None:
    asks = "import importlib.metadata; print(importlib.metadata.version('virtio-gpu-compute'))"
    version = installed.run("python", "-c", asks).stdout.strip()
    assert version in installed.run(program, "--version").stdout


@pytest.fixture
def socket_path(installed: Installed, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "vgc.sock"
    argv: list[str | Path] = [
        installed.folder / "bin" / "vgcd",
        "--socket-path",
        path,
        "--engine",
        "cpu",
        "--log-format",
        "json",
    ]
    with subprocess.Popen(argv, cwd=installed.folder, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_for(process, "serving")
            yield path
        finally:
            process.terminate()


def test_a_guest_computes_through_the_installed_daemon(socket_path: Path, tmp_path: Path) -> None:
    with AttachedLink(socket_path, num_queues=4) as link:
        link.wait_ready()
        with open_device(link, tmp_path / "state") as device:
            program = device.compile(SOURCE)
            x = device.to_device(np.arange(COUNT, dtype=np.float32))
            y = device.to_device(np.ones(COUNT, np.float32))
            program.saxpy[-(-COUNT // 256), 256](COUNT, 2, x, y)
            assert (y.get() == 1 + 2 * np.arange(COUNT, dtype=np.float32)).all()
