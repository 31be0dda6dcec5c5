"""Connections of the VM harness: QMP against a fake QEMU, and both halves of the test agent against each other."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.limits import ANSWERS_WITHIN_S
from tests.vm.agent import Agent, AgentError
from tests.vm.qmp import Qmp, QmpError

SECONDS = int(ANSWERS_WITHIN_S)
GUEST_AGENT = Path(__file__).resolve().parents[2] / "tools" / "guest" / "agent.py"


def lines(*messages: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


@pytest.fixture
def qemu() -> Iterator[tuple[Qmp, socket.socket]]:
    ours, theirs = socket.socketpair()
    with theirs, Qmp(ours) as qmp:
        yield qmp, theirs


def test_greeting_leaves_negotiation_mode(qemu: tuple[Qmp, socket.socket]) -> None:
    qmp, peer = qemu
    peer.sendall(lines({"QMP": {}}, {"return": {}}))
    qmp.greet()
    assert json.loads(peer.recv(4096))["execute"] == "qmp_capabilities"


def test_arguments_are_spelt_as_qemu_does(qemu: tuple[Qmp, socket.socket]) -> None:
    qmp, peer = qemu
    peer.sendall(lines({"return": 7}))
    assert qmp.execute("some-command", dry_run=True) == 7
    assert json.loads(peer.recv(4096)) == {"execute": "some-command", "arguments": {"dry-run": True}}


def test_error_says_which_command(qemu: tuple[Qmp, socket.socket]) -> None:
    qmp, peer = qemu
    peer.sendall(lines({"error": {"class": "GenericError", "desc": "no such thing"}}))
    with pytest.raises(QmpError, match="device_del: no such thing"):
        qmp.execute("device_del")


def test_event_before_an_answer_is_kept(qemu: tuple[Qmp, socket.socket]) -> None:
    qmp, peer = qemu
    peer.sendall(lines({"event": "STOP"}, {"event": "RESET"}, {"return": {}}))
    qmp.execute("stop")
    assert qmp.wait_for("RESET")["event"] == "RESET"
    assert qmp.wait_for("STOP")["event"] == "STOP"


def test_end_of_qemu_is_an_error(qemu: tuple[Qmp, socket.socket]) -> None:
    qmp, peer = qemu
    peer.close()
    with pytest.raises(QmpError, match="closed its control connection"):
        qmp.wait_for("SHUTDOWN")


def test_client_closes_after_qemu_is_gone() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with Qmp(ours) as qmp, pytest.raises(OSError, match="Broken pipe"):
        qmp.execute("quit")
    assert ours.fileno() == -1


def guest_agent_module() -> ModuleType:
    """The guest's agent, loaded from its file: it is a script of the image, not a package."""
    spec = importlib.util.spec_from_file_location("guest_agent", GUEST_AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def agent() -> Iterator[Agent]:
    """The host's half, connected to a guest's half on a thread of this process."""
    ours, theirs = socket.socketpair()
    with theirs, theirs.makefile("rb") as incoming, theirs.makefile("wb") as outgoing:
        serving = threading.Thread(target=guest_agent_module().Agent(incoming, outgoing).serve)
        serving.start()
        host = Agent(ours)
        host.started.result(SECONDS)
        yield host
        host.close()
        serving.join(SECONDS)


def test_command_returns_streams_and_code(agent: Agent) -> None:
    answer = agent.request("run", command="printf out; printf err >&2; exit 5", timeout=SECONDS).result(SECONDS)
    assert (answer.header["exit"], answer.header["out"], answer.body) == (5, 3, b"outerr")


def test_answers_come_in_any_order(agent: Agent, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    first = agent.request("run", command=f"cat {fifo}", timeout=SECONDS)
    second = agent.request("run", command=f"echo late > {fifo}", timeout=SECONDS)
    assert second.result(SECONDS).header["exit"] == 0
    assert first.result(SECONDS).body == b"late\n"


def test_file_contents_survive(agent: Agent, tmp_path: Path) -> None:
    contents = bytes(range(256)) * 1000 + b"\n{}\n"
    path = str(tmp_path / "new" / "file")
    agent.request("put", contents, path=path, mode=0o600).result(SECONDS)
    assert agent.request("get", path=path).result(SECONDS).body == contents


def test_agent_survives_what_it_cannot_do(agent: Agent) -> None:
    with pytest.raises(AgentError, match="FileNotFoundError"):
        agent.request("get", path="/nowhere").result(SECONDS)
    with pytest.raises(AgentError, match="KeyError"):
        agent.request("fly").result(SECONDS)
    assert agent.request("run", command="true", timeout=SECONDS).result(SECONDS).header["exit"] == 0


def test_pending_requests_fail_when_the_guest_is_gone() -> None:
    ours, theirs = socket.socketpair()
    host = Agent(ours)
    asked = host.request("get", path="/")
    theirs.close()
    with pytest.raises(AgentError):
        asked.result(SECONDS)
    host.close()
