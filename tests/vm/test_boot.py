"""The guest boots, obeys the harness and has what the driver needs."""

from tests.vm.harness import Guest


def test_guest_runs_a_command() -> None:
    with Guest() as guest:
        assert guest.run("uname -s").stdout == "Linux\n"
