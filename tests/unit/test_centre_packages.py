"""The control centre and vgcctl without a Python package: they name it and how to get it, without a traceback."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules.update({name: None for name in sys.argv[2].split(",")})
from control_center import cli, server
sys.exit({"vgcctl": cli.main, "vgc-control-center": server.main}[sys.argv[1]](sys.argv[3:]))
"""


def run(program: str, missing: str, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, program, missing, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("missing", ["aiohttp", "msgpack", "msgspec", "aiohttp,msgpack"])
def test_the_doctors_examine_what_there_is(missing: str) -> None:
    for program, argv in (
        ("vgcctl", ["doctor", "--centre", "http://127.0.0.1:9"]),
        ("vgc-control-center", ["--doctor"]),
    ):
        ran = run(program, missing, *argv)
        assert (ran.returncode, ran.stderr) == (1, "")
        for name in missing.split(","):
            line = next(line for line in ran.stdout.splitlines() if name in line)
            assert line.lower().startswith("missing")


@pytest.mark.parametrize(
    ("program", "missing", "argv"),
    [
        ("vgcctl", "aiohttp", ["ls", "--centre", "http://127.0.0.1:9"]),
        ("vgcctl", "msgpack", ["ls", "--daemon", "unix:/nowhere"]),
        ("vgcctl", "msgspec", ["ls", "--daemon", "unix:/nowhere"]),
        ("vgc-control-center", "aiohttp", ["--host", "unix:/nowhere"]),
        ("vgc-control-center", "msgpack", ["--host", "unix:/nowhere", "--check"]),
        ("vgc-control-center", "msgspec", ["--host", "unix:/nowhere", "--check"]),
    ],
)
def test_a_command_names_the_package_that_it_needs(program: str, missing: str, argv: list[str]) -> None:
    ran = run(program, missing, *argv)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert f"{missing} is missing; allowed: pip install 'virtio-gpu-compute[control]'" in ran.stderr
    assert "Traceback" not in ran.stderr
