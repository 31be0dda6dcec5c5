"""perf on the host sees the names of a worker's kernels, if the operator wants that."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.frontend import FakeFrontend
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.fakes.worker import WorkerHost
from tests.limits import HANGS_AFTER_S, NO_DEADLINE_NS
from tests.waiting import until
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.perf_map import FOLDER, PerfMap
from vhost_backend.daemon.process import sandboxed_worker, worker_of
from vhost_backend.daemon.server import Daemon
from vhost_backend.worker_protocol import budgets
from vhost_backend.worker_protocol.protocol import CodeNames, CodeRange
from virtio_proto.schema import Opcode, ProgramKind, Status

SOURCE = b"""
namespace wave { template <typename T> __global__ void advance(T *field, int rounds) {
    __shared__ T edge[64];
    T value = field[threadIdx.x];
    for (int i = 0; i < rounds; i++) {
        edge[threadIdx.x] = value;
        __syncthreads();
        for (int k = 0; k < 64; k++) value = value * T(0.5) + edge[k];
        __syncthreads();
    }
    field[threadIdx.x] = value;
} }
template __global__ void wave::advance<float>(float *, int);
"""
NAME = "wave::advance<float>(float*, int)"
ROUNDS = 100_000
"""About 0.3 s of a processor."""


def why_no_perf() -> str:
    """Reason why perf cannot be tried here; "" if it can."""
    perf = shutil.which("perf")
    if perf is None:
        return "there is no perf (Debian: linux-perf)"
    tried = subprocess.run(
        [perf, "record", "-e", "cpu-clock", "-o", os.devnull, "true"], capture_output=True, text=True, check=False
    )
    return "" if tried.returncode == 0 else f"perf may not record: {tried.stderr.strip()[-200:]}"


NO_PERF = why_no_perf()


class Machine:
    """A VM with the program loaded, and its daemon."""

    def __init__(self, vm: FakeVm, daemon: DaemonThread) -> None:
        self.vm = vm
        self.daemon = daemon
        self.context = vm.driver.request(Opcode.CONTEXT_CREATE).value
        self.program = self.load(SOURCE)
        self.buffer = self.request(Opcode.ALLOC, {"size": 256}).value

    def request(self, opcode: Opcode, body: dict[str, object], trailing: bytes = b"", payload: bytes = b"") -> Reply:
        return self.vm.driver.request(opcode, body, trailing, payload, 2048, context=self.context)

    def load(self, source: bytes) -> int:
        body: dict[str, object] = {"kind": ProgramKind.CUDA_SOURCE, "options_len": 0, "source_len": len(source)}
        loaded = self.request(Opcode.PROGRAM_LOAD, body, source)
        assert loaded.status == Status.OK, loaded.text
        return loaded.value

    def launch(self, name: str) -> None:
        found = self.request(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
        params = self.buffer.to_bytes(8, "little") + ROUNDS.to_bytes(4, "little")
        body: dict[str, object] = {
            "function": found.value,
            "grid": [1, 1, 1],
            "block": [64, 1, 1],
            "param_len": len(params),
        }
        assert self.request(Opcode.LAUNCH, body, params).status == Status.OK

    @property
    def worker(self) -> int:
        def pid(daemon: Daemon) -> int:
            found = daemon.vms["a"].worker_pid
            assert found is not None
            return found

        return worker_of(self.daemon.ask(pid))

    @property
    def map(self) -> Path:
        return FOLDER / f"perf-{self.worker}.map"


@contextmanager
def machine(tmp_path: Path, *, perf_maps: bool) -> Iterator[Machine]:
    vm = VmConfig(
        "a",
        vm_uuid("a"),
        tmp_path / "a",
        REGION_BYTES,
        engine=EngineConfig("cpu", {"perf_maps": perf_maps}),
        quota=QuotaConfig(pes=1, memory_bytes=16 * MIB),
        deadline_ns=NO_DEADLINE_NS,
        num_queues=4,
        sandbox=SANDBOX,
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    with (
        DaemonThread(config, sandboxed_worker, compiler=compile_service(config)) as daemon,
        FakeVm(tmp_path / "a") as fake,
    ):
        yield Machine(fake, daemon)


@contextmanager
def recorded(pid: int, data: Path) -> Iterator[None]:
    """Samples a process with perf for as long as the block takes."""
    (control, to_perf), (from_perf, acks) = os.pipe(), os.pipe()
    argv = ["perf", "record", "-e", "cpu-clock", "-p", str(pid), "-o", str(data)]
    argv += ["--delay", "-1", f"--control=fd:{control},{acks}"]
    perf = subprocess.Popen(argv, pass_fds=(control, acks), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    os.close(control)
    os.close(acks)
    try:
        os.write(to_perf, b"enable\n")
        assert os.read(from_perf, 16).startswith(b"ack"), "perf ended"
        yield
        perf.send_signal(signal.SIGINT)
        _, said = perf.communicate(timeout=HANGS_AFTER_S)
        assert data.exists(), said
    finally:
        perf.kill()
        perf.wait()
        os.close(to_perf)
        os.close(from_perf)


@pytest.mark.skipif(NO_PERF != "", reason=NO_PERF or "perf works")
@pytest.mark.parametrize("perf_maps", [True, False])
def test_perf_sees_kernels_by_name_if_the_operator_wants_that(tmp_path: Path, perf_maps: bool) -> None:
    with machine(tmp_path, perf_maps=perf_maps) as vm:
        data = tmp_path / "perf.data"
        with recorded(vm.worker, data):
            vm.launch("advance")
        argv = ["perf", "report", "-i", str(data), "--stdio", "--sort", "symbol"]
        report = subprocess.run(argv, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
    assert (f"{NAME} [region " in report) == perf_maps, report


def test_the_map_is_there_while_a_program_is_loaded_and_gone_with_its_worker(tmp_path: Path) -> None:
    with machine(tmp_path, perf_maps=True) as vm:
        path = vm.map
        until(path.exists)
        lines = path.read_text().splitlines()
        assert sum(NAME in line for line in lines) >= 1
        assert all(
            int(start, 16) > 0 and int(size, 16) > 0 for start, size, _ in (line.split(" ", 2) for line in lines)
        )
        assert path.stat().st_mode & 0o777 == 0o600  # names are the guest's
        vm.request(Opcode.PROGRAM_UNLOAD, {"program": vm.program})
        until(lambda: path.read_text() == "")
    assert not path.exists()


def test_without_the_option_there_is_no_map(tmp_path: Path) -> None:
    with machine(tmp_path, perf_maps=False) as vm:
        assert not vm.map.exists()


def test_names_of_hostile_kernels_are_lines_of_their_own(tmp_path: Path) -> None:
    evil = 'extern "C" __global__ void k(int *a) __asm__("x\\n1 ffffffffffff everything\\t2 2 b");'
    source = f'{evil}\nextern "C" __global__ void k(int *a) {{ *a = 1; }}\n'.encode()
    with machine(tmp_path, perf_maps=True) as vm:
        path = vm.map
        until(path.exists)
        before = len(path.read_text().splitlines())
        vm.load(source)
        until(lambda: len(path.read_text().splitlines()) > before)
        added = path.read_text().splitlines()[before:]
        assert added
        assert all(line.split(" ", 2)[2].startswith("x?1 ffffffffffff everything?2 2 b") for line in added)


def test_names_that_a_worker_has_sent_before_its_end_are_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages of a worker that has ended are read without a budget, and each would write the whole file."""
    named: list[int] = []
    monkeypatch.setattr(PerfMap, "name", lambda _self, names: named.append(names.program))
    engine = EngineConfig("cpu", {"perf_maps": True})
    vm = VmConfig("a", vm_uuid("a"), tmp_path / "a", REGION_BYTES, engine=engine, num_queues=4)
    with WorkerHost(tmp_path) as workers, DaemonThread(DaemonConfig((vm,)), workers.command) as daemon:
        frontend = FakeFrontend.connect(tmp_path / "a")
        frontend.negotiate()
        worker = workers.next()
        worker.setup()
        worker.send(CodeNames(1, (CodeRange(1 << 46, 64, "kernel"),)))
        until(lambda: named == [1])

        def end(_daemon: Daemon) -> None:
            monkeypatch.setattr(budgets, "TURN_S", 0.0)  # so that nothing is read before the daemon sees the end
            for _ in range(20):
                worker.send(CodeNames(2, (CodeRange(1 << 46, 64, "kernel"),)))
            worker.die()
            os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)

        daemon.ask(end)
        assert workers.next().pid != worker.pid
        frontend.close()
    assert named == [1]
