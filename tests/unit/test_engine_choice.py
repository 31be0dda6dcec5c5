"""Which engine and which GPU a VM gets."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from vhost_backend.config import EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.engines import Choice, Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.engine_config import EngineName
from vhost_backend.errors import HostError
from virtio_proto.yaml_values import Scalar

UUIDS = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in range(3)]
MIG = "MIG-00000000-0000-0000-0000-00000000000f"


def gpu(index: int, num_pes: int = 100) -> Gpu:
    return Gpu(index, UUIDS[index], f"GPU {index}", "sm_90", num_pes, 1 << 30, 8, 8, 1 << 16)


NO_GPU = Survey(problem="no NVIDIA driver: libcuda.so.1 is not there")
TWO = Survey((gpu(0), gpu(1)), "13.0")


class Host:
    """Engines on a host of the test's making; `asked` says which drivers were asked about what."""

    def __init__(self, found: Survey, compiler: str | Exception | None = None, *, has_control: bool = False) -> None:
        self.asked: list[tuple[str | None, str | None]] = []
        self._found = found
        self.compilers: list[tuple[str, ...]] = []
        self._compiler = compiler
        self.engines = Engines(self._survey, self._compile, has_control=has_control)

    async def _survey(self, driver: str | None, device: str | None) -> Survey:
        self.asked.append((driver, device))
        return self._found

    def _compile(self, *settings: str) -> str | None:
        self.compilers.append(settings)
        if isinstance(self._compiler, Exception):
            raise self._compiler
        return self._compiler

    def choose(self, config: VmConfig) -> Choice:
        return asyncio.run(self._choose(config))

    async def _choose(self, config: VmConfig) -> Choice:
        try:
            return await self.engines.choose(config)
        finally:
            await self.engines.close()


def vm(kind: EngineName, name: str = "a", pes: int | None = None, **options: Scalar) -> VmConfig:
    return VmConfig(name, vm_uuid(name), engine=EngineConfig(kind, options), quota=QuotaConfig(pes=pes))


def named(choice: Choice) -> tuple[EngineName, Mapping[str, Scalar]]:
    return choice.engine, choice.config.engine.options


def test_auto_takes_a_gpu_where_one_is() -> None:
    choice = Host(TWO).choose(vm("auto", compiler="nvrtc", binaries=True))
    assert named(choice) == ("cuda", {"binaries": True, "device": UUIDS[0]})
    assert dict(choice.target.settings) == {"arch": "sm_90", "driver": "13.0", "compiler": "nvrtc", "hooks": "off"}
    assert choice.why == "GPU 0 (sm_90), CUDA 13.0"


@pytest.mark.parametrize(
    ("has_control", "options", "hooks"),
    [
        (False, {}, "off"),
        (True, {}, "on"),
        (True, {"hooks": "auto"}, "on"),
        (True, {"hooks": "off"}, "off"),
        (False, {"hooks": "on"}, "on"),
    ],
)
def test_programs_get_hooks_where_there_is_a_control_system(
    has_control: bool, options: Mapping[str, Any], hooks: str
) -> None:
    choice = Host(TWO, has_control=has_control).choose(vm("cuda", **options))
    assert dict(choice.target.settings)["hooks"] == hooks
    assert "hooks" not in choice.config.engine.options  # the worker compiles nothing


def test_worker_is_told_which_file_the_driver_is() -> None:
    found = Survey((gpu(0),), "13.0", driver_path="/opt/lib/libcuda.so.1")
    assert Host(found).choose(vm("cuda")).config.engine.options["driver"] == "/opt/lib/libcuda.so.1"


def test_auto_takes_the_cpu_where_none_is_and_says_why() -> None:
    choice = Host(NO_GPU).choose(vm("auto", binaries=True, pes=3))
    assert named(choice) == ("cpu", {})
    assert (choice.target.engine, choice.pes, choice.why, choice.problem) == ("cpu", 3, NO_GPU.problem, "")


def test_auto_takes_the_cpu_where_nothing_compiles_for_the_gpu() -> None:
    host = Host(TWO, compiler="no compiler: pip install nvidia-cuda-nvrtc")
    choice = host.choose(vm("auto", compiler="nvcc"))
    assert (choice.engine, choice.why) == ("cpu", "no compiler: pip install nvidia-cuda-nvrtc")
    assert ("sm_90", "13.0", "nvcc") in host.compilers


def test_compiler_that_cannot_be_used_is_a_reason_and_no_error() -> None:
    for error in (HostError("libnvrtc is torn"), OSError("libnvrtc is torn"), ImportError("libnvrtc is torn")):
        assert Host(TWO, compiler=error).choose(vm("cuda")).problem.endswith("compiled here: libnvrtc is torn")


def test_cuda_without_a_gpu_is_a_problem_and_no_fallback() -> None:
    choice = Host(NO_GPU).choose(vm("cuda"))
    assert (choice.engine, choice.problem) == ("cuda", NO_GPU.problem)


@pytest.mark.parametrize("kind", ["cpu", "null"])
def test_other_engines_ask_no_driver(kind: EngineName) -> None:
    host = Host(TWO)
    assert host.choose(vm(kind)).engine == kind
    assert host.asked == []


@pytest.mark.parametrize("device", [1, UUIDS[1], UUIDS[1].replace("GPU", "gpu")])
def test_gpu_that_is_named_is_taken(device: Scalar) -> None:
    assert Host(TWO).choose(vm("cuda", device=device)).gpu == gpu(1)


def test_gpu_that_is_not_there_is_answered_with_those_that_are() -> None:
    problem = Host(TWO).choose(vm("cuda", device=2)).problem
    assert problem == f"there is no GPU 2; this host has 0 ({UUIDS[0]}), 1 ({UUIDS[1]})"


def test_gpu_is_known_by_the_beginning_of_its_uuid_if_no_other_begins_so() -> None:
    others = Survey((gpu(0), replace(gpu(1), uuid="GPU-11110000-0000-0000-0000-000000000000")), "13.0")
    assert Host(others).choose(vm("cuda", device="GPU-1111")).config.engine.options["device"] == others.gpus[1].uuid
    assert Host(TWO).choose(vm("cuda", device="GPU-0000")).problem.startswith("several GPUs are meant by GPU-0000; ")


def test_part_of_a_gpu_is_asked_for_by_its_own_name() -> None:
    host = Host(Survey((gpu(0, 16),), "13.0"))
    choice = host.choose(vm("cuda", device=MIG, driver="/opt/libcuda.so.1"))
    assert host.asked == [("/opt/libcuda.so.1", MIG)]
    assert named(choice) == ("cuda", {"driver": "/opt/libcuda.so.1", "device": MIG})


def test_each_driver_is_asked_once() -> None:
    host = Host(TWO)

    async def choose_all() -> None:
        host.engines.begin([EngineConfig("cuda"), EngineConfig("cpu")])
        for name in "abc":
            await host.engines.choose(vm("cuda", name))
        await host.engines.choose(vm("auto", driver="/opt/libcuda.so.1"))
        await host.engines.close()

    asyncio.run(choose_all())
    assert host.asked == [(None, None), ("/opt/libcuda.so.1", None)]


@pytest.mark.parametrize(("asked", "given"), [(None, 100), (40, 40), (4000, 100)])
def test_vm_asks_for_no_more_than_the_gpu_has(asked: int | None, given: int) -> None:
    assert Host(TWO).choose(vm("cuda", pes=asked)).pes == given


def test_vms_go_to_the_gpu_with_the_smallest_part_promised() -> None:
    host = Host(Survey((gpu(0, 100), gpu(1, 100), gpu(2, 20)), "13.0"))

    async def place() -> list[int]:
        placed = []
        with ExitStack() as sessions:
            for name, pes in (("a", 50), ("b", 40), ("c", 2), ("d", 10), ("e", 2)):
                choice = await host.engines.choose(vm("cuda", name, pes))
                sessions.enter_context(host.engines.promised(choice))
                assert choice.gpu is not None
                placed.append(choice.gpu.index)
        await host.engines.close()
        return placed

    assert asyncio.run(place()) == [0, 1, 2, 2, 1]


def test_what_a_vm_was_promised_is_free_after_its_session() -> None:
    host = Host(TWO)

    async def place() -> list[int]:
        placed = []
        for name in "ab":
            choice = await host.engines.choose(vm("cuda", name, 50))
            with host.engines.promised(choice):
                assert choice.gpu is not None
                placed.append(choice.gpu.index)
        await host.engines.close()
        return placed

    assert asyncio.run(place()) == [0, 0]
