"""A VM whose kernels are hostile, and its neighbour, under the real daemon, compiler, worker and CPU engine.

The kernels are CUDA C with x86 inline assembly. Tests add kernels of their own to `SOURCE`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.fakes.daemon import DaemonThread
from tests.fakes.driver import Pending, Reply
from tests.fakes.vm import REGION_BYTES, FakeVm
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.heartbeat import Pace
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.quarters import NOWHERE, Quarters
from vhost_backend.sandbox.syscalls import X86_64
from virtio_proto import schema
from virtio_proto.schema import Opcode, ProgramKind, Status
from virtio_proto.yaml_values import NS_PER_S

PES = 2
MEMORY_BYTES = 16 * MIB
CHUNK_BYTES = 16 * MIB
TEXT_AT = 256
"""Offset of a path in the buffer; long results are at offset 0."""

SOURCE = r"""
static __device__ long call(long number, long a, long b, long c, long d, long e, long f) {
    long result;
    asm volatile("movq %5, %%r10; movq %6, %%r8; movq %7, %%r9; syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d), "r"(e), "r"(f)
                 : "rcx", "r8", "r9", "r10", "r11", "memory");
    return result;
}

extern "C" __global__ void attempt(long *out, long number, long a, long b, long c, long d, long e, long f) {
    *out = call(number, a, b, c, d, e, f);
}

extern "C" __global__ void attempt_32_bit(long *out) {
    int result;
    asm volatile("int $0x80" : "=a"(result) : "a"(20) : "memory"); /* getpid */
    *out = result;
}

/* Takes private memory and uses it until there is no more. */
extern "C" __global__ void take_memory(long *out, long chunk) {
    long count = 0;
    for (;; count++) {
        long at = call(9, 0, chunk, 3, 0x22, -1, 0);
        if (at < 0 && at > -4096) break;
        for (long offset = 0; offset < chunk; offset += 4096) ((volatile char *)at)[offset] = 1;
    }
    *out = count;
}

/* Starts threads that wait for ever, until there are no more. */
extern "C" __global__ void take_threads(long *out) {
    long count = 0;
    for (;; count++) {
        long result;
        asm volatile("syscall; test %%rax, %%rax; jnz 2f; 1: movl $34, %%eax; syscall; jmp 1b; 2:"
                     : "=a"(result)
                     : "a"(56L), "D"(0x10f00L), "S"((char *)out + 1024), "d"(0L)
                     : "rcx", "r8", "r9", "r10", "r11", "memory");
        if (result < 0) break;
    }
    *out = count;
}

/* Tries to grow every file that the worker holds. */
extern "C" __global__ void take_disk(long *out, long size) {
    long count = 0;
    for (long fd = 0; fd < 1024; fd++) count += call(77, fd, size, 0, 0, 0, 0) == 0;
    *out = count;
}

extern "C" __global__ void twice(int *data) { *data *= 2; }
"""


class Guest:
    """A VM with the program loaded and a buffer."""

    def __init__(self, vm: FakeVm, more_source: str = "") -> None:
        self.vm = vm
        self._source = (SOURCE + more_source).encode()
        self.start()

    def start(self) -> None:
        """Creates context, program and buffer anew, as a program that has lost its device."""
        self.context = self.vm.driver.request(Opcode.CONTEXT_CREATE).value
        body = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": len(self._source)}
        loaded = self.request(Opcode.PROGRAM_LOAD, body, self._source)
        assert loaded.status == Status.OK, loaded.text
        self.buffer = self.request(Opcode.ALLOC, {"size": 4096}).value

    def request(
        self,
        opcode: Opcode,
        body: Mapping[str, object],
        trailing: bytes = b"",
        payload: bytes = b"",
        answer: int = 2048,
        *,
        stream: int = 0,
    ) -> Reply:
        return self.vm.driver.request(opcode, body, trailing, payload, answer, context=self.context, stream=stream)

    def launch(self, name: str, *params: int) -> Reply:
        return self.vm.driver.wait(self.start_launch(name, *params))

    def start_launch(self, name: str, *params: int, stream: int = 0) -> Pending:
        """Launches a kernel with the buffer's address and `params`; for kernels that may never end."""
        found = self.request(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
        blob = struct.pack(f"<Q{len(params)}q", self.buffer, *params)
        body = {"function": found.value, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": len(blob)}
        return self.vm.driver.submit(Opcode.LAUNCH, body, blob, context=self.context, stream=stream, writable_len=2048)

    def put(self, offset: int, data: bytes, stream: int = 0) -> int:
        """Writes into the buffer; returns the address."""
        body = {"dst": self.buffer + offset, "size": len(data)}
        assert self.request(Opcode.COPY_IN, body, b"", data, stream=stream).status == Status.OK
        return self.buffer + offset

    def result(self, reply: Reply) -> int:
        """Result that a kernel wrote at the start of the buffer."""
        assert reply.status == Status.OK, reply.text
        out = self.request(Opcode.COPY_OUT, {"src": self.buffer, "size": 8}, answer=8)
        return int(struct.unpack("<q", out.payload)[0])

    def call(self, name: str, *arguments: int) -> Reply:
        padded = (*arguments, *(0 for _ in range(6 - len(arguments))))
        return self.launch("attempt", X86_64[name], *padded)

    def computes(self) -> bool:
        self.put(0, struct.pack("<q", 21))
        return self.result(self.launch("twice")) == 42

    def generation(self) -> int:
        return int(schema.CONFIG.construct.parse(self.vm.frontend.config_read()).generation)


class Guests:
    """The VM whose code is hostile, and its neighbour."""

    def __init__(self, attacker: Guest, neighbour: Guest) -> None:
        self.attacker, self.neighbour = attacker, neighbour


@contextmanager
def vgcd_sockets(
    folder: Path,
    pace: Pace | None = None,
    deadline_ns: int = 10 * NS_PER_S,
    quarters: Callable[[str], Quarters] = lambda _vm: NOWHERE,
) -> Iterator[tuple[Path, Path]]:
    """A daemon in a thread; the sockets of the attacker's VM and of its neighbour's."""
    with vgcd(folder, pace, deadline_ns, quarters):
        yield folder / "attacker", folder / "neighbour"


@contextmanager
def vgcd(
    folder: Path,
    pace: Pace | None = None,
    deadline_ns: int = 10 * NS_PER_S,
    quarters: Callable[[str], Quarters] = lambda _vm: NOWHERE,
) -> Iterator[DaemonThread]:
    """A daemon in a thread, with its sockets in `folder`, by the VMs' names. `quarters`: of a VM, by its name."""
    quota = QuotaConfig(pes=PES, memory_bytes=MEMORY_BYTES)
    vms = tuple(
        VmConfig(
            name,
            vm_uuid(name),
            folder / name,
            REGION_BYTES,
            engine=EngineConfig("cpu"),
            quota=quota,
            deadline_ns=deadline_ns,
            num_queues=2,
            sandbox="strict",
            quarters=quarters(name),
        )
        for name in ("attacker", "neighbour")
    )
    config = DaemonConfig(vms, cache=folder / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config), pace=pace) as daemon:
        yield daemon


@contextmanager
def both_guests(sockets: tuple[Path, Path], more_source: str = "") -> Iterator[Guests]:
    """Both VMs. At the end the neighbour still has its first worker and its program."""
    with ExitStack() as stack:
        attacker, neighbour = (Guest(stack.enter_context(FakeVm(path)), more_source) for path in sockets)
        before = neighbour.generation()
        yield Guests(attacker, neighbour)
        assert neighbour.computes()
        assert neighbour.generation() == before
