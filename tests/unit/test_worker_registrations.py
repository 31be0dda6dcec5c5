"""Registered programs in the worker: what the daemon says of them, in any order, leaves guest and daemon of one mind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.driver import Reply
from tests.unit.plane_rig import Rig, plane_rig
from vhost_backend.sandbox import memfd
from vhost_backend.worker_protocol.registration_messages import Register, Registered, Restore, Unregister, digest_of
from virtio_proto.schema import Opcode, ProgramFlag, ProgramKind, Status

PROGRAM = b"kernel work 8"
DIGEST = digest_of(ProgramKind.CUDA_SOURCE, (), PROGRAM)


@pytest.fixture
def rig() -> Iterator[Rig]:
    with plane_rig() as made:
        yield made


def restore(rig: Rig, number: int, program: bytes = PROGRAM, *, ok: bool = True, log: str = "") -> str:
    """Has the worker restore a program; returns its refusal, or ""."""
    refusals: list[str] = []
    digest = digest_of(ProgramKind.CUDA_SOURCE, (), program)
    fds = (memfd.sealed("image", program),) if ok else ()
    message = Restore(1, number, digest, False, ok, log, ("work(any64)",))
    rig.server.restore(message, fds, lambda _seq, refusal: refusals.append(refusal))
    rig.settle()
    (refusal,) = refusals
    return refusal


def register(
    rig: Rig, context: int, program: bytes = PROGRAM, *, number: int | None, why: str = "", flags: int = 0
) -> Reply:
    """Registers a program for the guest; `number` is the daemon's answer, None: the worker asks nothing."""
    pending = rig.driver.submit(
        Opcode.PROGRAM_LOAD,
        {"kind": ProgramKind.CUDA_SOURCE, "source_len": len(program), "flags": ProgramFlag.REGISTER | flags},
        program,
        context=context,
        writable_len=4096,
    )
    rig.serve_cold()
    rig.answer_compile()
    if number is not None:
        asked = rig.said.pop()
        assert isinstance(asked, Register)
        rig.server.registrations.on_registered(Registered(1, asked.request, number, why))
        rig.settle()
    return rig.driver.wait(pending)


def unload(rig: Rig, context: int, program: int) -> None:
    assert rig.cold(Opcode.PROGRAM_UNLOAD, {"program": program}, context=context).status is Status.OK


def call(rig: Rig, context: int) -> Status:
    body = {"grid": [1, 1, 1], "block": [1, 1, 1], "name_len": 4, "num_args": 1, "value_len": 8}
    arguments = b"work" + bytes(8) + (8).to_bytes(8, "little") + bytes(8)
    return rig.driver.request(Opcode.CALL, body, arguments, context=context, writable_len=64).status


def test_a_restored_program_is_found_and_unregistered(rig: Rig) -> None:
    context = rig.context()
    assert restore(rig, 3) == ""
    assert call(rig, context) is Status.OK
    ((registration, _),) = rig.server.registrations
    unload(rig, context, registration.program)
    assert rig.said == [Unregister(3)]
    assert rig.usage().num_programs == 0


def test_what_the_guest_has_registered_meanwhile_is_not_restored(rig: Rig) -> None:
    context = rig.context()
    reply = register(rig, context, number=3)
    assert reply.status is Status.OK
    assert restore(rig, 3) == ""
    assert rig.usage().num_programs == 1
    assert call(rig, context) is Status.OK
    unload(rig, context, reply.value)
    assert rig.said == [Unregister(3)]


def test_a_name_that_the_guest_has_registered_meanwhile_stays_its_own(rig: Rig) -> None:
    context = rig.context()
    register(rig, context, number=4)
    assert "function '_null_work' is registered already" in restore(rig, 3, b"kernel work 8\nkernel more")
    assert call(rig, context) is Status.OK
    assert [(one.number, bool(one.problem)) for one, _ in rig.server.registrations] == [(4, False), (3, True)]


def test_a_broken_program_is_whole_once_it_is_registered_again(rig: Rig) -> None:
    context = rig.context()
    assert restore(rig, 3, ok=False, log="line 1: error") == "line 1: error"
    body = {"grid": [1, 1, 1], "block": [1, 1, 1], "name_len": 4}
    refused = rig.cold(Opcode.CALL, body, b"work", context=context, writable_len=1024)
    assert refused.status is Status.COMPILE_FAILED
    assert "The reason: line 1: error" in refused.text
    assert register(rig, context, number=3).status is Status.OK
    assert call(rig, context) is Status.OK
    assert rig.said == []  # it is the same program, which the daemon keeps
    assert rig.usage().num_programs == 1


def test_a_broken_program_stays_if_registering_it_again_fails(rig: Rig) -> None:
    context = rig.context()
    restore(rig, 3, ok=False, log="line 1: error")
    rig.alloc(context, 1 << 20)  # all of the quota
    assert register(rig, context, number=None).status is Status.OUT_OF_MEMORY
    ((registration, entry),) = rig.server.registrations
    assert (registration.number, registration.problem, entry) == (3, "line 1: error", None)
    assert rig.said == []


def test_a_refused_program_is_gone_and_the_next_one_is_registered(rig: Rig) -> None:
    context = rig.context()
    refused = register(rig, context, number=0, why="the VM has registered too much")
    assert (refused.status, refused.text) == (Status.RESOURCES_EXHAUSTED, "the VM has registered too much")
    assert (rig.usage().num_programs, rig.usage().memory_used_bytes) == (0, 0)
    assert register(rig, context, number=1).status is Status.OK


def test_a_program_that_is_to_be_kept_later_is_told_to_the_daemon_once(rig: Rig) -> None:
    context = rig.context()
    first = register(rig, context, number=1)
    assert register(rig, context, number=None).value == first.value
    assert register(rig, context, number=1, flags=ProgramFlag.KEEP).value == first.value
    assert register(rig, context, number=None, flags=ProgramFlag.KEEP).value == first.value
    assert register(rig, context, number=None).value == first.value
    ((registration, _),) = rig.server.registrations
    assert registration.keep


@pytest.mark.parametrize("flags", [ProgramFlag.KEEP, 4, 1 << 31], ids=["kept alone", "unknown", "high"])
def test_flags_that_mean_nothing_are_refused(rig: Rig, flags: int) -> None:
    body = {"kind": ProgramKind.CUDA_SOURCE, "source_len": 1, "flags": flags}
    reply = rig.driver.request(Opcode.PROGRAM_LOAD, body, b"x", context=rig.context(), writable_len=200)
    assert reply.status is Status.BAD_REQUEST
    assert "allowed: 0, 0x1, 0x3" in reply.text
