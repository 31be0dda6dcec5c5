"""Choice of a VM's engine and GPU."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vhost_backend.compiler.job import Target
from vhost_backend.config.daemon import EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.config.engine import EngineName
from vhost_backend.daemon import engines as daemon_engines
from vhost_backend.daemon.engines import Choice, Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.daemon.migration import MigrationError, check_target
from vhost_backend.engines.cuda import toolchain
from vhost_backend.engines.cuda.libraries import Library
from vhost_backend.errors import HostError
from virtio_proto.yaml_values import Scalar

UUIDS = [f"GPU-00000000-0000-0000-0000-00000000000{index}" for index in range(3)]
MIG = "MIG-00000000-0000-0000-0000-00000000000f"


def gpu(index: int, num_pes: int = 100) -> Gpu:
    return Gpu(index, UUIDS[index], f"GPU {index}", "sm_90", num_pes, 1 << 30, 8, 8, 1 << 16)


NO_GPU = Survey(problem="no NVIDIA driver: libcuda.so.1 is not there")
TWO = Survey((gpu(0), gpu(1)), "13.0")


class Host:
    """Engines on a made-up host; `asked` lists the drivers that were probed, with the devices."""

    def __init__(
        self,
        found: Survey,
        compiler: str | Exception | None = None,
        *,
        has_control: bool = False,
        hooks: str | Exception | None = None,
        libraries: tuple[Library, ...] = (),
    ) -> None:
        self.asked: list[tuple[str | None, str | None]] = []
        self._found = found
        self.compilers: list[tuple[str, ...]] = []
        self._compiler = compiler
        self._hooks = hooks
        self.engines = Engines(
            self._survey,
            self._compile,
            has_control=has_control,
            hooks_problem=self._hook,
            libraries=lambda _driver: libraries,
        )

    async def _survey(self, driver: str | None, device: str | None) -> Survey:
        self.asked.append((driver, device))
        return self._found

    def _compile(self, *settings: str) -> str | None:
        self.compilers.append(settings)
        if isinstance(self._compiler, Exception):
            raise self._compiler
        return self._compiler

    def _hook(self, driver: str, _compiler: str) -> str | None:
        assert driver == "13.0"
        if isinstance(self._hooks, Exception):
            raise self._hooks
        return self._hooks

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


def test_auto_takes_a_gpu_if_there_is_one() -> None:
    choice = Host(TWO).choose(vm("auto", compiler="nvrtc", binaries=True))
    assert named(choice) == ("cuda", {"binaries": True, "device": UUIDS[0]})
    wanted = {"arch": "sm_90", "driver": "13.0", "compiler": "nvrtc", "hooks": "off", "binaries": "on"}
    assert dict(choice.target.settings) == wanted
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
def test_programs_get_hooks_if_there_is_a_control_system(
    has_control: bool, options: Mapping[str, Any], hooks: str
) -> None:
    choice = Host(TWO, has_control=has_control).choose(vm("cuda", **options))
    assert dict(choice.target.settings)["hooks"] == hooks
    assert "hooks" not in choice.config.engine.options  # the worker compiles nothing


@pytest.mark.parametrize("kind", ["cpu", "auto"])
def test_folder_of_libraries_goes_to_the_compilation(kind: EngineName) -> None:
    choice = Host(NO_GPU).choose(vm(kind, cccl="/opt/cccl"))
    assert named(choice) == ("cpu", {})
    assert choice.target == Target("cpu", (("cccl", "/opt/cccl"),))


def test_folder_of_libraries_is_not_for_gpus() -> None:
    choice = Host(TWO).choose(vm("auto", cccl="/opt/cccl"))
    assert named(choice) == ("cuda", {"device": UUIDS[0]})
    assert "cccl" not in dict(choice.target.settings)


NO_PTXAS = "no ptxas for nvrtc of CUDA 13.0; pip install 'nvidia-cuda-nvcc==13.0.*'"


def test_hooks_that_cannot_be_made_are_left_out_with_the_reason() -> None:
    choice = Host(TWO, has_control=True, hooks=NO_PTXAS).choose(vm("auto"))
    assert (choice.engine, choice.unseen) == ("cuda", NO_PTXAS)
    assert choice.describe().endswith(f"; the control system will not see its programs: {NO_PTXAS}")


CUBLAS = Library("cublas", "cuBLAS", Path("/opt/libcublas.so.13"), "pip install nvidia-cublas")
NO_CUFFT = Library("cufft", "cuFFT", None, "pip install nvidia-cufft")
CUFFT = replace(NO_CUFFT, where=Path("/opt/libcufft.so.12"))


@pytest.mark.parametrize(
    ("wanted", "found", "paths"),
    [
        ({}, (CUBLAS, CUFFT), {}),
        ({"libraries": "off"}, (CUBLAS, CUFFT), {}),
        ({"libraries": "auto"}, (CUBLAS, NO_CUFFT), {"cublas": "/opt/libcublas.so.13"}),
        ({"libraries": "on"}, (CUBLAS, CUFFT), {"cublas": "/opt/libcublas.so.13", "cufft": "/opt/libcufft.so.12"}),
    ],
)
def test_worker_is_told_where_the_libraries_are(
    wanted: Mapping[str, Any], found: tuple[Library, ...], paths: Mapping[str, str]
) -> None:
    choice = Host(TWO, libraries=found).choose(vm("cuda", **wanted))
    assert named(choice) == ("cuda", {**wanted, **paths, "device": UUIDS[0]})


def test_required_library_that_is_missing_is_a_problem() -> None:
    problem = Host(TWO, libraries=(CUBLAS, NO_CUFFT)).choose(vm("cuda", libraries="on")).problem
    assert problem == (
        "'libraries: on' cannot be had: cuFFT not found: pip install nvidia-cufft;"
        " or set 'libraries: auto', which does without"
    )


def test_required_hooks_that_cannot_be_made_are_a_problem() -> None:
    problem = Host(TWO, hooks=NO_PTXAS).choose(vm("cuda", hooks="on")).problem
    assert problem == f"'hooks: on' cannot be had: {NO_PTXAS}; or set 'hooks: auto', which does without"
    computes_on_the_cpu = Host(TWO, hooks=NO_PTXAS).choose(vm("auto", hooks="on"))
    assert (computes_on_the_cpu.engine, computes_on_the_cpu.why) == ("cpu", problem)


def test_daemon_asks_the_toolchain_for_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def surveyed(_driver: str | None = None, _device: str | None = None) -> Survey:
        return TWO

    async def chosen() -> Choice:
        engines = daemon_engines.host_engines(has_control=True)
        try:
            return await engines.choose(vm("cuda"))
        finally:
            await engines.close()

    monkeypatch.setattr(daemon_engines, "survey", surveyed)
    monkeypatch.setattr(toolchain, "missing", lambda *_: None)
    monkeypatch.setattr(toolchain, "unhooked", lambda driver, compiler: f"asked for {driver} and {compiler}")
    assert asyncio.run(chosen()).unseen == "asked for 13.0 and auto"


@pytest.mark.parametrize(("has_control", "hooks"), [(False, "auto"), (True, "off")])
def test_hooks_without_a_control_system_are_not_missing(has_control: bool, hooks: str) -> None:
    choice = Host(TWO, has_control=has_control, hooks=NO_PTXAS).choose(vm("cuda", hooks=hooks))
    assert (choice.problem, choice.unseen) == ("", "")


def test_failed_search_for_an_assembler_is_a_reason_and_no_error() -> None:
    assert Host(TWO, has_control=True, hooks=OSError("torn")).choose(vm("cuda")).unseen == "torn"


def test_worker_is_told_which_file_the_driver_is() -> None:
    found = Survey((gpu(0),), "13.0", driver_path="/opt/lib/libcuda.so.1")
    assert Host(found).choose(vm("cuda")).config.engine.options["driver"] == "/opt/lib/libcuda.so.1"


def test_auto_takes_the_cpu_without_a_gpu_with_the_reason() -> None:
    choice = Host(NO_GPU).choose(vm("auto", binaries=True, pes=3))
    assert named(choice) == ("cpu", {})
    assert (choice.target.engine, choice.pes, choice.why, choice.problem) == ("cpu", 3, NO_GPU.problem, "")


def test_auto_takes_the_cpu_without_a_compiler_for_the_gpu() -> None:
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
def test_other_engines_probe_no_driver(kind: EngineName) -> None:
    host = Host(TWO)
    assert host.choose(vm(kind)).engine == kind
    assert host.asked == []


def test_lockstep_is_a_setting_of_the_compiler() -> None:
    choice = Host(TWO).choose(vm("cpu", lockstep=True))
    assert (named(choice), choice.target.settings) == (("cpu", {}), (("lockstep", "on"),))
    assert Host(TWO).choose(vm("cpu", lockstep=False)).target.settings == ()


def test_maps_for_perf_are_made_by_compiler_and_worker() -> None:
    choice = Host(TWO).choose(vm("cpu", perf_maps=True))
    assert (named(choice), choice.target.settings) == (("cpu", {"perf_maps": True}), (("symbols", "on"),))
    choice = Host(TWO).choose(vm("cpu", perf_maps=False))
    assert (named(choice), choice.target.settings) == (("cpu", {}), ())


@pytest.mark.parametrize("device", [1, UUIDS[1], UUIDS[1].replace("GPU", "gpu")])
def test_named_gpu_is_taken(device: Scalar) -> None:
    assert Host(TWO).choose(vm("cuda", device=device)).gpu == gpu(1)


def test_unknown_gpu_is_answered_with_the_known_ones() -> None:
    problem = Host(TWO).choose(vm("cuda", device=2)).problem
    assert problem == f"there is no GPU 2; this host has 0 ({UUIDS[0]}), 1 ({UUIDS[1]})"


def test_unique_prefix_of_a_uuid_names_a_gpu() -> None:
    others = Survey((gpu(0), replace(gpu(1), uuid="GPU-11110000-0000-0000-0000-000000000000")), "13.0")
    assert Host(others).choose(vm("cuda", device="GPU-1111")).config.engine.options["device"] == others.gpus[1].uuid
    assert Host(TWO).choose(vm("cuda", device="GPU-0000")).problem.startswith("several GPUs match GPU-0000; ")


def test_mig_instance_is_probed_by_its_own_name() -> None:
    host = Host(Survey((gpu(0, 16),), "13.0"))
    choice = host.choose(vm("cuda", device=MIG, driver="/opt/libcuda.so.1"))
    assert host.asked == [("/opt/libcuda.so.1", MIG)]
    assert named(choice) == ("cuda", {"driver": "/opt/libcuda.so.1", "device": MIG})


def test_each_driver_is_probed_once() -> None:
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
def test_quota_of_a_vm_is_limited_to_the_gpu(asked: int | None, given: int) -> None:
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


def test_share_of_a_vm_is_free_after_its_session() -> None:
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


def test_migration_of_a_vm_on_a_gpu_is_refused_with_the_reason() -> None:
    choice = Host(TWO).choose(vm("cuda"))
    with pytest.raises(MigrationError, match="VMs on the engine cuda cannot be migrated yet"):
        check_target(choice.config, choice, choice)
    missing = replace(choice, problem="there is no GPU 7")
    with pytest.raises(MigrationError, match="VMs on the engine cuda cannot be migrated yet"):
        check_target(choice.config, choice, missing)
