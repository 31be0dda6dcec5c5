"""Health of the control system as data: `/self`, ``/metrics``, ``vgcctl status`` and ``vgcctl doctor`` tell of the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from control_center import health
from control_center.daemon_link import skew_ns
from control_center.scope import Scope
from control_center.stream import Client, Outbox
from tests.fakes.control_daemon import FakeDaemon
from tests.unit.centre_rig import Rig, access_of, rig_of, run, token_file
from tests.unit.test_centre_metrics import of, scraped
from tests.unit.vgcctl_rig import vgcctl, with_daemon

SECOND = 10**9


async def problems(rig: Rig) -> list[tuple[str, str]]:
    """Problems as `/self` tells them: where, and what."""
    return [(one["host"], one["what"]) for one in (await rig.get("/self"))["problems"]]


def test_centre_that_is_well_has_no_problems(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            assert await problems(rig) == []

    run(test())


def test_held_loop_and_late_links_of_a_daemon_are_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            host = rig.daemon.host
            now = rig.clock.real_ns()
            host.loop_delay_ns = 2 * SECOND
            host.link_pauses = [
                {"vm": "h1-vm0", "link": "records", "pauses": 9, "last_ns": now - 5 * SECOND},
                {"vm": "h1-vm1", "link": "messages", "pauses": 3, "last_ns": now - 600 * SECOND},
            ]
            held, late = await problems(rig)
            assert held == ("h1", "vgcd did nothing for 2 s within the last minute, while its VMs waited")
            assert late == ("h1", "vgcd reads records of its worker late, as they take more time than one VM may")
            samples = await scraped(rig)
            assert of(samples, "vgc_control_loop_delay_seconds", Hostname="h1") == [2.0]
            assert of(samples, "vgc_control_loop_delay_seconds", Hostname="h2") == [0.0]
            assert of(samples, "vgc_control_link_pauses_total", vm="h1-vm0", link="records") == [9]
            assert of(samples, "vgc_control_link_pauses_total", vm="h1-vm1", link="messages") == [3]

    run(test())


def test_host_that_is_stale_or_has_a_wrong_clock_is_told(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path, 2) as rig:
            rig.daemon.world.clock_ns = lambda: rig.clock.real_ns() - 3 * SECOND // 2
            await rig.poll()
            ((host, what),) = await problems(rig)
            assert (host, what) == ("h1", "its clock differs by 1.5 s: times of its records are wrong")
            assert (await rig.get("/hosts"))[0]["clock_skew_ns"] == -3 * SECOND // 2
            assert of(await scraped(rig), "vgc_host_clock_skew_seconds", Hostname="h1") == [-1.5]
            rig.clock.seconds = 10
            await rig.host("h2").poll()
            rig.host("h1").look()
            ((host, what),) = await problems(rig)
            assert host == "h1"
            assert what.startswith("is stale: ")

    run(test())


def test_answer_that_took_long_accounts_for_a_difference_of_clocks() -> None:
    assert skew_ns(105, 100, 110) == 0
    assert skew_ns(95, 100, 110) == -5
    assert skew_ns(117, 100, 110) == 7


def test_dropped_messages_of_streams_are_told_for_a_minute(tmp_path: Path) -> None:
    async def test() -> None:
        async with rig_of(tmp_path) as rig:
            client = Client(Scope(), events=True, outbox=Outbox(limit_bytes=10))
            rig.centre.hub.add(client)
            rig.daemon.fault("h1-vm0")
            await rig.settle()
            rig.centre.tick()
            rig.centre.hub.remove(client)
            dropped = rig.centre.hub.dropped
            assert dropped > 0, "those of a client that is gone count on"
            ((host, what),) = await problems(rig)
            assert host == "centre"
            assert f"{dropped} since the centre's start" in what
            assert of(await scraped(rig), "vgc_centre_stream_messages_dropped_total") == [dropped]
            rig.clock.seconds += 61
            await rig.poll()
            assert await problems(rig) == []

    run(test())


def test_callers_that_see_some_vms_are_told_no_problems(tmp_path: Path) -> None:
    async def test() -> None:
        secrets = token_file(tmp_path / "tokens", ("view", ["h1-vm0"], None, "owner"))
        async with rig_of(tmp_path, access=access_of(tmp_path / "tokens", lambda: 0)) as rig:
            rig.daemon.host.loop_delay_ns = 2 * SECOND
            rig.secret = secrets["owner"]
            assert await problems(rig) == []

    run(test())


def _hold(daemon: FakeDaemon) -> None:
    daemon.host.loop_delay_ns = 2 * SECOND


def _read_late(daemon: FakeDaemon) -> None:
    last_ns = daemon.world.clock_ns()
    daemon.host.link_pauses = [{"vm": "h1-vm0", "link": "records", "pauses": 1, "last_ns": last_ns}]


@pytest.mark.parametrize(
    ("harm", "told"), [(_hold, "vgcd did nothing for 2 s"), (_read_late, "vgcd reads records of its worker late")]
)
def test_doctor_and_status_tell_of_a_daemon(tmp_path: Path, harm: Callable[[FakeDaemon], None], told: str) -> None:
    async def test(daemon: FakeDaemon) -> None:
        well = await vgcctl("doctor", "--daemon", daemon.url)
        assert "daemons' loops were held for 0 ns at most" in well.out
        assert (await vgcctl("status", "--daemon", daemon.url)).code == 0
        harm(daemon)
        assert told in (await vgcctl("doctor", "--daemon", daemon.url)).out
        ran = await vgcctl("status", "--daemon", daemon.url)
        assert (ran.code, told in ran.out) == (5, True)

    with_daemon(tmp_path, test)


def test_problems_say_where_they_are() -> None:
    problem = health.Problem("h1", "web1", "x", "y")
    assert problem.where == "h1/web1"
    assert dataclasses.replace(problem, vm=None).where == "h1"
