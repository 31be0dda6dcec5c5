"""Workers that guest code has taken over: what they send costs the daemon little, and other VMs nothing."""

from __future__ import annotations

import io
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from tests.fakes.worker import WorkerDouble
from tests.protocol.conftest import Stage
from tests.waiting import until
from vhost_backend.compiler.cache import DiskCache
from vhost_backend.compiler.job import INSIDE, CompileJob, Target
from vhost_backend.compiler.service import CompileService, ServicePolicy
from vhost_backend.config.control import ControlConfig
from vhost_backend.control.event_bus import EventBus
from vhost_backend.control.events import GuestMarked
from vhost_backend.daemon.control_adapter import DaemonVmControl
from vhost_backend.daemon.server import Daemon
from vhost_backend.log import get_logger
from vhost_backend.sandbox import build
from vhost_backend.sandbox.terms import Bind
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.budgets import QUEUE_MESSAGES
from vhost_backend.worker_protocol.control_messages import NO_CONTROL, ControlSetup
from vhost_backend.worker_protocol.link import WorkerLink
from vhost_backend.worker_protocol.marks import Mark, MarkBudget, Marks
from vhost_backend.worker_protocol.program_terms import NUM_SOURCES
from vhost_backend.worker_protocol.protocol import CodeNames, CodeRange, Compile, Log, Program, Stats
from vhost_backend.worker_protocol.registration_messages import Register, Registered, Restore, Unregister
from virtio_proto.schema import LIMITS, ProgramKind

COPY = Path("/usr/bin/cp")
PROGRAMS = (Bind(COPY, INSIDE / "bin" / "cp"),)
ROUNDS = 4
UNKNOWN_KIND = 99
"""Kind of programs that is refused, with an answer, before anything is compiled."""
FORGED = 50
"""Requests to compile that an attacker sends in each round, unless the daemon hangs up before."""
MOST_GROWTH_BYTES = 4 * NUM_SOURCES * LIMITS["MAX_SOURCE_BYTES"]
"""Four times the sources of one worker, for copies and for what the workers of two rounds have left at a time."""
CHATTER = codec.encode(Log("info", "event", {str(i): i for i in range(64)}))


def write_sources(worker: WorkerDouble, text: bytes) -> None:
    """Writes `text` into all source files of a worker."""
    for fd in worker.sources:
        os.ftruncate(fd, 0)
        os.pwrite(fd, text, 0)


def ask(worker: WorkerDouble, request: int, kind: int = ProgramKind.CUDA_SOURCE) -> None:
    """Asks for a compilation of one source file after the other."""
    worker.send(Compile(request, 1, kind, (), request % NUM_SOURCES))


def peak_bytes() -> int:
    """Most memory that this process, and so the daemon, had resident since `forget_peak`."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) << 10


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


@pytest.fixture
def compiler() -> Iterator[CompileService]:
    """Compile service with two slots; sources that begin with ``wait`` take as long as the test."""
    build.main()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:  # the daemon may still store a program
        folder = Path(name)
        folder.chmod(0o755)
        os.mkfifo(folder / "gate")
        (folder / "gate").chmod(0o666)

        def describe(_target: Target, _kind: ProgramKind, text: bytes, _options: tuple[str, ...]) -> CompileJob:
            what = folder / "gate" if text.startswith(b"wait") else "in"
            return CompileJob(
                (COPY, what, "out"), "in", "out", (*PROGRAMS, Bind(folder / "gate", INSIDE / "gate")), "cp"
            )

        policy = ServicePolicy(max_running=2)
        yield CompileService(describe, DiskCache(folder / "cache"), mode="strict", log=get_logger(), policy=policy)


def flood_with_programs(worker: WorkerDouble) -> None:
    """Forges requests as fast as the daemon takes them, until it hangs up."""
    with suppress(OSError):
        for request in range(FORGED):
            ask(worker, request)


def test_forged_compilations_do_not_fill_the_daemons_memory(
    make_stage: Callable[..., Stage], compiler: CompileService, logs: io.StringIO
) -> None:
    stage = make_stage(compiler=compiler)
    _, attacker = stage.attach("a")
    _, neighbour = stage.attach("b")
    forget_peak()
    before = peak_bytes()
    write_sources(neighbour, b"small")
    for generation in range(2, 2 + ROUNDS):
        write_sources(attacker, b"wait" + b"x" * (LIMITS["MAX_SOURCE_BYTES"] - 4))
        flood_with_programs(attacker)
        ask(neighbour, generation)
        built = neighbour.expect(Program)
        assert (built.request, built.ok) == (generation, True)
        attacker = stage.workers.next()
        assert attacker.setup().generation == generation
    assert peak_bytes() - before < MOST_GROWTH_BYTES
    assert "asked for two compilations with source file 0 at a time" in logs.getvalue()
    assert "worker_faulty" in logs.getvalue()


def register(worker: WorkerDouble, request: int) -> None:
    """Registers the program in the first source file."""
    worker.send(Register(request, ProgramKind.CUDA_SOURCE, (), 0, False, 1, ("f(pointer)",)))


def test_registered_programs_are_bounded(
    make_stage: Callable[..., Stage], compiler: CompileService, logs: io.StringIO
) -> None:
    stage = make_stage(compiler=compiler)
    _, attacker = stage.attach("a")
    half = LIMITS["MAX_SOURCE_BYTES"] // 2
    answers = []
    for request, filling in enumerate((b"a", b"b", b"c"), 1):
        write_sources(attacker, filling * half)
        register(attacker, request)
        answers.append(attacker.expect(Registered))
    assert [(answer.request, answer.number) for answer in answers] == [(1, 1), (2, 2), (3, 0)]
    assert "unregister some" in answers[-1].why
    attacker.send(Unregister(7))
    attacker.send(Unregister(1))
    register(attacker, 4)
    assert attacker.expect(Registered).number == 3
    write_sources(attacker, b"small")
    with suppress(OSError):
        for request in range(FORGED):
            register(attacker, request)
    heir = stage.workers.next()
    heir.setup()
    assert [heir.expect(Restore).number for _ in range(2)] == [2, 3]  # before it is told of rings
    assert "asked to register two programs at a time" in logs.getvalue()


def test_worker_that_takes_no_programs_gets_no_more(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Images stay in memory until the worker has taken them."""
    monkeypatch.setattr("vhost_backend.daemon.compile_relay.IMAGE_BYTES", 3 << 10)
    _, worker = stage.attach()
    write_sources(worker, b"k" * (1 << 10))
    first = stage.daemon.ask(messages_sent)
    for sent in range(first, first + 8):  # the double reads none of the answers meanwhile
        ask(worker, sent)
        until(partial(lambda sent: stage.daemon.ask(messages_sent) > sent, sent))
    answers = [worker.expect(Program) for _ in range(8)]
    assert [answer.ok for answer in answers] == [True] * 3 + [False] * 5
    assert "bytes of programs have not been taken yet; allowed: 3072" in answers[-1].log
    ask(worker, 9)
    assert worker.expect(Program).ok


def messages_sent(daemon: Daemon) -> int:
    """Number of messages that the daemon has sent to the worker of VM "a"."""
    frontend = daemon.vms["a"]._frontend
    assert frontend is not None
    assert frontend.slot.serving is not None
    return frontend.slot.serving.link._seq


def test_messages_of_a_vm_without_budget_wait_in_its_own_socket(stage: Stage) -> None:
    """The clock of its budget stands still: what was spent does not come back."""
    _, attacker = stage.attach("a")
    neighbour, _ = stage.attach("b")
    stop_clock(stage, "a")
    attacker.sock.setblocking(False)
    until(lambda: fill(attacker) and stage.daemon.ask(is_spent))
    fill(attacker)
    for _ in range(100):
        neighbour.synchronise()
    with pytest.raises(BlockingIOError):
        attacker.send_raw(CHATTER)


def fill(worker: WorkerDouble) -> bool:
    """Sends until the socket is full."""
    with suppress(BlockingIOError):
        while True:
            worker.send_raw(CHATTER)
    return True


def is_spent(daemon: Daemon) -> bool:
    return daemon.vms["a"]._history.link_time.wait_s() > 0


def stop_clock(stage: Stage, vm: str) -> None:
    def stop(daemon: Daemon) -> None:
        budget = daemon.vms[vm]._history.link_time
        now = budget._clock()
        budget._clock = lambda: now

    stage.daemon.ask(stop)


def test_neighbour_is_served_during_a_flood(stage: Stage) -> None:
    frontend, attacker = stage.attach("a")
    neighbour, _ = stage.attach("b")
    over = threading.Event()
    sent = count()

    def flood() -> None:
        while not over.is_set():
            attacker.send_raw(CHATTER)
            next(sent)

    thread = threading.Thread(target=flood)
    thread.start()
    try:
        for _ in range(200):
            neighbour.synchronise()
        before = next(sent)
        until(lambda: next(sent) > before + 100)  # the attacker is read, too, in its own time
        frontend.synchronise()
    finally:
        over.set()
        thread.join()
    assert stage.daemon.ask(lambda daemon: daemon.vms["a"].worker_pid) == attacker.pid


def test_request_to_compile_is_charged_for_what_it_costs_after_it_was_read(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vhost_backend.daemon.compile_relay.COMPILE_COST_S", 10.0)
    _, worker = stage.attach()
    ask(worker, 1, UNKNOWN_KIND)
    assert not worker.expect(Program).ok
    assert stage.daemon.ask(is_spent)


class FaultsSeen:
    """Control system's side of a VM, which notes only how its workers are lost."""

    def __init__(self) -> None:
        self.losses: list[tuple[str, str | None]] = []
        self.area_bytes = 0

    @contextmanager
    def begin(self, _link: WorkerLink) -> Iterator[tuple[ControlSetup, tuple[int, ...]]]:
        yield NO_CONTROL, ()

    def lost(self, reason: str, fault: str | None, *, died: bool) -> None:
        if died:
            self.losses.append((reason, fault))

    def serves(self, _link: WorkerLink, num_pes: int, rows: int) -> None: ...

    def drop_others(self) -> None: ...

    def connected(self, on: bool) -> None: ...


def test_messages_that_nobody_reads_are_bounded_and_a_fault_of_the_worker(stage: Stage) -> None:
    """Answers to forged requests stay in the daemon while the worker does not read them."""
    seen = FaultsSeen()
    stage.daemon.ask(lambda daemon: setattr(daemon.vms["a"], "_control", seen))
    _, worker = stage.attach()
    with suppress(OSError):
        for request in range(100_000):
            ask(worker, request, UNKNOWN_KIND)
    assert stage.workers.next().setup().generation == 2
    assert seen.losses == [(f"the worker left more than {QUEUE_MESSAGES} messages unread", "worker")]


class MarksSeen(FaultsSeen):
    """Control system of a VM that passes marks on as the real one does."""

    def __init__(self) -> None:
        super().__init__()
        bus = EventBus(get_logger())
        self.events: list[GuestMarked] = []
        bus.subscribe(GuestMarked, self.events.append)
        self._real = DaemonVmControl("a", ControlConfig(), bus)
        self._real._mark_budget = MarkBudget(lambda: 0.0)

    def marked(self, marks: Marks) -> None:
        self._real.marked(marks)


def test_forged_marks_are_cut_to_the_rate_of_the_vm(stage: Stage) -> None:
    """Whatever a worker says of marks, clients and recorder get no more than a VM may have."""
    seen = MarksSeen()
    stage.daemon.ask(lambda daemon: setattr(daemon.vms["a"], "_control", seen))
    _, worker = stage.attach()
    one = Mark(1, 2, 0, 3, 4, 5, None, "x" * LIMITS["MAX_MARK_TEXT"], "", "", "")
    message = Marks(1, "forged", 0, (one,) * 64)
    for _ in range(500):
        worker.send(message)
    ask(worker, 1, UNKNOWN_KIND)
    assert not worker.expect(Program).ok  # all that came before has been read
    assert LIMITS["MARKS_BURST"] - 64 < sum(len(event.marks) for event in seen.events) <= LIMITS["MARKS_BURST"]
    assert seen.losses == []


def test_worker_that_names_code_without_being_asked_is_replaced(stage: Stage) -> None:
    """It would write a file on the host."""
    seen = FaultsSeen()
    stage.daemon.ask(lambda daemon: setattr(daemon.vms["a"], "_control", seen))
    _, worker = stage.attach()
    worker.send(CodeNames(1, (CodeRange(1 << 46, 64, "kernel"),)))
    assert stage.workers.next().setup().generation == 2
    assert seen.losses == [("the worker named code without being asked", "worker")]


def test_honest_messages_after_a_flood_are_handled(stage: Stage) -> None:
    _, worker = stage.attach()
    for _ in range(2000):
        worker.send_raw(CHATTER)
    worker.send(Stats(1, 2, 3, 4, 5, 6, 7, 8))
    until(lambda: stage.daemon.ask(lambda daemon: daemon.vms["a"].stats) == Stats(1, 2, 3, 4, 5, 6, 7, 8))
