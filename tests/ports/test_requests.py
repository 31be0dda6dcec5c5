"""Programs of other machines compute on the daemon of this one: libvgc, built for them, through a shared region."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports.machines import Machine
from tests.protocol.guest_host import GuestHost, guest_host

HERE = Path(__file__).resolve().parent
FORGETFUL = "-O0 -g0 -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_LITTLE_ENDIAN__"
"""Makes a compiler for a big-endian machine believe that there is nothing to convert."""


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuestHost]:
    with guest_host(tmp_path_factory.mktemp("host")) as host:
        yield host


@pytest.fixture
def host(daemon: GuestHost) -> GuestHost:
    """The daemon, with a guest that has just started: processes of one guest are of one machine."""
    daemon.restart_guest()
    return daemon


def test_machine_computes_on_the_host(host: GuestHost, machine: Machine, tmp_path: Path) -> None:
    """Every kind of request goes there and back, from info to shared memory, and each result is checked."""
    program = machine.compile(tmp_path / "requests", HERE / "requests.c", machine.libvgc() / "libvgc.a")
    done = host.run(*machine.argv(program))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stdout.endswith("all right\n")


def test_driver_that_does_not_convert_is_told_so(host: GuestHost, big_endian: Machine, tmp_path: Path) -> None:
    library = big_endian.libvgc("forgetful", FORGETFUL) / "libvgc.a"
    program = big_endian.compile(tmp_path / "requests", HERE / "requests.c", library)
    done = host.run(*big_endian.argv(program))
    assert done.returncode == 1
    assert "driver and device differ in byte order: the configuration's magic reads as 0x56475043" in done.stdout
