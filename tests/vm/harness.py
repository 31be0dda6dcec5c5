"""Guests for tests: boot, run commands, move files, pause, reset, power off.

    with Guest() as guest:
        assert "Linux" in guest.run("uname").stdout

A guest's whole state is in memory and in one temporary folder, so nothing is left behind, and several may run at
once. Control connections are socket pairs handed to QEMU: no names, no start race.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.limits import ANSWERS_WITHIN_S, HANGS_AFTER_S
from tests.vm.agent import Agent, AgentError, Answer
from tests.vm.qmp import Qmp, QmpError
from tools.architecture import Architecture
from tools.machine import PANIC_ENDS_QEMU, Device, disk, machine

BOOT_SECONDS: Final = HANGS_AFTER_S
"""Far more than a boot takes anywhere (5 s under emulation): reaching it means that the guest is stuck."""

COMMAND_SECONDS: Final = HANGS_AFTER_S
ANSWER_SPARE_SECONDS: Final = ANSWERS_WITHIN_S
"""How much longer than the guest's own time-out the host waits for the answer."""

QUIT_SECONDS: Final = ANSWERS_WITHIN_S
LOG_TAIL_LINES: Final = 60

BOOTS: Final = 3
"""Tries of an emulated guest. Its kernel patches its own code while it boots, and a processor that QEMU emulates in
another thread may run what was there before: now and then a boot ends in an oops at a patched place. Only a panic
before the guest's agent has started is tried again: the driver has not run by then."""


class GuestError(Exception):
    """The guest did not do what the harness needs of it; its serial log is in the notes."""


class CommandError(GuestError):
    """A command in the guest ended with an exit code other than 0."""


@dataclass(frozen=True, slots=True)
class Result:
    """Output and exit code of a command in the guest."""

    exit: int
    stdout: str
    stderr: str


class Guest:
    """A virtual machine, from power-on (entering) to power-off (leaving)."""

    def __init__(
        self,
        *devices: Device,
        memory_mib: int | None = None,
        cpus: int = 2,
        shared_ram: bool = False,
        development: bool = False,
        disks: Sequence[Path] = (),
        architecture: Architecture | None = None,
    ) -> None:
        """`architecture`: None for the machine that the environment names."""
        self.devices = devices
        self.disks = disks
        self.machine = machine(
            memory_mib=memory_mib,
            cpus=cpus,
            shared_ram=shared_ram,
            development=development,
            nvdimms=sum(device.is_nvdimm for device in devices),
            wanted=architecture,
        )
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        for boot in range(1, BOOTS + 1):
            try:
                self._start()
                self._wait_for(self.agent.started, BOOT_SECONDS, "the guest's agent did not start")
            except BaseException as error:
                panic = self._panic_of_emulation() if isinstance(error, GuestError) and boot < BOOTS else None
                if panic is None:
                    self.__exit__(type(error), error, None)
                    raise
                sys.stderr.write(f"boot {boot} of an emulated guest ended with {panic!r}; once more\n")
                self.__exit__(None, None, None)
            else:
                break
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._quit()
        if error is not None:
            error.add_note(self.log_tail())
        self._stack.close()

    # -- for tests ----------------------------------------------------------------------------------

    def run(self, command: str, *, timeout: int = COMMAND_SECONDS, check: bool = True) -> Result:
        """Run a shell command as root in /root and return what it left.

        :raise CommandError: when it exits with another code than 0, unless `check` is off.
        :raise GuestError: when it runs longer than `timeout` seconds.
        """
        return self.result(self.start(command, timeout=timeout), command, timeout=timeout, check=check)

    def start(self, command: str, *, timeout: int = COMMAND_SECONDS) -> Future[Answer]:
        """Start a command and go on; `result` waits for it."""
        return self.agent.request("run", command=command, timeout=timeout)

    def result(
        self, started: Future[Answer], command: str, *, timeout: int = COMMAND_SECONDS, check: bool = True
    ) -> Result:
        """The result of a command that `start` began; raises as `run` does."""
        answer = self._wait_for(started, timeout + ANSWER_SPARE_SECONDS, f"no answer to {command!r}")
        split = answer.header["out"]
        out, err = answer.body[:split].decode(errors="replace"), answer.body[split:].decode(errors="replace")
        result = Result(answer.header["exit"], out, err)
        if answer.header["timed_out"]:
            raise GuestError(f"{command!r} ran longer than {timeout} s; so far:\n{out}{err}")
        if check and result.exit != 0:
            raise CommandError(f"{command!r} ended with {result.exit}:\n{out}{err}")
        return result

    def put(self, source: Path, path: str) -> None:
        """Copy a file of the host to `path` in the guest, with its permissions."""
        self.put_bytes(source.read_bytes(), path, mode=source.stat().st_mode & 0o777)

    def put_bytes(self, contents: bytes, path: str, *, mode: int = 0o644) -> None:
        """Write a file at `path` in the guest; its folder is made."""
        asked = self.agent.request("put", contents, path=path, mode=mode)
        self._wait_for(asked, COMMAND_SECONDS, f"could not write {path}")

    def get(self, path: str) -> bytes:
        """The contents of a file of the guest."""
        return self._wait_for(self.agent.request("get", path=path), COMMAND_SECONDS, f"could not read {path}").body

    def pause(self) -> None:
        """Stop the virtual CPUs; QEMU stops the device with them."""
        self.qmp.execute("stop")

    def resume(self) -> None:
        self.qmp.execute("cont")

    def reset(self) -> None:
        """Press the reset button, and come back when the guest has booted again."""
        booted = self.agent.expect_start()
        self.qmp.execute("set-action", reboot="reset")
        self.qmp.execute("system_reset")
        self._wait_for(booted, BOOT_SECONDS, "the guest did not come back after a reset")
        self.qmp.execute("set-action", reboot="shutdown")

    def power_off(self) -> None:
        """Let the guest shut down by itself, and wait until QEMU has ended."""
        self.agent.request("run", command="poweroff -f", timeout=COMMAND_SECONDS)
        self.process.wait(QUIT_SECONDS)

    def log_tail(self) -> str:
        """The last lines of the guest's kernel and of QEMU, for people."""
        parts = [f"guest ({self.machine}), last lines of its serial console and of QEMU:"]
        for name in ("serial.log", "qemu.log"):
            path = self.folder / name
            if path.exists():
                parts += path.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return "\n    ".join(parts)

    # -- internals ----------------------------------------------------------------------------------

    def _start(self) -> None:
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="vgc-guest-")))
        with ExitStack() as handed:  # descriptors that QEMU inherits, closed here afterwards
            qmp, qmp_peer = _socket_pair(handed)
            agent, agent_peer = _socket_pair(handed)
            argv = self.machine.argv(PANIC_ENDS_QEMU)
            argv += ["-serial", f"file:{self.folder / 'serial.log'}", *_control_argv(qmp_peer, agent_peer)]
            passed = [qmp_peer, agent_peer]
            for image in self.disks:
                argv += disk(image)
            for device in self.devices:
                region = handed.enter_context(device.region())
                argv += device.argv(region)
                passed.append(region)
            log = handed.enter_context((self.folder / "qemu.log").open("wb"))
            self.process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=passed, cwd=self.folder
            )
        self.qmp = self._stack.enter_context(Qmp(qmp))
        self.agent = Agent(agent)
        self._stack.callback(self.agent.close)
        self.qmp.greet()

    def _wait_for(self, future: Future[Answer], seconds: float, what: str) -> Answer:
        try:
            return future.result(seconds)
        except FutureTimeoutError:
            raise GuestError(f"{what} within {seconds} s") from None
        except AgentError as error:
            raise GuestError(f"{what}: {error}") from error

    def _panic_of_emulation(self) -> str | None:
        """The line of the kernel's panic; None if there was no panic, or if the processor is a real one."""
        serial = self.folder / "serial.log"
        if self.machine.accelerator != "tcg" or not serial.exists():
            return None
        lines = serial.read_text(errors="replace").splitlines()
        return next((line for line in lines if "Kernel panic" in line), None)

    def _quit(self) -> None:
        """End QEMU in any state."""
        if not hasattr(self, "process"):
            return
        try:
            if self.process.poll() is None:
                self.qmp.execute("quit")
            self.process.wait(QUIT_SECONDS)
        except (QmpError, OSError, ValueError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()


def _socket_pair(handed: ExitStack) -> tuple[socket.socket, int]:
    ours, theirs = socket.socketpair()
    handed.callback(theirs.close)
    return ours, theirs.fileno()


def _control_argv(qmp_fd: int, agent_fd: int) -> list[str]:
    return [
        *("-chardev", f"socket,id=qmp,fd={qmp_fd}", "-mon", "chardev=qmp,mode=control"),
        *("-chardev", f"socket,id=agent,fd={agent_fd}", "-device", "virtio-serial-pci"),
        *("-device", "virtserialport,chardev=agent,name=agent"),
    ]
