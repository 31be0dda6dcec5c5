"""Guest code that makes system calls of its own: each is refused, and only its own VM's worker suffers.

The kernels are CUDA C with x86 inline assembly, compiled and run by the real daemon, compiler, worker and CPU engine
in the strict sandbox. A second VM of the same daemon, the neighbour, computes before and after.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.fakes.daemon import DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.protocol.worker_rig import needs_walls
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from vhost_backend.sandbox.syscalls import X86_64
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, ProgramKind, Status

pytestmark = needs_walls

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

    def __init__(self, vm: FakeVm) -> None:
        self.vm = vm
        self.start()

    def start(self) -> None:
        """Creates context, program and buffer anew, as a program that has lost its device."""
        self.context = self.vm.driver.request(Opcode.CONTEXT_CREATE).value
        source = SOURCE.encode()
        body = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": len(source)}
        loaded = self.request(Opcode.PROGRAM_LOAD, body, source)
        assert loaded.status == Status.OK, loaded.text
        self.buffer = self.request(Opcode.ALLOC, {"size": 4096}).value

    def request(
        self,
        opcode: Opcode,
        body: Mapping[str, object],
        trailing: bytes = b"",
        payload: bytes = b"",
        answer: int = 2048,
    ) -> Reply:
        return self.vm.driver.request(opcode, body, trailing, payload, answer, context=self.context)

    def launch(self, name: str, *params: int) -> Reply:
        found = self.request(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
        blob = struct.pack(f"<Q{len(params)}q", self.buffer, *params)
        body = {"function": found.value, "grid": [1, 1, 1], "block": [1, 1, 1], "param_len": len(blob)}
        return self.request(Opcode.LAUNCH, body, blob)

    def put(self, offset: int, data: bytes) -> int:
        """Writes into the buffer; returns the address."""
        body = {"dst": self.buffer + offset, "size": len(data)}
        assert self.request(Opcode.COPY_IN, body, b"", data).status == Status.OK
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


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    folder = tmp_path_factory.mktemp("vgcd")
    quota = QuotaConfig(pes=PES, memory_bytes=MEMORY_BYTES)
    vms = tuple(
        VmConfig(
            name,
            vm_uuid(name),
            folder / name,
            REGION_BYTES,
            engine=EngineConfig("cpu"),
            quota=quota,
            num_queues=2,
            sandbox="strict",
        )
        for name in ("attacker", "neighbour")
    )
    config = DaemonConfig(vms, cache=folder / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)):
        yield folder / "attacker", folder / "neighbour"


@pytest.fixture
def guests(sockets: tuple[Path, Path]) -> Iterator[Guests]:
    """Both VMs. At the end of each test the neighbour still has its first worker and its program."""
    with ExitStack() as stack:
        attacker, neighbour = (Guest(stack.enter_context(FakeVm(path))) for path in sockets)
        before = neighbour.generation()
        yield Guests(attacker, neighbour)
        assert neighbour.computes()
        assert neighbour.generation() == before


def test_system_calls_of_kernels_do_reach_the_kernel(guests: Guests) -> None:
    """Otherwise the refusals below would prove nothing."""
    assert guests.attacker.result(guests.attacker.call("getpid")) == 2


def test_no_descriptor_shared_with_qemu_can_be_made_to_block(guests: Guests) -> None:
    """O_NONBLOCK belongs to the open file: QEMU would block for ever on an eventfd that a kernel has drained."""
    attacker = guests.attacker
    setfl, fionbio = 4, 0x5421
    off = attacker.put(TEXT_AT, bytes(4))
    for fd in range(3, 40):
        assert attacker.result(attacker.call("fcntl", fd, setfl, 0)) == -errno.EPERM
        assert attacker.result(attacker.call("ioctl", fd, fionbio, off)) == -errno.EPERM


def test_worker_whose_descriptors_are_closed_is_replaced(guests: Guests) -> None:
    """Otherwise the worker would hang unnoticed: close() does not end a wait on a descriptor."""
    attacker = guests.attacker
    before = attacker.generation()
    attacker.call("close_range", 3, 1000)
    attacker.vm.frontend.wait_for_config(lambda space: space.generation > before and space.health == Health.READY)
    attacker.start()
    assert attacker.computes()


@pytest.mark.parametrize("path", [b"/etc/passwd", b"/", b"/proc/self/mem", b"/dev/null"])
def test_no_file_can_be_opened(guests: Guests, path: bytes) -> None:
    attacker = guests.attacker
    address = attacker.put(TEXT_AT, path + b"\0")
    assert attacker.result(attacker.call("open", address)) == -errno.EPERM
    assert attacker.result(attacker.call("openat", -100, address)) == -errno.EPERM


@pytest.mark.parametrize("family", [1, 2, 10, 16, 40])
def test_no_socket_can_be_made(guests: Guests, family: int) -> None:
    assert guests.attacker.result(guests.attacker.call("socket", family, 1)) == -errno.EPERM


@pytest.mark.parametrize("name", ["sendmsg", "sendmmsg"])
def test_no_descriptor_can_be_sent(guests: Guests, name: str) -> None:
    """The kernel counts descriptors in flight for all processes of a user; a flood would cut off other workers."""
    attacker = guests.attacker
    address = attacker.put(TEXT_AT, bytes(64))
    for fd in range(32):
        assert attacker.result(attacker.call(name, fd, address, 0, 0)) == -errno.EPERM


def test_no_program_can_be_executed(guests: Guests) -> None:
    address = guests.attacker.put(TEXT_AT, b"/bin/sh\0")
    assert guests.attacker.result(guests.attacker.call("execve", address)) == -errno.EPERM


@pytest.mark.parametrize(("name", "flags"), [("fork", 0), ("vfork", 0), ("clone", 17), ("clone", 0x4111)])
def test_no_process_can_be_made(guests: Guests, name: str, flags: int) -> None:
    assert guests.attacker.result(guests.attacker.call(name, flags)) == -errno.EPERM


@pytest.mark.parametrize(
    ("name", "arguments"),
    [("kill", (1, 9)), ("kill", (-1, 9)), ("kill", (0, 9)), ("tkill", (1, 9)), ("tgkill", (1, 1, 9))],
)
def test_no_other_process_can_be_signalled(guests: Guests, name: str, arguments: tuple[int, ...]) -> None:
    assert guests.attacker.result(guests.attacker.call(name, *arguments)) == -errno.EPERM


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("memfd_create", (0, 0)),
        ("mmap", (0, 4096, 3, 0x21, -1, 0)),  # shared and anonymous
        ("mmap", (0, 4096, 3, 0x122, -1, 0)),  # growing downwards
        ("mlockall", (1,)),
        ("shmget", (0, 4096, 0o1600)),
        ("pipe2", (0, 0)),
        ("setrlimit", (9, 0)),
    ],
)
def test_no_memory_can_be_allocated_outside_of_the_limits(
    guests: Guests, name: str, arguments: tuple[int, ...]
) -> None:
    assert guests.attacker.result(guests.attacker.call(name, *arguments)) == -errno.EPERM


def test_memory_ends_at_the_limit(guests: Guests) -> None:
    attacker = guests.attacker
    chunks = attacker.result(attacker.launch("take_memory", CHUNK_BYTES))
    assert 1 <= chunks * CHUNK_BYTES <= 512 * MIB


def test_threads_end_at_the_limit(guests: Guests) -> None:
    assert 1 <= guests.attacker.result(guests.attacker.launch("take_threads")) <= PES + 8


def test_no_file_of_the_worker_can_be_grown(guests: Guests) -> None:
    assert guests.attacker.result(guests.attacker.launch("take_disk", 1 << 30)) == 0


@pytest.mark.parametrize(
    "name", ["ptrace", "process_vm_readv", "process_vm_writev", "unshare", "mount", "bpf", "io_uring_setup", "setns"]
)
def test_hostile_call_costs_the_vm_its_worker(guests: Guests, name: str) -> None:
    attacker = guests.attacker
    before = attacker.generation()
    assert attacker.call(name, 16, 1).status != Status.OK
    attacker.start()
    assert attacker.computes()
    assert attacker.generation() == before + 1


def test_calls_of_the_32_bit_kind_cost_the_vm_its_worker(guests: Guests) -> None:
    attacker = guests.attacker
    assert attacker.launch("attempt_32_bit").status != Status.OK
    attacker.start()
    assert attacker.computes()


def test_ending_a_worker_ends_no_other_worker(guests: Guests) -> None:
    attacker = guests.attacker
    assert attacker.call("exit_group", 0).status == Status.DEVICE_LOST
    attacker.start()
    assert attacker.computes()
