"""Which engine, and which GPU, computes for a VM: decided when its session begins, and given up when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias, TypeGuard

from vhost_backend.compiler.job import Target
from vhost_backend.config import EngineConfig, VmConfig
from vhost_backend.daemon.gpus import Gpu, Survey, survey
from vhost_backend.engine_config import MIG_PREFIX, EngineName
from vhost_backend.errors import EngineError, HostError
from vhost_backend.log import get_logger
from virtio_proto.yaml_values import Scalar

Surveyor: TypeAlias = Callable[[str | None, str | None], Awaitable[Survey]]
"""(driver, the one device that it may see) -> what is there; None: the host's own, all of them."""

CompilerCheck: TypeAlias = Callable[[str, str, str], str | None]
"""(architecture, the driver's CUDA version, compiler) -> why programs cannot be compiled; None: they can. May block."""

_ON_GPUS: Final = ("auto", "cuda")


@dataclass(frozen=True, slots=True)
class Choice:
    """What computes for a VM."""

    config: VmConfig
    """As configured, but with the engine that it is, and the options of that engine's own."""
    target: Target
    pes: int
    """How many processing elements it asks the engine for."""
    gpu: Gpu | None = None
    why: str = ""
    """Of `auto`: what decided."""
    problem: str = ""
    """Why nothing can: the engine that is asked for is not to be had here."""
    fallback: Choice | None = None
    """Of `auto` on a GPU: what computes if no worker gets ready there after all."""

    @property
    def engine(self) -> EngineName:
        return self.config.engine.kind

    def describe(self) -> str:
        """For people, in one line."""
        if self.problem:
            return f"{self.config.name} cannot have the engine {self.engine}: {self.problem}"
        where = "" if self.gpu is None else f" on GPU {self.gpu.index}"
        why = f": {self.why}" if self.why else ""
        return f"{self.config.name} gets the engine {self.engine}{where}{why}"


class Engines:
    """Chooses for all VMs of a daemon, and keeps count of what each GPU has promised."""

    def __init__(self, surveyor: Surveyor, compiler_problem: CompilerCheck, *, has_control: bool = False) -> None:
        """`has_control`: there is a control system, to which kernels on GPUs are compiled to talk."""
        self._has_control = has_control
        self._surveyor = surveyor
        self._compiler_problem = compiler_problem
        self._surveys: dict[tuple[str | None, str | None], asyncio.Task[Survey]] = {}
        self._promised: dict[str, dict[str, int]] = {}
        """By GPU and VM: processing elements."""

    async def survey(self, config: EngineConfig) -> Survey:
        """What there is for a VM with this engine; each driver is asked once."""
        return await asyncio.shield(self._asked(config))

    def begin(self, configs: Iterable[EngineConfig]) -> None:
        """Has the drivers asked that will be needed, so that nobody waits for them later."""
        needed: dict[asyncio.Task[Survey], bool] = {}
        for config in configs:
            if config.kind in _ON_GPUS:
                task = self._asked(config)
                needed[task] = needed.get(task, False) or config.kind == "cuda"
        for task, is_needed in needed.items():
            task.add_done_callback(partial(_log_found, is_needed))

    async def close(self) -> None:
        """Stops asking; no process is left."""
        for task in self._surveys.values():
            task.cancel()
        await asyncio.gather(*self._surveys.values(), return_exceptions=True)

    async def choose(self, config: VmConfig) -> Choice:
        """The engine for a VM, and its GPU if that is a CUDA engine. Promises nothing."""
        if config.engine.kind not in _ON_GPUS:
            return _plain(config, config.engine.kind)
        found = await self.survey(config.engine)
        compiler = str(config.engine.options.get("compiler", "auto"))
        problems = {gpu.arch: await asyncio.to_thread(self._problem, gpu, found, compiler) for gpu in found.gpus}
        try:  # no waiting from here to the promise: two VMs would be sent to the same GPU
            return self._on_gpu(config, found, problems)
        except EngineError as error:
            if config.engine.kind == "auto":
                return _plain(config, "cpu", why=str(error))
            return replace(_plain(config, "cuda"), problem=str(error))

    @contextmanager
    def promised(self, choice: Choice) -> Iterator[None]:
        """Counts what a VM was given for as long as it has it."""
        if choice.gpu is None:
            yield
            return
        shares = self._promised.setdefault(choice.gpu.uuid, {})
        shares[choice.config.name] = choice.pes
        try:
            yield
        finally:
            del shares[choice.config.name]

    def _asked(self, config: EngineConfig) -> asyncio.Task[Survey]:
        driver, device = config.options.get("driver"), config.options.get("device")
        key = (None if driver is None else str(driver), device if _is_mig(device) else None)
        if key not in self._surveys:
            self._surveys[key] = asyncio.ensure_future(_asked(self._surveyor, key))
        return self._surveys[key]

    def _problem(self, gpu: Gpu, found: Survey, compiler: str) -> str:
        """Why nothing compiles for `gpu`; "" if something does."""
        try:
            return self._compiler_problem(gpu.arch, found.driver_version, compiler) or ""
        except (HostError, OSError, ImportError) as error:
            return f"CUDA programs cannot be compiled here: {error}"

    def _on_gpu(self, config: VmConfig, found: Survey, problems: Mapping[str, str]) -> Choice:
        """:raise EngineError: there is no such GPU, or nothing compiles for it."""
        gpu = self._pick(config, found)
        if problems[gpu.arch]:
            raise EngineError(problems[gpu.arch])
        options = dict(config.engine.options)
        settings = {
            "arch": gpu.arch,
            "driver": found.driver_version,
            "compiler": str(options.pop("compiler", "auto")),
            "hooks": self._hooks(options.pop("hooks", "auto")),
        }
        if not _is_mig(options.get("device")):
            options["device"] = gpu.uuid
        if found.driver_path:
            options["driver"] = found.driver_path
        return Choice(
            config=replace(config, engine=EngineConfig("cuda", options)),
            target=Target("cuda", tuple(sorted(settings.items()))),
            pes=min(config.quota.pes or gpu.num_pes, gpu.num_pes),
            gpu=gpu,
            why=f"{gpu.name} ({gpu.arch}), CUDA {found.driver_version}",
            fallback=_plain(config, "cpu") if config.engine.kind == "auto" else None,
        )

    def _hooks(self, wanted: Scalar) -> str:
        """Whether programs get them: "on" or "off"."""
        return ("on" if self._has_control else "off") if wanted == "auto" else str(wanted)

    def _pick(self, config: VmConfig, found: Survey) -> Gpu:
        """The GPU that the configuration names, else the one with the smallest part of it promised."""
        if not found.gpus:
            raise EngineError(found.problem)
        wanted = config.engine.options.get("device")
        if _is_mig(wanted):
            return found.gpus[0]  # the survey saw no other
        if wanted is None:
            return min(found.gpus, key=lambda gpu: (self._load(gpu), gpu.index))
        meant = [gpu for gpu in found.gpus if _is_meant(gpu, wanted)]
        if len(meant) == 1:
            return meant[0]
        there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found.gpus)
        problem = f"several GPUs are meant by {wanted}" if meant else f"there is no GPU {wanted}"
        raise EngineError(f"{problem}; this host has {there}")

    def _load(self, gpu: Gpu) -> float:
        return sum(self._promised.get(gpu.uuid, {}).values()) / gpu.num_pes


async def _asked(surveyor: Surveyor, key: tuple[str | None, str | None]) -> Survey:
    return await surveyor(*key)


def _log_found(is_needed: bool, task: asyncio.Task[Survey]) -> None:
    """A warning where a VM that must have a GPU cannot get one: it would be an error only when that VM connects."""
    if not task.cancelled() and task.exception() is None:
        found = task.result()
        names = [f"{gpu.index}: {gpu.name}" for gpu in found.gpus]
        about = {"driver": found.driver_version, "problem": found.problem}
        log = get_logger().warning if is_needed and not found.gpus else get_logger().info
        log("gpus_found", gpus=names, **{name: value for name, value in about.items() if value})


def _is_mig(device: Scalar) -> TypeGuard[str]:
    return isinstance(device, str) and device.startswith(MIG_PREFIX)


def _is_meant(gpu: Gpu, wanted: Scalar) -> bool:
    """By its number, its UUID or the beginning of that."""
    return wanted == gpu.index or (isinstance(wanted, str) and gpu.uuid.lower().startswith(wanted.lower()))


def _plain(config: VmConfig, kind: EngineName, why: str = "") -> Choice:
    """An engine without a choice of devices. The options of `auto` are for the GPU that it did not get."""
    engine = EngineConfig(kind, config.engine.options if kind == config.engine.kind else {})
    pes = config.quota.pes or os.cpu_count() or 1
    return Choice(replace(config, engine=engine), Target(kind), pes, why=why)


def compiler_problem(arch: str, driver: str, compiler: str) -> str | None:
    """Why CUDA programs cannot be compiled on this host for such a GPU and driver; None: they can."""
    from vhost_backend.engines.cuda import toolchain

    return toolchain.missing(arch, driver, compiler)


def host_engines(*, has_control: bool) -> Engines:
    """With the GPUs and compilers that this host has."""
    return Engines(survey, compiler_problem, has_control=has_control)
