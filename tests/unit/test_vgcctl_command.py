"""vgcctl's command line: options, targets, exit codes, help."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import subprocess
import sys
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import NoReturn

import pytest

from control_center import address
from control_center.cli import command, connect
from control_center.cli.command import parse
from control_center.cli.connect import choose
from control_center.cli.link import Target
from control_center.cli.output import Output, duration, ranges, record_line, size, table
from control_center.cli.problems import UsageError
from control_center.cli.times import length_s, moment_ns, speed
from control_center.cli.verbs import VERBS
from control_center.cli.verbs.tail import show
from tests.fakes.guest import REPOSITORY
from tests.unit.vgcctl_rig import vgcctl
from virtio_proto.control import tokens


def run(*argv: str) -> tuple[int, str, str]:
    ran = asyncio.run(vgcctl(*argv))
    return ran.code, ran.out, ran.err


def test_help_names_every_verb() -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(re.search(rf"^ +{verb} ", out, re.MULTILINE) for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_examples(verb: str) -> None:
    code, out, _ = run(verb, "--help")
    assert code == 0
    assert f"vgcctl {verb}" in out.partition("examples:")[2]


def _examples() -> list[str]:
    """Every command line in the help, without its explanation."""
    return [
        re.split(r" {2,}|[|]|;", line.strip())[0].strip()
        for verb in VERBS
        for line in import_module(f"control_center.cli.verbs.{verb}").EXAMPLES.splitlines()
        if line.strip().startswith("vgcctl ")
    ]


@pytest.mark.parametrize("line", _examples())
def test_every_example_of_the_help_is_a_command_line(line: str) -> None:
    words = shlex.split(line)[1:]
    assert parse(words).verb == words[0]


def test_arguments_may_stand_between_options() -> None:
    given = parse(["policy", "add", "hang", "--kinds", "hung", "--action", "reset", "vm=web1"])
    assert (given.name, given.kinds, given.selector) == ("hang", ["hung"], "vm=web1")
    given = parse(["send", "vm=web1", "--eof", "42", "--for", "1s"])
    assert (given.selector, given.text, given.eof, given.time) == ("vm=web1", "42", True, 1)


def test_firmware_version_argument_is_not_the_version_option(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert command.main(["flash", "activate", "1.1.0", "--daemon", f"unix:{tmp_path}/none.sock"]) == 4
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("vgcctl ")


def test_help_needs_no_network_library() -> None:
    heavy = ("aiohttp", "asyncio", "msgpack", "msgspec", "numpy", "cryptography", "psycopg")
    program = "import sys; from control_center.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass\n"
    program += f"print([name for name in {heavy} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["fly"],
        ["tail", "pe=0-3,pe=4"],
        ["ls", "vm"],
        ["send", "vm=web1", "text", "--file", "f"],
        ["tail", "colour=red"],
        ["open", "fn=nothing"],
        ["tail", "--level", "loud"],
        ["tail", "--count", "0"],
        ["replay", "--speed", "2000x"],
        ["replay", "--from", "yesterday"],
        ["replay", "--recording", "mysql://x"],
        ["open", "fn=log", "--owner", "a\nb"],
        ["flash", "activate", "1\x1b"],
        ["ls", "--centre", "nonsense"],
        ["ls", "--daemon", "nonsense"],
        ["ls", "--centre", "http://a", "--daemon", "unix:/b"],
        ["token", "new", "--vms", "a b"],
    ],
)
def test_a_wrong_command_line_ends_with_2_and_the_allowed_values(argv: list[str]) -> None:
    code, out, err = run(*argv)
    assert (code, out) == (2, "")
    assert "allowed" in err or "invalid choice" in err


@pytest.mark.parametrize("verb", ["ls", "stat", "watch", "top", "fault"])
def test_unreachable_server_ends_with_4(verb: str, tmp_path: Path) -> None:
    code, _, err = run(verb, "--daemon", f"unix:{tmp_path}/none.sock")
    assert (code, "none.sock cannot be reached: No such file" in err) == (4, True)
    code, _, err = run(verb, "--centre", "http://127.0.0.1:9")
    assert (code, "127.0.0.1:9 does not answer" in err) == (4, True)


def test_daemon_is_found_at_the_usual_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    places = (tmp_path / "shipped" / "s", tmp_path / "s")
    monkeypatch.setattr(address, "SOCKETS", places)
    assert choose(Target(), {}) == Target(centre="http://127.0.0.1:7070", is_guess=True)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(places[1]))
        assert choose(Target(), {}) == Target(daemon=f"unix:{places[1]}")
        places[0].parent.mkdir()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(places[0]))
            assert choose(Target(), {}) == Target(daemon=f"unix:{places[0]}")


def test_places_where_no_daemon_was_found_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(address, "SOCKETS", (tmp_path / "a", tmp_path / "b"))
    monkeypatch.setattr(connect, "DEFAULT_CENTRE", "http://127.0.0.1:9")
    for name in ("VGC_CENTRE", "VGC_DAEMON"):
        monkeypatch.delenv(name, raising=False)
    code, _, err = run("status")
    assert (code, "http://127.0.0.1:9 does not answer" in err) == (4, True)
    assert f"nor is there {tmp_path}/a or {tmp_path}/b; allowed: --daemon unix:/path, --centre URL" in err


def test_folder_that_is_closed_to_the_user_is_no_reason_to_look_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(type(Path())):  # type: ignore[misc]
        def stat(self, **_others: bool) -> NoReturn:
            raise PermissionError

    monkeypatch.setattr(address, "SOCKETS", (Closed("/closed/s"),))
    assert choose(Target(), {}) == Target(daemon="unix:/closed/s")


def test_doctor_names_an_unreachable_daemon_with_advice(tmp_path: Path) -> None:
    code, out, _ = run("doctor", "--daemon", f"unix:{tmp_path}/none.sock")
    assert code == 1
    assert "is it running?" in out


def test_target_comes_from_the_command_line_then_the_environment() -> None:
    environment = {"VGC_CENTRE": "http://env", "VGC_TOKEN": "t"}
    assert choose(Target(), environment) == Target(centre="http://env", token="t")
    assert choose(Target(daemon="unix:/d", token="own"), environment) == Target(daemon="unix:/d", token="own")
    assert choose(Target(), {"VGC_DAEMON": "unix:/e"}).daemon == "unix:/e"
    assert choose(Target(), {}).centre == "http://127.0.0.1:7070"
    with pytest.raises(UsageError, match="one of"):
        choose(Target(), {"VGC_CENTRE": "http://a", "VGC_DAEMON": "unix:/b"})


def test_a_new_token_is_one_that_daemons_understand() -> None:
    ran = asyncio.run(
        vgcctl("token", "new", "--role", "operate", "--vms", "b", "a", "--expires", "1d", "--name", "ann", "--json")
    )
    (token,) = tokens.parse(ran.json["line"], "tokens")
    assert (token.role, token.vms, token.name) == ("operate", frozenset({"a", "b"}), "ann")
    assert token.expires_ns is not None
    assert ran.json["token"].startswith("vgc_")
    assert "shown once" in asyncio.run(vgcctl("token", "new")).out


def test_moments_are_relative_dates_or_nanoseconds() -> None:
    assert length_s("1.5h") == 5400
    assert moment_ns("1700000000000000000") == 1_700_000_000_000_000_000
    assert moment_ns("2026-11-21T07:30:00+00:00") == 1_795_246_200_000_000_000
    assert moment_ns("-1m") < moment_ns("now")
    assert (speed("10x"), speed("0.1"), speed("max")) == (10, 0.1, 0)
    with pytest.raises(ArgumentTypeError, match="allowed: a length of time"):
        length_s("soon")


def test_tables_align_numbers_to_the_right() -> None:
    text = table(("name", "count"), [{"name": "a", "count": 5}, {"name": "long one", "count": 1234}])
    assert text.splitlines() == ["name      count", "a             5", "long one   1234"]


def test_sizes_durations_and_ranges_are_readable() -> None:
    assert (size(512), size(3 << 20)) == ("512 B", "3 MiB")
    assert (duration(1500), duration(2.5e9)) == ("1.5 us", "2.5 s")
    assert ranges([0, 1, 2, 3, 8]) == "0-3|8"
    assert ranges(None) == "*"


def test_records_about_input_are_shown_as_json_only(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"type": "record", "host": "h", "vm": "v", "pe": 1, "fn": "stdio", "level": 4, "time_ns": 0, "text": "x"}
    for out in (Output(), Output(as_json=True)):
        for kind in ("wants", "took", "text"):
            show(out, {**row, "kind": kind})
    lines = capsys.readouterr().out.splitlines()
    assert [line[0] for line in lines] == ["h", "{", "{", "{"]


def test_the_numbers_of_a_sample_are_named() -> None:
    row = {
        "host": "h",
        "vm": "v",
        "pe": 1,
        "fn": "perf",
        "level": 1,
        "kind": "sample",
        "text": "2 3 40 0",
        "time_ns": 0,
    }
    line = record_line(row, Output(colour=False))
    assert line.startswith("h/v/1 perf critical ")
    assert line.endswith(" sample blocks=2 warps=3 busy_ns=40 stall_ns=0")


def test_only_terminals_get_colours() -> None:
    assert Output(colour=False).paint("x", "red") == "x"
    assert Output(colour=True).paint("x", "red") == "\x1b[31mx\x1b[0m"
    assert Output().paint("x", "red") == "x"


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_every_verb_describes_it_with_examples(verb: str) -> None:
    ran = asyncio.run(vgcctl(verb, "--help"))
    assert (ran.code, ran.err) == (0, "")
    assert f"vgcctl {verb}" in ran.out.partition("examples:")[2]
    assert verb in asyncio.run(vgcctl("--help")).out


def _choices(parser: ArgumentParser) -> Mapping[str, ArgumentParser]:
    """Commands of a parser, each with its own."""
    found = (action.choices for action in parser._actions if isinstance(action, _SubParsersAction))
    return next(found, {})


def test_commands_that_people_are_told_to_run_exist() -> None:
    """In messages and docstrings of the programs, and as code in the documentation."""
    told = {
        (str(path.relative_to(REPOSITORY)), *match.groups())
        for package, shown in (("control_center", ""), ("vhost_backend", ""), ("docs", "(?:^    |`)"))
        for path in sorted((REPOSITORY / package).rglob("*"))
        if path.suffix in (".py", ".md", ".yaml")
        for match in re.finditer(rf"{shown}vgcctl ([a-z]+)(?: ([a-z]+)(?![\w=./:-]))?", path.read_text(), re.MULTILINE)
    }
    assert len(told) > 50
    wrong = []
    for path, verb, action in sorted(told, key=str):
        actions = _choices(_choices(command.parser(verb)).get(verb, ArgumentParser()))
        if verb not in VERBS or (action and actions and action not in actions):
            wrong.append(f"{path}: vgcctl {verb} {action or ''}")
    assert wrong == []


@pytest.mark.parametrize(("verb", "action"), [("fault", "ls"), ("policy", "ls"), ("snap", "list"), ("vm", "list")])
def test_ls_and_list_are_one_action(verb: str, action: str) -> None:
    assert [parse([verb, word]).action for word in ("ls", "list")] == [action, action]
