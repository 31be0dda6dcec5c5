"""Guest code that takes memory of the host in ways that limits on private memory do not see."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from tests.fakes.cgroup_home import home
from tests.protocol.hostile_guest import Guest, Guests, both_guests, vgcd_sockets
from tests.protocol.worker_rig import needs_walls
from tests.waiting import until
from vhost_backend.cgroups.limits import Limits
from vhost_backend.config.daemon import MIB
from vhost_backend.quarters import NOWHERE, Quarters
from virtio_proto import schema
from virtio_proto.schema import Health, Status

pytestmark = needs_walls

CHUNK: Final = 4 * MIB
ENOUGH: Final = 4096 * MIB // CHUNK
"""Number of chunks at which a kernel stops: 4 GiB, of a quota of 16 MiB."""
BOUND: Final = 1024 * MIB
"""More than any limit of a worker with that quota, and far less than what the kernels try to take."""

SOURCE: Final = r"""
/* Touches private pages and makes them read-only: RLIMIT_DATA then no longer counts them. */
static __device__ long take(long chunk, long most) {
    long count = 0;
    for (; count < most; count++) {
        long at = call(9, 0, chunk, 3, 0x22, -1, 0);
        if (at < 0 && at > -4096) break;
        for (long offset = 0; offset < chunk; offset += 4096) ((volatile char *)at)[offset] = 1;
        if (call(10, at, chunk, 1, 0, 0, 0) != 0) break;
    }
    return count;
}

extern "C" __global__ void take_by_protection(long *out, long chunk, long most) { *out = take(chunk, most); }

/* Gives up everything that it finds mapped elsewhere first, so that only what the process has at a time is bounded. */
extern "C" __global__ void trade_and_take(long *out, long chunk, long most) {
    for (long at = 0x200000000000; at < 0x500000000000; at += 1L << 40)
        if ((long)out < at || (long)out >= at + (1L << 40)) call(11, at, 1L << 40, 0, 0, 0, 0);
    *out = take(chunk, most);
}

/* Fills every file that it holds: pages of files that are shared with the daemon belong to no process. */
extern "C" __global__ void take_files(long *out, long from, long most) {
    long written = 0;
    for (long fd = 3; fd < 1024; fd++)
        for (long at = 0; at < most; at += 4096) {
            long done = call(18, fd, from, 4096, at, 0, 0);
            if (done <= 0) break;
            written += done;
        }
    *out = written;
}
"""


SMALL: Final = Limits(memory_bytes=192 * MIB)
"""Limits of a group in which a worker gets ready, but cannot have as much as its address space allows."""
GROUPS: Final = {"no groups": None, "groups": Limits(), "small groups": SMALL}


@pytest.fixture(params=["no groups", "groups"])
def vms(request: pytest.FixtureRequest) -> Iterator[dict[str, Quarters]]:
    """Quarters of both VMs."""
    limits = GROUPS[request.param]
    with ExitStack() as stack:
        group = None if limits is None else stack.enter_context(home()).group
        yield {
            name: NOWHERE if group is None or limits is None else Quarters(cgroup=group.child(f"vm-{name}", limits))
            for name in ("attacker", "neighbour")
        }


@pytest.fixture
def guests(vms: dict[str, Quarters], tmp_path: Path) -> Iterator[Guests]:
    with vgcd_sockets(tmp_path, quarters=vms.__getitem__) as sockets, both_guests(sockets, SOURCE) as made:
        yield made


def replaced(attacker: Guest, before: int) -> bool:
    space = schema.CONFIG.construct.parse(attacker.vm.frontend.config_read())
    return bool(space.generation > before and space.health == Health.READY)


@pytest.mark.parametrize("kernel", ["take_by_protection", "trade_and_take"])
def test_pages_that_change_their_protection_are_bounded(guests: Guests, kernel: str) -> None:
    attacker = guests.attacker
    assert attacker.result(attacker.launch(kernel, CHUNK, ENOUGH)) * CHUNK < BOUND


@pytest.mark.parametrize("vms", ["small groups"], indirect=True)
def test_a_worker_that_takes_more_than_its_group_has_is_replaced(logs: io.StringIO, guests: Guests) -> None:
    attacker = guests.attacker
    before = attacker.generation()
    assert attacker.launch("take_by_protection", CHUNK, ENOUGH).status == Status.DEVICE_LOST
    until(lambda: replaced(attacker, before))
    assert "used more of the host's memory than its VM may" in logs.getvalue()
    attacker.start()
    assert attacker.computes()


def test_files_that_are_shared_with_the_daemon_are_bounded(guests: Guests) -> None:
    attacker = guests.attacker
    assert attacker.result(attacker.launch("take_files", attacker.buffer, ENOUGH * CHUNK)) < BOUND // 4


def test_a_vm_in_a_control_group_computes_and_compiles_as_ever(vms: dict[str, Quarters], guests: Guests) -> None:
    assert guests.attacker.computes()
    for quarters in vms.values():
        if quarters.cgroup is not None:
            assert 0 < quarters.cgroup.usage().memory_bytes < BOUND
