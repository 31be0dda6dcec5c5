"""The command ``vgc smi``: table, list, fields as CSV, processes, repetition, and wrong command lines."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from guest_driver import cli, gpu_fields, gpu_state
from tests.fakes.guest import REPOSITORY
from tests.limits import HANGS_AFTER_S
from tests.protocol.guest_host import GuestHost, guest_host, guest_variables, run_on

COMPUTES = """
import subprocess, sys
import guest_driver as vgc
with vgc.Device() as device:
    kept = device.alloc(3 << 20)
    print(subprocess.run([sys.executable, "-m", "guest_driver", "smi", *sys.argv[1:]], check=True,
                         close_fds=False, stdout=subprocess.PIPE, text=True).stdout, end="")
    print(__import__("os").getpid())
"""
"""Program that computes, and has ``vgc smi`` look at it."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


def smi(host: GuestHost, *words: str) -> str:
    done = host.python("-m", "guest_driver", "smi", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_table_shows_the_vm_s_share(host: GuestHost) -> None:
    table = smi(host)
    rows = table.splitlines()
    assert len({len(row) for row in rows if row[:1] in {"|", "+"}}) == 1, table
    assert "CUDA Version: 13.0" in rows[2]
    assert any("  0  CPU, 2 PEs" in row and row.endswith("0% |") for row in rows), table
    assert any("cpu, 8.0" in row and "MiB / 64MiB |" in row and row.endswith("2 / 2 |") for row in rows), table
    assert "No running processes found" in table


def test_list_has_names_and_uuids(host: GuestHost) -> None:
    uuid = smi(host, "--query-gpu=uuid", "--format=csv,noheader").strip()
    listed = smi(host, "-L")
    assert listed.startswith("GPU 0: CPU, 2 PEs")
    assert listed.endswith(f"(UUID: {uuid})\n")


def test_fields_are_csv(host: GuestHost) -> None:
    asked = "gpu_name,memory.total,memory.free,utilization.gpu,temperature.gpu,compute_cap,processing_elements.limit"
    header, row = csv.reader(smi(host, f"--query-gpu={asked}").splitlines(), skipinitialspace=True)
    assert header[:4] == ["name", "memory.total [MiB]", "memory.free [MiB]", "utilization.gpu [%]"]
    assert row[0].startswith("CPU, 2 PEs")
    assert row[1] == "64 MiB"
    assert row[3:] == ["0 %", "[N/A]", "8.0", "2"]
    bare = smi(host, "--query-gpu=memory.total,index, power.draw", "--format=csv, noheader, nounits")
    assert bare == "64, 0, [N/A]\n"


def test_every_field_has_a_value_or_says_that_it_has_none(host: GuestHost) -> None:
    (row,) = csv.reader(
        smi(host, f"--query-gpu={','.join(gpu_fields.GPU.fields)}", "--format=csv,noheader").splitlines(),
        skipinitialspace=True,
    )
    assert len(row) == len(gpu_fields.GPU.fields)
    assert all(row)
    untold = {name for name, value in zip(gpu_fields.GPU.fields, row, strict=True) if value == gpu_fields.NOT_TOLD}
    assert {"temperature.gpu", "power.draw", "utilization.memory"} <= untold
    assert not untold & {"name", "uuid", "memory.used", "utilization.gpu", "compute_cap", "pci.bus_id"}


def test_processes_are_shown_with_their_memory(host: GuestHost) -> None:
    done = host.python("-c", COMPUTES, "--query-compute-apps=pid,process_name,used_memory", "--format=csv,noheader")
    assert done.returncode == 0, done.stderr
    *shown, pid = done.stdout.splitlines()
    assert shown == [f"{pid}, {sys.executable}, 3 MiB"]
    done = host.python("-c", COMPUTES)
    (row,) = (row for row in done.stdout.splitlines() if "3MiB |" in row)
    assert row.split()[1:3] == ["0", done.stdout.splitlines()[-1]]


def test_names_that_processes_choose_are_printable() -> None:
    """A line of theirs would be a process of its own in CSV, and a terminal acts on others."""
    name = b"\x1b[2J\xff\xc3\xa9 a\n1, root, 5 MiB"
    words = [name, b"-c", b"print(flush=True); input()"]
    with subprocess.Popen(words, executable=sys.executable, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert gpu_state.name_of(process.pid) == "?[2J??? a?1, root, 5 MiB"
        process.communicate(b"\n")
    assert gpu_state.name_of(process.pid) == "[Not Found]"


def test_two_devices_are_shown(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    with guest_host(tmp_path) as first, guest_host(tmp_path / "second", memory_mib=32, name="b") as second:
        words = (sys.executable, "-m", "guest_driver", "smi", "--query-gpu=index,memory.total", "--format=csv,noheader")
        assert run_on((first, second), *words).stdout == "0, 64 MiB\n1, 32 MiB\n"


def test_loop_goes_on_until_it_is_interrupted(host: GuestHost) -> None:
    words = ["smi", "--query-gpu=index,memory.total", "-l", "0.01"]
    with subprocess.Popen(
        [sys.executable, "-m", "guest_driver", *words],
        cwd=REPOSITORY,
        env=os.environ | guest_variables([host]),
        pass_fds=host.link.fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(3)] == ["index, memory.total [MiB]\n", *["0, 64 MiB\n"] * 2]
        process.send_signal(signal.SIGINT)
        _, complaint = process.communicate(timeout=HANGS_AFTER_S)
        assert (process.returncode, complaint) == (0, "")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--query-gpu=nme"], "field 'nme'; allowed: timestamp, driver_version, index, name, "),
        (["--query-gpu="], "field ''; allowed: timestamp, "),
        (["--query-compute-apps=name,user"], "field 'user'; allowed: gpu_name, gpu_uuid, gpu_bus_id, pid, "),
        (["--format=json"], "format 'json'; allowed: csv, with noheader and nounits"),
        (["--format=noheader"], "format 'noheader'; allowed: csv, with noheader and nounits"),
        (["-l", "0"], "0 seconds; allowed: more than 0"),
        (["-l", "nan"], "nan seconds; allowed: more than 0"),
        (["-l", "often"], "often seconds; allowed: more than 0"),
        (["-L", "--query-gpu=name"], "not allowed with argument"),
    ],
)
def test_wrong_command_lines_are_refused(words: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["smi", *words])
    assert complaint in capsys.readouterr().err


def test_without_a_device_it_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["smi"]) == 1
    assert "vgc: " in capsys.readouterr().err
