"""vgcctl's verbs against one daemon."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.control_daemon import FakeDaemon
from tests.unit.vgcctl_rig import ticking, until, vgcctl, with_daemon


def test_ls_shows_gpus_vms_and_channels(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("ls", "--daemon", daemon.url)
        assert ran.code == 0
        for word in ("h1", "Simulated H200", "h1-vm0", "h1-vm1", "580.95.05"):
            assert word in ran.out
        ran = await vgcctl("--json", "--daemon", daemon.url, "ls", "vms", "vm=*vm1")
        assert [vm["vm"] for vm in ran.json] == ["h1-vm1"]

    with_daemon(tmp_path, test)


def test_opened_channels_stay_open_until_close(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        opening = await vgcctl(
            "open", "vm=h1-vm0,pe=0-1,fn=log", "--level", "warning", "--daemon", daemon.url, "--json"
        )
        (instance,) = opening.json
        assert (instance["instance"], instance["level"], len(instance["channels"])) == ("h1/1", 3, 2)
        listing = await vgcctl("ls", "channels", "--daemon", daemon.url)
        assert "h1/1" in listing.out
        assert "warning" in listing.out
        changed = await vgcctl("level", "h1/1", "debug", "--sample", "2", "--daemon", daemon.url, "--json")
        assert [item["level"] for item in changed.json] == [5]
        assert daemon.host.instances[1].sample == 2
        closed = await vgcctl("close", "1", "--daemon", daemon.url)
        assert "h1/1" in closed.out
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_close_takes_selectors_and_all(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        for selector in ("vm=h1-vm0,fn=log", "vm=h1-vm1,fn=log", "vm=h1-vm1,fn=perf"):
            await vgcctl("open", selector, "--daemon", daemon.url)
        ran = await vgcctl("close", "vm=h1-vm1,fn=log", "--daemon", daemon.url, "--json")
        assert ran.json == {"closed": ["h1/2"]}
        assert len((await vgcctl("close", "--all", "--daemon", daemon.url, "--json")).json["closed"]) == 2
        assert (await vgcctl("close", "--all", "--daemon", daemon.url)).out == "nothing is open\n"
        assert (await vgcctl("close", "--daemon", daemon.url)).code == 2

    with_daemon(tmp_path, test)


def test_tail_prints_records_and_leaves_nothing_open(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await ticking(vgcctl("tail", "vm=h1-vm0,pe=0-1,fn=log", "--count", "3", "--daemon", daemon.url), daemon)
        assert ran.code == 0
        assert len(ran.lines) == 3
        where, fn, *_ = ran.lines[0].split()
        assert where in ("h1/h1-vm0/0", "h1/h1-vm0/1")
        assert fn == "log"
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_tail_as_json_is_one_object_per_line(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await ticking(vgcctl("tail", "vm=h1-vm0", "--count", "4", "--json", "--daemon", daemon.url), daemon)
        rows = [json.loads(line) for line in ran.lines]
        assert {row["type"] for row in rows} == {"record"}
        assert {row["vm"] for row in rows} == {"h1-vm0"}

    with_daemon(tmp_path, test)


def test_tail_that_is_interrupted_closes_its_channels(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        tail = asyncio.ensure_future(vgcctl("tail", "fn=log", "--daemon", daemon.url))
        await until(lambda: len(daemon.host.instances) == 1, daemon)
        tail.cancel()
        with pytest.raises(asyncio.CancelledError):
            await tail
        await until(lambda: not daemon.host.instances, daemon)

    with_daemon(tmp_path, test)


def test_send_reaches_the_kernel_of_an_element(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        sending = vgcctl("send", "vm=h1-vm0,pe=2", r"42\n", "--eof", "--for", "0.1", "--daemon", daemon.url)
        ran = await ticking(sending, daemon)
        assert ran.code == 0
        (sent,) = daemon.host.sent
        assert (sent["data"], sent["eof"]) == (b"42\n", True)
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_send_of_a_long_file_goes_in_pieces(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        data = bytes(range(256)) * 200
        (tmp_path / "input").write_bytes(data)
        options = ("--file", str(tmp_path / "input"), "--linger", "0", "--daemon", daemon.url)
        ran = await ticking(vgcctl("send", "vm=h1-vm0,pe=0", *options), daemon)
        assert ran.code == 0
        assert b"".join(sent["data"] for sent in daemon.host.sent) == data
        assert max(len(sent["data"]) for sent in daemon.host.sent) <= 16 << 10

    with_daemon(tmp_path, test)


def test_send_that_a_kernel_does_not_read_fails_and_says_where(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.world.vms["h1-vm0"].frozen = True
        sending = vgcctl("send", "pe=0-1,vm=h1-*", "42", "--for", "0.5", "--linger", "0", "--daemon", daemon.url)
        ran = await ticking(sending, daemon)
        assert ran.code == 1
        assert [line.partition(":")[2].partition(":")[0] for line in ran.err.splitlines()] == [
            " h1/h1-vm0/0 has read 0 of 2 bytes",
            " h1/h1-vm0/1 has read 0 of 2 bytes",
        ]
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


def test_send_is_for_stdio_only(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("send", "fn=log,pe=0", "x", "--daemon", daemon.url)
        assert ran.code == 2
        assert "fn=stdio" in ran.err

    with_daemon(tmp_path, test)


def test_stat_counts_for_a_while_and_leaves_other_channels_open(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("stat", "vm=h1-vm0", "--for", "0.01s", "--daemon", daemon.url)
        assert ran.code == 0
        assert len(ran.lines) == 5
        assert ran.lines[0].split()[:3] == ["host", "vm", "pe"]
        assert not daemon.host.instances
        await vgcctl("open", "vm=h1-vm0,pe=3,fn=perf", "--daemon", daemon.url)
        ran = await vgcctl("stat", "vm=h1-vm0,pe=3", "--for", "0.01s", "--json", "--daemon", daemon.url)
        assert [(stat["host"], stat["pe"]) for stat in ran.json] == [("h1", 3)]
        assert len(daemon.host.instances) == 1

    with_daemon(tmp_path, test)


def test_stat_watch_shows_tables_until_the_count(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("stat", "vm=h1-vm0", "--watch", "0.01s", "--count", "2", "--daemon", daemon.url)
        assert ran.out.count("busy share") == 2

    with_daemon(tmp_path, test)


def test_watch_shows_the_load_of_every_element(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("watch", "--count", "1", "--daemon", daemon.url)
        assert ran.code == 0
        heat = [line.strip() for line in ran.lines if line.strip().startswith("[")]
        assert [len(line) for line in heat] == [6, 6]
        assert "h1-vm1" in ran.out
        assert not daemon.host.instances
        ran = await vgcctl("watch", "--count", "1", "--json", "--daemon", daemon.url)
        assert set(ran.json) == {"load", "hosts", "migrations"}

    with_daemon(tmp_path, test)


def test_snap_is_taken_kept_and_compared(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        first, second = str(tmp_path / "a.json"), str(tmp_path / "b.json")
        ran = await vgcctl("snap", "take", "vm=h1-vm0", "--save", first, "--daemon", daemon.url)
        assert "100 % answered" in ran.out
        same = await vgcctl("snap", "diff", first, first, "--daemon", daemon.url)
        kernels = [pe["kernel"] for pe in read_json(first)["hosts"]["h1"]["pes"]]
        stuck = len(kernels) - kernels.count(None)
        assert f"0 changed, {stuck} stuck, {4 - stuck} idle as before" in same.out
        changed = read_json(first)
        changed["hosts"]["h1"]["pes"][1]["kernel"] = "other"
        del changed["hosts"]["h1"]["pes"][3]
        write_json(second, changed)
        ran = await vgcctl("snap", "diff", first, second, "--json", "--daemon", daemon.url)
        assert [(one["pe"], one["kind"]) for one in ran.json["changes"] if one["kind"] != "stuck"] == [
            (1, "other kernel"),
            (3, "gone"),
        ]
        assert (ran.json["changed"], ran.json["changes"][1]["after"]["kernel"]) == (2, "other")
        shown = await vgcctl("snap", "diff", first, second, "--daemon", daemon.url)
        assert "-> other" in shown.out
        assert "2 changed, " in shown.out
        refused = await vgcctl("snap", "list", "--daemon", daemon.url)
        assert refused.code == 2
        assert "control centre" in refused.err
        (tmp_path / "no.json").write_text("[]")
        assert (await vgcctl("snap", "show", str(tmp_path / "no.json"), "--daemon", daemon.url)).code == 2

    with_daemon(tmp_path, test)


def read_json(path: str) -> Any:
    return json.loads(Path(path).read_text())


def write_json(path: str, value: object) -> None:
    Path(path).write_text(json.dumps(value))


def test_faults_come_with_advice_and_are_cleared(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        assert (await vgcctl("fault", "--daemon", daemon.url)).out == "no faults\n"
        number = daemon.fault("h1-vm0", 1)
        daemon.fault("h1-vm1", 2)
        ran = await vgcctl("fault", "ls", "vm=h1-vm0", "--daemon", daemon.url)
        assert "advice: Check the kernel's indices" in ran.out
        assert "h1/h1-vm0/1" in ran.out
        ran = await vgcctl("fault", "clear", f"h1/{number}", "--daemon", daemon.url, "--json")
        assert ran.json == {"cleared": 1}
        ran = await vgcctl("fault", "clear", "vm=h1-*", "--daemon", daemon.url)
        assert ran.out == "1 cleared\n"
        assert len((await vgcctl("fault", "ls", "--cleared", "--json", "--daemon", daemon.url)).json) == 2

    with_daemon(tmp_path, test)


def test_fault_watch_shows_them_as_they_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def test(daemon: FakeDaemon) -> None:
        watching = asyncio.ensure_future(vgcctl("fault", "watch", "vm=h1-vm0", "--json", "--daemon", daemon.url))
        await until(lambda: ("subscribe", {"records": [], "events": True}) in daemon.asked, daemon)
        daemon.fault("h1-vm1", 1)
        daemon.fault("h1-vm0", 3)
        await daemon_answered(daemon)
        watching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await watching

    with_daemon(tmp_path, test)
    assert capsys.readouterr().out == ""


async def daemon_answered(daemon: FakeDaemon) -> None:
    """Returns when the daemon has answered a request, and so has sent all pushes before it."""
    before = len(daemon.asked)
    await vgcctl("ls", "--daemon", daemon.url)
    assert len(daemon.asked) > before


def test_policies_are_added_set_and_removed(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        adding = ("policy", "add", "hang", "vm=h1-*", "--kinds", "hung", "--action", "reset")
        assert (await vgcctl(*adding, "--daemon", daemon.url)).code == 0
        assert daemon.host.policies[0]["action"] == "reset"
        assert "hang" in (await vgcctl("policy", "ls", "--daemon", daemon.url)).out
        file = tmp_path / "policies.yaml"
        file.write_text(
            "policies:\n- {name: flood, selector: '', kinds: [kernel], trigger: sustained, count: 10, window_s: 60, action: quiesce}\n"
        )
        ran = await vgcctl("policy", "set", str(file), "--json", "--daemon", daemon.url)
        assert [policy["name"] for policy in ran.json] == ["flood"]
        missing = await vgcctl("policy", "rm", "hang", "--daemon", daemon.url)
        assert (missing.code, "known: flood" in missing.err) == (3, True)
        await vgcctl("policy", "rm", "flood", "--daemon", daemon.url)
        assert daemon.host.policies == []
        file.write_text("3")
        assert (await vgcctl("policy", "set", str(file), "--daemon", daemon.url)).code == 2

    with_daemon(tmp_path, test)


def test_migrate_can_also_confine_and_balance(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("migrate", "h1-vm0", "--to", "gpu=1", "--daemon", daemon.url)
        assert (ran.code, daemon.world.vms["h1-vm0"].gpu) == (0, 1)
        assert "h1/h1-vm0: done" in ran.err
        ran = await vgcctl("migrate", "h1/h1-vm1", "--confine", "0-1", "--daemon", daemon.url)
        confined = [daemon.world.vms["h1-vm1"].confined_to]
        await vgcctl("migrate", "h1-vm1", "--confine", "all", "--daemon", daemon.url)
        assert [*confined, daemon.world.vms["h1-vm1"].confined_to] == [[0, 1], None]
        assert (await vgcctl("migrate", "--balance", "--daemon", daemon.url)).code == 0
        listing = await vgcctl("migrate", "--json", "--daemon", daemon.url)
        assert [move["vm"] for move in listing.json] == ["h1-vm1", "h1-vm1", "h1-vm0"]  # newest first

    with_daemon(tmp_path, test)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["migrate", "h1-vm0"], "--to gpu=1"),
        (["migrate", "h1-vm0", "--to", "vm=x"], "allowed: gpu=1"),
        (["migrate", "h1-vm0", "--confine", "9-1"], "allowed: numbers and ranges"),
        (["migrate", "--to", "1"], "the VM is missing"),
        (["level", "1"], "a LEVEL, --sample N, or both"),
        (["open", "vm=h1-vm0"], "fn is missing"),
        (["ls", "vms", "gpus"], "one of all, hosts"),
        (["ls", "nonsense"], "one of all, hosts"),
        (["ls", "colour=red"], "allowed: key=value"),
        (["close", "pe=x"], "allowed: numbers and ranges"),
        (["replay"], "a daemon keeps no recordings"),
        (["replay", "--from", "1m", "--to", "2m"], "not before"),
        (["send", "vm=h1-vm0", "--file", "/nonexistent"], "No such file"),
        (["flash", "stage", "/nonexistent"], "No such file"),
    ],
)
def test_malformed_arguments_are_a_usage_error(tmp_path: Path, argv: list[str], text: str) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl(*argv, "--daemon", daemon.url)
        assert (ran.code, ran.out) == (2, "")
        assert text in ran.err
        assert not daemon.host.instances

    with_daemon(tmp_path, test)


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["migrate", "nobody", "--to", "1"], "known: h1/h1-vm0, h1/h1-vm1"),
        (["migrate", "h1-vm0", "--to", "9"], "no GPU 9"),
        (["tail", "vm=nobody"], "nothing matches"),
        (["open", "vm=nobody,fn=log"], "nothing matches"),
        (["close", "7"], "open: none"),
        (["level", "h1/7", "info"], "open: none"),
        (["policy", "ls", "--host", "nowhere"], "known: h1"),
        (["send", "vm=nobody", "x"], "nothing matches"),
        (["fault", "ls", "vm=nobody"], "no VM matches 'vm=nobody'; known: h1/h1-vm0, h1/h1-vm1"),
    ],
)
def test_unknown_objects_are_refused(tmp_path: Path, argv: list[str], text: str) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl(*argv, "--daemon", daemon.url)
        assert (ran.code, ran.out) == (3, "")
        assert text in ran.err

    with_daemon(tmp_path, test)


def test_flash_stages_activates_and_rolls_back(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        image = tmp_path / "image"
        image.write_bytes(b"unsigned")
        refused = await vgcctl("flash", "stage", str(image), "--daemon", daemon.url)
        assert (refused.code, "no signature" in refused.err) == (3, True)
        image.write_bytes(b"VGCF control 1.1.0")
        assert (await vgcctl("flash", "ls", "--daemon", daemon.url)).code == 0
        staged = await vgcctl("flash", "stage", str(image), "vm=h1-vm0", "--json", "--daemon", daemon.url)
        assert staged.code == 0
        versions = {pe["other"] for pe in staged.json["pes"]}
        assert len(versions) == 1
        (version,) = versions
        ran = await vgcctl("flash", "activate", version, "vm=h1-vm0", "--daemon", daemon.url)
        assert (ran.code, "4 of 4 elements" in ran.err) == (0, True)
        assert (await vgcctl("flash", "rollback", "vm=h1-vm0", "--daemon", daemon.url)).code == 0
        image.write_bytes(b"")
        assert (await vgcctl("flash", "stage", str(image), "--daemon", daemon.url)).code == 2

    with_daemon(tmp_path, test)


def test_doctor_lists_what_works_and_what_fails(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("doctor", "--daemon", daemon.url)
        assert ran.code == 0
        assert "role admin" in ran.out
        daemon.world.vms["h1-vm0"].state = "failed"
        daemon.world.vms["h1-vm1"].state = "stopped"
        daemon.world.clock_ns = lambda: 10**18
        ran = await vgcctl("doctor", "--daemon", daemon.url)
        assert "its clock differs" in ran.out
        assert "VM h1/h1-vm0 is failed" in ran.out
        assert "h1-vm1" not in ran.out, "it waits for its QEMU"

    with_daemon(tmp_path, test)


def test_a_wrong_token_is_refused_and_doctor_gives_advice(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        ran = await vgcctl("ls", "--token", "old", "--daemon", daemon.url)
        assert (ran.code, "token is unknown" in ran.err) == (3, True)
        assert (await vgcctl("ls", "--token", "right", "--daemon", daemon.url)).code == 0
        ran = await vgcctl("doctor", "--token", "old", "--daemon", daemon.url)
        assert (ran.code, "vgcctl token new" in ran.out) == (1, True)

    with_daemon(tmp_path, test, token="right")


def test_death_of_the_daemon_during_a_command_is_reported(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        tail = asyncio.ensure_future(vgcctl("tail", "fn=log", "--daemon", daemon.url))
        await until(lambda: any(verb == "subscribe" for verb, _ in daemon.asked), daemon)
        await daemon.stop()
        ran = await tail
        assert ran.code == 4
        assert "hung up" in ran.err or "broke" in ran.err
        await daemon.start()

    with_daemon(tmp_path, test)


def test_texts_of_guests_cannot_move_the_cursor(tmp_path: Path) -> None:
    async def test(daemon: FakeDaemon) -> None:
        daemon.fault("h1-vm0", 1, text="\x1b[2J\x07gone")
        ran = await vgcctl("fault", "--daemon", daemon.url)
        assert "\x1b" not in ran.out
        assert "\\x1b[2J\\x07gone" in ran.out

    with_daemon(tmp_path, test)
