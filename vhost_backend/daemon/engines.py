"""Choice of the engine and the GPU for a VM: made when a frontend connects, given back when it disconnects."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias, TypeGuard

from vhost_backend.compiler.job import Target
from vhost_backend.config.daemon import EngineConfig, VmConfig
from vhost_backend.config.engine import MIG_PREFIX, EngineName
from vhost_backend.daemon.gpu_gate import GpuGates
from vhost_backend.daemon.gpus import Gpu, Survey, survey
from vhost_backend.errors import EngineError, HostError
from vhost_backend.log import get_logger
from virtio_proto.yaml_values import Scalar

if TYPE_CHECKING:
    from vhost_backend.engines.cuda.libraries import Library
    from vhost_backend.engines.cuda.toolkits import Piece

Surveyor: TypeAlias = Callable[[str | None, str | None], Awaitable[Survey]]
"""Surveys a driver's GPUs: (driver, None for the host's own; device, None for all) -> GPUs found."""

CompilerCheck: TypeAlias = Callable[[str, str, str], str | None]
"""Checks whether programs can be compiled: (architecture, the driver's CUDA version, compiler) -> problem or None. May
block."""

HooksCheck: TypeAlias = Callable[[str, str], str | None]
"""Checks whether programs can get the control system's hooks: (the driver's CUDA version, compiler) -> problem or None.
May block."""

LibrarySearch: TypeAlias = "Callable[[str], tuple[Library, ...]]"
"""Finds NVIDIA's libraries for the driver's CUDA version; empty if nothing is known of them. May block."""

_ON_GPUS: Final = ("auto", "cuda")


@dataclass(frozen=True, slots=True)
class Choice:
    """Engine and GPU that were chosen for a VM."""

    config: VmConfig
    """The VM's configuration with the chosen engine in place of `auto`, and only that engine's options."""
    target: Target
    pes: int
    """Number of processing elements that the VM asks the engine for."""
    gpu: Gpu | None = None
    why: str = ""
    """Reason of the choice, if the configuration left it open."""
    unseen: str = ""
    """Reason why the control system cannot watch the VM's programs, if it should; "" if it can or need not."""
    problem: str = ""
    """Reason why the configured engine cannot be used on this host; "" if it can."""
    fallback: Choice | None = None
    """Choice to use instead if no worker gets ready on the GPU that `auto` chose."""

    @property
    def engine(self) -> EngineName:
        return self.config.engine.kind

    def describe(self) -> str:
        """Describes the choice in one line."""
        if self.problem:
            return f"{self.config.name} cannot have the engine {self.engine}: {self.problem}"
        where = "" if self.gpu is None else f" on GPU {self.gpu.index}"
        why = f": {self.why}" if self.why else ""
        unseen = f"; the control system will not see its programs: {self.unseen}" if self.unseen else ""
        return f"{self.config.name} gets the engine {self.engine}{where}{why}{unseen}"


class Engines:
    """Chooses engines for all VMs of a daemon, and counts the processing elements that each GPU has promised."""

    def __init__(
        self,
        surveyor: Surveyor,
        compiler_problem: CompilerCheck,
        *,
        has_control: bool = False,
        hooks_problem: HooksCheck = lambda _driver, _compiler: None,
        libraries: LibrarySearch = lambda _driver: (),
    ) -> None:
        """`has_control`: the daemon has a control system, so programs for GPUs are compiled with its hooks."""
        self._has_control = has_control
        self._hooks_problem = hooks_problem
        self._libraries = libraries
        self._surveyor = surveyor
        self._compiler_problem = compiler_problem
        self._surveys: dict[tuple[str | None, str | None], asyncio.Task[Survey]] = {}
        self.gates: Final = GpuGates()
        """Turns of workers on the GPUs."""
        self._promised: dict[str, dict[str, int]] = {}
        """Promised processing elements, by GPU's UUID and VM."""

    async def survey(self, config: EngineConfig) -> Survey:
        """GPUs for a VM with this engine; each driver is surveyed once."""
        return await asyncio.shield(self._asked(config))

    def begin(self, configs: Iterable[EngineConfig]) -> None:
        """Starts to survey the drivers that VMs need, so that their first frontends do not wait for it."""
        needed: dict[asyncio.Task[Survey], bool] = {}
        for config in configs:
            if config.kind in _ON_GPUS:
                task = self._asked(config)
                needed[task] = needed.get(task, False) or config.kind == "cuda"
        for task, is_needed in needed.items():
            task.add_done_callback(partial(_log_found, is_needed))

    async def close(self) -> None:
        """Cancels surveys; ends their processes."""
        for task in self._surveys.values():
            task.cancel()
        await asyncio.gather(*self._surveys.values(), return_exceptions=True)

    async def choose(self, config: VmConfig) -> Choice:
        """Chooses the engine for a VM, and the GPU if that is a CUDA engine. Promises nothing yet."""
        if config.engine.kind not in _ON_GPUS:
            return _plain(config, config.engine.kind)
        found = await self.survey(config.engine)
        compiler = str(config.engine.options.get("compiler", "auto"))
        problems = {gpu.arch: await asyncio.to_thread(self._problem, gpu, found, compiler) for gpu in found.gpus}
        unseen = await asyncio.to_thread(self._unseen, config, found, compiler)
        libraries = await asyncio.to_thread(self._wanted_libraries, config, found)
        try:  # nothing waits from here to the promise, else two VMs could both choose the least loaded GPU
            return self._on_gpu(_with_libraries(config, libraries), found, problems, unseen)
        except EngineError as error:
            if config.engine.kind == "auto":
                return _plain(config, "cpu", why=str(error))
            return replace(_plain(config, "cuda"), problem=str(error))

    @contextmanager
    def promised(self, choice: Choice) -> Iterator[None]:
        """Counts the VM's processing elements as promised in the block."""
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
        """Reason why programs cannot be compiled for `gpu`; "" if they can."""
        try:
            return self._compiler_problem(gpu.arch, found.driver_version, compiler) or ""
        except (HostError, OSError, ImportError) as error:
            return f"CUDA programs cannot be compiled here: {error}"

    def _unseen(self, config: VmConfig, found: Survey, compiler: str) -> str:
        """Reason why programs cannot get hooks although they should; "" if they can or should not."""
        if not found.gpus or self._hooks(config.engine.options.get("hooks", "auto")) != "on":
            return ""
        try:
            return self._hooks_problem(found.driver_version, compiler) or ""
        except (HostError, OSError) as error:
            return str(error)

    def _wanted_libraries(self, config: VmConfig, found: Survey) -> tuple[Library, ...]:
        """Libraries that the VM's engine is to use, present or missing."""
        is_wanted = bool(found.gpus) and config.engine.options.get("libraries", "off") != "off"
        return self._libraries(found.driver_version) if is_wanted else ()

    def _on_gpu(self, config: VmConfig, found: Survey, problems: Mapping[str, str], unseen: str) -> Choice:
        """Chooses a GPU for a VM.

        :raise EngineError: the host lacks the GPU, or cannot compile for it, or not with the hooks that the
          configuration demands.
        """
        gpu = self._pick(config, found)
        if problems[gpu.arch]:
            raise EngineError(problems[gpu.arch])
        if unseen and config.engine.options.get("hooks") == "on":
            raise EngineError(f"'hooks: on' cannot be had: {unseen}; or set 'hooks: auto', which does without")
        options = dict(config.engine.options)
        options.pop("cccl", None)  # the CPU engine's
        settings = {
            "arch": gpu.arch,
            "driver": found.driver_version,
            "compiler": str(options.pop("compiler", "auto")),
            "hooks": self._hooks(options.pop("hooks", "auto")),
            "binaries": "on" if options.get("binaries") is True else "off",
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
            unseen=unseen,
            fallback=_plain(config, "cpu") if config.engine.kind == "auto" else None,
        )

    def _hooks(self, wanted: Scalar) -> str:
        """Setting of hooks, "on" or "off", for the configured value."""
        return ("on" if self._has_control else "off") if wanted == "auto" else str(wanted)

    def _pick(self, config: VmConfig, found: Survey) -> Gpu:
        """Picks the GPU that the configuration names, else the GPU of which the smallest part is promised.

        :raise EngineError: the host has no such GPU, or several.
        """
        if not found.gpus:
            raise EngineError(found.problem)
        wanted = config.engine.options.get("device")
        if _is_mig(wanted):
            return found.gpus[0]  # the survey saw only this device
        if wanted is None:
            return min(found.gpus, key=lambda gpu: (self._load(gpu), gpu.index))
        meant = [gpu for gpu in found.gpus if _is_meant(gpu, wanted)]
        if len(meant) == 1:
            return meant[0]
        there = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found.gpus)
        problem = f"several GPUs match {wanted}" if meant else f"there is no GPU {wanted}"
        raise EngineError(f"{problem}; this host has {there}")

    def _load(self, gpu: Gpu) -> float:
        return sum(self._promised.get(gpu.uuid, {}).values()) / gpu.num_pes


async def _asked(surveyor: Surveyor, key: tuple[str | None, str | None]) -> Survey:
    return await surveyor(*key)


def _log_found(is_needed: bool, task: asyncio.Task[Survey]) -> None:
    """Logs the GPUs found. A warning if a VM needs one and the host has none: its error comes only with its frontend."""
    if not task.cancelled() and task.exception() is None:
        found = task.result()
        names = [f"{gpu.index}: {gpu.name}" for gpu in found.gpus]
        about = {"driver": found.driver_version, "problem": found.problem}
        log = get_logger().warning if is_needed and not found.gpus else get_logger().info
        log("gpus_found", gpus=names, **{name: value for name, value in about.items() if value})


def _with_libraries(config: VmConfig, libraries: Iterable[Library]) -> VmConfig:
    """The VM's configuration with the paths of libraries among the engine's options.

    :raise EngineError: the configuration requires one that the host lacks.
    """
    missing = [library for library in libraries if library.where is None and not library.is_optional]
    if missing and config.engine.options.get("libraries") == "on":
        names, hints = " and ".join(item.name for item in missing), "; ".join(item.hint for item in missing)
        raise EngineError(
            f"'libraries: on' cannot be had: {names} not found: {hints}; or set 'libraries: auto', which does without"
        )
    paths = {library.option: str(library.where) for library in libraries if library.where is not None}
    return replace(config, engine=EngineConfig(config.engine.kind, {**config.engine.options, **paths}))


def _is_mig(device: Scalar) -> TypeGuard[str]:
    return isinstance(device, str) and device.startswith(MIG_PREFIX)


def _is_meant(gpu: Gpu, wanted: Scalar) -> bool:
    """True if `wanted` is the GPU's number, its UUID or a prefix of that."""
    return wanted == gpu.index or (isinstance(wanted, str) and gpu.uuid.lower().startswith(wanted.lower()))


def _plain(config: VmConfig, kind: EngineName, why: str = "") -> Choice:
    """Choice of an engine without devices. Options of `auto` for GPUs are dropped, and those of compilation go there."""
    options = dict(config.engine.options) if kind == config.engine.kind else {}
    options.pop("cccl", None)
    settings = [("lockstep", "on")] if options.pop("lockstep", False) else []
    if options.get("perf_maps"):
        settings.append(("symbols", "on"))
    else:
        options.pop("perf_maps", None)
    libraries = config.engine.options.get("cccl") if kind == "cpu" else None
    if libraries is not None:
        settings.append(("cccl", str(libraries)))
    return Choice(
        replace(config, engine=EngineConfig(kind, options)), Target(kind, tuple(settings)), plain_pes(config), why=why
    )


def plain_pes(config: VmConfig) -> int:
    """Processing elements of a VM whose engine has no devices."""
    return config.quota.pes or os.cpu_count() or 1


def compiler_problem(arch: str, driver: str, compiler: str) -> str | None:
    """Reason why CUDA programs cannot be compiled on this host for a GPU and a driver; None if they can."""
    from vhost_backend.engines.cuda import toolchain

    return toolchain.missing(arch, driver, compiler)


def hooks_problem(driver: str, compiler: str) -> str | None:
    """Reason why CUDA programs cannot get the control system's hooks on this host; None if they can."""
    from vhost_backend.engines.cuda import toolchain

    return toolchain.unhooked(driver, compiler)


def toolkit_pieces(driver: str) -> tuple[Piece, ...]:
    """Parts that the CUDA toolkit for this driver has or lacks beside its compiler; empty if no toolkit can compile."""
    from vhost_backend.engines.cuda import toolchain

    try:
        return toolchain.pieces(driver)
    except ValueError:
        return ()


def host_libraries(driver: str) -> tuple[Library, ...]:
    """NVIDIA's libraries for a driver of this CUDA version, present or missing."""
    from vhost_backend.engines.cuda import libraries, toolkits

    return libraries.find(toolkits.parse_version(driver))


def host_engines(*, has_control: bool) -> Engines:
    """Makes the `Engines` of this host's GPUs and compilers."""
    return Engines(
        survey, compiler_problem, has_control=has_control, hooks_problem=hooks_problem, libraries=host_libraries
    )
