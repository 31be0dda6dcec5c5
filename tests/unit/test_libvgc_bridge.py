"""libvgc's transport over files and TCP connections, on Linux."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import guest_driver as vgc
from tests.fakes.bridge import Bridge
from tests.fakes.device import SILENCE, FakeDevice
from tests.fakes.guest import REPOSITORY
from tests.fakes.link import GuestLink
from tests.limits import ANSWERS_WITHIN_S
from virtio_proto.schema import Opcode


@pytest.fixture
def link(tmp_path: Path) -> Iterator[GuestLink]:
    with GuestLink(folder=tmp_path / "link") as link:
        yield link


@pytest.fixture
def fake(link: GuestLink) -> Iterator[FakeDevice]:
    with FakeDevice(link) as fake:
        yield fake


@pytest.fixture
def bridge(link: GuestLink, tmp_path: Path) -> Iterator[Bridge]:
    with Bridge(link, tmp_path / "link") as bridge:
        yield bridge


@pytest.fixture
def guest(bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bridge:
    """The bridge, of which this process and those that it starts know."""
    monkeypatch.setenv("VGC_BRIDGE", bridge.description())
    monkeypatch.setenv("VGC_STATE_DIR", str(tmp_path / "state"))
    return bridge


def test_requests_are_answered_over_a_bridge(guest: Bridge, fake: FakeDevice) -> None:
    with vgc.Device(spin_s=1e-9) as dev:
        memory = dev.alloc(100_000)
        memory.write(bytes(range(250)) * 400)
        assert memory.read() == bytes(range(250)) * 400
        assert dev.info().interrupts
    assert guest.kicks > 0
    assert not fake.contexts


@pytest.mark.usefixtures("guest")
def test_threads_have_connections_of_their_own(fake: FakeDevice) -> None:
    with vgc.Device() as dev:
        dev.claim_queue()
        dev.nop()
        dev.release_queue()
        dev.nop()
    assert fake.opcodes().count(Opcode.NOP) >= 2


@pytest.mark.usefixtures("guest")
def test_what_a_killed_process_held_is_freed(fake: FakeDevice) -> None:
    script = "import guest_driver as vgc; dev = vgc.Device(); a = dev.alloc(64); print('up', flush=True); input()"
    argv = [sys.executable, "-c", script]
    with subprocess.Popen(argv, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.kill()
        process.wait(ANSWERS_WITHIN_S)
    with vgc.Device() as dev:
        assert fake.contexts == {dev.info().context}


@pytest.mark.usefixtures("guest")
def test_bridge_that_ends_under_a_request_is_noticed(fake: FakeDevice, bridge: Bridge) -> None:
    with vgc.Device(request_timeout_s=0.2) as dev:
        fake.override[Opcode.FILL] = lambda _: SILENCE
        memory = dev.alloc(64)
        bridge.close()
        with pytest.raises(vgc.NoAnswer):
            memory.fill_bytes(b"x")


@pytest.mark.usefixtures("fake")
def test_bridge_that_is_gone_is_named(guest: Bridge) -> None:
    guest.close()
    with pytest.raises(vgc.SystemFailure, match=f"cannot connect to the bridge of vm at 127.0.0.1:{guest.port}: "):
        vgc.Device()


@pytest.mark.usefixtures("guest", "fake")
def test_bridge_that_does_not_take_a_queue_is_named(guest: Bridge, monkeypatch: pytest.MonkeyPatch) -> None:
    """It closes the connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def close_first() -> None:
            listener.accept()[0].close()

        closing = threading.Thread(target=close_first)
        closing.start()
        monkeypatch.setenv("VGC_BRIDGE", guest.description({"port": str(port)}))
        with pytest.raises(vgc.NoAnswer, match=f"the bridge of vm at 127.0.0.1:{port} does not take queue 0"):
            vgc.Device()
        closing.join()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a/b"}, "a name without '/'"),
        ({"name": ""}, "a name without '/'"),
        ({"name": 64 * "v"}, "a name of 64 bytes; allowed: 1 to 63"),
        ({"queues": "99999"}, "99999 queues of 64 entries"),
        ({"ring": "0"}, "2 queues of 0 entries"),
        ({"port": "0"}, "port 0; allowed: 1 to 65535"),
        ({"gpa": "-1"}, "gpa=-1 is no number"),
        ({"gpa": " -1"}, "gpa= -1 is no number"),
        ({"gpa": "99999999999999999999"}, "is no number"),
        ({"region": "/dev/null"}, "the region /dev/null has 0 bytes; at least 4096"),
        ({"colour": "red"}, "unknown key 'colour'"),
    ],
)
def test_wrong_description_is_explained(
    bridge: Bridge, changes: dict[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VGC_BRIDGE", bridge.description(changes))
    with pytest.raises(vgc.InvalidArgument, match=words):
        vgc.Device()


@pytest.mark.parametrize(
    ("value", "words"),
    [("nonsense", "not key=value"), ("name=vm", "'region' and 'config' are needed"), ("name=" + 5000 * "v", "longer")],
)
def test_value_that_describes_nothing_is_explained(value: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_BRIDGE", value)
    with pytest.raises(vgc.InvalidArgument, match=words):
        vgc.Device()


def test_region_that_is_a_link_or_missing_is_not_opened(
    bridge: Bridge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link" / "other").symlink_to(tmp_path / "link" / "region")
    for name in ("other", "nothing"):
        monkeypatch.setenv("VGC_BRIDGE", bridge.description({"region": str(tmp_path / "link" / name)}))
        with pytest.raises(vgc.VgcError, match=f"cannot open the region .*{name}: "):
            vgc.Device()


@pytest.mark.usefixtures("guest")
def test_device_is_chosen_by_its_index(fake: FakeDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_BRIDGE", "name=other;" + os.environ["VGC_BRIDGE"])
    with vgc.Device(index=1) as dev:
        assert fake.contexts == {dev.info().context}
    with pytest.raises(vgc.InvalidArgument, match="describes 2 devices, and none of index 2"):
        vgc.Device(index=2)
