"""Programs that bring more memory than their VM may have: refused before a byte of it is mapped, and none is kept."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.vm import REGION_BYTES, FakeVm
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto import schema
from virtio_proto.schema import Opcode, ProgramKind, QueryKind, Status

QUOTA: Final = 32 * MIB
SMALL: Final = 'extern "C" __global__ void f(int i) {}'
MANY: Final = "".join(f"__device__ unsigned char a{n}[1 << 20] = {{1}};\n" for n in range(20))
TEMPLATE: Final = """
template <int N> struct S { static __device__ char a[100 << 20]; };
template <int N> __device__ char S<N>::a[100 << 20];
"""
SUM: Final = " + ".join(f"a{n}[i]" for n in range(20))
TOO_LARGE: Final = {
    "zeroes": (200, '__device__ char a[200 << 20]; extern "C" __global__ void f(int i) { a[i] = 1; }'),
    "nearly as much as a program may have": (
        1900,
        '__device__ char a[1900ull << 20]; extern "C" __global__ void f(int i) { a[i] = 1; }',
    ),
    "constant": (200, '__constant__ char a[200 << 20]; extern "C" __global__ void f(char *to) { *to = a[*to]; }'),
    "static": (200, 'static __device__ char a[200 << 20]; extern "C" __global__ void f(int i) { a[i] = 1; }'),
    "in a template": (
        200,
        TEMPLATE + 'extern "C" __global__ void f(int i) { S<1>::a[i] = 1; S<2>::a[i] = 1; }',
    ),
    "contents, and the image that has them": (
        40,
        '__device__ char a[20 << 20] = {1}; extern "C" __global__ void f(int i) { a[i] = 1; }',
    ),
    "many with contents": (40, MANY + f'extern "C" __global__ void f(char *to, int i) {{ *to = {SUM}; }}'),
}
"""MiB that the program takes at least, and its source."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[DaemonThread, Path]]:
    """A daemon, and the socket of its VM."""
    folder = tmp_path_factory.mktemp("vgcd")
    vm = VmConfig(
        "a",
        vm_uuid("a"),
        folder / "a",
        REGION_BYTES,
        engine=EngineConfig("cpu"),
        quota=QuotaConfig(pes=2, memory_bytes=QUOTA),
        sandbox=SANDBOX,
    )
    config = DaemonConfig((vm,), cache=folder / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as made:
        yield made, folder / "a"


class Guest:
    """A context, and the worker that serves it."""

    def __init__(self, daemon: DaemonThread, vm: FakeVm) -> None:
        self._daemon, self._vm = daemon, vm
        self.context = vm.driver.request(Opcode.CONTEXT_CREATE).value

    def request(self, opcode: Opcode, context: int, body: dict[str, object] | bytes, trailing: bytes = b"") -> Reply:
        return self._vm.driver.request(opcode, body, trailing, writable_len=4096, context=context)

    def load(self, source: str) -> Reply:
        body: dict[str, object] = {"kind": ProgramKind.CUDA_SOURCE, "source_len": len(source)}
        return self.request(Opcode.PROGRAM_LOAD, self.context, body, source.encode())

    def unload(self, program: int) -> None:
        assert self.request(Opcode.PROGRAM_UNLOAD, self.context, {"program": program}).status == Status.OK

    def alloc(self, size: int) -> Reply:
        return self.request(Opcode.ALLOC, self.context, {"size": size})

    def used(self) -> int:
        payload = self.request(Opcode.QUERY, 0, {"what": QueryKind.USAGE}).payload
        return int(schema.USAGE.construct.parse(payload).memory_used_bytes)

    def most_mapped(self) -> int:
        """Most bytes of address space that the worker, or what started it, has ever had."""
        pid = self._daemon.ask(lambda daemon: daemon.vms["a"].worker_pid)
        assert pid is not None
        return max(map(_most_mapped, [pid, *_children(pid)]))


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _most_mapped(pid: int) -> int:
    found = re.search(r"^VmPeak:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


@pytest.fixture
def guest(daemon: tuple[DaemonThread, Path]) -> Iterator[Guest]:
    made, socket_path = daemon
    with FakeVm(socket_path) as vm:
        yield Guest(made, vm)


def refused(reply: Reply) -> tuple[int, int]:
    """Bytes that a refused program takes, and bytes that were free."""
    assert reply.status == Status.OUT_OF_MEMORY, reply.text
    found = re.fullmatch(
        rf"the program takes (\d+) bytes of device memory, (\d+) of {QUOTA} bytes free; the host's operator .*",
        reply.text,
    )
    assert found is not None, reply.text
    return int(found[1]), int(found[2])


@pytest.mark.parametrize("form", TOO_LARGE)
def test_all_that_a_program_brings_counts(guest: Guest, form: str) -> None:
    least, source = TOO_LARGE[form]
    before = guest.load(SMALL)
    guest.unload(before.value)
    mapped = guest.most_mapped()
    taken, free = refused(guest.load(source))
    assert least * MIB < taken < (least + 1) * MIB
    assert free == QUOTA
    assert guest.most_mapped() < mapped + QUOTA
    assert guest.used() == 0
    assert guest.load(SMALL).status == Status.OK


@pytest.mark.parametrize("mib", [60, 200, 1 << 10, 1 << 14])
def test_images_that_no_one_would_store_are_compile_errors(guest: Guest, mib: int) -> None:
    """One byte of contents makes the compiler write out the whole array."""
    reply = guest.load(
        f'__device__ char a[{mib}ull << 20] = {{1}}; extern "C" __global__ void f(int i) {{ a[i] = 1; }}'
    )
    if mib < 64:
        refused(reply)
    else:
        assert reply.status == Status.COMPILE_FAILED
        assert (
            "the compiler was stopped: it wrote a file of more than 67108864 bytes" in reply.text
            if mib < 256
            else re.search(r"the program's variables .*have \d+ bytes \(allowed: \d+\)", reply.text)
        )
    assert guest.used() == 0


def test_programs_and_allocations_share_the_quota(guest: Guest) -> None:
    source = '__device__ char a[12 << 20]; extern "C" __global__ void f(int i) { a[i] = 1; }'
    programs = [guest.load(source) for _ in range(2)]
    assert [program.status for program in programs] == [Status.OK] * 2
    free = QUOTA - guest.used()
    assert refused(guest.load(source))[1] == free
    assert guest.alloc(free + 1).status == Status.OUT_OF_MEMORY
    assert guest.alloc(free // 4096 * 4096).status == Status.OK
    assert refused(guest.load(SMALL))[1] == QUOTA - guest.used()
    guest.unload(programs[0].value)
    assert guest.load(source).status == Status.OK


def test_unloaded_programs_leave_nothing_behind(guest: Guest) -> None:
    source = '__device__ char a[25 << 20]; extern "C" __global__ void f(int i) { a[i] = 1; }'
    for _ in range(20):
        loaded = guest.load(source)
        assert loaded.status == Status.OK, loaded.text
        assert guest.used() > 25 * MIB
        guest.unload(loaded.value)
        assert guest.used() == 0
    guest.load(source)
    assert guest.request(Opcode.CONTEXT_DESTROY, guest.context, b"").status == Status.OK
    assert guest.used() == 0


def test_memory_of_threads_counts(guest: Guest) -> None:
    """An array that lives across a barrier, of every thread that can run at once."""
    source = 'extern "C" __global__ void f(char *to, int i) {{ char a[{}]; a[i] = i; __syncthreads(); *to = a[*to]; }}'
    taken, _ = refused(guest.load(source.format(60000)))
    assert taken > 2 * 1024 * 60000
    assert guest.load(source.format(8000)).status == Status.OK
    assert guest.used() > 2 * 1024 * 8000


def test_functions_count(guest: Guest) -> None:
    """A worker keeps tables of them, which take more than their code."""
    assert guest.load(SMALL).status == Status.OK
    one = guest.used()
    many = "".join(f'extern "C" __global__ void f{n}(int i, int j, int k) {{}}\n' for n in range(200))
    assert guest.load(many).status == Status.OK
    assert guest.used() - one > 200 * 1024
