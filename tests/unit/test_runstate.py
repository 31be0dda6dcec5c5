"""The table of a VM's states, and a transition that it does not have."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import structlog

from vhost_backend import log
from vhost_backend.daemon.program import log_loop_error
from vhost_backend.daemon.runstate import TABLE, Lifecycle, Runstate, StateError
from virtio_proto.control.api import VmState
from virtio_proto.schema import Health

ALLOWED = [(old, new) for old, row in TABLE.items() for new in row.leads_to]
WRONG = [(old, new) for old in Runstate for new in Runstate if (old, new) not in ALLOWED]


def name_of(value: object) -> str:
    return value.name if isinstance(value, Runstate) else ""


@pytest.fixture(autouse=True)
def logs() -> Iterator[io.StringIO]:
    out = io.StringIO()
    log.configure("console", "info", out)
    yield out
    structlog.reset_defaults()


def entered(old: Runstate, new: Runstate) -> tuple[Lifecycle, list[Any]]:
    """A VM that went from `old` to `new`, and what its loop's exception handler was told."""
    told: list[Any] = []

    async def go() -> Lifecycle:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context["exception"]))
        state = Lifecycle("web1", log.get_logger(vm="web1"))
        state._now = old
        state.enter(new)
        return state

    return asyncio.run(go()), told


def reachable(start: Runstate) -> set[Runstate]:
    """Every state that the table leads to from `start`."""
    found, left = set[Runstate](), [start]
    while left:
        state = left.pop()
        left += set(TABLE[state].leads_to) - found
        found |= set(TABLE[state].leads_to)
    return found


@pytest.mark.parametrize(("old", "new"), ALLOWED, ids=name_of)
def test_allowed_transition_is_no_error(old: Runstate, new: Runstate) -> None:
    state, told = entered(old, new)
    assert (state.now, told) == (new, [])


@pytest.mark.parametrize(("old", "new"), WRONG, ids=name_of)
def test_wrong_transition_is_reported_with_both_states_and_made(old: Runstate, new: Runstate) -> None:
    """The transition follows from a real event, which the guest and the control API must see."""
    state, told = entered(old, new)
    assert state.now is new
    assert [(type(error), error.vm, error.old, error.new) for error in told] == [(StateError, "web1", old, new)]
    assert f"from {old.name} to {new.name}; allowed: " in str(told[0])


def test_daemon_logs_a_wrong_transition_as_an_error_with_both_states(logs: io.StringIO) -> None:
    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(log_loop_error)
        Lifecycle("web1", log.get_logger(vm="web1")).enter(Runstate.MIGRATING)

    asyncio.run(go())
    line = logs.getvalue()
    for part in ("[error", "wrong_transition", "vm=web1", "old=NO_FRONTEND", "new=MIGRATING"):
        assert part in line


def test_every_state_has_a_row_and_can_be_reached() -> None:
    assert TABLE.keys() == set(Runstate)
    assert reachable(Runstate.NO_FRONTEND) | {Runstate.NO_FRONTEND} == set(Runstate)


@pytest.mark.parametrize("state", [state for state in Runstate if state is not Runstate.CLOSED], ids=name_of)
def test_every_state_leads_to_the_end(state: Runstate) -> None:
    assert Runstate.CLOSED in reachable(state)


@pytest.mark.parametrize("state", [state for state, row in TABLE.items() if row.shown != "stopped"], ids=name_of)
def test_frontend_may_disconnect_in_every_state_that_has_one(state: Runstate) -> None:
    assert Runstate.DISCONNECTING in TABLE[state].leads_to


def test_states_cover_those_of_the_control_api_and_the_guest() -> None:
    assert {row.shown for row in TABLE.values()} == set(get_args(VmState))
    assert {row.health for row in TABLE.values()} == set(Health)
