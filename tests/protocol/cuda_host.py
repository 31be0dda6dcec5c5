"""A daemon whose VMs compute on the CUDA engine, with the real compilers and the fake driver in place of a GPU."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.fakes import cuda_driver
from tests.fakes.attached import AttachedLink
from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import NO_DEADLINE_NS
from vhost_backend.cgroups.limits import USUAL_WEIGHT
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, SandboxMode, VmConfig, vm_uuid
from vhost_backend.config.engine import EngineName
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.engines import host_engines
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, ProgramKind, QueryKind, Status
from virtio_proto.yaml_values import Scalar

STRICT: Final[SandboxMode] = "off" if SANDBOX == "off" else "strict"
TEXT_BYTES: Final = 4096
MEMORY_BYTES: Final = 16 * MIB
SOURCE: Final = b"""
extern "C" __global__ void add_one(unsigned *data, unsigned count) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i]++;
}
extern "C" __global__ void saxpy(unsigned count, float a, const float *x, float *y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] += a * x[i];
}
extern "C" __global__ void illegal_address() { *(volatile int *)0 = 1; }
extern "C" __global__ void hang() { for (;;) {} }
extern "C" __global__ void fails() { asm("trap;"); }
"""
"""Source whose kernels the fake driver has, by name."""

PRINTS: Final = b"""
extern "C" __global__ void prints(unsigned lines) { for (unsigned i = 0; i < lines; i++) printf("hello %u\\n", i); }
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one VM."""

    name: str = "a"
    kind: EngineName = "cuda"
    pes: int | None = 48
    options: Mapping[str, Scalar] = field(default_factory=dict)
    sandbox: SandboxMode = STRICT
    deadline_ns: int = NO_DEADLINE_NS
    weight: int = USUAL_WEIGHT


class CudaGuest:
    """A context of a VM's guest."""

    def __init__(self, vm: FakeVm) -> None:
        self.vm = vm
        vm.frontend.wait_health(Health.READY)
        self.context = vm.driver.request(Opcode.CONTEXT_CREATE).value

    def request(
        self,
        opcode: Opcode,
        body: Mapping[str, object] | bytes = b"",
        trailing: bytes = b"",
        payload: bytes = b"",
        answer: int = TEXT_BYTES,
    ) -> Reply:
        return self.vm.driver.request(opcode, body, trailing, payload, answer, context=self.context)

    def ok(
        self,
        opcode: Opcode,
        body: Mapping[str, object] | bytes = b"",
        trailing: bytes = b"",
        payload: bytes = b"",
        answer: int = TEXT_BYTES,
    ) -> Reply:
        reply = self.request(opcode, body, trailing, payload, answer)
        assert reply.status == Status.OK, reply.text
        return reply

    def load(self, source: bytes, kind: ProgramKind = ProgramKind.CUDA_SOURCE, options: bytes = b"") -> Reply:
        body = {"kind": kind, "options_len": len(options), "source_len": len(source)}
        return self.request(Opcode.PROGRAM_LOAD, body, options + source)

    def alloc(self, data: bytes) -> int:
        """Allocates device memory that holds `data`."""
        address = self.ok(Opcode.ALLOC, {"size": len(data)}).value
        self.ok(Opcode.COPY_IN, {"dst": address, "size": len(data)}, b"", data)
        return address

    def read(self, address: int, size: int) -> bytes:
        return self.ok(Opcode.COPY_OUT, {"src": address, "size": size}, answer=size).payload

    def launch(self, name: str, params: bytes = b"", threads: int = 1) -> Reply:
        found = self.ok(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
        shape = {"grid": [1, 1, 1], "block": [threads, 1, 1]}
        return self.request(Opcode.LAUNCH, {"function": found.value, **shape, "param_len": len(params)}, params)

    def computes(self) -> bool:
        """Loads a program, runs it on a buffer, and returns whether the result is right."""
        assert self.load(SOURCE).status == Status.OK
        address = self.alloc(struct.pack("<4I", 1, 2, 3, 4))
        reply = self.launch("add_one", struct.pack("<QI", address, 4), threads=4)
        assert reply.status == Status.OK, reply.text
        return struct.unpack("<4I", self.read(address, 16)) == (2, 3, 4, 5)

    def output(self) -> bytes:
        """Output of kernels since the last call."""
        return self.request(Opcode.QUERY, {"what": QueryKind.OUTPUT}, answer=1 << 16).payload

    def generation(self) -> int:
        return int(schema.CONFIG.construct.parse(self.vm.frontend.config_read()).generation)


def driver_of(folder: Path, fake: str = "") -> Path:
    """The fake driver's library for the host in `folder`, as strict as a real one; `fake`: further lines for its settings."""
    made = folder / "driver"
    made.mkdir()
    made.chmod(0o755)  # workers of root run as nobody
    return cuda_driver.with_settings(made, "\n".join((*cuda_driver.STRICT, fake)))


@contextmanager
def cuda_daemon(folder: Path, *settings: Settings, fake: str = "") -> Iterator[DaemonThread]:
    """Serves each VM at a socket of its name in `folder`, on a fake GPU as strict as a real one.

    `fake`: further lines for the fake driver's settings.
    """
    library = driver_of(folder, fake)
    vms = tuple(
        VmConfig(
            one.name,
            vm_uuid(one.name),
            folder / one.name,
            REGION_BYTES,
            engine=EngineConfig(one.kind, {"driver": str(library), **one.options}),
            quota=QuotaConfig(pes=one.pes, memory_bytes=MEMORY_BYTES, weight=one.weight),
            deadline_ns=one.deadline_ns,
            num_queues=2,
            sandbox=one.sandbox,
        )
        for one in settings
    )
    config = DaemonConfig(vms, cache=folder / "cache")
    with DaemonThread(
        config, sandboxed_worker, compiler=compile_service(config), engines=host_engines(has_control=False)
    ) as daemon:
        yield daemon


@contextmanager
def cuda_host(folder: Path, *settings: Settings, fake: str = "") -> Iterator[tuple[FakeVm, ...]]:
    """The VMs, each with a frontend connected."""
    with cuda_daemon(folder, *settings, fake=fake), ExitStack() as stack:
        yield tuple(stack.enter_context(FakeVm(folder / one.name)) for one in settings)


@contextmanager
def cuda_link(folder: Path, settings: Settings) -> Iterator[AttachedLink]:
    """A daemon with one VM, and the guest's link to it."""
    with cuda_daemon(folder, settings), AttachedLink(folder / settings.name, region_bytes=REGION_BYTES) as link:
        link.wait_ready()
        yield link
