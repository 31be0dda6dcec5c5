"""A compiler that a guest's source controls gets no access, and the log gives the reason.

The hostile "compiler" is Python: the source that it "compiles" is the attack.
"""

from __future__ import annotations

import _ctypes
import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.limits import HANGS_AFTER_S
from vhost_backend.compiler.job import CompileJob
from vhost_backend.compiler.run import CompileLimits, CompileOutcome, run_compile
from vhost_backend.cores.pool import CorePool
from vhost_backend.quarters import NOWHERE, Quarters, Weight
from vhost_backend.sandbox import build, launch, memfd
from vhost_backend.sandbox.terms import Bind, SandboxError, SandboxMode

QUICK = CompileLimits(wall_seconds=HANGS_AFTER_S, cpu_seconds=HANGS_AFTER_S, memory_bytes=512 << 20, processes=8)
CLANG = Path("/usr/lib/llvm-19/bin/clang")
CLANG_HEADERS = (Path("/usr/lib/llvm-19/lib/clang/19/include"), Path("/usr/include"))
PYTHON = (*launch.python_paths(), Path(sys.executable), Path(_ctypes.__file__))


@pytest.fixture(scope="module", autouse=True)
def launcher() -> None:
    build.main()


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """A directory that every user of the host can see into."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def run(
    job: CompileJob,
    source: str,
    limits: CompileLimits = QUICK,
    mode: SandboxMode = "strict",
    quarters: Quarters = NOWHERE,
) -> CompileOutcome:
    return asyncio.run(run_compile(job, textwrap.dedent(source).encode(), limits, mode, quarters))


def shown(*paths: Path) -> tuple[Bind, ...]:
    """Files that a compiler sees under their own names."""
    return tuple(Bind(path, path) for path in paths)


def hostile_job() -> CompileJob:
    return CompileJob((sys.executable, "in.py"), "in.py", "out", shown(*PYTHON), "hostile")


def hostile(source: str, limits: CompileLimits = QUICK, mode: SandboxMode = "strict") -> CompileOutcome:
    return run(hostile_job(), source, limits, mode)


def clang(source: str) -> CompileOutcome:
    argv = (str(CLANG), "-c", "in.c", "-o", "out.o")
    return run(CompileJob(argv, "in.c", "out.o", shown(CLANG, *CLANG_HEADERS), "clang"), source)


def processes_with(token: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if token.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_a_real_compiler_works() -> None:
    outcome = clang("#include <stdint.h>\nuint32_t twice(uint32_t x) { return 2 * x; }")
    assert outcome.ok
    assert outcome.image_fd is not None
    assert memfd.read(outcome.image_fd, 4) == b"\x7fELF"
    assert memfd.is_sealed(outcome.image_fd)
    os.close(outcome.image_fd)


def test_warnings_of_a_good_compile_are_in_the_log() -> None:
    outcome = clang("#warning beware\n")
    assert outcome.ok
    assert "beware" in outcome.log
    assert outcome.image_fd is not None
    os.close(outcome.image_fd)


def test_including_a_host_file_gets_nothing() -> None:
    outcome = clang('#include "/etc/passwd"\n')
    assert not outcome.ok
    assert "'/etc/passwd' file not found" in outcome.log
    assert "root:" not in outcome.log


def test_incbin_of_a_host_file_gets_nothing() -> None:
    outcome = clang('__asm__(".incbin \\"/etc/shadow\\"");\n')
    assert not outcome.ok
    assert "/etc/shadow" in outcome.log


def test_host_paths_do_not_exist(public_directory: Path) -> None:
    secret = public_directory / "secret"
    secret.write_text("hunter2")
    outcome = hostile(f"""
        import os
        for path in ("/etc", "/proc", "/sys", "/run", "/var/log", "/dev/mem", "{secret}"):
            print(path, os.path.exists(path))
        print(sorted(os.listdir("/dev")))
    """)
    assert outcome.log.count("False") == 7
    assert "['null']" in outcome.log


def test_files_have_the_names_that_the_job_gives_them(public_directory: Path) -> None:
    (public_directory / "headers").mkdir()
    (public_directory / "headers" / "h.h").write_text("secret")
    plain = hostile_job()
    visible = (*plain.visible, Bind(public_directory / "headers", Path("/vgc/headers")))
    job = replace(plain, argv=(*plain.argv, public_directory / "headers" / "h.h", public_directory), visible=visible)
    outcome = run(job, "import sys, os; print(sys.argv[1:], open(sys.argv[1]).read(), os.listdir('/vgc'))")
    assert "['/vgc/headers/h.h', '/vgc'] secret" in outcome.log
    assert "['headers', 'lib']" in outcome.log.replace("['lib', 'headers']", "['headers', 'lib']")


def test_command_names_only_visible_files() -> None:
    with pytest.raises(ValueError, match="/bin/true is in the command of a compiler that does not see it"):
        run(CompileJob((Path("/bin/true"),), "in", "out", (), "wrong"), "")


def test_compiler_goes_after_others() -> None:
    assert f"nice {os.nice(0) + 5}\n" in hostile("import os; print('nice', os.getpriority(os.PRIO_PROCESS, 0))").log


def test_compiler_of_a_light_vm_goes_after_those_of_others() -> None:
    job = hostile_job()
    quarters = Quarters(weight=Weight(25))
    seen = run(job, "import os; print('nice', os.getpriority(os.PRIO_PROCESS, 0))", quarters=quarters).log
    assert f"nice {os.nice(0) + 6 + 5}\n" in seen


def test_network_is_refused() -> None:
    outcome = hostile("import socket; socket.create_connection(('127.0.0.1', 22))")
    assert not outcome.ok
    assert "Operation not permitted" in outcome.log


def test_fork_bomb_is_bounded_and_leaves_nothing() -> None:
    outcome = hostile("""
        import os, time
        children = 0
        try:
            while True:
                if os.fork() == 0:
                    time.sleep(1000)
                children += 1
        except OSError as error:
            print("children", children, error)
    """)
    assert f"children {QUICK.processes - 1} " in outcome.log
    assert "Resource temporarily unavailable" in outcome.log


def test_compiler_that_needs_no_other_program_may_divide_its_work_only() -> None:
    source = """
        import os, sys, threading
        thread = threading.Thread(target=print, args=("a thread",))
        thread.start()
        thread.join()
        child = os.fork()
        if child == 0:
            os._exit(7)
        print("child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        for refused in (lambda: os.kill(os.getppid(), 0), lambda: os.posix_spawn(sys.executable, ["python"], {})):
            try:
                refused()
            except PermissionError as error:
                print("refused:", error.strerror)
    """
    outcome = run(replace(hostile_job(), is_alone=True), source)
    assert "a thread" in outcome.log
    assert "child ended with 7" in outcome.log
    assert outcome.log.count("refused: Operation not permitted") == 2


def test_nothing_survives_the_compiler() -> None:
    token = f"survivor-{os.getpid()}"
    outcome = hostile(f"""
        import os, subprocess, sys
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "{token}"], start_new_session=True)
        open("out", "w").write("image")
    """)
    assert outcome.image_fd is not None
    os.close(outcome.image_fd)
    assert processes_with(token) == []


def test_memory_bomb_is_refused() -> None:
    outcome = hostile("hoard = [bytearray(16 << 20) for _ in range(1000)]")
    assert not outcome.ok
    assert "MemoryError" in outcome.log


def test_work_directory_is_bounded() -> None:
    limits = replace(QUICK, work_bytes=8 << 20)
    outcome = hostile("open('big', 'wb').write(bytes(16 << 20))", limits)
    assert not outcome.ok
    assert "No space left on device" in outcome.log


def test_endless_sleep_is_stopped() -> None:
    outcome = hostile("import time; time.sleep(1000)", CompileLimits(wall_seconds=0.5))
    assert not outcome.ok
    assert "stopped after 0.5 s" in outcome.log


def test_endless_loop_is_stopped() -> None:
    outcome = hostile("while True: pass", replace(QUICK, cpu_seconds=1))
    assert not outcome.ok
    assert "1 s of CPU time" in outcome.log


def test_huge_output_is_cut() -> None:
    limits = replace(QUICK, log_bytes=1000)
    outcome = hostile("print('x' * 1_000_000)", limits)
    assert len(outcome.log) < 2000
    assert "more bytes of output dropped" in outcome.log


def test_endless_output_is_stopped() -> None:
    limits = replace(QUICK, log_bytes=1000, image_bytes=1 << 20)
    outcome = hostile("while True: print('x' * 1000)", limits)
    assert not outcome.ok
    assert "dropped" in outcome.log


def test_oversized_image_is_refused() -> None:
    limits = replace(QUICK, image_bytes=1000, log_bytes=100_000)
    outcome = hostile("open('out', 'wb').write(bytes(1001))", limits)
    assert not outcome.ok
    assert "larger than 1000 bytes" in outcome.log


def test_image_that_is_a_directory_is_refused() -> None:
    outcome = hostile("import os; os.mkdir('out')")
    assert not outcome.ok
    assert "not a regular file" in outcome.log


def test_image_that_is_a_link_is_not_followed() -> None:
    outcome = hostile("import os; os.symlink('/etc/passwd', 'out')", mode="off")
    assert not outcome.ok
    assert outcome.image_fd is None
    assert "no usable image" in outcome.log


def test_writing_outside_the_work_directory_is_refused() -> None:
    outcome = hostile("""
        import sys
        for path in ("/usr/lib/intruder", "/intruder", "/dev/intruder", sys.prefix + "/intruder"):
            try:
                open(path, "w")
                print("written", path)
            except OSError as error:
                print("refused", error)
    """)
    assert "written" not in outcome.log
    assert outcome.log.count("refused") == 4
    assert not Path("/usr/lib/intruder").exists()


def test_hostile_system_call_ends_the_compiler() -> None:
    outcome = hostile("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)")
    assert not outcome.ok
    assert "system call that no compiler needs" in outcome.log


def test_namespaces_cannot_be_made() -> None:
    outcome = hostile("""
        import ctypes
        CLONE_NEWUSER, SIGCHLD, SYS_clone = 0x10000000, 17, 56
        print("clone", ctypes.CDLL(None).syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0))
    """)
    assert "clone -1" in outcome.log


def test_compiler_is_unprivileged() -> None:
    outcome = hostile("import os; print('ids', os.getuid() == 0, os.geteuid() == 0, os.getgid() == 0)")
    assert "ids False False False" in outcome.log


def test_environment_is_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGC_SECRET", "hunter2")
    outcome = hostile("import os; print(sorted(os.environ))")
    assert "'PATH'" in outcome.log
    assert "VGC_SECRET" not in outcome.log


def test_no_descriptor_of_the_daemon_is_inherited() -> None:
    with tempfile.TemporaryFile() as secret:
        os.set_inheritable(secret.fileno(), True)
        outcome = hostile("""
            import os
            def is_open(fd):
                try:
                    os.fstat(fd)
                except OSError:
                    return False
                return True
            # 3 is the source, which Python itself reads
            print("open", [fd for fd in range(4, 256) if is_open(fd)])
        """)
    assert "open []" in outcome.log


def test_cancelling_kills_the_compiler(public_directory: Path) -> None:
    started = public_directory / "started"
    os.mkfifo(started)
    started.chmod(0o666)
    token = f"cancelled-{os.getpid()}"
    source = f"import time; open('{started}', 'w').close(); time.sleep(1000)"
    plain = hostile_job()
    job = replace(plain, argv=(*plain.argv, token), visible=(*plain.visible, *shown(started)))

    async def cancel_once_it_runs() -> None:
        task = asyncio.create_task(run_compile(job, source.encode(), QUICK, "strict"))
        await asyncio.to_thread(started.read_bytes)
        assert processes_with(token) != []
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel_once_it_runs())
    assert processes_with(token) == []


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_compiler_keeps_off_the_cores_that_a_vm_gets_for_its_own(public_directory: Path) -> None:
    """Processes that it has started do the same."""
    started = public_directory / "started"
    os.mkfifo(started)
    started.chmod(0o666)
    token = f"moved-{os.getpid()}"
    source = f"import os, time; out = open('{started}', 'w'); os.fork(); out.write('.'); out.close(); time.sleep(1000)"
    plain = hostile_job()
    job = replace(plain, argv=(*plain.argv, token), visible=(*plain.visible, *shown(started)))
    pool = CorePool(os.sched_getaffinity(0))

    def where() -> set[frozenset[int]]:
        return {frozenset(os.sched_getaffinity(int(pid))) for pid in processes_with(token)}

    async def move_once_it_runs() -> None:
        with pool.place("slow", None, None) as place:
            task = asyncio.create_task(run_compile(job, source.encode(), QUICK, "strict", Quarters(place=place)))
            with await asyncio.to_thread(started.open) as said:
                assert await asyncio.to_thread(said.read) == ".."
            assert where() == {pool.cores}
            with pool.place("fast", "own", 1):
                assert where() == {pool.shared}
            assert where() == {pool.cores}
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(move_once_it_runs())


def test_paths_with_secrets_cannot_be_shown() -> None:
    job = CompileJob(("/bin/true",), "in", "out", shown(Path("/etc")), "wrong")
    with pytest.raises(ValueError, match="/etc must not be shown"):
        run(job, "")


def test_strict_refuses_a_host_that_lacks_a_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = SandboxError("user namespaces", "Operation not permitted")
    monkeypatch.setattr(launch, "missing_feature", lambda: lacking)
    with pytest.raises(SandboxError, match=r"user namespaces.*best-effort"):
        hostile("open('out', 'w')")


def test_best_effort_still_filters_and_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = SandboxError("user namespaces", "Operation not permitted")
    monkeypatch.setattr(launch, "missing_feature", lambda: lacking)
    assert "Operation not permitted" in hostile("import socket; socket.socket()", mode="best-effort").log
    limits = CompileLimits(wall_seconds=0.5)
    assert "stopped after" in hostile("import time; time.sleep(1000)", limits, mode="best-effort").log


def test_launcher_names_the_feature_that_is_missing() -> None:
    forbid = "echo 0 > /proc/sys/user/max_user_namespaces"
    command = f"{forbid} && exec {build.LAUNCHER} --bind={build.LAUNCHER}=/vgc-launch -- /vgc-launch --exit"
    ended = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", command], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 125
    assert "user namespaces" in ended.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="all of these tests run as an ordinary user already")
def test_ordinary_user_can_build_the_sandbox(public_directory: Path) -> None:
    program = public_directory / "vgc-launch"
    shutil.copy(build.LAUNCHER, program)
    program.chmod(0o755)
    command = [str(program), "--own-root", f"--bind={program}=/vgc-launch", "--", "/vgc-launch", "--exit"]
    ended = subprocess.run(command, user=65534, group=65534, extra_groups=[], check=False, capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
