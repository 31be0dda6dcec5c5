"""Sources that take for ever to compile: the neighbours' programs are compiled meanwhile."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from tests.waiting import turns_until
from vhost_backend.compiler.cache import DiskCache
from vhost_backend.compiler.job import Target
from vhost_backend.compiler.run import CompileLimits
from vhost_backend.compiler.service import CompileResult, CompileService, ServicePolicy
from vhost_backend.daemon.compile_setup import describe
from vhost_backend.log import get_logger
from vhost_backend.sandbox import build, memfd
from virtio_proto.schema import ProgramKind

BOMB = '#if __INCLUDE_LEVEL__ < 60\n#include "source.cu"\n#include "source.cu"\n#endif\n// {name}\n'
PROGRAM = 'extern "C" __global__ void f() {}\n'


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


def submit(service: CompileService, vm: str, source: str) -> asyncio.Task[CompileResult]:
    source_fd = memfd.sealed("source", source.encode())
    return service.submit(vm, ProgramKind.CUDA_SOURCE, source_fd, (), Target("cpu"))


@pytest.mark.parametrize("attackers", [{"mallory": 4}, {"mallory": 1, "malory": 1}], ids=["one", "two"])
def test_include_bombs_do_not_hold_up_a_neighbour(tmp_path: Path, attackers: dict[str, int]) -> None:
    """One attacker leaves a slot free; of two, one is stopped for the neighbour."""

    async def attack() -> None:
        patient = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S)
        policy = ServicePolicy(max_running=2, slice_seconds=0.5, limits=patient)
        disk = DiskCache(tmp_path / "cache")
        service = CompileService(describe, disk, mode="strict", log=get_logger(), policy=policy)
        names = [(vm, number) for vm, bombs in attackers.items() for number in range(bombs)]
        bombs = [submit(service, vm, BOMB.format(name=f"{vm} {number}")) for vm, number in names]
        await turns_until(lambda: service.runs == len(attackers))
        try:
            result = await submit(service, "neighbour", PROGRAM)
            assert result.image_fd is not None, result.log
            os.close(result.image_fd)
            assert not any(bomb.done() for bomb in bombs)
        finally:
            await service.close()

    asyncio.run(attack())
