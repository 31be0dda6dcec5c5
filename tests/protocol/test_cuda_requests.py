"""CUDA source from a fake guest, compiled and run by the real daemon, compiler, walled worker and CUDA engine.

The GPU is the fake driver; the sandbox is strict, so that the tests show that it allows all that the engine needs.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.units import Unit, pack
from tests.fakes.vm import FakeVm
from tests.limits import NO_DEADLINE_NS
from tests.protocol.cuda_host import MEMORY_BYTES, PRINTS, SOURCE, CudaGuest, Settings, cuda_host
from tests.protocol.worker_rig import needs_walls
from tests.unit.cuda_compile_rig import needs_nvcc, needs_nvrtc
from vhost_backend.config.daemon import MIB
from virtio_proto import schema
from virtio_proto.schema import EngineKind, Health, Opcode, ProgramKind, Status

SHORT_NS = 500_000_000
"""A deadline of launches that one which hangs reaches soon."""


@pytest.fixture(scope="module")
def vm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeVm]:
    """A VM for tests that leave the worker as it was."""
    with cuda_host(tmp_path_factory.mktemp("host"), Settings()) as (vm,):
        yield vm


@pytest.fixture
def guest(vm: FakeVm) -> Iterator[CudaGuest]:
    guest = CudaGuest(vm)
    yield guest
    guest.ok(Opcode.CONTEXT_DESTROY)


@pytest.fixture
def victim(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CudaGuest]:
    """For tests that end the worker; its parameter is how long launches may take."""
    with cuda_host(tmp_path, Settings(deadline_ns=getattr(request, "param", NO_DEADLINE_NS))) as (vm,):
        guest = CudaGuest(vm)
        assert guest.load(SOURCE).status == Status.OK
        yield guest


def space_of(vm: FakeVm) -> Any:
    return schema.CONFIG.construct.parse(vm.frontend.config_read())


def engine_name(vm: FakeVm) -> str:
    return bytes(space_of(vm).engine_name).rstrip(b"\0").decode()


# ---- computing -----------------------------------------------------------------------------------


def test_kernel_computes(guest: CudaGuest) -> None:
    assert guest.computes()


def test_parameters_reach_the_kernel(guest: CudaGuest) -> None:
    assert guest.load(SOURCE).status == Status.OK
    x, y = guest.alloc(struct.pack("<3f", 1, 2, 3)), guest.alloc(struct.pack("<3f", 10, 20, 30))
    reply = guest.launch("saxpy", struct.pack("<IfQQ", 3, 2.0, x, y), threads=3)
    assert reply.status == Status.OK, reply.text
    assert struct.unpack("<3f", guest.read(y, 12)) == (12, 24, 36)


def test_guest_sees_the_engine_and_its_share(vm: FakeVm, guest: CudaGuest) -> None:
    space = space_of(guest.vm)
    assert (space.engine_kind, space.quota_pes) == (EngineKind.CUDA, 48)
    assert engine_name(vm) == "Fake H200, 48 of 132 SMs"


def test_kernels_can_address_the_region(vm: FakeVm, guest: CudaGuest) -> None:
    """The engine registers the region with the driver, and reports its device address."""
    address = space_of(vm).region_device_address
    assert address != 0
    assert guest.load(SOURCE).status == Status.OK
    block = vm.region.allocate(16)
    vm.region.write(block, struct.pack("<4I", 1, 2, 3, 4))
    reply = guest.launch("add_one", struct.pack("<QI", address + block.offset, 4), threads=4)
    assert reply.status == Status.OK, reply.text
    assert struct.unpack("<4I", vm.region.read(block)) == (2, 3, 4, 5)
    vm.region.release(block)


def test_output_of_kernels_reaches_the_guest(guest: CudaGuest) -> None:
    assert guest.load(PRINTS).status == Status.OK
    reply = guest.launch("prints", struct.pack("<I", 2))
    assert reply.status == Status.OK, reply.text
    assert guest.output() == b"hello 0\nhello 1\n"
    assert guest.output() == b""


# ---- programs ------------------------------------------------------------------------------------


def test_compiler_log_reaches_the_guest(guest: CudaGuest) -> None:
    reply = guest.load(b'extern "C" __global__ void k() { undeclared = 1; }')
    assert reply.status == Status.COMPILE_FAILED
    assert 'identifier "undeclared" is undefined' in reply.text


def test_second_load_comes_from_the_cache(guest: CudaGuest) -> None:
    assert guest.load(SOURCE).status == guest.load(SOURCE).status == Status.OK


@pytest.mark.parametrize("kind", [ProgramKind.PTX, ProgramKind.CUBIN, ProgramKind.FATBIN])
def test_binary_is_refused_with_how_to_allow_it(guest: CudaGuest, kind: ProgramKind) -> None:
    reply = guest.load(b"whatever", kind)
    assert reply.status == Status.COMPILE_FAILED
    assert kind.name in reply.text
    assert "'binaries: true'" in reply.text


@needs_nvcc
def test_several_sources_are_linked(guest: CudaGuest) -> None:
    a = "__device__ int square(int);\n" + 'extern "C" __global__ void add_one(int *p, int n) { *p = square(n); }\n'
    b = "__device__ int square(int x) { return x * x; }\n"
    assert guest.load(pack([Unit("a.cu", a), Unit("b.cu", b)]), ProgramKind.CUDA_UNITS).status == Status.OK
    reply = guest.load(pack([Unit("a.cu", a), Unit("b.cu", "")]), ProgramKind.CUDA_UNITS)
    assert reply.status == Status.COMPILE_FAILED
    assert "_Z6squarei" in reply.text
    assert "'a.cu'" in reply.text


def test_binary_is_taken_where_it_is_allowed(tmp_path: Path) -> None:
    ptx = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry add_one(.param .u64 data, .param .u32 count) { ret; }
"""
    with cuda_host(tmp_path, Settings(options={"binaries": True})) as (vm,):
        guest = CudaGuest(vm)
        loaded = guest.load(ptx, ProgramKind.PTX)
        assert loaded.status == Status.OK, loaded.text
        address = guest.alloc(struct.pack("<I", 41))
        assert guest.launch("add_one", struct.pack("<QI", address, 1)).status == Status.OK
        assert guest.read(address, 4) == struct.pack("<I", 42)


# ---- quota ---------------------------------------------------------------------------------------


def test_more_memory_than_the_quota_is_refused(guest: CudaGuest) -> None:
    reply = guest.request(Opcode.ALLOC, {"size": MEMORY_BYTES + MIB})
    assert reply.status == Status.OUT_OF_MEMORY
    assert str(MEMORY_BYTES + MIB) in reply.text


def test_programs_count_against_the_quota(guest: CudaGuest) -> None:
    """A program that prints is charged the driver's printf buffer of 1 MiB."""
    loaded = guest.load(PRINTS)
    assert guest.request(Opcode.ALLOC, {"size": MEMORY_BYTES - MIB}).status == Status.OUT_OF_MEMORY
    guest.ok(Opcode.PROGRAM_UNLOAD, {"program": loaded.value})
    guest.ok(Opcode.ALLOC, {"size": MEMORY_BYTES - MIB})


@pytest.mark.parametrize(("asked", "given"), [(33, 40), (1, 8), (None, 132), (500, 132)])
def test_share_of_the_gpu_is_rounded_up_to_a_possible_partition(
    tmp_path: Path, logs: io.StringIO, asked: int | None, given: int
) -> None:
    with cuda_host(tmp_path, Settings(pes=asked)) as (vm,):
        vm.frontend.wait_health(Health.READY)
        assert space_of(vm).quota_pes == given
    if asked is not None and asked < given:
        assert re.search(rf"worker_ready.*asked={asked}.*pes={given}", logs.getvalue())


# ---- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("victim", "kernel", "status", "error"),
    [
        (NO_DEADLINE_NS, "illegal_address", Status.FAULT, "CUDA_ERROR_ILLEGAL_ADDRESS"),
        (NO_DEADLINE_NS, "fails", Status.ASSERT, "CUDA_ERROR_ASSERT"),
        (
            NO_DEADLINE_NS,
            "fails",
            Status.ASSERT,
            "source.cu:20: void fails(): block: [0,0,0], thread: [0,0,0] Assertion `threadIdx.x != 0` failed.",
        ),
        (SHORT_NS, "hang", Status.TIMEOUT, "hang"),
    ],
    indirect=["victim"],
)
def test_fault_is_named_and_the_vm_goes_on(victim: CudaGuest, kernel: str, status: Status, error: str) -> None:
    reply = victim.launch(kernel)
    assert reply.status == status, reply.text
    assert error in reply.text
    assert kernel in reply.text
    assert victim.request(Opcode.ALLOC, {"size": 16}).status == Status.NO_CONTEXT
    again = CudaGuest(victim.vm)
    assert again.computes()
    assert again.generation() == 2


def test_the_log_names_the_reason_of_a_workers_end(victim: CudaGuest, logs: io.StringIO) -> None:
    victim.launch("illegal_address")
    CudaGuest(victim.vm)
    assert re.search(r"worker_last_words.*illegal_address.*CUDA_ERROR_ILLEGAL_ADDRESS", logs.getvalue())


def test_fault_of_one_vm_does_not_affect_another(tmp_path: Path) -> None:
    with cuda_host(tmp_path, Settings("a", deadline_ns=SHORT_NS), Settings("b")) as vms:
        guilty, other = (CudaGuest(vm) for vm in vms)
        assert other.computes()
        assert guilty.load(SOURCE).status == Status.OK
        for kernel in ("illegal_address", "hang"):
            assert guilty.launch(kernel).status in (Status.FAULT, Status.TIMEOUT)
            guilty = CudaGuest(guilty.vm)
            assert guilty.load(SOURCE).status == Status.OK
            address = other.alloc(struct.pack("<I", 1))
            assert other.launch("add_one", struct.pack("<QI", address, 1)).status == Status.OK
        assert other.generation() == 1
        assert guilty.generation() == 3


# ---- which engine --------------------------------------------------------------------------------


def test_auto_falls_back_to_the_cpu_when_no_worker_gets_ready_on_the_gpu(tmp_path: Path, logs: io.StringIO) -> None:
    """The probe cannot detect everything: it runs outside of the sandbox, and allocates no memory."""
    broken = "inject cuDevicePrimaryCtxRetain 2 1 99\n"
    with cuda_host(tmp_path, Settings(kind="auto", pes=None), fake=broken) as (vm,):
        vm.frontend.wait_health(Health.READY)
        assert space_of(vm).engine_kind == EngineKind.CPU
        CudaGuest(vm).ok(Opcode.ALLOC, {"size": 16})
    assert re.search(r"engine_chosen.*engine=cpu.*no worker gets ready.*CUDA_ERROR_OUT_OF_MEMORY", logs.getvalue())


def test_auto_takes_the_gpu(tmp_path: Path, logs: io.StringIO) -> None:
    with cuda_host(tmp_path, Settings(kind="auto")) as (vm,):
        assert CudaGuest(vm).computes()
        assert space_of(vm).engine_kind == EngineKind.CUDA
    assert re.search(r"engine_chosen.*engine=cuda.*Fake H200 \(sm_90\), CUDA 13.0", logs.getvalue())


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        ("init_result 100\n", "CUDA_ERROR_NO_DEVICE"),
        ("driver_version 12020\n", "the driver knows CUDA 12.2"),
        ("devices 0\n", "no CUDA-capable device is detected"),
    ],
)
def test_auto_falls_back_to_the_cpu_and_says_why(tmp_path: Path, logs: io.StringIO, fake: str, reason: str) -> None:
    with cuda_host(tmp_path, Settings(kind="auto", pes=2), fake=fake) as (vm,):
        vm.frontend.wait_health(Health.READY)
        assert space_of(vm).engine_kind == EngineKind.CPU
    chosen = next(line for line in logs.getvalue().splitlines() if "engine_chosen" in line)
    assert "engine=cpu" in chosen
    assert reason in chosen


def test_second_gpu_can_be_named_by_number_and_by_uuid(tmp_path: Path) -> None:
    fake = "devices 2\n1.name Other GPU\n1.uuid 22222222222222222222222222222222\n"
    uuid = "GPU-22222222-2222-2222-2222-222222222222"
    settings = (Settings("a", options={"device": 1}), Settings("b", options={"device": uuid}))
    with cuda_host(tmp_path, *settings, fake=fake) as vms:
        for vm in vms:
            assert CudaGuest(vm).computes()
            assert engine_name(vm) == "Other GPU, 48 of 132 SMs"


@needs_walls
def test_best_effort_sandbox_computes(tmp_path: Path, logs: io.StringIO) -> None:
    with cuda_host(tmp_path, Settings(sandbox="best-effort")) as (vm,):
        assert CudaGuest(vm).computes()
    assert "no system call filter: left out" in logs.getvalue()


def test_mig_instance_can_be_named_by_its_uuid(tmp_path: Path) -> None:
    """The host also has a GPU with more multiprocessors; the driver lists an instance only if it is named."""
    uuid = "MIG-33333333-3333-3333-3333-333333333333"
    fake = f"devices 2\n1.mig {uuid}\n1.name NVIDIA H200 MIG 1g.18gb\n1.sms 16\n"
    with cuda_host(tmp_path, Settings(pes=None, options={"device": uuid}), fake=fake) as (vm,):
        assert CudaGuest(vm).computes()
        assert engine_name(vm) == "NVIDIA H200 MIG 1g.18gb, 16 of 16 SMs"


# ---- built-in functions --------------------------------------------------------------------------


@needs_nvrtc
def test_built_in_functions_run_once_the_host_has_compiled_their_kernels(guest: CudaGuest) -> None:
    x, y = guest.alloc(struct.pack("<3f", 1, 2, 3)), guest.alloc(struct.pack("<3f", 10, 20, 30))
    params = struct.pack("<qdQqQq", 3, 2.0, x, 1, y, 1)
    assert guest.launch("blas.axpy_f32", params).status == Status.OK
    assert struct.unpack("<3f", guest.read(y, 12)) == (12, 24, 36)
    assert guest.launch("blas.axpy_f32", params).status == Status.OK
    assert struct.unpack("<3f", guest.read(y, 12)) == (14, 28, 42)


@needs_nvrtc
def test_a_built_in_function_says_what_is_wrong_with_the_data(guest: CudaGuest) -> None:
    data, counts = guest.alloc(struct.pack("<3i", 0, 1, 7)), guest.alloc(bytes(16))
    reply = guest.launch("count.bincount_i32", struct.pack("<QqQq", data, 3, counts, 2))
    assert (reply.status, reply.text) == (
        Status.INVALID_ARGUMENT,
        "count.bincount_i32: an element of in is negative, or bins or more",
    )
    assert guest.launch("count.bincount_i32", struct.pack("<QqQq", data, 2, counts, 2)).status == Status.OK
    assert struct.unpack("<2Q", guest.read(counts, 16)) == (1, 1)
