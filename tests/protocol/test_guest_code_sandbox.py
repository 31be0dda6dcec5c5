"""Guest code that makes system calls of its own: each is refused, and only its own VM's worker suffers.

The kernels are CUDA C with x86 inline assembly, compiled and run by the real daemon, compiler, worker and CPU engine
in the strict sandbox. A second VM of the same daemon, the neighbour, computes before and after.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.protocol.hostile_guest import CHUNK_BYTES, PES, TEXT_AT, Guests, both_guests, vgcd_sockets
from tests.protocol.worker_rig import needs_walls
from vhost_backend.config.daemon import MIB
from virtio_proto.schema import Health, Status

pytestmark = needs_walls


@pytest.fixture(scope="module")
def sockets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    with vgcd_sockets(tmp_path_factory.mktemp("vgcd")) as made:
        yield made


@pytest.fixture
def guests(sockets: tuple[Path, Path]) -> Iterator[Guests]:
    with both_guests(sockets) as made:
        yield made


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
