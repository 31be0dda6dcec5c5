"""Boots of guests that end in a panic, and the power button."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tests.vm.harness import QUIT_SECONDS, Guest, GuestError
from tools import architecture
from tools.machine import Machine


class Panicking(Machine):
    """Its kernel finds nothing to start."""

    def argv(self, kernel_arguments: str) -> list[str]:
        return super().argv(f"{kernel_arguments} rdinit=/none root=/none")


def panicking(machine: Machine) -> Machine:
    values = {field.name: getattr(machine, field.name) for field in fields(machine)}
    return Panicking(**values | {"accelerator": "tcg"})


class PanicsOnce(Guest):
    """Its first boot ends in a panic."""

    boots = 0

    def _start(self) -> None:
        sound, self.boots = Guest().machine, self.boots + 1
        self.machine = panicking(sound) if self.boots == 1 else sound
        super()._start()


def test_an_emulated_guest_that_panics_while_it_boots_is_booted_again(capsys: pytest.CaptureFixture[str]) -> None:
    with PanicsOnce() as guest:
        assert guest.run("echo up").stdout == "up\n"
    assert guest.boots == 2
    assert "Kernel panic" in capsys.readouterr().err


def test_a_guest_that_always_panics_is_an_error() -> None:
    guest = Guest()
    guest.machine = panicking(guest.machine)
    with pytest.raises(GuestError, match="did not start"):
        guest.__enter__()


@pytest.mark.skipif(
    architecture.wanted() != architecture.X86_64,
    reason="other machines have no power button that Debian's kernel knows, unless their firmware gives them ACPI",
)
def test_a_guest_whose_power_button_is_pressed_turns_itself_off() -> None:
    with Guest() as guest:
        guest.qmp.execute("system_powerdown")
        assert guest.qmp.wait_for("SHUTDOWN")["data"] == {"guest": True, "reason": "guest-shutdown"}
        assert guest.process.wait(QUIT_SECONDS) == 0
