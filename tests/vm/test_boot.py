"""The guest boots, obeys the harness and has what the driver needs. No device, no daemon."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.vm.harness import CommandError, Guest, GuestError

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def guest() -> Iterator[Guest]:
    with Guest() as booted:
        yield booted


def test_output_and_exit_code_come_back(guest: Guest) -> None:
    result = guest.run("echo out; echo err >&2; exit 3", check=False)
    assert (result.exit, result.stdout, result.stderr) == (3, "out\n", "err\n")


def test_failing_command_raises_with_its_output(guest: Guest) -> None:
    with pytest.raises(CommandError, match=r"ended with 1:\nwhy"):
        guest.run("echo why; false")


def test_command_past_its_time_is_ended_with_its_children(guest: Guest) -> None:
    with pytest.raises(GuestError, match="ran longer than 1 s; so far:\nbefore"):
        guest.run("echo before; sleep 1000 & sleep 1001", timeout=1)
    assert "sleep 100" not in guest.run("ps").stdout


def test_commands_run_side_by_side(guest: Guest) -> None:
    guest.run("mkfifo /tmp/fifo")
    reading = guest.start("cat /tmp/fifo")
    guest.run("echo through > /tmp/fifo")
    assert guest.result(reading, "cat").stdout == "through\n"


def test_files_travel_both_ways(guest: Guest, tmp_path: Path) -> None:
    source = tmp_path / "program"
    source.write_bytes(bytes(range(256)) * 4096)
    source.chmod(0o755)
    guest.put(source, "/tmp/there/program")
    assert guest.get("/tmp/there/program") == source.read_bytes()
    assert guest.run("stat -c %a /tmp/there/program").stdout == "755\n"


def test_missing_file_is_an_error(guest: Guest) -> None:
    with pytest.raises(GuestError, match="could not read /nowhere: FileNotFoundError"):
        guest.get("/nowhere")


def test_driver_needs_are_there(guest: Guest) -> None:
    guest.run("python3 -c 'import cffi, construct, numpy, PIL.Image'")
    guest.run("test -d /sys/bus/pci/drivers/uio_pci_generic")


def test_reset_boots_again_from_the_same_state(guest: Guest) -> None:
    guest.run("touch /root/mark /tmp/mark")
    guest.reset()
    assert guest.run("ls /root/mark /tmp/mark", check=False).exit != 0


def test_paused_guest_answers_after_it_resumes(guest: Guest) -> None:
    guest.pause()
    asked = guest.start("echo awake")
    assert guest.qmp.execute("query-status")["status"] == "paused"
    assert not asked.done()
    guest.resume()
    assert guest.result(asked, "echo").stdout == "awake\n"


def test_two_guests_at_once_and_power_off(guest: Guest) -> None:
    with Guest() as other:
        other.run("touch /root/other")
        assert guest.run("ls /root/other", check=False).exit != 0
        other.power_off()
        assert other.process.returncode == 0


def test_failure_carries_the_serial_log() -> None:
    def fail() -> None:
        with Guest() as guest:
            guest.run("echo last words > /dev/ttyS0; exit 1")

    with pytest.raises(CommandError) as failure:
        fail()
    assert any("last words" in note for note in failure.value.__notes__)
