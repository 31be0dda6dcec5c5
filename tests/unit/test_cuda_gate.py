"""The gate in the CUDA engine: which launches wait for a turn, and what the worker tells of them; on the fake driver."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.limits import HANGS_AFTER_S
from tests.unit.cuda_direct import Direct, direct
from tests.unit.test_cuda_engine_graphs import BATCH, launch, make_short, run
from tests.waiting import until
from vhost_backend._dataplane import ffi, lib
from vhost_backend.daemon.inflight import InflightMemory
from vhost_backend.fds import Fd
from vhost_backend.worker_protocol.gate_pages import (
    ACCOUNT_FIELDS,
    GRANT_FIELDS,
    OPEN,
    PAGE_BYTES,
    Account,
    GatePages,
    WorkerGate,
)
from virtio_proto.schema import Status

CLOSED: Final = 0
LONG_NS: Final = 3600 * 10**9
"""Turn that no test uses up."""
SHORT_AHEAD: Final = 8
NAP_NS: Final = 200_000
DEADLINE_NS: Final = 10**9
"""Deadline that a launch of an empty kernel meets on any machine."""
ROOT: Final = Path(__file__).resolve().parents[2]


class Gated:
    """An engine behind a gate, and the daemon's side of that."""

    def __init__(self, gpu: Direct, pages: GatePages) -> None:
        self.gpu, self.pages = gpu, pages
        self._until_ns, self._armed, self._beat = OPEN, 0, 0

    def grant(self, until_ns: int, armed: int = 0) -> None:
        self._until_ns, self._armed = until_ns, armed
        self.look()

    def look(self) -> None:
        self._beat += 1
        self.pages.grant(self._until_ns, self._armed, self._beat)

    def poll(self) -> None:
        """Polls the engine, while the daemon looks."""
        self.look()
        self.gpu.poll()

    def rings(self) -> int:
        """Number of rings since the last call."""
        try:
            return os.eventfd_read(self.pages.bell.fileno())
        except BlockingIOError:
            return 0

    @property
    def account(self) -> Account:
        return self.pages.account()

    @property
    def launched(self) -> int:
        """Number of launches that the driver has got."""
        return self.gpu.driver.count("cuLaunchKernel")


@contextmanager
def gated_gpu() -> Iterator[Gated]:
    pages = GatePages()
    with direct() as gpu:
        inner = WorkerGate(*map(os.dup, pages.fds))
        grant, account = ffi.from_buffer(inner.grant), ffi.from_buffer(inner.account, require_writable=True)
        lib.vgc_cuda_engine_set_gate(
            gpu.handle,
            ffi.cast("struct vgc_gate_grant *", grant),
            ffi.cast("struct vgc_gate_account *", account),
            inner.bell,
        )
        made = Gated(gpu, pages)
        try:
            yield made
        finally:
            made.grant(OPEN)
    os.close(inner.bell)
    pages.close()


@pytest.fixture
def gated() -> Iterator[Gated]:
    with gated_gpu() as made:
        yield made


# ---- an open gate --------------------------------------------------------------------------------


def test_an_open_gate_holds_nothing_and_rings_no_bell(gated: Gated) -> None:
    gated.gpu.driver.hold()
    launches = [gated.gpu.launch("empty", stream=stream) for stream in range(20)]
    gated.poll()
    assert gated.launched == 20
    gated.gpu.driver.go_on()
    gated.gpu.wait(*launches)
    assert not gated.account.is_held
    assert gated.rings() == 0


def test_the_time_of_launches_is_told(gated: Gated) -> None:
    hang = gated.gpu.launch("hang")
    gated.gpu.driver.await_hanging()
    gated.poll()
    running = gated.account
    assert (running.ran_ns, running.since_ns != 0) == (0, True)
    gated.gpu.driver.release()
    gated.gpu.wait(hang)
    assert gated.account.since_ns == 0
    assert gated.account.ran_ns >= hang.end_ns - running.since_ns


def test_launches_that_run_together_count_once(gated: Gated) -> None:
    launches = [gated.gpu.launch("hang", stream=stream) for stream in range(3)]
    gated.gpu.driver.await_hanging(3)
    gated.poll()
    since_ns = gated.account.since_ns
    gated.gpu.driver.release()
    gated.gpu.wait(*launches)
    assert gated.account.ran_ns <= time.monotonic_ns() - since_ns


def test_copies_count_as_nothing(gated: Gated) -> None:
    address = gated.gpu.alloc(4)
    gated.gpu.driver.hold()
    fill = gated.gpu.fill(address, 4, 1)
    gated.poll()
    assert gated.account == Account(0, 0, is_held=False)
    gated.gpu.driver.go_on()
    gated.gpu.wait(fill)
    assert gated.account == Account(0, 0, is_held=False)


def test_an_armed_bell_rings_once_when_launches_run(gated: Gated) -> None:
    gated.grant(OPEN, armed=7)
    gated.gpu.wait(gated.gpu.launch("empty"))
    gated.gpu.wait(gated.gpu.launch("empty"))
    assert gated.rings() == 1
    gated.grant(OPEN, armed=8)
    gated.gpu.wait(gated.gpu.launch("empty"))
    assert gated.rings() == 1


# ---- another daemon ------------------------------------------------------------------------------


def test_grants_of_the_next_daemon_count_in_place_of_those_before(gated: Gated) -> None:
    """Also for a launch that is held; the worker's account goes on, and its bell is the same."""
    gated.gpu.wait(gated.gpu.launch("empty"))
    ran_ns = gated.account.ran_ns
    gated.grant(CLOSED, armed=1)
    before = gated.pages
    with pytest.raises(PermissionError):
        mmap.mmap(before.fds[0], PAGE_BYTES)  # nobody else can write it
    gated.pages = GatePages(*(Fd(os.dup(fd.fileno())) for fd in before.lasting.values()))
    gated.look()
    assert lib.vgc_cuda_engine_renew_grant(gated.gpu.handle, gated.pages.fds[0]) == 0
    held = gated.gpu.launch("empty")
    gated.poll()
    assert (gated.launched, gated.account.is_held, gated.account.ran_ns) == (1, True, ran_ns)
    before.grant(OPEN, 0, 99)
    gated.poll()
    assert gated.launched == 1
    gated.grant(OPEN)
    gated.gpu.wait(held)
    assert gated.rings() > 0
    before.close()


def test_engine_without_a_gate_takes_no_grant() -> None:
    with direct() as gpu, contextlib.closing(GatePages()) as pages:
        assert lib.vgc_cuda_engine_renew_grant(gpu.handle, pages.fds[0]) == -errno.ENOTSUP


def test_descriptor_that_is_no_page_leaves_the_grant_as_it_is(gated: Gated) -> None:
    gated.grant(CLOSED)
    assert lib.vgc_cuda_engine_renew_grant(gated.gpu.handle, gated.pages.bell.fileno()) == -errno.ENODEV
    gated.gpu.launch("empty")
    gated.poll()
    assert gated.launched == 0


# ---- a held launch -------------------------------------------------------------------------------


def test_a_closed_gate_holds_launches_and_tells_it_once(gated: Gated) -> None:
    gated.grant(CLOSED)
    held = gated.gpu.launch("empty")
    gated.poll()
    gated.poll()
    assert gated.launched == 0
    assert gated.account.is_held
    assert gated.rings() == 1
    gated.grant(OPEN)
    gated.gpu.wait(held)
    assert not gated.account.is_held


def test_a_held_launch_has_no_start_time(gated: Gated) -> None:
    """Its deadline begins at the start time."""
    gated.grant(CLOSED)
    held = gated.gpu.launch("empty")
    gated.poll()
    assert held.start_ns == 0
    opened_ns = time.monotonic_ns()
    gated.grant(OPEN)
    gated.gpu.wait(held)
    assert held.start_ns >= opened_ns


def test_a_launch_may_be_held_for_longer_than_its_deadline() -> None:
    """The child ends by itself: no deadline ends its process."""
    with InflightMemory() as memory:
        argv = [sys.executable, "-m", "tests.unit.cuda_gate_child", str(memory.fd), str(DEADLINE_NS)]
        ended = subprocess.run(
            argv, cwd=ROOT, pass_fds=[memory.fd], capture_output=True, text=True, check=False, timeout=HANGS_AFTER_S
        )
        assert ended.returncode == 0, ended.stderr
        assert memory.black_box() is None


def test_copies_pass_a_closed_gate(gated: Gated) -> None:
    address = gated.gpu.alloc(4)
    gated.grant(CLOSED)
    first = gated.gpu.fill(address, 4, 1)
    held = gated.gpu.launch("empty")
    behind = gated.gpu.fill(address, 4, 2)
    gated.gpu.wait(first, gated.gpu.fill(address, 4, 3, stream=1))
    gated.poll()
    assert not gated.gpu.is_done(held)
    assert not gated.gpu.is_done(behind)
    assert gated.account.is_held


def test_a_launch_behind_a_copy_is_not_held_before_its_turn_in_the_stream(gated: Gated) -> None:
    """A VM whose launch waits for an event cannot use a turn."""
    gated.grant(LONG_NS)
    hang = gated.gpu.launch("hang")
    gated.gpu.driver.await_hanging()
    gated.poll()
    gated.grant(CLOSED)
    gated.gpu.record(1)
    gated.gpu.await_event(1, stream=1)
    behind = gated.gpu.launch("empty", stream=1)
    gated.poll()
    assert gated.account.is_held
    gated.gpu.driver.release()
    gated.gpu.wait(hang)
    gated.grant(OPEN)
    gated.gpu.wait(behind)


def test_a_cancelled_launch_is_not_held_any_more(gated: Gated) -> None:
    gated.grant(CLOSED)
    held = gated.gpu.launch("empty")
    gated.poll()
    gated.gpu.handle.ops.cancel(gated.gpu.handle, 1)
    gated.poll()
    gated.gpu.wait(held, status=Status.CANCELLED)
    assert not gated.account.is_held
    assert gated.launched == 0


def test_a_paused_engine_waits_for_no_held_launch_and_asks_for_no_turn(gated: Gated) -> None:
    """Programs load and workers stop beside a closed gate."""
    gated.grant(CLOSED)
    held = gated.gpu.launch("empty")
    gated.poll()
    until(gated.gpu.pause)
    while_paused = gated.account.is_held
    gated.gpu.resume()
    gated.poll()
    assert (while_paused, gated.account.is_held) == (False, True)
    gated.grant(OPEN)
    gated.gpu.wait(held)


def test_a_held_worker_naps_shortly(gated: Gated) -> None:
    gated.grant(CLOSED)
    gated.gpu.launch("empty")
    gated.poll()
    assert gated.gpu.nap_ns(time.monotonic_ns() + 10**9) == NAP_NS


def test_launches_go_on_if_the_daemon_does_not_look_any_more(gated: Gated) -> None:
    gated.grant(CLOSED)
    gated.gpu.wait(gated.gpu.launch("empty"), gated.gpu.launch("empty"))


# ---- turns ---------------------------------------------------------------------------------------


def test_in_a_turn_launches_of_unknown_length_go_one_by_one(gated: Gated) -> None:
    gated.grant(LONG_NS)
    launches = [gated.gpu.launch("hang", stream=stream) for stream in range(3)]
    gated.gpu.driver.await_hanging()
    gated.poll()
    assert gated.launched == 1
    assert not gated.account.is_held, "they wait for the first, and not for a turn"
    while not gated.gpu.is_done(*launches):
        gated.gpu.driver.release()
        gated.poll()


def test_in_a_turn_few_short_launches_are_submitted_ahead(gated: Gated) -> None:
    make_short(gated.gpu)
    gated.grant(LONG_NS)
    before = gated.launched
    gated.gpu.driver.hold()
    launches = [gated.gpu.launch("empty", stream=stream) for stream in range(20)]
    gated.poll()
    assert gated.launched - before == SHORT_AHEAD
    gated.gpu.driver.go_on()
    gated.gpu.wait(*launches)


def test_streams_of_a_vm_take_turns_in_its_turn(gated: Gated) -> None:
    count = 8
    data = gated.gpu.alloc(4)
    params = struct.pack("<QI", data, 1)
    gated.grant(LONG_NS)
    launches = [gated.gpu.launch("slow", params, stream=stream) for stream in (0, 1) for _ in range(count)]
    while not gated.gpu.is_done(*launches):
        gated.poll()
    streams = [op.stream for op in gated.gpu.finished]
    assert min(streams[:count].count(0), streams[:count].count(1)) > 1, streams


def test_a_stream_that_is_cancelled_does_not_keep_others_waiting(gated: Gated) -> None:
    gated.grant(CLOSED)
    cancelled = gated.gpu.launch("empty", stream=1)
    gated.poll()
    gated.gpu.handle.ops.cancel(gated.gpu.handle, 1)
    gated.gpu.wait(cancelled, status=Status.CANCELLED)
    gated.grant(LONG_NS)
    gated.gpu.wait(gated.gpu.launch("empty", stream=0))


def test_a_turn_ends_at_the_first_launch_beyond_its_time(gated: Gated) -> None:
    gated.grant(1)
    first = gated.gpu.launch("hang")
    second = gated.gpu.launch("empty", stream=1)
    gated.gpu.driver.await_hanging()
    gated.poll()
    assert gated.launched == 1
    assert gated.account.is_held
    gated.rings()
    gated.gpu.driver.release()
    gated.gpu.wait(first)
    assert gated.rings() == 1, "nothing of the turn runs any more"
    assert not gated.gpu.is_done(second)


def test_launches_of_a_closed_gate_run_to_their_end(gated: Gated) -> None:
    hang = gated.gpu.launch("hang")
    gated.gpu.driver.await_hanging()
    gated.poll()
    gated.grant(CLOSED)
    gated.poll()
    assert gated.account.since_ns != 0
    gated.gpu.driver.release()
    gated.gpu.wait(hang)
    assert gated.rings() == 1


def test_in_a_turn_a_launch_is_not_charged_for_the_copy_before_it(gated: Gated) -> None:
    address = gated.gpu.alloc(4)
    gated.grant(LONG_NS)
    gated.gpu.driver.hold()
    gated.gpu.fill(address, 4, 1)
    behind = gated.gpu.launch("empty")
    gated.poll()
    assert gated.launched == 1
    assert gated.account.since_ns == 0
    gated.gpu.driver.go_on()
    gated.gpu.wait(behind)
    assert gated.account.ran_ns > 0


# ---- graphs --------------------------------------------------------------------------------------


def test_graphs_with_kernels_are_held(gated: Gated) -> None:
    gated.grant(CLOSED)
    graph = run(gated.gpu, launch(gated.gpu, "empty"))
    gated.poll()
    assert gated.launched == 0
    assert gated.account.is_held
    gated.grant(OPEN)
    gated.gpu.wait(graph)
    assert gated.account.ran_ns > 0


def test_a_kernel_later_in_a_graphs_batch_is_held_with_it(gated: Gated) -> None:
    address = gated.gpu.alloc(4)
    fill: dict[str, Any] = {"kind": lib.VGC_OPK_FILL, "dst": address, "size": 4, "value": 1, "unit": 4}
    gated.grant(CLOSED)
    graph = run(gated.gpu, fill, launch(gated.gpu, "empty"))
    gated.poll()
    assert gated.gpu.driver.count("cuMemsetD32Async") == 0
    assert gated.account.is_held
    gated.grant(OPEN)
    gated.gpu.wait(graph)


def test_graphs_without_kernels_pass_a_closed_gate(gated: Gated) -> None:
    address = gated.gpu.alloc(4)
    fill: dict[str, Any] = {"kind": lib.VGC_OPK_FILL, "dst": address, "size": 4, "value": 1, "unit": 4}
    gated.grant(CLOSED)
    gated.gpu.wait(run(gated.gpu, fill, fill))
    assert gated.account == Account(0, 0, is_held=False)


def test_a_graph_is_held_between_its_batches(gated: Gated) -> None:
    make_short(gated.gpu)
    gated.gpu.driver.hold()
    before = gated.launched
    graph = run(gated.gpu, *[launch(gated.gpu, "empty")] * (BATCH + 1))
    gated.poll()
    gated.grant(CLOSED)
    gated.gpu.driver.go_on()
    while not gated.account.is_held:
        gated.poll()
    assert gated.launched - before == BATCH
    assert graph.start_ns == 0
    gated.grant(OPEN)
    gated.gpu.wait(graph)
    assert gated.launched - before == BATCH + 1


# ---- pages ---------------------------------------------------------------------------------------


def test_pages_have_the_engines_layout() -> None:
    for name, fields in (("vgc_gate_grant", GRANT_FIELDS), ("vgc_gate_account", ACCOUNT_FIELDS)):
        found = ffi.typeof(f"struct {name}").fields
        assert [(field, info.offset) for field, info in found] == [(field, 8 * i) for i, field in enumerate(fields)]


def test_a_worker_cannot_write_its_grant_or_shrink_its_pages() -> None:
    pages = GatePages()
    try:
        grant, account, _bell = pages.fds
        with pytest.raises(PermissionError):
            mmap.mmap(grant, PAGE_BYTES)
        with pytest.raises(PermissionError):
            os.pwrite(grant, b"x", 0)
        for fd in (grant, account):
            with pytest.raises(PermissionError):
                os.ftruncate(fd, 0)
            with pytest.raises(PermissionError):
                fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
        pages.grant(1, 2, 3)
        with mmap.mmap(grant, PAGE_BYTES, prot=mmap.PROT_READ) as page:
            assert memoryview(page).cast("Q")[:3].tolist() == [1, 2, 3]
    finally:
        pages.close()
