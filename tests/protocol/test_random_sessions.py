"""Random streams of messages: whatever one frontend says, the daemon lives and the other VM is served."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fakes.frontend import BackendGone, FakeFrontend
from tests.protocol.conftest import GPA, UVA, Stage
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import FLAG_NEED_REPLY, Gpa, Region, Request, Uva

SETTINGS = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass(frozen=True)
class Said:
    """A message, with `fds` naming kinds of descriptors."""

    request: int
    payload: bytes
    fds: tuple[str, ...]
    flags: int


INDEX = st.sampled_from([0, 1, 3, 4, 255, 2**32 - 1])
SMALL = st.sampled_from([0, 1, 2, 3, 64, 256, 257, 32768, 65535, 65536, 2**32 - 1])
ADDRESS = st.sampled_from([0, 1, UVA, UVA + 0x1000, UVA + 0xFFFFF, 2**64 - 1])
REGION = st.builds(
    lambda gpa, size, uva, offset: Region(Gpa(gpa), size, Uva(uva), offset),
    st.sampled_from([0, GPA, GPA + 0x1000, 2**64 - 1]),
    st.sampled_from([0, 1, 4096, 1 << 20, 2**63, 2**64 - 1]),
    ADDRESS,
    st.sampled_from([0, 1, 4096, 2**64 - 1]),
)
U64 = st.builds(messages.u64, st.one_of(INDEX, st.sampled_from([256, 257, 1 << 9, 0x1_7000_0000, 0x1_0000_0000])))
STATE = st.builds(messages.vring_state, INDEX, SMALL)
MEM_REG = st.builds(messages.mem_reg, REGION)
PAYLOAD = st.one_of(
    st.just(b""),
    U64,
    STATE,
    st.builds(messages.vring_addr, INDEX, ADDRESS, ADDRESS, ADDRESS, st.integers(0, 1)),
    MEM_REG,
    st.builds(lambda regions: messages.mem_table(tuple(regions)), st.lists(REGION, max_size=3)),
    st.builds(messages.config, st.sampled_from([0, 4, 255, 256, 2**32 - 1]), st.binary(max_size=8), st.integers(0, 2)),
    st.binary(max_size=64),
)
FDS = st.lists(st.sampled_from(["eventfd", "memory", "socket", "pipe"]), max_size=3).map(tuple)
ANYTHING = st.builds(
    Said,
    st.one_of(st.sampled_from(Request), st.integers(0, 50)),
    PAYLOAD,
    FDS,
    st.sampled_from([0, FLAG_NEED_REPLY, 4, 16]),
)


def plausible(
    requests: list[Request], payload: st.SearchStrategy[bytes], fds: tuple[str, ...]
) -> st.SearchStrategy[Said]:
    """Messages that parse, with contents that may be wrong; failures are answered and do not end the session."""
    return st.builds(Said, st.sampled_from(requests), payload, st.just(fds), st.just(FLAG_NEED_REPLY))


VALID_INDEX = st.sampled_from([0, 1])
PLAUSIBLE = st.one_of(
    plausible([Request.SET_VRING_NUM, Request.SET_VRING_BASE], STATE, ()),
    plausible([Request.GET_VRING_BASE, Request.SET_VRING_ENABLE], STATE, ()),
    plausible([Request.SET_VRING_NUM], st.builds(messages.vring_state, VALID_INDEX, st.sampled_from([3, 64])), ()),
    plausible([Request.SET_VRING_ADDR], st.builds(messages.vring_addr, VALID_INDEX, ADDRESS, ADDRESS, ADDRESS), ()),
    plausible([Request.SET_VRING_KICK, Request.SET_VRING_CALL], st.builds(messages.u64, VALID_INDEX), ("eventfd",)),
    plausible([Request.SET_VRING_ERR, Request.SET_VRING_KICK], st.builds(messages.u64, VALID_INDEX), ("pipe",)),
    plausible([Request.ADD_MEM_REG, Request.REM_MEM_REG], MEM_REG, ("memory",)),
    plausible([Request.RESET_DEVICE, Request.GET_QUEUE_NUM, Request.GET_FEATURES], st.just(b""), ()),
    plausible([Request.SET_BACKEND_REQ_FD], st.just(b""), ("socket",)),
    plausible([Request.SET_FEATURES, Request.SET_PROTOCOL_FEATURES], U64, ()),
)


@pytest.fixture
def things(stage: Stage) -> Iterator[dict[str, int]]:
    """A descriptor of each kind."""
    region = os.memfd_create("region")
    os.ftruncate(region, 1 << 20)
    reading, writing = os.pipe()
    kinds = {
        "eventfd": os.eventfd(0),
        "memory": region,
        "pipe": writing,
        "socket": os.dup(stage.connect("b").sock.fileno()),
    }
    yield kinds
    for fd in (*kinds.values(), reading):
        os.close(fd)


def say(frontend: FakeFrontend, said: list[Said], things: dict[str, int]) -> None:
    """Sends everything; stops when the daemon has hung up. Replies are left unread."""
    try:
        for message in said:
            fds = [things[kind] for kind in message.fds]
            frontend.send(message.request, message.payload, fds, message.flags)
    except BackendGone:
        return
    frontend.finish()


@SETTINGS
@given(said=st.lists(ANYTHING, max_size=30))
def test_any_stream_of_messages_is_survived(stage: Stage, things: dict[str, int], said: list[Said]) -> None:
    with FakeFrontend.connect(stage.folder / "a") as frontend:
        say(frontend, said, things)
    _other_vm_is_served(stage)


@SETTINGS
@given(said=st.lists(st.one_of(PLAUSIBLE, PLAUSIBLE, PLAUSIBLE, ANYTHING), max_size=60))
def test_any_stream_after_a_proper_start_is_survived(stage: Stage, things: dict[str, int], said: list[Said]) -> None:
    with FakeFrontend.connect(stage.folder / "a") as frontend:
        frontend.negotiate()
        frontend.send(Request.SET_FEATURES, messages.u64(frontend.features))
        say(frontend, said, things)
    _other_vm_is_served(stage)


@SETTINGS
@given(raw=st.binary(max_size=200))
def test_any_bytes_are_survived(stage: Stage, raw: bytes) -> None:
    with FakeFrontend.connect(stage.folder / "a") as frontend:
        frontend.send_raw(raw)
        frontend.finish()
    _other_vm_is_served(stage)


def _other_vm_is_served(stage: Stage) -> None:
    """Asserts that the other VM's frontend, the same in all examples, is served."""
    if not stage.opened:
        stage.connect("b")
    stage.opened[0].synchronise()
