"""System calls reported by a permissive filter: another process takes and allows them, without ever blocking."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog

from vhost_backend.daemon.call_log import MAX_KNOWN, CallLog
from vhost_backend.fds import Fd, pipe
from vhost_backend.log import get_logger
from vhost_backend.sandbox.listener import Call, CallListener
from vhost_backend.sandbox.policy import HOSTILE, permissive, worker_policy
from vhost_backend.sandbox.seccomp import Action, Clauses

ROOT = Path(__file__).resolve().parents[2]
CHILD = """
import ctypes, errno, os, socket, sys
from vhost_backend.sandbox import seccomp
from vhost_backend.sandbox.policy import permissive, worker_policy
ours = socket.socket(fileno=int(sys.argv[1]))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
listener = seccomp.install(permissive(worker_policy(os.getpid())))
socket.send_fds(ours, [b"listener"], [listener])
os.close(listener)
ours.recv(1)
made = libc.socket(1, 1, 0)
ours.send(b"made" if made >= 0 else errno.errorcode[ctypes.get_errno()].encode())
"""
"""Program that makes one call that the filter does not allow, on request."""


@dataclass
class Told:
    """The child, our end of its socket, and its listener."""

    process: subprocess.Popen[bytes]
    sock: socket.socket
    listener: CallListener

    def begin(self) -> None:
        """Has the child make its call; returns when the call waits for an answer."""
        self.sock.send(b"x")
        self.wait()

    def wait(self) -> None:
        select.select([self.listener], [], [])


@pytest.fixture
def told() -> Iterator[Told]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        argv = (sys.executable, "-c", CHILD, str(theirs.fileno()))
        process = subprocess.Popen(argv, pass_fds=(theirs.fileno(),), cwd=ROOT)
        theirs.close()
        _, fds, _, _ = socket.recv_fds(ours, 16, 1)
        listener = CallListener(Fd(fds[0]))
        yield Told(process, ours, listener)
        listener.close()
        process.kill()
        process.wait()


def test_call_is_allowed_and_reported(told: Told) -> None:
    told.begin()
    call = told.listener.take()
    assert call is not None
    assert (call.name, call.arguments[:3]) == ("socket", (1, 1, 0))
    told.listener.answer(call)
    assert told.sock.recv(16) == b"made"


def test_answer_to_a_call_that_is_answered_or_gone_has_no_effect(told: Told) -> None:
    told.begin()
    call = told.listener.take()
    assert call is not None
    for _ in range(2):
        told.listener.answer(call)
    assert told.sock.recv(16) == b"made"
    told.process.kill()
    told.process.wait()
    told.listener.answer(call)


def test_call_without_a_listener_fails_and_does_not_hang(told: Told) -> None:
    told.begin()
    told.listener.close()
    assert told.sock.recv(16) == b"ENOSYS"


def test_process_that_is_killed_in_a_call_leaves_nothing_to_wait_for(told: Told) -> None:
    told.begin()
    told.process.send_signal(signal.SIGKILL)
    told.process.wait()
    ended, end = pipe()
    with ended, end:
        assert not told.listener.wait(ended)
    assert told.listener.take() is None


def test_wait_returns_for_a_call_and_at_the_end(told: Told) -> None:
    ended, end = pipe()
    with ended:
        told.begin()
        assert told.listener.wait(ended)
        end.close()
        assert not told.listener.wait(ended)


def test_worker_that_takes_its_calls_itself_blocks_nobody(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """Taking a call then waits for the next one, which may never come."""
    taking, taken = threading.Event(), threading.Event()

    def wait_for_the_next(_listener: CallListener) -> None:
        taking.set()
        taken.wait()

    monkeypatch.setattr(CallListener, "take", wait_for_the_next)

    async def story() -> None:
        told.begin()
        calls = CallLog(os.dup(told.listener.fileno()), get_logger(), set())
        await asyncio.to_thread(taking.wait)
        calls.close()
        calls.close()

    asyncio.run(story())
    taken.set()


def test_number_of_remembered_calls_is_bounded(told: Told) -> None:
    with structlog.testing.capture_logs() as logged:

        async def story() -> None:
            calls = CallLog(os.dup(told.listener.fileno()), get_logger(), known)
            for number in range(2 * MAX_KNOWN):
                calls._count(Call(f"number {number}", ()))
            await asyncio.sleep(0)  # noqa: TID251  a turn of the loop, in which it would read
            calls.close()

        known = {"number 0", "socket"}
        asyncio.run(story())
    *named, ended = logged
    assert [event["call"] for event in named] == [f"number {number}" for number in range(1, MAX_KNOWN - 1)]
    assert len(known) == MAX_KNOWN
    assert (len(ended["calls"]), ended["calls"]["others"]) == (MAX_KNOWN + 1, MAX_KNOWN)


def test_descriptor_that_is_no_listener_is_refused() -> None:
    with open(os.devnull) as file, pytest.raises(ValueError, match="no listener of a system call filter"):
        CallListener(Fd(os.dup(file.fileno())))


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("socket", (2, 1, 0, 0, 0, 0), "socket"),
        ("prctl", (4, 1, 0, 0, 0, 0), "prctl(0x4)"),
        ("fcntl", (7, 8, 1, 0, 0, 0), "fcntl(0x8)"),
        ("madvise", (0x7F0000000000, 4096, 12, 0, 0, 0), "madvise(0xc)"),
        ("prlimit64", (0, 7, 0x7F0000000000, 0, 0, 0), "prlimit64(0x0)"),
    ],
)
def test_calls_are_named_with_the_arguments_that_the_filter_checks(
    name: str, arguments: tuple[int, ...], text: str
) -> None:
    """Addresses are left out, or each call would count as a new one."""
    assert str(Call(name, arguments)) == text


def test_new_namespaces_are_hostile_by_whatever_call() -> None:
    thread, new_user = 0x10F00, 0x10000000
    assert Call("unshare", (new_user, 0, 0, 0, 0, 0)).is_hostile
    assert Call("clone", (thread | new_user, 0, 0, 0, 0, 0)).is_hostile
    assert not Call("clone", (thread, 0, 0, 0, 0, 0)).is_hostile


def test_permissive_policy_reports_all_calls_that_the_strict_one_refuses() -> None:
    policy = permissive(worker_policy(2, ("ioctl",)))
    assert {policy.rules[name] for name in HOSTILE} == {Action.NOTIFY}
    assert {name for name, rule in policy.rules.items() if rule is Action.ENOSYS} == {"clone3"}
    assert policy.default is Action.NOTIFY
    for rule in policy.rules.values():
        actions = {rule} if isinstance(rule, Action) else {rule.otherwise, *(action for _, action in rule.clauses)}
        assert Action.EPERM not in actions
    assert isinstance(policy.rules["mmap"], Clauses)
    assert policy.notifies
    assert not worker_policy(2).notifies
