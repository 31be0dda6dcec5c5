"""Deaths of a worker at chosen steps of a request, with nothing in the worker's code for it.

The in-flight memory tells each step by a store. The processor stops a worker's thread behind its next store to one of these
places (a hardware watchpoint, by ptrace), and the worker is killed there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final, TypeAlias

from tests.processes import descendants
from tests.waiting import threads_of, until
from vhost_backend.daemon.inflight import HEADER_BYTES, MAX_QUEUES, QUEUE_BYTES, SIZE_BYTES, InflightMemory

MEMORY: Final = "vgc-inflight"
"""Name of the in-flight memory among a worker's mappings."""

Launchers: TypeAlias = Callable[[], list[int]]
"""Finds the launchers of a daemon's worker and compilers."""

GUEST: Final = """
import os, sys
import numpy as np
import guest_driver as vgc

SOURCE = '''
extern "C" __global__ void step%d(int n, int rounds, unsigned *out, const unsigned *data) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = data[i];
    for (int round = 0; round < rounds; round++) x = 1664525 * x + 1013904223;
    out[i] = x;
}
'''
N, ROUNDS = 1 << 20, 100
own, folder = int(sys.argv[1]), sys.argv[2]
numbers = np.arange(N, dtype=np.uint32)
right = numbers.copy()
for _ in range(ROUNDS):
    right = np.uint32(1664525) * right + np.uint32(1013904223)
recoveries, losses, done, data, out = 0, 0, 0, None, None

def put_back(device):
    global recoveries
    recoveries += 1
    for array in (data, out):
        if array is not None:
            array.set(numbers)

with vgc.Device(recover=True, on_recovered=put_back) as dev:
    while not os.path.exists(folder + "/enough"):
        try:
            if out is None:
                data = dev.to_device(numbers)
                out = dev.to_device(numbers)
            step = dev.compile(SOURCE % (2 * (done + losses) + own))["step%d" % (2 * (done + losses) + own)]
            for _ in range(4):
                step.launch(N // 256, 256, N, ROUNDS, out, data, repeat=True)
            assert (out.get() == right).all(), "a wrong result"
            for _ in range(4):
                out.copy_from(data)  # one request, which the worker does in pieces
            assert (out.get() == numbers).all(), "a wrong copy"
            done += 1
            open(folder + "/done-%d" % own, "a").write(".")
        except vgc.ObjectLost:
            raise
        except vgc.DeviceLost:
            losses += 1
    print(done, losses, recoveries, dev.info().generation)
"""
"""Guest's program: compiles, copies and launches in rounds, checks the results, and goes on after each loss.

Arguments: its number, and a folder, where `done-NUMBER` grows by a byte with each round, and `enough` ends it. It prints numbers of rounds, of
losses that it heard of, and of recoveries, and the generation of its last worker.
"""

_PEEKUSER, _POKEUSER, _CONT, _SEIZE, _INTERRUPT = 3, 6, 7, 0x4206, 0x4207
_EVENT_STOP: Final = 128
_INSTRUCTION_POINTER: Final = 128
"""Offset of regs.rip in struct user of x86-64."""
_DEBUG_REGISTERS: Final = 848
"""Offset of u_debugreg in struct user of x86-64."""
_TWO_BYTES, _EIGHT_BYTES = 1, 2
"""Lengths of what a watchpoint watches, as debug register 7 has them."""
_WALL: Final = 0x40000000
_HEADS, _HEADS_BYTES = 32, 32
"""Place and size of the heads in flight within a queue's part of the in-flight memory."""

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes, _libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long


class Step(IntEnum):
    """Step of a request, as the offset of the number in the in-flight memory that it changes."""

    COPYING = 16
    """pieces: a piece of a long copy is done, and more are to come."""
    POPPED = HEADER_BYTES + 4
    """last_avail: the request was noted, and nothing else happened."""
    ANSWERED = HEADER_BYTES + 8
    """last_push: the answer was written, and the used ring does not have it."""
    RETURNED = HEADER_BYTES + 6
    """used_idx: the used ring has the answer, and the driver was not called."""

    def place(self, queue: int) -> int:
        """Offset for a queue."""
        return self if self is Step.COPYING else self + queue * QUEUE_BYTES

    @property
    def length(self) -> int:
        """Length of the number, as a watchpoint has it."""
        return _EIGHT_BYTES if self is Step.COPYING else _TWO_BYTES

    def is_seen(self, memory: bytes, queue: int) -> bool:
        """Whether in-flight memory in which the step is done has a request in flight, where one must be."""
        queues = {Step.COPYING: range(MAX_QUEUES), Step.RETURNED: range(0)}.get(self, range(queue, queue + 1))
        heads = [HEADER_BYTES + each * QUEUE_BYTES + _HEADS for each in queues]
        return not heads or any(any(memory[at : at + _HEADS_BYTES]) for at in heads)


def worker_of(launchers: list[int]) -> int | None:
    """Process among launchers and what they have started that has the in-flight memory mapped; None: no worker is running yet."""
    for launcher in launchers:
        for pid in (launcher, *descendants(launcher)):
            if _address(pid) is not None:
                return pid
    return None


def inflight_of(daemon: int) -> InflightMemory:
    """In-flight memory of a daemon's one VM, which the caller closes."""
    for link in Path(f"/proc/{daemon}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            if link.readlink().name.startswith(f"memfd:{MEMORY}"):
                return InflightMemory(os.open(link, os.O_RDWR | os.O_CLOEXEC))
    raise AssertionError(f"process {daemon} has no in-flight memory")


def check_each_ended_once(daemon: int) -> None:
    """Checks that what the workers of a daemon's one VM have popped, one after another, they have returned as often.

    To be called when the guest waits for nothing. That no other was returned in its stead is the driver's to see: it gives up a queue
    that has an answer to nothing.

    :raise AssertionError: a request is still in flight, or was returned twice or never.
    """
    with inflight_of(daemon) as memory:
        queues = [queue for queue in map(memory.queue, range(MAX_QUEUES)) if queue.started]
        assert any(queue.last_avail for queue in queues)
        for queue in queues:
            assert queue.heads == ()
            assert queue.last_avail == queue.used_idx


def kill_at(pid: int, step: Step, queue: int = 0) -> None:
    """Waits until a worker has done a step, and kills it right there. No thread of it goes beyond.

    :raise OSError: this process may not trace it, or has no watchpoints.
    :raise AssertionError: the step is not done in time.
    """
    begin = _address(pid)
    assert begin is not None, "the worker has no in-flight memory"
    threads = [int(thread.name) for thread in threads_of(pid)]
    with _traced(pid, threads):
        for thread in threads:
            _halt(thread)
            _ptrace(_POKEUSER, thread, _DEBUG_REGISTERS, begin + step.place(queue))
            _ptrace(_POKEUSER, thread, _DEBUG_REGISTERS + 7 * 8, 1 | 1 << 16 | step.length << 18)  # stores
        for thread in threads:
            _ptrace(_CONT, thread)
        until(lambda: any(_stopped_by_watch(thread) for thread in threads))
        assert step.is_seen(_read(pid, begin, SIZE_BYTES), queue), "no request is in flight"


@contextlib.contextmanager
def _traced(pid: int, threads: Sequence[int]) -> Iterator[None]:
    """Traces threads of a process, which is killed at the end. No thread goes beyond where it has stopped."""
    try:
        for thread in threads:
            _ptrace(_SEIZE, thread)
        yield
    finally:
        os.kill(pid, signal.SIGKILL)
        for thread in sorted(threads, key=lambda thread: thread == pid):
            _reap(thread)


def kill_all(launchers: Launchers, go_on: Callable[[], object], rounds: int) -> int:
    """Kills workers at each of `DEATHS`, `rounds` times; returns the number of deaths.

    :param go_on: waits until all programs compute again; called before each death and after the last.
    """
    before = 0
    for _ in range(rounds):
        for name, kill in DEATHS.items():
            go_on()
            pid = until(lambda: _next_worker(launchers, before))  # noqa: B023  called at once
            print("next death:", name, flush=True)  # noqa: T201  for people
            kill(launchers, pid)
            before = pid
    go_on()
    return rounds * len(DEATHS)


def _next_worker(launchers: Launchers, before: int) -> int | None:
    pid = worker_of(launchers())
    return pid if pid != before else None


def kill_before_pop(_launchers: Launchers, pid: int) -> None:
    """Stops the worker, so that requests pile up before it, and kills it when the guest has kicked."""
    os.kill(pid, signal.SIGSTOP)
    until(lambda: any(kicks(fd) for fd in Path(f"/proc/{pid}/fdinfo").iterdir()))
    os.kill(pid, signal.SIGKILL)


def kicks(fd: Path) -> int:
    """Number of kicks or calls that an eventfd holds; 0: it is something else."""
    found = [line for line in fd.read_text().splitlines() if line.startswith("eventfd-count:")]
    return int(found[0].split()[1], 16) if found else 0


def kill_in_compile(launchers: Launchers, pid: int) -> None:
    """Kills the worker while a compiler works for it: a launcher beside the worker's own."""
    until(lambda: len(launchers()) > 1)
    os.kill(pid, signal.SIGKILL)


def kill_in_launch(_launchers: Launchers, pid: int) -> None:
    """Kills the worker while a processing element is in a kernel's code."""
    elements = [int(thread.name) for thread in threads_of(pid, "vgc-pe")]
    with _traced(pid, elements):
        until(lambda: any(_stops_in_kernel(pid, element) for element in elements))


def at(step: Step) -> Callable[[Launchers, int], None]:
    """A death at a step that the in-flight memory shows."""
    return lambda _launchers, pid: kill_at(pid, step)


DEATHS: Final[dict[str, Callable[[Launchers, int], None]]] = {
    "before pop": kill_before_pop,
    "popped": at(Step.POPPED),
    "in compile": kill_in_compile,
    "in copy": at(Step.COPYING),
    "in launch": kill_in_launch,
    "before used": at(Step.ANSWERED),
    "before call": at(Step.RETURNED),
}


def _address(pid: int) -> int | None:
    try:
        maps = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return next((int(line.split("-")[0], 16) for line in maps if MEMORY in line), None)


def _read(pid: int, address: int, size_bytes: int) -> bytes:
    with Path(f"/proc/{pid}/mem").open("rb") as memory:
        memory.seek(address)
        return memory.read(size_bytes)


def _ptrace_read(thread: int, offset: int) -> int:
    """Word of struct user of a stopped thread."""
    ctypes.set_errno(0)
    value = int(_libc.ptrace(_PEEKUSER, thread, offset, 0))
    if number := ctypes.get_errno():
        raise OSError(number, f"cannot read registers of thread {thread}: {os.strerror(number)}")
    return value % (1 << 64)


def _ptrace(request: int, thread: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, thread, address, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"ptrace request {request:#x} of thread {thread}: {os.strerror(number)}")


def _halt(thread: int) -> None:
    """Stops a traced thread that runs; it gets signals that come before."""
    _ptrace(_INTERRUPT, thread)
    while (status := os.waitpid(thread, _WALL)[1]) >> 16 != _EVENT_STOP:
        assert os.WIFSTOPPED(status), f"thread {thread} ended with {status:#x}"
        _ptrace(_CONT, thread, 0, os.WSTOPSIG(status))


def _stops_in_kernel(pid: int, element: int) -> bool:
    """Whether a traced processing element has been stopped in code that belongs to no file, as compiled kernels do."""
    if Path(f"/proc/{pid}/task/{element}/stat").read_text().rsplit(")", 1)[1].split()[0] != "R":
        return False
    _halt(element)
    place = _ptrace_read(element, _INSTRUCTION_POINTER)
    for words in map(str.split, Path(f"/proc/{pid}/maps").read_text().splitlines()):
        first, end = (int(word, 16) for word in words[0].split("-"))
        if first <= place < end and "x" in words[1] and len(words) == 5:
            return True
    _ptrace(_CONT, element)
    return False


def _stopped_by_watch(thread: int) -> bool:
    """Whether a thread has stopped at the watchpoint; one that stopped for a signal goes on with it."""
    found, status = os.waitpid(thread, _WALL | os.WNOHANG)
    if found == 0:
        return False
    assert os.WIFSTOPPED(status), f"thread {thread} ended with {status:#x}"
    if os.WSTOPSIG(status) == signal.SIGTRAP and status >> 16 == 0:
        return True
    _ptrace(_CONT, thread, 0, 0 if status >> 16 else os.WSTOPSIG(status))
    return False


def _reap(thread: int) -> None:
    """Takes a killed thread's end, which its parent hears of only then."""
    try:
        while os.WIFSTOPPED(os.waitpid(thread, _WALL)[1]):
            pass
    except ChildProcessError:
        pass  # it was not traced yet
