"""The control centre's configuration and command line: errors name the place and the allowed values."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from control_center import address, config, doctor, server
from control_center.address import TlsAddress, UnixAddress
from control_center.errors import ConfigError
from tests.fakes.control_daemon import FakeDaemon
from tests.small_disk import small_disk
from tests.unit.centre_rig import SHAPE

EXAMPLE = Path(__file__).parents[2] / "docs" / "control-center.example.yaml"


def test_the_example_shows_every_key() -> None:
    found = config.load(EXAMPLE)
    assert [host.name for host in found.hosts] == ["rack1-a", "rack2-b"]
    assert isinstance(found.hosts[0].address, UnixAddress)
    assert found.hosts[1].address == TlsAddress("gpu2.example", 7071)
    assert found.hosts[1].labels == {"rack": "2", "site": "north"}
    assert (found.listen, found.max_pe_series) == (("0.0.0.0", 7070), 10_000)
    assert found.tls is not None
    assert found.tls.clients == {"grafana": "view"}
    assert found.recorder == config.RecorderConfig("sqlite:///var/lib/vgc/recording.db", 7 * 86400.0, 2 << 30)
    text = EXAMPLE.read_text()
    keys = [*config._KEYS, *config._HOST_KEYS, "client_ca", "clients", "retention", "size"]
    assert [key for key in keys if f"{key}:" not in text] == []


def test_the_example_passes_the_commands_own_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--config", str(EXAMPLE), "--check"]) == 0
    assert "2 hosts" in capsys.readouterr().out


def test_help_names_every_option_with_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        server.main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert [option for option in ("--config", "--host", "--listen", "--record", "--check") if option not in text] == []
    assert "vgc-control-center --config" in text


HOST = "hosts:\n- {name: a, url: 'unix:/s'}\n"
WRONG = [
    ("", "f:1: hosts is missing; allowed: a list of 1 to 1024 hosts"),
    ("hosts: []\n", "f:1: hosts is a list; allowed: a list of 1 to 1024 hosts"),
    ("hosts:\n- name: a\n", "f:2: hosts.0 lacks url; allowed: a name, and a url such as unix:/absolute/path or tls"),
    (
        "hosts:\n- {name: a, url: 'http://x'}\n",
        "hosts.0.url is 'http://x'; allowed: unix:/absolute/path or tls://host:port",
    ),
    ("hosts:\n- {name: 'a b', url: 'unix:/s'}\n", "hosts.0.name is 'a b'; allowed: 1 to 63 of A-Z a-z 0-9 _ . -"),
    (HOST + "- {name: a, url: 'unix:/t'}\n", "f:3: hosts.1.name is 'a' again; allowed: each name once"),
    ("hosts:\n- {name: a, url: 'unix:/s', token: x}\n", "hosts.0.token is not a token; allowed: a token of the daemon"),
    ("hosts:\n- {name: a, url: 'unix:/s', key: /k}\n", "has one of certificate and key; allowed: both, or neither"),
    (
        "hosts:\n- {name: a, url: 'unix:/s', labels: [1]}\n",
        "hosts.0.labels is a list; allowed: a mapping of names to text",
    ),
    (HOST + "colour: red\n", "f:3: colour is not a key; allowed: listen, hosts, tls, tokens, recorder, max_pe_series"),
    (HOST + "listen: here\n", "f:3: listen is 'here'; allowed: an address and a port"),
    (HOST + "listen: 0.0.0.0:7070\n", "f: listen is 0.0.0.0:7070 without tokens and tls.clients; allowed: 127.0.0.1"),
    (
        HOST + "listen: 0.0.0.0:7070\ntokens: /t\n",
        "without tls; allowed: 127.0.0.1, or tls, as tokens must not be seen",
    ),
    (HOST + "tls: {certificate: /c}\n", "f:3: tls lacks key; allowed: both of certificate and key"),
    (
        HOST + "tls: {certificate: /c, key: /k, clients: {a: view}}\n",
        "tls.clients is there without client_ca; allowed: both",
    ),
    (
        HOST + "tls: {certificate: /c, key: /k, client_ca: /a}\n",
        "tls.client_ca is there without clients; allowed: both",
    ),
    (HOST + "recorder: {size: 2G}\n", "f:3: recorder lacks url; allowed: sqlite:///path or postgresql://..."),
    (HOST + "recorder: {url: mysql://x}\n", "recorder.url is 'mysql://x'; allowed: sqlite:///path or postgresql"),
    (
        HOST + "recorder: {url: 'sqlite:///x', retention: soon}\n",
        "recorder.retention is 'soon'; allowed: a time such as",
    ),
    ("hosts: [\n", "the file is not YAML"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_errors_name_their_place(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as found:
        config.parse(text, "f")
    assert problem in str(found.value)


def test_all_errors_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as found:
        config.parse("listen: x\nhosts:\n- {name: a b, url: nowhere}\ncolour: 1\n", "f")
    assert len(found.value.problems) == 5


def test_a_token_is_never_shown() -> None:
    with pytest.raises(ConfigError) as found:
        config.parse(
            "hosts:\n- {name: a, url: 'unix:/s', token: secret\u0007}\n".replace("secret\u0007", "'secr'"), "f"
        )
    assert "secr'" not in str(found.value)


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["unix:/run/h7.sock"], ["h7"]),
        (["rack=unix:/run/control.sock", "tls://gpu2.example:7071"], ["rack", "gpu2.example"]),
    ],
)
def test_hosts_can_be_given_on_the_command_line(arguments: list[str], names: list[str]) -> None:
    found = config.from_arguments(None, arguments, "127.0.0.1:0", "sqlite:///tmp/x.db")
    assert [host.name for host in found.hosts] == names
    assert found.listen == ("127.0.0.1", 0)
    assert found.recorder == config.RecorderConfig("sqlite:///tmp/x.db", None, 2 << 30), (
        "bounded, unless said otherwise"
    )


def test_a_store_from_the_command_line_keeps_the_files_limits(tmp_path: Path) -> None:
    path = tmp_path / "centre.yaml"
    path.write_text(HOST + "recorder: {url: 'sqlite:///x', retention: 1h, size: 1G}\n")
    found = config.from_arguments(path, [], None, "sqlite:///y")
    assert found.recorder == config.RecorderConfig("sqlite:///y", 3600.0, 1 << 30)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        ([], "no host is named; allowed: --host unix:/run/vgc/control.sock, or --config"),
        (["--host", "nowhere"], "--host is 'nowhere'; allowed: unix:/absolute/path"),
        (["--host", "a=unix:/s", "--host", "a=unix:/t"], "host a twice; allowed: each name once"),
        (["--host", "unix:/s", "--listen", "0.0.0.0:1"], "without tokens"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read: No such file or directory"),
    ],
)
def test_the_program_ends_with_2_for_a_wrong_configuration(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert server.main(argv) == 2
    assert problem in capsys.readouterr().err


def test_check_reports_a_correct_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "c.yaml").write_text(HOST)
    assert server.main(["--check", "--config", str(tmp_path / "c.yaml")]) == 0
    assert "1 hosts, no errors" in capsys.readouterr().out


def test_the_doctor_names_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "aiohttp" else object())
    monkeypatch.setattr(address, "SOCKETS", (tmp_path / "s",))
    lines = [finding.line() for finding in doctor.examine()]
    assert "MISSING Python module aiohttp: for the web server; pip install 'virtio-gpu-compute[control]'" in lines
    assert any(line.startswith("--") and "start vgcd with --control-socket" in line for line in lines)


def test_the_doctor_exits_with_0_where_nothing_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert server.main(["--doctor"]) == 0
    assert "MISSING" not in capsys.readouterr().out


def test_the_doctor_compares_the_recordings_disk_with_its_size(tmp_path: Path) -> None:
    def room(size_bytes: int, folder: Path) -> str:
        recorder = config.RecorderConfig(f"sqlite://{folder}/recording.db", None, size_bytes)
        (line,) = [finding.line() for finding in doctor.examine(recorder) if "recording" in finding.what]
        return line

    with small_disk(tmp_path / "disk") as disk:
        assert room(100 << 20, disk.folder).startswith("ok      room for the recording: ")
        assert room(100 << 20, disk.folder).endswith("may grow by 100 MiB")
        assert room(1 << 30, disk.folder).startswith("--      room for the recording: ")
        disk.fill()
        assert room(100 << 20, disk.folder).startswith("MISSING room for the recording: 0 MiB are free")
        assert "could not be checked" in room(100 << 20, disk.folder / "none")


def test_the_program_prints_its_address_and_ends_at_sigterm(tmp_path: Path) -> None:
    from aiohttp import ClientSession

    async def test() -> None:
        async with FakeDaemon("h1", tmp_path / "h1.sock", shape=SHAPE) as daemon:
            argv = ["-m", "control_center.server", "--host", daemon.url, "--listen", "127.0.0.1:0"]
            program = await asyncio.create_subprocess_exec(sys.executable, *argv, stdout=subprocess.PIPE)
            assert program.stdout is not None
            try:
                line = (await program.stdout.readline()).decode()
                assert line.startswith("vgc-control-center 0.1.0: 1 host, records nothing; open http://127.0.0.1:")
                async with ClientSession() as session, session.get(line.rpartition(" ")[2].strip()) as response:
                    assert response.status == 200
                    assert "frame-ancestors 'none'" in response.headers["Content-Security-Policy"]
            finally:
                program.terminate()
            assert (await program.communicate())[0] == b"vgc-control-center: ended\n"
            assert program.returncode == 0

    asyncio.run(test())
