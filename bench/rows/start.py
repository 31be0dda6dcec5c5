"""Rows of the start of a VM's worker."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench import vgcd
from bench.lab import Lab
from bench.processes import backend
from bench.registry import Outcome, row
from bench.results import Goal, outcome
from bench.stats import alternate
from tests.fakes.frontend import FakeFrontend
from tests.waiting import until
from virtio_proto.schema import Health

IMPORTS: Final = "import vhost_backend.worker.life, vhost_backend.engines.cpu.engine"


def start_ms(socket_path: Path) -> float:
    """Time from a frontend's connection until its worker is ready; the worker has ended when this returns."""
    start = time.perf_counter()
    with FakeFrontend.connect(socket_path, num_queues=1) as frontend:
        frontend.negotiate()
        frontend.wait_for_config(lambda space: space.health == Health.READY)
        return (time.perf_counter() - start) * 1e3


def imports_ms() -> float:
    """Time that Python takes to start, import a worker's modules and end, without any sandbox."""
    start = time.perf_counter()
    subprocess.run((sys.executable, "-c", IMPORTS), check=True)
    return (time.perf_counter() - start) * 1e3


def is_served(path: Path) -> bool:
    """True if a daemon listens at `path`."""
    with socket.socket(socket.AF_UNIX) as sock:
        return sock.connect_ex(str(path)) == 0


@row("worker_start_ms")
def worker(lab: Lab) -> Iterator[Outcome]:
    """Start of a VM's worker in its sandbox, from the frontend's connection until the guest sees the device ready."""
    folder = lab.own_folder("start")
    path = folder / "vm.sock"
    config = folder / "vgcd.yaml"
    config.write_text(vgcd.configuration(path, folder / "cache", "cpu", lab.threads))
    command = (sys.executable, "-m", "vhost_backend.cli", "run", "--config", str(config))
    with backend(command, folder / "vgcd.log"):
        until(lambda: is_served(path))
        own, theirs = alternate(lab.samples(21, 5), lambda: start_ms(path), imports_ms)
    against = "Python with a worker's modules, without a sandbox"
    yield outcome("worker_start_ms", own, "ms", "lower", theirs, against=against, goal=Goal("value", "<", 100))
