"""CUDA source from a fake guest, compiled and run by the real daemon, compiler, worker and CPU engine."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fakes.daemon import SANDBOX, DaemonThread
from tests.fakes.driver import Reply
from tests.fakes.units import Unit, pack
from tests.fakes.vm import REGION_BYTES, FakeVm
from tests.limits import NO_DEADLINE_NS
from vhost_backend.config.daemon import MIB, DaemonConfig, EngineConfig, QuotaConfig, VmConfig, vm_uuid
from vhost_backend.daemon.compile_setup import compile_service
from vhost_backend.daemon.process import sandboxed_worker
from virtio_proto import schema
from virtio_proto.schema import Opcode, ProgramKind, QueryKind, Status

TEXT_BYTES = 2048
SOURCE = b"""
extern "C" __global__ void twice(int *data, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) data[i] *= 2;
}
extern "C" __global__ void stray(int *data) { data[1ll << 40] = 1; }
extern "C" __global__ void beyond(int *data) { data[1000] = 1; }
extern "C" __global__ void prints(int copies) {
    for (int i = 0; i < copies; i++) printf("%063d\\n", i);
    assert(copies != 2);
}
extern "C" __global__ void forever(volatile int *data) { while (data[0] != 1) {} }
"""


SPINS = b"""
extern "C" __global__ void mutual(volatile int *data) { // each of two lanes waits for the other
    if (threadIdx.x == 0) { while (data[0] == 0) {} data[1] = 1; }
    else { while (data[1] == 0) {} data[0] = 1; }
}
extern "C" __global__ void roaming(volatile int *data) { // the lane that would end it comes behind the loop
    int k = 0;
    if (threadIdx.x == 0) while (data[k & 3] == 0) k++;
    else data[0] = 1;
}
"""


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> EngineConfig:
    """Its parameter is the engine's options."""
    return EngineConfig("cpu", getattr(request, "param", {}))


@pytest.fixture
def socket_path(tmp_path: Path, engine: EngineConfig, request: pytest.FixtureRequest) -> Iterator[Path]:
    """Its parameter is how long launches may take."""
    vm = VmConfig(
        "a",
        vm_uuid("a"),
        tmp_path / "a",
        REGION_BYTES,
        engine=engine,
        quota=QuotaConfig(pes=2, memory_bytes=16 * MIB),
        deadline_ns=getattr(request, "param", NO_DEADLINE_NS),
        num_queues=4,
        sandbox=SANDBOX,
    )
    config = DaemonConfig((vm,), cache=tmp_path / "cache")
    with DaemonThread(config, sandboxed_worker, compiler=compile_service(config)):
        yield tmp_path / "a"


class Program:
    """A context with a program loaded and a buffer of four integers."""

    def __init__(self, vm: FakeVm) -> None:
        self.vm = vm
        self.context = vm.driver.request(Opcode.CONTEXT_CREATE).value
        self.loaded = self.load(SOURCE)
        self.buffer = self.request(Opcode.ALLOC, {"size": 16}).value

    def request(self, opcode: Opcode, body: dict[str, object], trailing: bytes = b"", payload: bytes = b"") -> Reply:
        return self.vm.driver.request(opcode, body, trailing, payload, TEXT_BYTES, context=self.context)

    def load(self, source: bytes, kind: ProgramKind = ProgramKind.CUDA_SOURCE, options: bytes = b"") -> Reply:
        """`options`: each ends with a NUL."""
        body: dict[str, object] = {"kind": kind, "options_len": len(options), "source_len": len(source)}
        return self.request(Opcode.PROGRAM_LOAD, body, options + source)

    def launch(self, name: str, params: bytes, threads: int = 1, shared_bytes: int = 0) -> Reply:
        found = self.request(Opcode.FUNCTION_LOOKUP, {"program": 0, "name_len": len(name)}, name.encode())
        body: dict[str, object] = {
            "function": found.value,
            "grid": [1, 1, 1],
            "block": [threads, 1, 1],
            "shared_bytes": shared_bytes,
            "param_len": len(params),
        }
        return self.request(Opcode.LAUNCH, body, params)


@pytest.fixture
def program(socket_path: Path) -> Iterator[Program]:
    with FakeVm(socket_path) as vm:
        yield Program(vm)


def generation(program: Program) -> int:
    space = schema.CONFIG.construct.parse(program.vm.frontend.config_read())
    return int(space.generation)


def assert_serves_again(program: Program) -> None:
    """Asserts, after a worker was replaced, that the old context is gone and that a new one computes."""
    assert program.request(Opcode.ALLOC, {"size": 16}).status == Status.NO_CONTEXT
    fresh = Program(program.vm)
    assert fresh.loaded.status == Status.OK
    assert generation(program) == 2


def test_kernel_computes(program: Program) -> None:
    assert program.loaded.status == Status.OK, program.loaded.text
    data = struct.pack("<4i", 1, 2, 3, 4)
    assert program.request(Opcode.COPY_IN, {"dst": program.buffer, "size": 16}, b"", data).status == Status.OK
    reply = program.launch("twice", struct.pack("<Qi", program.buffer, 4), threads=4)
    assert reply.status == Status.OK, reply.text
    reply = program.vm.driver.request(
        Opcode.COPY_OUT, {"src": program.buffer, "size": 16}, writable_len=16, context=program.context
    )
    assert struct.unpack("<4i", reply.payload) == (2, 4, 6, 8)


def test_compiler_log_reaches_the_guest(program: Program) -> None:
    reply = program.load(b'extern "C" __global__ void k() { undeclared = 1; }')
    assert reply.status == Status.COMPILE_FAILED
    assert "undeclared" in reply.text


def test_ptx_module_computes(program: Program) -> None:
    text = (
        b".version 8.0 .target sm_80 .address_size 64 .entry answers(.param .u64 x) "
        b"{ .reg .b64 a; ld.param.u64 a, [x]; st.global.u32 [a], 42; ret; }"
    )
    loaded = program.load(text, ProgramKind.PTX)
    assert loaded.status == Status.OK, loaded.text
    assert program.launch("answers", struct.pack("<Q", program.buffer)).status == Status.OK
    reply = program.vm.driver.request(
        Opcode.COPY_OUT, {"src": program.buffer, "size": 4}, writable_len=4, context=program.context
    )
    assert struct.unpack("<i", reply.payload) == (42,)


def test_several_sources_are_linked(program: Program) -> None:
    a = '__device__ int twice(int); extern "C" __global__ void linked(int *x) { *x = twice(*x); }'
    units = pack([Unit("a.cu", a), Unit("b.cu", "__device__ int twice(int x) { return 2 * x; }")])
    loaded = program.load(units, ProgramKind.CUDA_UNITS)
    assert loaded.status == Status.OK, loaded.text
    data = struct.pack("<i", 21)
    assert program.request(Opcode.COPY_IN, {"dst": program.buffer, "size": 4}, b"", data).status == Status.OK
    assert program.launch("linked", struct.pack("<Q", program.buffer)).status == Status.OK
    reply = program.vm.driver.request(
        Opcode.COPY_OUT, {"src": program.buffer, "size": 4}, writable_len=4, context=program.context
    )
    assert struct.unpack("<i", reply.payload) == (42,)


def test_sources_that_do_not_fit_together_are_refused(program: Program) -> None:
    reply = program.load(pack([Unit(name, "__device__ int x;") for name in ("a.cu", "b.cu")]), ProgramKind.CUDA_UNITS)
    assert reply.status == Status.COMPILE_FAILED
    assert "'x' is defined in unit 'a.cu' and in unit 'b.cu'" in reply.text
    assert program.load(bytes(8), ProgramKind.CUDA_UNITS).status == Status.COMPILE_FAILED


@pytest.mark.parametrize(
    "planted", [b"#pragma clang __debug crash\n", b"__device__ int f() { return " + b"~" * 100000 + b"1; }\n"]
)
def test_crash_of_the_compiler_is_told_with_its_place(program: Program, planted: bytes) -> None:
    reply = program.load(b"\n" + planted + SOURCE)
    assert reply.status == Status.COMPILE_FAILED
    assert re.search(r"a defect of the compiler: SIG[A-Z]+, at source\.cu:2:\d+", reply.text)
    assert program.load(SOURCE + b"// again").status == Status.OK


def test_kernel_that_faults_is_named_and_its_worker_replaced(program: Program) -> None:
    reply = program.launch("stray", struct.pack("<Q", program.buffer))
    assert reply.status == Status.FAULT
    assert re.match(r"invalid address 0x\w+ in kernel 'stray', block \(0,0,0\), thread \(0,0,0\)$", reply.text)
    assert_serves_again(program)


@pytest.mark.parametrize(
    ("engine", "status"),
    [({}, Status.OK), ({"guard_pages": True}, Status.FAULT)],
    indirect=["engine"],
    ids=["granules", "guard pages"],
)
def test_kernel_that_reaches_beyond_its_memory_faults_at_guard_pages_only(program: Program, status: Status) -> None:
    reply = program.launch("beyond", struct.pack("<Q", program.buffer))
    assert (reply.status, "in kernel 'beyond'" in reply.text) == (status, status != Status.OK)


@pytest.mark.parametrize("socket_path", [100_000_000], indirect=True)
def test_kernel_that_runs_too_long_is_named_and_its_worker_replaced(program: Program) -> None:
    reply = program.launch("forever", struct.pack("<Q", program.buffer))
    assert reply.status == Status.TIMEOUT
    assert re.match(
        r"kernel forever ran longer than 100 ms; .*kernel 'forever', block \(0,0,0\), .*thread", reply.text
    ), reply.text
    assert_serves_again(program)


@pytest.mark.parametrize("socket_path", [100_000_000], indirect=True)
@pytest.mark.parametrize("options", [b"", b"--lockstep\0"])
@pytest.mark.parametrize("name", ["mutual", "roaming"])
def test_lanes_that_wait_for_each_other_for_ever_end_with_their_launch(
    program: Program, name: str, options: bytes
) -> None:
    assert program.load(SPINS, options=options).status == Status.OK
    reply = program.launch(name, struct.pack("<Q", program.buffer), threads=2)
    assert reply.status == Status.TIMEOUT
    assert re.match(rf"kernel {name} ran longer than 100 ms; .*kernel '{name}', block \(0,0,0\)", reply.text), (
        reply.text
    )
    assert_serves_again(program)


def output(program: Program, room: int = 1 << 17) -> Reply:
    body = {"what": QueryKind.OUTPUT}
    return program.vm.driver.request(Opcode.QUERY, body, writable_len=room, context=program.context)


def test_properties_are_limits_of_launches(program: Program) -> None:
    body = {"what": QueryKind.DEVICE}
    reply = program.vm.driver.request(Opcode.QUERY, body, writable_len=1 << 10)
    told = schema.DEVICE_PROPERTIES.construct.parse(reply.payload)
    assert (reply.aux, told.compute_capability, told.warp_threads) == (schema.DEVICE_PROPERTIES.size_bytes, 80, 32)
    parameters = struct.pack("<i", 0)
    assert program.launch("prints", parameters, shared_bytes=told.block_shared_bytes).status == Status.OK
    refused = program.launch("prints", parameters, shared_bytes=told.block_shared_bytes + 1)
    assert refused.status == Status.INVALID_ARGUMENT
    assert f"allowed: {told.block_shared_bytes}" in refused.text
    cut = program.vm.driver.request(Opcode.QUERY, body, writable_len=8)
    assert cut.payload == reply.payload[:8]


def test_output_of_kernels_can_be_queried(program: Program) -> None:
    assert program.launch("prints", struct.pack("<i", 3)).aux == 3 * 64
    first = output(program, room=100)
    assert (len(first.payload), first.aux, first.value) == (100, 3 * 64, 0)
    rest = output(program)
    assert (first.payload + rest.payload).decode() == "".join(f"{i:063d}\n" for i in range(3))
    assert output(program).payload == b""
    assert program.launch("prints", struct.pack("<i", 0)).aux == 0


def test_output_of_a_failed_launch_is_kept(program: Program) -> None:
    reply = program.launch("prints", struct.pack("<i", 2))
    assert (reply.status, reply.aux) == (Status.ASSERT, 2 * 64)
    assert output(program).payload.decode() == f"{0:063d}\n{1:063d}\n"


def test_output_that_was_not_kept_is_counted(program: Program) -> None:
    assert program.launch("prints", struct.pack("<i", 1025)).aux == 1025 * 64
    reply = output(program)
    assert (len(reply.payload), reply.value) == (schema.LIMITS["MAX_OUTPUT_BYTES"], 64)
    assert output(program).value == 0


def test_output_belongs_to_its_context(program: Program) -> None:
    program.launch("prints", struct.pack("<i", 1))
    other = Program(program.vm)
    assert output(other).payload == b""
    assert program.vm.driver.request(Opcode.CONTEXT_DESTROY, context=program.context).status == Status.OK
    assert output(program).status == Status.NO_CONTEXT
    assert output(Program(program.vm)).payload == b"", "a new context in the place of the old one begins with nothing"


def test_more_memory_than_the_quota_is_refused(program: Program) -> None:
    reply = program.request(Opcode.ALLOC, {"size": 17 * MIB})
    assert reply.status == Status.OUT_OF_MEMORY
    assert str(17 * MIB) in reply.text
