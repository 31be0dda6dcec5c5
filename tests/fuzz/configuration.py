"""Configurations of the daemon that are wrong in any way, and VMs that a control client adds.

An input is a file's text. It gives a configuration, or an error that names the file and each problem.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from vhost_backend.config import daemon
from vhost_backend.errors import ConfigError

IS_MESSAGEPACK: Final = False
FILE: Final = "vgcd.yaml"
ROOT: Final = Path(__file__).resolve().parents[2]


def seeds() -> list[bytes]:
    example = (ROOT / "docs" / "vgcd.example.yaml").read_bytes()
    pieces = example.split(b"\n\n")
    small = b"vms:\n  web1:\n    socket: /run/web1.sock\n    region: 64M\n    quota: {pes: 2, memory: 1G, cores: 2-3}\n"
    return [example, small, *pieces, b"&a [*a]", b"a: &x {b: 1}\nc: {<<: *x}", b"vms: {w: {socket: !!binary aGk=}}"]


def run(data: bytes) -> str:
    text = data.decode(errors="surrogateescape")
    try:
        config = daemon.parse(text, FILE)
    except ConfigError as error:
        problems = str(error)
        assert FILE in problems
        problems.encode(errors="surrogateescape")
        return "\n".join(sorted({_end(problem) for problem in error.problems}))
    names = [vm.name for vm in config.vms]
    assert len(set(names)) == len(names)
    return f"{len(names)} VMs, {sorted({vm.engine.kind for vm in config.vms})}"


def _end(problem: str) -> str:
    """End of a problem's text, without names and values that the input has chosen."""
    _, _, allowed = problem.rpartition("; allowed: ")
    return " ".join(word for word in allowed.split() if word.isalpha() and len(word) > 3)[-40:]
