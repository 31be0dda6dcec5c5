"""The keeper, built with sanitizers: what it keeps, passes on and answers, whatever daemons and frontends do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.built_keeper import built
from tests.limits import ANSWERS_WITHIN_S
from tests.repeating import repeating
from tests.waiting import until
from vhost_backend.fds import Fd
from vhost_backend.keeper import client as client_module
from vhost_backend.keeper.client import AddRelay, Change, Drop, HungUp, Keeper, Kept, Put, Relayed

STUB = """
import array, os, signal, socket, sys
keeper = int(os.environ["VGC_KEEPER_FD"])
test = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
test.connect(sys.argv[1])
socket.send_fds(test, [os.getpid().to_bytes(4, "little")], [keeper])
os.close(keeper)
test.recv(1)
os._exit(int(test.recv(1)[0]))
"""
"""A daemon that gives its end of the keeper's socket to the test, and ends as it is told."""
GET_CONFIG = struct.pack("<III", 24, 1, 4) + b"\1\2\3\4"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keeper's program."""
    return built(tmp_path_factory.mktemp("keeper"))


@pytest.fixture(scope="module")
def hasty_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The keeper's program, which waits less long for daemons that load, take over or serve."""
    return built(tmp_path_factory.mktemp("keeper"), "-DSTART_PATIENCE_MS=3000", "-DSERVE_PATIENCE_MS=3000")


class Daemon:
    """A stub that the keeper has started, for which the test speaks."""

    def __init__(self, process: socket.socket, pid: int, keeper: socket.socket, version: int | None) -> None:
        self.pid = pid
        self._process = process
        self.socket = keeper
        self.keeper = Keeper(keeper, version)
        self.said: list[Relayed | HungUp] = []

    def take_over(self) -> dict[str, Kept]:
        return self.keeper.take_over()

    def load(self) -> dict[str, Kept]:
        """Says that it has loaded, and takes over."""
        self.keeper.hello()
        return self.take_over()

    def hear(self, key: str = "f") -> Relayed | HungUp:
        """The next words of a connection's."""
        self.keeper.listen(key, self.said.append)
        while not self.said:
            self.keeper.hear()
        return self.said.pop(0)

    def hear_stop(self) -> None:
        """Waits until the keeper tells it to end."""
        told: list[bool] = []
        self.keeper._on_end = lambda: told.append(True)
        while not told:
            self.keeper.hear()

    def commit(self, *changes: Change, answer: tuple[str, int, bytes] | None = None) -> None:
        self.keeper.commit(changes, answer)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.close()

    def exit(self, code: int) -> None:
        self._process.sendall(bytes([0, code]))

    def close(self) -> None:
        self.socket.close()
        self._process.close()


class Host:
    """A keeper whose daemons are stubs."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.service = folder / "keeper"
        stub = folder / "stub.py"
        stub.write_text(STUB)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(folder / "s"))
        self._listener.listen()
        self._listener.settimeout(ANSWERS_WITHIN_S)
        self.daemons: list[Daemon] = []
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as service:
            service.bind(str(self.service))
            service.listen(4)
            environment = {
                "LD_PRELOAD": "",
                "ASAN_OPTIONS": "detect_leaks=1",
                "VGC_KEEPER_LISTEN": str(service.fileno()),
            }
            self.process = subprocess.Popen(
                [str(program), sys.executable, "-I", "-S", str(stub), str(folder / "s")],
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, **environment},
                pass_fds=(service.fileno(),),
            )

    def next(self, version: int | None = 1) -> Daemon:
        """The next daemon that the keeper has started."""
        process, _ = self._listener.accept()
        raw, fds, _, _ = socket.recv_fds(process, 4, 1)
        daemon = Daemon(process, int.from_bytes(raw, "little"), socket.socket(fileno=fds[0]), version)
        self.daemons.append(daemon)
        return daemon

    def begin(self) -> tuple[Daemon, Daemon]:
        """The first daemon, which serves, and its spare, which has loaded."""
        first = self.next(None)
        assert first.load() == {}
        first.keeper.ready()
        return first, self.spare()

    def spare(self) -> Daemon:
        spare = self.next()
        spare.keeper.hello()
        return spare

    def client(self, order: bytes = b"") -> socket.socket:
        """A client of the keeper's socket, which has sent `order`."""
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            client.connect(str(self.service))
            client.settimeout(ANSWERS_WITHIN_S)
            client.sendall(order)
            stack.pop_all()
        return client

    def num_fds(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def close(self) -> str:
        """Ends the keeper; returns its words. Fails if a sanitizer has found something. Does nothing the second time."""
        assert self.process.stderr is not None
        if self.process.stderr.closed:
            return ""
        self.process.send_signal(signal.SIGKILL if self.process.poll() is None else 0)
        for daemon in self.daemons:
            with contextlib.suppress(OSError):
                daemon.close()
        self._listener.close()  # daemons that nobody has taken end
        said = self.process.stderr.read()
        self.process.wait(ANSWERS_WITHIN_S)
        self.process.stderr.close()
        assert "Sanitizer" not in said, said
        assert "runtime error" not in said, said
        return said


@pytest.fixture
def host(program: Path, tmp_path: Path) -> Iterator[Host]:
    with contextlib.closing(Host(program, tmp_path)) as host:
        yield host


@pytest.fixture
def hasty(hasty_program: Path, tmp_path: Path) -> Iterator[Host]:
    with contextlib.closing(Host(hasty_program, tmp_path)) as host:
        yield host


@pytest.fixture
def other_hasty(hasty_program: Path, tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "other").mkdir()
    with contextlib.closing(Host(hasty_program, tmp_path / "other")) as host:
        yield host


@pytest.fixture
def frontend(host: Host) -> Iterator[Callable[[Daemon], socket.socket]]:
    """Makes a frontend's connection "f" that a daemon has accepted."""
    assert host.process.poll() is None
    made: list[socket.socket] = []

    def connect(daemon: Daemon, key: str = "f") -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(ANSWERS_WITHIN_S)
        made.append(ours)
        with theirs:
            daemon.commit(AddRelay(key, theirs))
        return ours

    yield connect
    for sock in made:
        sock.close()


def relayed(said: Relayed | HungUp) -> Relayed:
    assert isinstance(said, Relayed)
    return said


def test_message_is_answered_by_the_next_daemon_if_the_first_dies_before(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    first, spare = host.begin()
    qemu = frontend(first)
    first.commit(Put("state", b"before"))
    read_end, write_end = os.pipe()
    socket.send_fds(qemu, [GET_CONFIG], [write_end])
    os.close(write_end)
    message = relayed(first.hear())
    assert (message.data, message.seq, len(message.fds)) == (GET_CONFIG, 1, 1)
    os.close(message.fds[0])
    first.kill()
    assert spare.take_over()["state"].blob == b"before"
    again = relayed(spare.hear())
    assert (again.data, again.seq, len(again.fds)) == (GET_CONFIG, 1, 1)
    os.write(again.fds[0], b"x")
    assert os.read(read_end, 1) == b"x"
    os.close(again.fds[0])
    spare.commit(Put("state", b"after"), answer=("f", 1, b"answer"))
    assert qemu.recv(100) == b"answer"
    until(lambda: os.read(read_end, 1) == b"")  # the keeper holds none of the message's descriptors any more
    os.close(read_end)


def test_message_that_was_answered_is_not_passed_on_again(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    first, spare = host.begin()
    qemu = frontend(first)
    qemu.sendall(GET_CONFIG + GET_CONFIG)
    assert relayed(first.hear()).seq == 1
    first.commit(Put("state", b"after"), answer=("f", 1, b"one"))
    first.kill()  # the packet may not have been read yet
    assert spare.take_over()["state"].blob == b"after"
    assert relayed(spare.hear()).seq == 2
    spare.commit(answer=("f", 1, b"wrong"))
    spare.commit(answer=("f", 2, b"two"))
    assert qemu.recv(3) == b"one"
    assert qemu.recv(100) == b"two"


def test_entries_have_their_descriptors_and_go_with_what_is_above_them(host: Host) -> None:
    first, spare = host.begin()
    with Fd(os.memfd_create("kept")) as memory:
        os.write(memory.fileno(), b"content")
        first.commit(Put("vm/a/m1", b"one", memory), Put("vm/a/m10", b"ten"), Put("vm/ab", b"other"), Put("vm/a", b""))
    first.commit(Drop("vm/a/m10"))
    first.kill()
    kept = spare.take_over()
    assert {key: entry.blob for key, entry in kept.items()} == {"vm/a/m1": b"one", "vm/ab": b"other", "vm/a": b""}
    fd = kept["vm/a/m1"].fd
    assert fd is not None
    assert os.pread(fd.fileno(), 100, 0) == b"content"
    spare.keeper.ready()
    third = host.spare()
    spare.commit(Drop("vm/a"))
    spare.kill()
    assert list(third.take_over()) == ["vm/ab"]


def test_descriptors_do_not_pile_up(host: Host, frontend: Callable[[Daemon], socket.socket]) -> None:
    first, _spare = host.begin()
    qemu = frontend(first)
    with Fd(os.eventfd(0)) as event:
        before = None
        for number in range(1, 200):
            socket.send_fds(qemu, [GET_CONFIG], [event.fileno()] * 8)
            message = relayed(first.hear())
            for fd in message.fds:
                os.close(fd)
            puts = [Put(f"v/{index}", b"", event) for index in range(30)]
            first.commit(*puts, answer=("f", number, b"."))
            assert qemu.recv(1) == b"."
            before = before or host.num_fds()
        assert host.num_fds() == before


def test_frontend_that_ends_is_told_of_with_the_message_that_it_has_not_finished(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    first, spare = host.begin()
    qemu = frontend(first)
    qemu.sendall(GET_CONFIG[:14])
    qemu.close()
    assert first.hear() == HungUp(GET_CONFIG[:14])
    first.kill()
    spare.take_over()
    assert spare.hear() == HungUp(GET_CONFIG[:14])


def test_message_that_is_too_long_is_passed_on_as_its_header(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    first, _spare = host.begin()
    header = struct.pack("<III", 24, 1, 0xFFFF_FFF0)
    frontend(first).sendall(header + bytes(10_000))
    assert relayed(first.hear()).data == header


def test_frontend_that_reads_no_replies_keeps_nobody_from_theirs_and_gets_its_own_later(
    host: Host, frontend: Callable[..., socket.socket]
) -> None:
    first, _spare = host.begin()
    deaf, other = frontend(first, "deaf"), frontend(first, "f")
    of_deaf: list[Relayed | HungUp] = []
    first.keeper.listen("deaf", of_deaf.append)
    answered = 0
    while True:
        deaf.sendall(GET_CONFIG)
        other.sendall(GET_CONFIG)
        said = relayed(first.hear("f"))
        first.commit(answer=("f", said.seq, b"."))
        assert other.recv(1) == b"."
        other.sendall(GET_CONFIG)  # once this one is here, the deaf frontend's is, if it was read
        said = relayed(first.hear("f"))
        first.commit(answer=("f", said.seq, b"."))
        assert other.recv(1) == b"."
        if not of_deaf:
            break  # it gets no more answers before it has taken those
        answered += 1
        assert relayed(of_deaf.pop()).seq == answered
        first.commit(answer=("deaf", answered, bytes([answered]) * 100_000))
    assert answered > 1
    for number in range(1, answered + 1):
        assert set(deaf.recv(100_000, socket.MSG_WAITALL)) == {number}
    while not of_deaf:
        first.keeper.hear()
    assert relayed(of_deaf.pop()).seq == answered + 1


@contextlib.contextmanager
def stopped(keeper: subprocess.Popen[str]) -> Iterator[None]:
    """Stops the keeper for the block."""
    keeper.send_signal(signal.SIGSTOP)
    until(lambda: Path(f"/proc/{keeper.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    yield
    keeper.send_signal(signal.SIGCONT)


def test_last_words_of_a_daemon_count_although_it_has_left_a_message_unread(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    """The kernel tells of the unread message first, as ECONNRESET, and only then gives what the daemon has said."""
    first, spare = host.begin()
    sock = frontend(first)
    sock.sendall(GET_CONFIG)
    until(lambda: select.select([first.socket], [], [], 0)[0])
    with stopped(host.process):
        first.commit(Put("last", b"words"))
        first.kill()
    assert spare.take_over()["last"].blob == b"words"


def lingering() -> tuple[socket.socket, socket.socket]:
    """A TCP socket of which the last close takes an hour, and the other end, which reads nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sock = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    sock.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            sock.send(bytes(1 << 16))
    return sock, other


@pytest.mark.parametrize("way", ["descriptor", "descriptor too many", "queue of a descriptor", "unread", "kept"])
def test_socket_that_takes_long_to_close_keeps_nobody_waiting(
    host: Host, frontend: Callable[..., socket.socket], way: str
) -> None:
    first, _spare = host.begin()
    hostile, other = frontend(first, "hostile"), frontend(first, "f")
    of_hostile: list[Relayed | HungUp] = []
    first.keeper.listen("hostile", of_hostile.append)
    sock, end = lingering()
    with end, contextlib.ExitStack() as open_till_then:
        open_till_then.enter_context(sock)
        with stopped(host.process):  # so that its close is the last one, and not the test's
            if way == "queue of a descriptor":
                one, two = socket.socketpair()
                with one:
                    socket.send_fds(one, [b"x"], [sock.fileno()])
                open_till_then.enter_context(two)
                fds = [two.fileno()]
            elif way == "descriptor too many":
                event = open_till_then.enter_context(Fd(os.eventfd(0)))
                fds = [*[event.fileno()] * 200, sock.fileno()]
            else:
                fds = [sock.fileno()]
            if way == "kept":
                first.commit(Put("a/socket", b"", sock))
            elif way == "unread":
                hostile.sendall(GET_CONFIG)
                socket.send_fds(hostile, [GET_CONFIG], fds)
            else:
                socket.send_fds(hostile, [GET_CONFIG], fds)
            open_till_then.close()
        while way != "kept" and not of_hostile:
            first.keeper.hear()
        for said in of_hostile:
            for fd in relayed(said).fds:
                os.close(fd)
        if way == "kept":
            first.commit(Drop("a"))
        else:
            first.commit(*([Drop("hostile")] if way == "unread" else ()), answer=("hostile", 1, b"."))
        other.sendall(GET_CONFIG)
        assert relayed(first.hear()).seq == 1


@pytest.mark.parametrize("seed", range(3))
def test_packets_that_make_no_sense_are_left_out(host: Host, seed: int) -> None:
    """A daemon that has gone mad does not take the keeper along."""
    first, spare = host.begin()
    first.commit(Put("state", b"good"))
    chance = random.Random(seed)
    for _ in range(300):
        kind = chance.choice([2, 3, 3, 3, 5, 16, 1 << 31])
        lengths = [chance.choice([0, 1, 5, 127, 129, 4096, (1 << 32) - 1]) for _ in range(4)]
        first.socket.send(struct.pack("=5I", kind, *lengths) + chance.randbytes(chance.choice([0, 3, 16, 60, 1000])))
    first.kill()
    assert spare.take_over()["state"].blob == b"good"


@pytest.mark.parametrize(("kind", "index"), [(9, -1), (0, -1), (1, 0), (1, 7), (3, -1), (2, 0)], ids=str)
def test_commit_with_an_operation_that_makes_no_sense_changes_nothing(host: Host, kind: int, index: int) -> None:
    first, spare = host.begin()
    first.commit(Put("state", b"good"))
    operation = struct.pack("=3Ii", 1, 5, 3, -1) + b"statebad" + struct.pack("=3Ii", kind, 5, 0, index) + b"state"
    first.socket.send(struct.pack("=5I", 3, 0, 0, 0, 2) + operation)
    first.kill()
    assert spare.take_over()["state"].blob == b"good"


def test_daemon_that_ends_by_itself_before_it_serves_ends_the_keeper_with_its_code(host: Host) -> None:
    first = host.next(None)
    first.exit(7)
    assert host.process.wait(ANSWERS_WITHIN_S) == 7


def test_daemon_that_ends_on_purpose_ends_the_keeper_and_the_spare(host: Host) -> None:
    first, spare = host.begin()
    first.keeper.end()
    first.exit(0)
    assert host.process.wait(ANSWERS_WITHIN_S) == 0
    until(lambda: not Path(f"/proc/{spare.pid}").exists())


def test_daemon_that_crashes_while_no_spare_has_loaded_is_followed_by_one_that_does(host: Host) -> None:
    first = host.next(None)
    first.load()
    first.keeper.ready()
    first.commit(Put("state", b"kept"))
    late = host.next()
    first.exit(1)  # a crash: it has not said that it ends
    assert late.load()["state"].blob == b"kept"


def test_spare_that_dies_is_followed_at_once_unless_several_die_in_a_row(host: Host) -> None:
    _first, spare = host.begin()
    for _ in range(3):
        spare.kill()
        spare = host.spare()
    spare.kill()
    host.spare().kill()
    host.next()
    said = host.close()
    delays = [int(line.split(" in ")[1].split()[0]) for line in said.splitlines() if "a spare vgcd has ended" in line]
    assert delays == [0, 0, 0, 100, 200]


def test_new_program_that_does_not_start_leaves_the_present_one_in_its_place(
    host: Host, frontend: Callable[[Daemon], socket.socket]
) -> None:
    first, spare = host.begin()
    qemu = frontend(first)
    host.process.send_signal(signal.SIGUSR2)
    host.next().exit(3)
    until(lambda: not Path(f"/proc/{host.daemons[-1].pid}").exists())
    assert Path(f"/proc/{spare.pid}").exists()
    qemu.sendall(GET_CONFIG)
    assert relayed(first.hear()).seq == 1
    first.commit(answer=("f", 1, b"still here"))
    assert qemu.recv(100) == b"still here"
    assert "the new vgcd did not start (exit code 3); the present one goes on" in host.close()


def test_new_program_takes_over_once_it_has_loaded_and_the_spare_until_then(host: Host) -> None:
    first, spare = host.begin()
    first.commit(Put("state", b"kept"))
    host.process.send_signal(signal.SIGUSR2)
    new = host.next()
    first.kill()
    assert spare.take_over()["state"].blob == b"kept"
    spare.keeper.ready()
    new.keeper.hello()
    assert new.take_over()["state"].blob == b"kept"
    until(lambda: not Path(f"/proc/{spare.pid}").exists())


def test_program_that_is_to_be_replaced_before_it_serves_is_replaced_then(host: Host) -> None:
    first = host.next(None)
    host.process.send_signal(signal.SIGUSR2)
    first.load()
    first.commit(Put("state", b"kept"))
    first.keeper.ready()
    started = [host.next(), host.next()]  # a spare, and the new program, in this order or the other
    for daemon in started:
        daemon.keeper.hello()
    until(lambda: not Path(f"/proc/{first.pid}").exists())


def test_keeper_without_a_program_says_what_is_allowed(program: Path) -> None:
    ran = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (2, "vgc-keeper: no program to run; allowed: vgc-keeper PROGRAM...\n")


def test_spare_that_never_loads_does_not_keep_the_next_from_taking_over(hasty: Host) -> None:
    first = hasty.next(None)
    first.load()
    first.keeper.ready()
    first.commit(Put("state", b"kept"))
    silent = hasty.next()
    first.kill()
    until(lambda: not Path(f"/proc/{silent.pid}").exists())
    assert hasty.next().load()["state"].blob == b"kept"
    assert f"vgcd does not get ready, and is killed (pid {silent.pid})" in hasty.close()


def test_spare_that_has_loaded_and_does_not_serve_is_followed_by_one_that_does(hasty: Host) -> None:
    first, spare = hasty.begin()
    first.commit(Put("state", b"kept"))
    os.kill(spare.pid, signal.SIGSTOP)
    first.kill()
    until(lambda: not Path(f"/proc/{spare.pid}").exists())
    third = hasty.next()
    assert third.load()["state"].blob == b"kept"
    third.keeper.ready()
    hasty.spare()


def test_new_program_that_never_loads_is_given_up_and_can_be_tried_again(hasty: Host) -> None:
    first, _spare = hasty.begin()
    with hasty.client(b"r") as client:
        silent = hasty.next()
        assert client.recv(100).decode() == f"refused {first.pid}\n"
    until(lambda: not Path(f"/proc/{silent.pid}").exists())
    with hasty.client(b"r") as client:
        new = hasty.next()
        new.load()
        new.keeper.ready()
        assert client.recv(100).decode() == f"serving {new.pid}\n"


def test_daemon_that_hangs_while_it_serves_is_followed_by_the_spare(hasty: Host) -> None:
    first, spare = hasty.begin()
    first.commit(Put("state", b"kept"))
    first.keeper.alive()
    assert spare.take_over()["state"].blob == b"kept"
    assert not Path(f"/proc/{first.pid}").exists()
    spare.keeper.ready()
    assert f"vgcd hangs, and is killed (pid {first.pid})" in hasty.close()


async def _alive_after_ready(keeper: Keeper, said: socket.socket) -> list[int]:
    """Types of the first packets that a daemon's loop sends by itself once it is ready."""
    keeper.attach(lambda: None)
    keeper.ready()
    loop = asyncio.get_running_loop()
    said.setblocking(False)
    return [struct.unpack_from("=I", await loop.sock_recv(said, 100))[0] for _ in range(4)]


def test_loop_of_a_daemon_says_again_and_again_that_it_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ALIVE_EVERY_S", 0.01)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert asyncio.run(_alive_after_ready(Keeper(theirs, None), ours)) == [2, 5, 5, 5]


def test_daemon_of_a_version_that_never_says_that_it_is_alive_is_left_alone(hasty: Host) -> None:
    first, _spare = hasty.begin()
    with hasty.client(b"r") as client:
        hasty.next()  # it says nothing, and is given up when the first has said nothing for longer
        assert client.recv(100).decode() == f"refused {first.pid}\n"
    assert Path(f"/proc/{first.pid}").exists()


def test_daemon_does_not_hang_if_the_keeper_has_not_run_either(hasty: Host, other_hasty: Host) -> None:
    first, _spare = hasty.begin()
    first.keeper.alive()
    hasty.process.send_signal(signal.SIGSTOP)
    hung, _spare = other_hasty.begin()
    hung.keeper.alive()
    until(lambda: not Path(f"/proc/{hung.pid}").exists())  # its patience is over, and so is that of the first
    hasty.process.send_signal(signal.SIGCONT)
    for _ in range(2):  # the second shows that a whole round is over
        with hasty.client(b"?") as wrong:
            assert wrong.recv(100) == b""
    assert Path(f"/proc/{first.pid}").exists()
    until(lambda: not Path(f"/proc/{first.pid}").exists())


def test_daemon_that_is_to_end_is_not_replaced_meanwhile(host: Host) -> None:
    """Its successor would have it killed before it has taken down what is its own."""
    first, _spare = host.begin()
    with host.client(b"f") as ending:
        first.hear_stop()
        host.process.send_signal(signal.SIGUSR2)
        with host.client(b"r") as late:
            assert late.recv(100) == b""
        first.keeper.end()
        first.exit(0)
        assert ending.recv(100) == b""
    assert host.process.wait(ANSWERS_WITHIN_S) == 0


def test_clients_that_say_nothing_or_have_gone_keep_nobody_waiting(
    host: Host, frontend: Callable[..., socket.socket]
) -> None:
    first, _spare = host.begin()
    qemu = frontend(first)
    with contextlib.ExitStack() as stack:
        for _ in range(20):
            host.client(b"r").close()
        silent = [stack.enter_context(host.client()) for _ in range(20)]
        qemu.sendall(GET_CONFIG)
        assert relayed(first.hear()).seq == 1
        asking = stack.enter_context(host.client(b"r"))
        new = host.next()
        with host.client(b"?") as wrong:
            assert wrong.recv(100) == b""
        new.load()
        new.keeper.ready()
        assert asking.recv(100).decode() == f"serving {new.pid}\n"
        assert silent[0].recv(100) == b""  # others have needed its place
        stack.enter_context(host.client(b"f"))
        new.hear_stop()


@pytest.mark.parametrize("closed", range(0, 15, 3))
def test_end_of_the_keeper_is_seen_by_daemons_although_it_is_closing_sockets(host: Host, closed: int) -> None:
    first, spare = host.begin()
    answers = 0

    def flood() -> None:
        nonlocal answers
        with host.client(b"?") as wrong:
            wrong.recv(1)
        answers += 1

    with repeating(flood):
        until(lambda: answers >= closed)
        host.process.kill()
        for daemon in (first, spare):
            daemon.socket.settimeout(ANSWERS_WITHIN_S)
            with contextlib.suppress(ConnectionResetError):
                while daemon.socket.recv(1000):
                    pass
