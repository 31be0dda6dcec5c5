"""Records of a VM at the keeper (`vhost_backend.daemon.keeping`), beside that of its session.

Another daemon reads them, perhaps one of another version of this program: a change of any of them takes another
`vhost_backend.keeper.client.RECORD_VERSION`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import UUID

from vhost_backend.compiler.job import Target
from vhost_backend.config.daemon import EngineConfig, QuotaConfig, VmConfig
from vhost_backend.config.engine import EngineName
from vhost_backend.daemon.engines import Choice
from vhost_backend.daemon.gpus import Gpu
from vhost_backend.keeper.record import U32, U64, Record
from vhost_backend.worker_protocol.codec import Scalars
from vhost_backend.worker_protocol.migration_messages import ArenaSetup
from vhost_backend.worker_protocol.protocol import Ready, SandboxMode, Stats


class ChoiceRecord(Record, frozen=True):
    """Choice of an engine, without the VM's other settings."""

    engine: EngineName
    options: Scalars
    target: Target
    pes: int
    gpu: Gpu | None
    why: str
    unseen: str
    problem: str
    fallback: ChoiceRecord | None

    @classmethod
    def of(cls, choice: Choice) -> ChoiceRecord:
        fallback = None if choice.fallback is None else cls.of(choice.fallback)
        engine = choice.config.engine
        return cls(
            engine.kind,
            dict(engine.options),
            choice.target,
            choice.pes,
            choice.gpu,
            choice.why,
            choice.unseen,
            choice.problem,
            fallback,
        )

    def choice(self, config: VmConfig) -> Choice:
        """The choice, for a VM with these settings."""
        return Choice(
            replace(config, engine=EngineConfig(self.engine, self.options)),
            self.target,
            self.pes,
            self.gpu,
            self.why,
            self.unseen,
            self.problem,
            None if self.fallback is None else self.fallback.choice(config),
        )


class SettingsRecord(Record, frozen=True):
    """Settings with which a VM's frontend is served, whatever the configuration says by now."""

    name: str
    uuid: str
    socket: str | None
    region_bytes: int
    region_file: str | None
    engine: EngineName
    options: Scalars
    quota: QuotaConfig
    deadline_ns: int
    num_queues: int
    sandbox: SandboxMode
    cache_domain: str | None

    @classmethod
    def of(cls, config: VmConfig) -> SettingsRecord:
        return cls(
            config.name,
            str(config.uuid),
            None if config.socket is None else str(config.socket),
            config.region_bytes,
            None if config.region_file is None else str(config.region_file),
            config.engine.kind,
            dict(config.engine.options),
            config.quota,
            config.deadline_ns,
            config.num_queues,
            config.sandbox,
            config.cache_domain,
        )

    def settings(self) -> VmConfig:
        """The settings, without quarters."""
        return VmConfig(
            self.name,
            UUID(self.uuid),
            None if self.socket is None else Path(self.socket),
            self.region_bytes,
            None if self.region_file is None else Path(self.region_file),
            EngineConfig(self.engine, self.options),
            self.quota,
            self.deadline_ns,
            self.num_queues,
            self.sandbox,
            cache_domain=self.cache_domain,
        )


class WorkerRecord(Record, frozen=True):
    """Worker that computes for a guest. Descriptors: link, pidfd, stderr, its source files, its control area and records, its gate."""

    pid: int
    generation: U32
    takeovers: U32
    """Daemons that have taken it over so far."""
    set_up: ChoiceRecord
    arena: ArenaSetup
    given: QuotaConfig
    """Quota with which it was set up."""
    given_deadline_ns: int
    place: tuple[str, U64] | None
    """Name of its control group within the VM's, and OOM kills there that are not its own."""
    ready: Ready | None
    """Its words when it was ready; None: it has not been told its guest's rings."""
    counted_ns: U64
    """Its CPU time that the VM's account has."""
    region_address: U64
    """Device address of the guest's region; 0: kernels do not see it."""


class GuestRecord(Record, frozen=True):
    """State of a VM that its guest relies on, and its accounts. Descriptors: the in-flight memory."""

    choice: ChoiceRecord
    next_generation: U32
    starters: dict[int, int]
    """Generation of the workers that have started each ring."""
    allotment: U32
    first_allotment: U32
    acknowledged: U32
    cpu_ns: tuple[int, int]
    gpu_ns: tuple[int, int, int, int]
    compilations: tuple[int, int, int, int]
    stats: Stats | None
    has_notice: bool
    """The guest has yet to be told that the configuration space has changed."""


class VmRecord(Record, frozen=True):
    """State of a VM that outlasts its frontends."""

    quiesced: bool


class TakeoverRecord(Record, frozen=True):
    """Takeover of a VM's frontend that is under way, or in which a daemon has died."""

    tries: U32
    """Daemons that have begun it since one has come to its end."""


class ProgramNumbers(Record, frozen=True):
    """Numbers of a VM's registered programs. Descriptors: a file with each, but for those that are kept in the daemon's folder."""

    last: U32
    programs: dict[int, bytes]
    """Digests, by number, in the order of registering."""


class HomeRecord(Record, frozen=True):
    """Control group in which VMs have theirs. Descriptors: its locks."""

    version: U32
    folders: dict[str, str]
    """By controller."""
