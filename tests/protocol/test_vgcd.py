"""The program `vgcd`: its command line, its exit codes, its signals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.fakes import cgroup_home
from tests.fakes.frontend import FakeFrontend
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import ANSWERS_WITHIN_S
from tests.protocol.worker_rig import needs_walls
from tests.waiting import sleeps_for_good, threads_of, until
from vhost_backend import cli, sockets
from vhost_backend.daemon.engines import Engines
from vhost_backend.daemon.gpus import Gpu, Survey
from vhost_backend.engines.cpu.cccl import Cccl
from vhost_backend.engines.cpu.preludes import Prelude
from vhost_backend.errors import ConfigError, HostError
from vhost_backend.sandbox.terms import SandboxError
from virtio_proto import schema
from virtio_proto.schema import FINGERPRINT, Health, Opcode, Status

VGCD = (sys.executable, "-m", "vhost_backend.cli")
QUICK = ("--engine", "null", "--sandbox", "best-effort", "--log-format", "json")
COMPUTES = (*QUICK, "--region", str(REGION_BYTES))
TIMEOUT_S = ANSWERS_WITHIN_S
REPOSITORY = Path(__file__).parents[2]


@contextlib.contextmanager
def vgcd(
    *arguments: str, pass_fds: Sequence[int] = (), environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Runs the program; kills it at the end if it has not ended by itself."""
    process = subprocess.Popen(
        [*VGCD, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
        env={**os.environ, **(environment or {})},
        cwd=REPOSITORY,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], event: str) -> dict[str, object]:
    """Reads log lines until one has this event; returns it."""
    assert process.stderr is not None
    for line in process.stderr:
        found: dict[str, object] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"the log ended without {event}")


def alive(pid: object) -> bool:
    """True if the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# ---- serving -------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_with_its_workers_and_socket(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "s"
    with vgcd("--socket-path", str(path), *QUICK) as process:
        wait_for(process, "serving")
        with FakeFrontend.connect(path) as frontend:
            frontend.negotiate()
            pid = wait_for(process, "worker_started")["pid"]
            assert alive(pid)
            process.send_signal(number)
            assert process.wait(TIMEOUT_S) == 0
    assert not alive(pid)
    assert not path.exists()


@needs_walls
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_control_groups_of_its_vms_end_with_it_or_with_the_next(tmp_path: Path, number: signal.Signals) -> None:
    with cgroup_home.home(), vgcd("--socket-path", str(tmp_path / "s"), *QUICK) as process:
        group = Path(str(wait_for(process, "cgroups")["group"]).split()[0])
        wait_for(process, "serving")
        with FakeFrontend.connect(tmp_path / "s") as frontend:
            frontend.negotiate()
            wait_for(process, "worker_ready")
            (room,) = (group / "vm-vm").glob("worker-*")
            pids = (room / "cgroup.procs").read_text().split()
            assert len(pids) == 1
            process.send_signal(number)
            process.wait(TIMEOUT_S)
    if group.name.startswith("vgcd-"):
        until(lambda: is_swept(group))
    assert not alive(pids[0])


def is_swept(group: Path) -> bool:
    with cgroup_home.home():
        return not group.exists()


@needs_walls
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM])
def test_signal_is_ignored(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "s"
    with vgcd("--socket-path", str(path), *COMPUTES) as process:
        wait_for(process, "serving")
        with FakeVm(path) as vm:
            vm.frontend.wait_health(Health.READY)
            process.send_signal(number)
            event = "sighup_ignored" if number == signal.SIGHUP else "signal_ignored"
            warning = wait_for(process, event)
            assert warning["signal"] == number.name
            assert "SIGTERM ends" in str(warning["advice"])
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@needs_walls
def test_closed_terminal_does_not_end_it(tmp_path: Path) -> None:
    """Neither the signal nor the log, which nobody takes any more, disturbs a guest."""
    path = tmp_path / "s"
    ours, theirs = os.openpty()
    with contextlib.ExitStack() as stack:
        terminal = stack.enter_context(os.fdopen(ours, "rb"))
        command = ["setsid", "--ctty", *VGCD, "--socket-path", str(path), *COMPUTES]
        process = stack.enter_context(
            subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=REPOSITORY)
        )
        stack.callback(process.kill)
        os.close(theirs)
        until(lambda: b"serving" in terminal.readline())
        with FakeVm(path) as vm:
            vm.frontend.wait_health(Health.READY)
            terminal.close()
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        with FakeVm(path) as vm:
            assert vm.driver.request(Opcode.CONTEXT_CREATE).status == Status.OK
        process.terminate()
        process.wait(TIMEOUT_S)


def test_signal_ends_it_in_the_middle_of_a_message(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with vgcd("--socket-path", str(path), *QUICK) as process:
        wait_for(process, "serving")
        with FakeFrontend.connect(path) as frontend:
            frontend.send_raw(b"\1\0\0")
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0


def test_file_of_the_region_may_be_named(tmp_path: Path) -> None:
    named = tmp_path / "region"
    options = ("--socket-path", str(tmp_path / "s"), "--region", "16M", "--region-file", str(named))
    with vgcd(*options, *QUICK) as process:
        wait_for(process, "serving")
        with FakeVm(tmp_path / "s"):  # has another file
            assert str(named) in str(wait_for(process, "vring_not_served")["problem"])


def test_inherited_connection_is_served_until_it_closes() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with theirs, vgcd("--fd", str(theirs.fileno()), *QUICK, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        with FakeFrontend(ours) as frontend:
            frontend.negotiate()
        assert process.wait(TIMEOUT_S) == 0


def test_inherited_listener_is_served_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with vgcd("--fd", str(listener.fileno()), *QUICK, pass_fds=[listener.fileno()]) as process:
            for _ in range(2):
                with FakeFrontend.connect(path) as frontend:
                    frontend.negotiate()
            process.terminate()
            assert process.wait(TIMEOUT_S) == 0
    assert path.exists()


def test_activated_sockets_are_served(tmp_path: Path) -> None:
    """The shell stands in for systemd: the sockets are descriptors 3 and 4 of the process that becomes vgcd."""
    config = tmp_path / "vgcd.yaml"
    config.write_text("defaults: {engine: 'null', sandbox: best-effort}\nvms: {a: , b: }\nlog: {format: json}\n")
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in "ab"]
        for name, listener in zip("ab", listeners, strict=True):
            listener.bind(str(tmp_path / name))
            listener.listen()
        first, second = (listener.fileno() for listener in listeners)
        script = (
            f"exec 8<&{first} 9<&{second} 3<&9 4<&8; export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=b:a; "
            f"exec {' '.join(VGCD)} run --config {config}"
        )
        process = stack.enter_context(
            subprocess.Popen(
                ["/bin/bash", "-c", script],
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=(first, second),
                cwd=REPOSITORY,
            )
        )
        stack.callback(process.kill)
        for name in "ab":
            with FakeFrontend.connect(tmp_path / name) as frontend:
                frontend.negotiate()
                space = schema.CONFIG.construct.parse(frontend.config_read())
                assert space.vm_name.rstrip(b"\0") == name.encode()
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


@needs_walls
def test_idle_daemon_sleeps(tmp_path: Path) -> None:
    """With a frontend connected and nothing to do, neither a timer nor a descriptor wakes the daemon."""
    path = tmp_path / "s"
    with vgcd("--socket-path", str(path), *QUICK) as process:
        wait_for(process, "serving")
        with FakeFrontend.connect(path) as frontend:
            frontend.negotiate()
            frontend.wait_health(Health.READY)
            until(lambda: all(map(sleeps_for_good, threads_of(process.pid))))


# ---- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to do"),
        (["--socket-path", "/nowhere/s", "--region", "3"], "vms.vm.region is '3'"),
        (
            ["--socket-path", "/nowhere/s", "--engine", "cuda:x"],
            "vms.vm.engine is 'cuda:x'; allowed: cuda: and a device number",
        ),
        (["--fd", "999"], "fd 999"),
        (["--fd", "0"], "fd 0"),
        (["run", "--config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
        (["check-config", "/nowhere.yaml"], "/nowhere.yaml: cannot be read"),
    ],
)
def test_mistake_ends_it_with_2(arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [*VGCD, *arguments], capture_output=True, text=True, check=False, cwd=REPOSITORY, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_socket_that_cannot_be_bound_ends_it_with_3() -> None:
    arguments = [*VGCD, "--socket-path", "/nowhere/s", *QUICK]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 3
    assert "cannot listen at /nowhere/s: there is no folder /nowhere" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("mode", "code"), [("strict", 3), ("best-effort", 2)])
def test_host_without_a_sandbox_is_refused_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, mode: str, code: int
) -> None:
    """Best effort gets further, to the error about the missing socket."""
    lacking = SandboxError("user namespaces", "forbidden")
    monkeypatch.setattr("vhost_backend.sandbox.launch.missing_feature", lambda: lacking)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    config = tmp_path / "vgcd.yaml"
    config.write_text(f"vms: {{a: {{sandbox: {mode}}}}}\n")
    assert cli.main(["run", "--config", str(config)]) == code
    strict = "cannot build the sandbox: user namespaces: forbidden (or set 'sandbox: best-effort')"
    assert (strict if mode == "strict" else "vms.a.socket is empty") in capsys.readouterr().err


def test_vm_without_a_socket_ends_it_with_2(tmp_path: Path) -> None:
    config = tmp_path / "vgcd.yaml"
    config.write_text("defaults: {sandbox: best-effort}\nvms: {a: }\n")
    done = subprocess.run(
        [*VGCD, "run", "--config", str(config)], capture_output=True, text=True, check=False, cwd=REPOSITORY
    )
    assert done.returncode == 2
    assert "vms.a.socket is empty" in done.stderr


# ---- the rest of the command line ----------------------------------------------------------------


def test_capabilities_are_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--print-capabilities"]) == 0
    assert json.loads(capsys.readouterr().out)["type"] == "gpu-compute"


def test_version_names_the_wire_format(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert f"wire format {FINGERPRINT:016x}" in capsys.readouterr().out


def test_unknown_command_is_answered_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["sevre"])
    assert (
        "argument COMMAND: invalid choice: 'sevre' (choose from 'run', 'replace', 'end', 'check-config'"
        in capsys.readouterr().err
    )


def test_check_accepts_a_correct_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check-config", str(REPOSITORY / "docs" / "vgcd.example.yaml")]) == 0
    assert "no mistakes; VMs: build, render, train" in capsys.readouterr().out


def test_check_accepts_a_host_without_vms(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "f.yaml"
    config.write_text("vms: {}\n")
    assert cli.main(["check-config", str(config)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{config}: no mistakes; VMs: none"
    assert not [line for line in lines if "compiled programs" in line]


def test_check_says_which_engine_each_vm_would_get(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = Gpu(1, "GPU-1", "NVIDIA H200", "sm_90", 132, 1 << 37, 8, 8, 1 << 17)

    async def one_gpu(_driver: str | None, _device: str | None) -> Survey:
        return Survey((gpu,), "13.0")

    monkeypatch.setattr("vhost_backend.daemon.housing.describe", lambda _config: ["quarters"])
    monkeypatch.setattr("vhost_backend.cli.host_engines", lambda **_: Engines(one_gpu, lambda *_: None))
    config = tmp_path / "f.yaml"
    config.write_text("vms: {a: , b: {engine: 'cuda:1'}, c: {engine: 'cuda:0'}, d: {engine: cpu}}\n")
    assert cli.main(["check-config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "on this host: a gets the engine cuda on GPU 1: NVIDIA H200 (sm_90), CUDA 13.0",
        "on this host: b gets the engine cuda on GPU 1: NVIDIA H200 (sm_90), CUDA 13.0",
        "on this host: c cannot have the engine cuda: there is no GPU 0; this host has 1 (GPU-1)",
        "on this host: d gets the engine cpu",
        "on this host: quarters",
        "compiled programs: each its own: a, b, c, d",
    ]


def test_check_says_which_vms_share_compiled_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "f.yaml"
    shared = "{engine: cpu, cache_domain: farm}"
    config.write_text(f"vms: {{a: {shared}, b: {{engine: cpu}}, c: {shared}}}\n")
    assert cli.main(["check-config", str(config)]) == 0
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "compiled programs: a, c share those of the domain farm",
        "compiled programs: each its own: b",
    ]


def test_check_names_folders_of_sockets_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "f.yaml"
    sockets = {"a": tmp_path / "x" / "a", "b": tmp_path / "x" / "b", "c": tmp_path / "c"}
    vms = ", ".join(f"{name}: {{engine: cpu, socket: {path}}}" for name, path in sockets.items())
    config.write_text(f"vms: {{{vms}}}\ncontrol: {{socket: {tmp_path}/y/s}}\n")
    assert cli.main(["check-config", str(config)]) == 0
    line = f"on this host: there is no folder {tmp_path}/x, {tmp_path}/y for sockets: vgcd run needs it\n"
    assert line in capsys.readouterr().out
    for name in "xy":
        (tmp_path / name).mkdir()
    assert cli.main(["check-config", str(config)]) == 0
    assert "no folder" not in capsys.readouterr().out


def test_check_goes_on_without_the_reader_of_its_output() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    argv = [*VGCD, "check-config", str(REPOSITORY / "docs" / "vgcd.example.yaml")]
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, cwd=REPOSITORY)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_mistake_of_a_configuration_has_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "f.yaml"
    config.write_text("vms: {a: {num_queues: 0, sandbox: lax}}\n")
    assert cli.main(["check-config", str(config)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_doctor_says_what_is_missing(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vhost_backend.doctor.host.COMPILER", Path("/nowhere"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert cli.main(["doctor"]) == 3
    out = capsys.readouterr().out
    assert "missing  CPU engine's compiler: /nowhere" in out
    assert "absent   QEMU: no qemu-system-x86_64 in PATH" in out
    assert (
        "to get it: QEMU 10.2 or later, for its vhost-user-test-device-pci (Debian 13: apt-get install -t trixie-backports"
        in out
    )


@pytest.mark.parametrize("fault", ["", "it has not been made"])
def test_doctor_looks_at_precompiled_headers(
    fault: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    preludes = (Prelude(Path("kernel.pch"), ""), Prelude(Path("api.pch"), fault))
    monkeypatch.setattr("vhost_backend.engines.cpu.toolchain.made_preludes", lambda: preludes)
    cli.main(["doctor"])
    out = capsys.readouterr().out
    if fault:
        assert "absent   precompiled headers: api: it has not been made\n" in out
    else:
        assert "ok       precompiled headers: whole, and of these headers\n" in out


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ((), "absent   CUB and Thrust, precompiled: none: programs compile 1.5 s later"),
        ((Prelude(Path("cub.pch"), "it is damaged"),), "absent   CUB and Thrust, precompiled: cub: it is damaged\n"),
        ((Prelude(Path("cub.pch"), ""),), "ok       CUB and Thrust, precompiled: whole, and of these headers\n"),
    ],
)
def test_doctor_looks_at_precompiled_libraries(
    made: tuple[Prelude, ...],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vhost_backend.engines.cpu.cccl.cccl", lambda: Cccl(tmp_path, "3.0.1", (), ""))
    monkeypatch.setattr("vhost_backend.engines.cpu.toolchain.made_cccl_preludes", lambda _libraries: made)
    cli.main(["doctor"])
    out = capsys.readouterr().out
    assert words in out
    assert ("python -m vhost_backend.engines.cpu.precompile" in out) == words.startswith("absent")


@pytest.mark.parametrize("is_there", [True, False])
def test_doctor_looks_for_cub(
    is_there: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Cccl(tmp_path, "3.0.1", (), "")
    monkeypatch.setattr("vhost_backend.engines.cpu.cccl.cccl", lambda: found if is_there else None)
    cli.main(["doctor"])
    out = capsys.readouterr().out
    if is_there:
        assert f"ok       CUB, Thrust and libcu++: 3.0.1, in {tmp_path}\n" in out
    else:
        assert "absent   CUB, Thrust and libcu++: none; programs for the CPU engine cannot include them\n" in out
        assert "to get it: pip install nvidia-cuda-cccl\n" in out


# ---- listening -----------------------------------------------------------------------------------


def test_stale_socket_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with sockets.bound(path) as listener:
        assert sockets.is_listening(listener)
    assert not path.exists()


def test_socket_in_use_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with sockets.bound(path), pytest.raises(HostError, match="another program listens there"), sockets.bound(path):
        pass


def test_socket_of_a_program_that_accepts_nothing_is_taken_too(tmp_path: Path) -> None:
    """Looks at a socket such as that of QEMU's monitor, to which somebody is connected, and never waits for it."""
    path = tmp_path / "monitor.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(0)
        for _ in range(4):
            with pytest.raises(HostError, match="another program listens there"), sockets.bound(path):
                pass
    assert path.exists()


def test_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    with pytest.raises(HostError, match="cannot listen"), sockets.bound(path):
        pass
    assert path.read_text() == "precious"


def test_activated_sockets_for_another_process_are_ignored() -> None:
    assert sockets.activated({"LISTEN_PID": "1", "LISTEN_FDS": "2"}, ["a", "b"]) == {}


def test_more_activated_sockets_than_vms_are_refused() -> None:
    environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "2"}
    for names, told in ((["a"], "a"), ([], "none")):
        with pytest.raises(ConfigError, match=rf"at most one socket for each VM \({told}\)"):
            sockets.activated(environment, names)


def test_activated_sockets_go_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of VMs that are not there yet are kept for them, and the control API's port is told by its name."""
    with contextlib.ExitStack() as stack:
        free = 1 + max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
        numbers = range(free, free + 3)
        for number, family in zip(numbers, (socket.AF_UNIX, socket.AF_INET, socket.AF_UNIX), strict=True):
            with socket.socket(family) as made:
                moved = fcntl.fcntl(made, fcntl.F_DUPFD_CLOEXEC, number)
            assert stack.enter_context(socket.socket(fileno=moved)).fileno() == number
        monkeypatch.setattr(sockets, "FIRST_ACTIVATED_FD", numbers[0])
        environment = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "3", "LISTEN_FDNAMES": "later:@control:a"}
        found = sockets.activated(environment, ["a"])
        assert {name: sock.fileno() for name, sock in found.items()} == dict(
            zip(("later", sockets.CONTROL, "a"), numbers, strict=True)
        )
        with pytest.raises(ConfigError, match="another kind; allowed: a TCP socket"):
            sockets.activated(environment | {"LISTEN_FDNAMES": "@control:later:a"}, ["a"])
        for sock in found.values():
            sock.detach()


@pytest.mark.parametrize("said", ["", "two", "-1"])
def test_malformed_number_of_activated_sockets_is_refused(said: str) -> None:
    with pytest.raises(ConfigError, match=f"LISTEN_FDS is '{said}'; allowed: a number"):
        sockets.activated({"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": said}, ["a"])


def test_inherited_socket_of_another_kind_is_refused() -> None:
    with socket.socket(socket.AF_INET) as wrong, pytest.raises(ConfigError, match="another kind"):
        sockets.inherited(wrong.fileno())
