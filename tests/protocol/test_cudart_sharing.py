"""CUDA programs in several processes of a guest share memory and events, in whatever order they end or die."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest

from tests.limits import HANGS_AFTER_S
from tests.protocol.cuda_programs import TOOLKIT
from tests.protocol.cudart_rig import LIBRARIES
from tests.protocol.guest_host import GuestHost, guest_host, guest_variables

SOURCE: Final = Path(__file__).with_name("cudart_sharing.cu")
SUCCESS: Final = "cudaSuccess"
BYTES: Final = 1 << 20


class Process:
    """A process of the guest that does one call after the other."""

    def __init__(self, hosts: Sequence[GuestHost], program: Path) -> None:
        self.hosts, self.program = hosts, program
        self._process = subprocess.Popen(
            [program],
            env=os.environ | guest_variables(hosts),
            pass_fds=[fd for host in hosts for fd in host.link.fds],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def begin(self, *words: object) -> None:
        """Says a command, without waiting for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def end(self) -> tuple[str, str]:
        """Waits for the command's error and value."""
        assert self._process.stdout is not None
        error, _, value = self._process.stdout.readline().strip().partition(" ")
        return error, value

    def error(self, *words: object) -> str:
        self.begin(*words)
        return self.end()[0]

    def ok(self, *words: object) -> str:
        """Does a call that must succeed, and returns its value."""
        self.begin(*words)
        error, value = self.end()
        assert error == SUCCESS, f"{words}: {error}"
        return value

    def used(self) -> int:
        """Device memory that the VM uses, by the host's books."""
        return int(self.ok("used"))

    def leave(self) -> None:
        """Lets the program end as it likes."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(HANGS_AFTER_S) == 0

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(HANGS_AFTER_S)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("program") / "sharing"
    subprocess.run([TOOLKIT / "bin/mynvcc", SOURCE, "-o", built], check=True, timeout=HANGS_AFTER_S)
    return built


@contextmanager
def processes(hosts: Sequence[GuestHost], program: Path, count: int) -> Iterator[list[Process]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Process(hosts, program)) for _ in range(count)]


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def pair(host: GuestHost, program: Path) -> Iterator[list[Process]]:
    """Two processes; when they have gone, nothing of them is left on the device."""
    with processes([host], program, 1) as (observer,):
        before = observer.used()
    with processes([host], program, 2) as both:
        yield both
    with processes([host], program, 1) as (observer,):  # reaps the dead
        assert observer.used() == before


def shared(exporter: Process, importer: Process) -> str:
    """Address of an allocation that both have."""
    address = exporter.ok("malloc", BYTES)
    assert importer.ok("open", exporter.ok("export", address)) == address
    return address


def folder(path: Path) -> Path:
    path.mkdir()
    return path


# ---- memory ----------------------------------------------------------------------------------------


def test_both_see_what_the_other_writes(pair: list[Process]) -> None:
    exporter, importer = pair
    address = shared(exporter, importer)
    exporter.ok("set", address, 7)
    assert importer.ok("get", address) == "7"
    importer.ok("set", address, 8)
    assert exporter.ok("get", address) == "8"
    importer.ok("close", address)
    assert importer.error("get", address) == "cudaErrorInvalidValue"
    assert exporter.ok("get", address) == "8"
    exporter.ok("free", address)


def test_memory_that_is_freed_lasts_until_it_is_closed(pair: list[Process]) -> None:
    exporter, importer = pair
    empty = importer.used()
    address = shared(exporter, importer)
    importer.ok("set", address, 7)
    handle = exporter.ok("export", address)
    exporter.ok("free", address)
    assert exporter.error("open", handle) == "cudaErrorInvalidResourceHandle"
    assert importer.ok("get", address) == "7"
    assert importer.used() - empty >= BYTES
    importer.ok("close", address)
    assert importer.used() == empty


@pytest.mark.parametrize("end", ["leave", "kill"])
def test_memory_outlives_the_process_that_made_it(pair: list[Process], end: str) -> None:
    exporter, importer = pair
    empty = importer.used()
    address = shared(exporter, importer)
    handle = exporter.ok("export", address)
    exporter.ok("set", address, 7)
    getattr(exporter, end)()
    assert importer.ok("get", address) == "7"
    importer.ok("malloc", 40 << 20)  # with what the other has left: reaps it
    assert importer.error("malloc", 24 << 20) == "cudaErrorMemoryAllocation"
    assert importer.ok("get", address) == "7"
    importer.ok("close", address)
    assert importer.error("open", handle) == "cudaErrorInvalidResourceHandle"
    assert importer.used() - empty < 41 << 20


def test_memory_of_a_dead_user_is_had_again(pair: list[Process]) -> None:
    """The process that made it has freed it, and the one that had it open was killed."""
    exporter, importer = pair
    address = exporter.ok("malloc", 48 << 20)
    importer.ok("open", exporter.ok("export", address))
    exporter.ok("free", address)
    assert exporter.error("malloc", 48 << 20) == "cudaErrorMemoryAllocation"
    importer.kill()
    exporter.ok("malloc", 48 << 20)


def test_user_that_dies_while_its_kernel_runs_leaves_the_owner_alone(pair: list[Process]) -> None:
    exporter, importer = pair
    address = shared(exporter, importer)
    importer.ok("hold", address)
    importer.kill()
    exporter.ok("set", address, 5)
    exporter.ok("free", address)
    exporter.ok("malloc", 60 << 20)  # reaps the dead, whose kernel has been ended


def test_handles_are_of_whole_allocations(pair: list[Process]) -> None:
    exporter, importer = pair
    address = exporter.ok("malloc", BYTES)
    inside = int(address, 16) + BYTES - 1
    assert exporter.ok("export", hex(inside)) == exporter.ok("export", address)
    assert exporter.error("export", hex(inside + 1)) == "cudaErrorInvalidValue"
    assert importer.ok("open", exporter.ok("export", hex(inside))) == address
    assert importer.ok("open", exporter.ok("export", address)) == address
    importer.ok("close", address)
    importer.ok("set", address, 5)  # opened twice, closed once
    importer.ok("close", address)
    assert importer.error("close", address) == "cudaErrorInvalidValue"
    assert importer.error("close", hex(inside)) == "cudaErrorInvalidValue"


def test_handles_that_name_nothing_are_refused(pair: list[Process]) -> None:
    exporter, importer = pair
    address = exporter.ok("malloc", BYTES)
    handle, event = bytearray.fromhex(exporter.ok("export", address)), exporter.ok("eexport", exporter.ok("event"))
    for at, error in (
        (0, "InvalidValue"),
        (8, "InvalidResourceHandle"),
        (30, "InvalidResourceHandle"),
        (63, "InvalidValue"),
    ):
        forged = handle.copy()
        forged[at] ^= 1
        assert importer.error("open", forged.hex()) == f"cudaError{error}"
    for text in ("0" * 128, "f" * 128, event):
        assert importer.error("open", text) == "cudaErrorInvalidValue"
    for text in ("0" * 128, handle.hex()):
        assert importer.error("eopen", text) == "cudaErrorInvalidValue"
    assert importer.error("open", handle.hex(), 0) == "cudaErrorInvalidValue"
    assert importer.error("close", address) == "cudaErrorInvalidValue"
    assert importer.error("export", address) == "cudaErrorInvalidValue"
    assert importer.ok("open", handle.hex()) == address
    assert importer.error("export", address) == "cudaErrorInvalidValue"


def test_a_process_does_not_open_its_own_handles(pair: list[Process]) -> None:
    exporter, _ = pair
    assert exporter.error("open", exporter.ok("export", exporter.ok("malloc", BYTES))) == "cudaErrorDeviceUninitialized"
    assert exporter.error("eopen", exporter.ok("eexport", exporter.ok("event"))) == "cudaErrorDeviceUninitialized"


def test_addresses_that_the_process_uses_otherwise_are_no_place_for_opened_memory(pair: list[Process]) -> None:
    exporter, importer = pair
    address = exporter.ok("malloc", BYTES)
    importer.ok("occupy", address)
    assert importer.error("open", exporter.ok("export", address)) == "cudaErrorMapBufferObjectFailed"
    assert importer.error("close", address) == "cudaErrorInvalidValue"


def test_reset_closes_what_was_opened(pair: list[Process]) -> None:
    exporter, importer = pair
    address = shared(exporter, importer)
    importer.ok("reset")
    assert importer.error("close", address) == "cudaErrorInvalidValue"
    assert importer.ok("open", exporter.ok("export", address)) == address
    exporter.ok("reset")
    importer.ok("set", address, 5)
    assert importer.ok("get", address) == "5"


# ---- events ----------------------------------------------------------------------------------------


def events(exporter: Process, importer: Process) -> tuple[str, str]:
    """Number of the same event in either process."""
    mine = exporter.ok("event")
    return mine, importer.ok("eopen", exporter.ok("eexport", mine))


def release(owner: Process, flag: str) -> None:
    """Ends a kernel that waits for a flag: by a third process, as its own has no stream left for that."""
    handle = owner.ok("export", flag)
    with Process(owner.hosts, owner.program) as third:
        third.ok("open", handle)
        third.ok("set", flag, 1)
        third.ok("close", flag)


def test_either_waits_for_what_the_other_has_recorded(pair: list[Process]) -> None:
    for recorder, waiter in (pair, pair[::-1]):
        flag = recorder.ok("malloc", 4)
        recorder.ok("set", flag, 0)
        mine, yours = events(*pair)
        its, other = (mine, yours) if recorder is pair[0] else (yours, mine)
        recorder.ok("hold", flag)
        recorder.ok("record", its)
        assert waiter.error("query", other) == "cudaErrorNotReady"
        assert recorder.error("query", its) == "cudaErrorNotReady"
        waiter.ok("wait", other)
        waiter.begin("sync", other)
        release(recorder, flag)
        assert waiter.end()[0] == SUCCESS
        waiter.ok("drain")
        recorder.ok("sync", its)
        recorder.ok("drain")


def test_waiting_ends_when_the_recorder_is_killed(pair: list[Process]) -> None:
    exporter, importer = pair
    flag = exporter.ok("malloc", 4)
    exporter.ok("set", flag, 0)
    mine, yours = events(exporter, importer)
    exporter.ok("hold", flag)
    exporter.ok("record", mine)
    importer.begin("sync", yours)
    exporter.kill()
    with Process(importer.hosts, importer.program) as third:
        third.used()  # opens the device, and reaps the dead
    assert importer.end()[0] == SUCCESS
    importer.ok("query", yours)
    importer.ok("record", yours)
    importer.ok("destroy", yours)


def test_event_that_is_destroyed_is_used_on_by_the_other(pair: list[Process]) -> None:
    exporter, importer = pair
    mine, yours = events(exporter, importer)
    handle = exporter.ok("eexport", mine)
    exporter.ok("destroy", mine)
    for command in ("record", "wait", "sync", "query"):
        importer.ok(command, yours)
    assert importer.error("eopen", handle) == "cudaErrorInvalidResourceHandle"
    assert importer.error("eexport", yours) == "cudaErrorInvalidResourceHandle"


def test_record_behind_a_function_of_the_host_is_there_when_the_call_returns(
    pair: list[Process], tmp_path: Path
) -> None:
    exporter, importer = pair
    mine, yours = events(exporter, importer)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    exporter.ok("call", pipe)
    exporter.begin("record", mine)
    pipe.open("w").close()  # lets the function go on
    assert exporter.end() == (SUCCESS, "1"), "the function has not run yet"
    importer.ok("sync", yours)


# ---- devices ---------------------------------------------------------------------------------------


def test_handles_are_of_one_device(program: Path, tmp_path: Path) -> None:
    with ExitStack() as stack:
        hosts = [stack.enter_context(guest_host(folder(tmp_path / name), name=name)) for name in ("one", "two")]
        exporter, importer = stack.enter_context(processes(hosts, program, 2))
        address = exporter.ok("malloc", BYTES)
        handle, event = exporter.ok("export", address), exporter.ok("eexport", exporter.ok("event"))
        importer.ok("use", 1)
        assert importer.error("open", handle) == "cudaErrorInvalidResourceHandle"
        assert importer.error("eopen", event) == "cudaErrorInvalidResourceHandle"
        importer.ok("use", 0)
        assert importer.ok("open", handle) == address


def test_handles_of_a_worker_that_died_name_nothing(program: Path, tmp_path: Path) -> None:
    with guest_host(tmp_path) as host, processes([host], program, 2) as (exporter, importer):
        address = shared(exporter, importer)
        handle = exporter.ok("export", address)
        mine, yours = events(exporter, importer)
        event = exporter.ok("eexport", mine)
        host.kill_worker()
        host.link.wait_ready(generation=2)
        assert importer.error("get", address) == "cudaErrorDevicesUnavailable"
        assert importer.error("query", yours) == "cudaErrorDevicesUnavailable"
        importer.ok("reset")
        assert importer.error("open", handle) == "cudaErrorInvalidResourceHandle"
        assert importer.error("eopen", event) == "cudaErrorInvalidResourceHandle"


@pytest.mark.parametrize(("exporter", "importer"), [("11.0", "12"), ("12", "13"), ("13", "11.0")])
def test_processes_may_have_different_versions_of_cuda(host: GuestHost, exporter: str, importer: str) -> None:
    child = Path(__file__).with_name("cudart_sharing_child.py")
    done = host.python(child, *(LIBRARIES / f"libcudart.so.{version}" for version in (exporter, importer)))
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stdout + done.stderr
