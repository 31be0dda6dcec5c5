"""The CUDA engine's Python half on the fake driver: options, context, programs, charges, output."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.fakes import cuda_cubin, cuda_libraries
from tests.fakes.cuda_driver import FakeDriver
from tests.fakes.driver import Reply
from tests.unit.cuda_images import compiled
from tests.unit.cuda_rig import CUDA_LIMITS, fake_driver
from tests.unit.plane_rig import Rig, plane_rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.engines.base import Engine, LoadedProgram, ProgramError
from vhost_backend.engines.cuda import cubin
from vhost_backend.engines.cuda.compiler import trailer
from vhost_backend.engines.cuda.host import open_fds
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import EngineError
from vhost_backend.sandbox import memfd
from virtio_proto.schema import DeviceFeature, Opcode, ParamKind, Status

pytest.importorskip("cuda.bindings.driver", reason="cuda-bindings is not installed")

from vhost_backend.engines.cuda.engine import CudaEngine

MIB = 1 << 20
SMS = 16
RESIDENT_THREADS = 2048 * SMS
SOURCE = """
    __device__ int counter;
    __constant__ float factors[4];
    namespace solver {
        __global__ void step(char a, double b, int *p) { counter = *p + a + b + factors[p[1]]; }
        template <class T> __global__ void scale(T *p) { *p *= 2; }
        template __global__ void scale<float>(float *);
    }
"""


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_driver() as fake:
        yield fake


def opened(fake: FakeDriver, pes: int = SMS, **options: Any) -> CudaEngine:
    return CudaEngine.open({"driver": str(fake.path), **options}, pes, 64 * MIB, 10**9)


@contextmanager
def running(fake: FakeDriver, pes: int = SMS, **options: Any) -> Iterator[CudaEngine]:
    """A started engine."""
    engine = opened(fake, pes, **options)
    try:
        engine.start()
        yield engine
    finally:
        engine.close()


@contextmanager
def entered(engine: Engine) -> Iterator[None]:
    """Enters the engine: no other thread calls it, and its context is current."""
    lib.vgc_engine_enter(engine.handle)
    try:
        yield
    finally:
        lib.vgc_engine_leave(engine.handle)


def load(engine: CudaEngine, image: bytes) -> LoadedProgram:
    fd = memfd.sealed("image", image)
    try:
        return engine.load_program(fd, len(image), 1)
    finally:
        os.close(fd)


def one_kernel(**fields: Any) -> cuda_cubin.Kernel:
    return cuda_cubin.Kernel("empty", **fields)


# ---- opening -----------------------------------------------------------------------------------------


def test_the_engine_is_registered_by_its_kind() -> None:
    assert engine_class("cuda") is CudaEngine


@pytest.mark.parametrize(("pes", "given", "name"), [(10, 16, "16 of 132 SMs"), (500, 132, "132 of 132 SMs")])
def test_the_engine_reports_its_share_of_the_gpu(fake: FakeDriver, pes: int, given: int, name: str) -> None:
    engine = opened(fake, pes)
    assert (engine.name, engine.num_pes, engine.handle.num_pes) == (f"Fake H200, {name}", given, given)
    engine.close()


@pytest.mark.parametrize("letter", ["x", "é"])
def test_names_fit_the_configuration_space(fake: FakeDriver, letter: str) -> None:
    fake.set(f"name {letter * 90}")
    engine = opened(fake)
    assert 62 <= len(engine.name.encode()) <= 63
    assert engine.name.endswith(f"{letter}, 16 of 132 SMs")
    engine.close()


@pytest.mark.parametrize("binaries", [True, False])
def test_binaries_are_offered_only_where_allowed(fake: FakeDriver, binaries: bool) -> None:
    engine = opened(fake, binaries=binaries)
    always = set(DeviceFeature) - {DeviceFeature.BINARY_PROGRAMS}
    assert engine.features == sum(always) | (DeviceFeature.BINARY_PROGRAMS if binaries else 0)
    engine.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 9}, "option speed is 9; allowed: device"),
        ({"device": 1.5}, "option device is 1.5"),
        ({"device": True}, "option device is True"),
        ({"binaries": "yes"}, "option binaries is 'yes'"),
        ({"heap": 0}, "option heap is 0"),
        ({"heap": "8M"}, "option heap is '8M'"),
        ({"compiler": "gcc"}, "option compiler is 'gcc'"),
        ({"libraries": "maybe"}, "option libraries is 'maybe'"),
        ({"libraries": "on"}, "cuBLAS and cuFFT are required, and one of them is not named"),
        ({"completion": "hope"}, "option completion is 'hope'"),
        ({"memory": "mine"}, r"option memory is 'mine'; .*memory \(pool, mapped\)"),
        ({"device": "7"}, "no GPUs fit device '7'; there are: 0 "),
    ],
)
def test_invalid_options_are_refused(fake: FakeDriver, options: Mapping[str, Any], words: str) -> None:
    with pytest.raises(EngineError, match=words):
        opened(fake, **options)


@pytest.mark.parametrize(
    ("wanted", "used"), [("off", 0), ("auto", lib.VGC_CUDA_CUBLAS), ("on", lib.VGC_CUDA_CUBLAS | lib.VGC_CUDA_CUFFT)]
)
def test_libraries_that_options_name_are_used(fake: FakeDriver, wanted: str, used: int) -> None:
    """In a part of the GPU, with the names of both; `auto` goes on with the one that can be loaded."""
    cublas = str(cuda_libraries.build("cublas"))
    cufft = str(cuda_libraries.build("cufft")) if wanted != "auto" else "/nowhere/libcufft.so.12"
    with running(fake, libraries=wanted, cublas=cublas, cufft=cufft) as engine:
        assert lib.vgc_cuda_engine_libraries(engine.handle) == used


def test_options_without_a_value_count_as_absent(fake: FakeDriver) -> None:
    opened(fake, device=None, heap=None, compiler=None).close()


def test_an_open_engine_has_no_context_current(fake: FakeDriver) -> None:
    """A green context may be current in one thread only: the data plane's."""
    engine = opened(fake)
    current = ctypes.c_void_p(1)
    assert fake.library.cuCtxGetCurrent(ctypes.byref(current)) == 0
    assert current.value is None
    engine.close()


def test_limits_are_set_before_anything_is_loaded(fake: FakeDriver) -> None:
    with running(fake, heap=3 * MIB) as engine:
        load(engine, cuda_cubin.all_kernels())
        calls = [line.partition(" = ")[0] for line in fake.calls()]
        printf, heap = f"cuCtxSetLimit(1, {MIB})", f"cuCtxSetLimit(2, {3 * MIB})"
        loading = next(at for at, call in enumerate(calls) if call.startswith("cuModuleLoadData"))
        assert {printf, heap} <= set(calls[:loading])
        size = ctypes.c_size_t()
        with entered(engine):
            assert fake.library.cuCtxGetLimit(ctypes.byref(size), 2) == 0
        assert size.value == 3 * MIB


@pytest.mark.parametrize("function", ["cuCtxSetLimit", "cuCtxSetCurrent", "cuGreenCtxCreate"])
def test_a_failed_opening_leaves_nothing_behind(fake: FakeDriver, function: str) -> None:
    opened(fake).close()
    before = open_fds()  # the driver itself keeps the GPU open
    fake.inject(function, 2)
    with pytest.raises(EngineError, match=f"{function}: CUDA_ERROR_OUT_OF_MEMORY"):
        opened(fake)
    assert fake.number("contexts") == 0
    assert open_fds() == before


def test_a_gpu_that_does_not_answer_is_reported_at_the_start(fake: FakeDriver) -> None:
    engine = opened(fake)
    fake.inject("cuMemPoolCreate", 2)
    with pytest.raises(EngineError, match=r"cuda engine: .*CUDA_ERROR_OUT_OF_MEMORY"):
        engine.start()
    engine.close()


def test_the_sandbox_keeps_files_that_the_driver_opened(fake: FakeDriver) -> None:
    """Files that were open before are not kept."""
    before = os.open("/dev/null", os.O_RDONLY)
    engine = opened(fake)
    kept = engine.needs.kept_fds
    assert {engine._stdout.fd, engine._stderr.fd} <= set(kept)
    assert before not in kept
    os.close(before)
    engine.close()


# ---- programs ----------------------------------------------------------------------------------------


def test_a_compiled_program_is_loaded(fake: FakeDriver) -> None:
    with running(fake) as engine:
        program = load(engine, compiled(SOURCE))
        found = {info.short_name: info for info in program.functions}
        assert set(found) == {"step", "scale"}
        assert found["step"].name == "_ZN6solver4stepEcdPi"
        assert (found["step"].params, found["step"].param_bytes) == (((0, 1), (8, 8), (16, 8)), 24)
        assert found["step"].kinds() == (ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER)
        assert [found["step"].kernel.params[index].offset for index in range(3)] == [0, 8, 16]
        assert {(info.name, info.size) for info in program.globals} == {("counter", 4), ("factors", 16)}
        assert all(info.address for info in program.globals)
        engine.unload_program(program)
        assert fake.number("modules") == 0


def test_kernels_and_variables_that_are_static_have_clangs_names(fake: FakeDriver) -> None:
    """The driver knows them under those of NVIDIA's compilers."""
    source = "static __device__ int n;\nstatic __global__ void add(int *p) { *p += n; }\n"
    with running(fake) as engine:
        program = load(engine, trailer.of_source(compiled(source), []))
        assert [(info.name, info.short_name, len(info.params)) for info in program.functions] == [
            ("_ZL3addPi", "add", 1)
        ]
        assert {info.name for info in program.globals} == {"n", "_ZL1n"}
        assert len({info.address for info in program.globals}) == 1
        engine.unload_program(program)


def test_parameter_kinds_from_the_compiler_are_used(fake: FakeDriver) -> None:
    ptx = b".entry saxpy(.param .u32 n, .param .f32 a, .param .u64 .ptr x, .param .u64 .ptr y) {}"
    with running(fake) as engine:
        program = load(engine, trailer.with_kinds(cuda_cubin.all_kernels(), ptx))
        found = {info.name: info.kinds() for info in program.functions}
        assert found["saxpy"] == (ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER, ParamKind.POINTER)
        assert found["add_one"] == (ParamKind.UNKNOWN, ParamKind.UNKNOWN)
        engine.unload_program(program)


def test_a_program_without_kernels_is_loaded(fake: FakeDriver) -> None:
    with running(fake) as engine:
        program = load(engine, cuda_cubin.cubin([], [cuda_cubin.Global("counter", 4)]))
        assert (program.functions, len(program.globals)) == ((), 1)
        engine.unload_program(program)


def test_variables_without_an_address_are_left_out(fake: FakeDriver) -> None:
    with running(fake) as engine:
        fake.inject("cuModuleGetGlobal", 500)
        program = load(engine, cuda_cubin.cubin([], [cuda_cubin.Global(name, 4) for name in ("a", "b")]))
        assert [info.name for info in program.globals] == ["b"]
        engine.unload_program(program)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (b"", "no 64-bit ELF header"),
        (
            cuda_cubin.all_kernels() + trailer.END.pack(0, 9, trailer.MAGIC),
            "the trailer .* is of version 9; allowed: 1",
        ),
        (b"//\n// Generated by NVIDIA NVVM Compiler\n.version 9.0\n", "this is not a cubin"),
        (cuda_cubin.cubin([one_kernel()], arch=80), r"compiled for sm_80, and this GPU \(Fake H200\) is sm_90"),
        (cuda_cubin.cubin([one_kernel()], arch=91), "compiled for sm_91"),
        (
            cuda_cubin.cubin([one_kernel(params=(*[4000] * 8, 765))]),
            "kernel empty has 32765 bytes of parameters; allowed: 32764",
        ),
    ],
)
def test_images_that_cannot_run_here_are_refused(fake: FakeDriver, image: bytes, words: str) -> None:
    """They are refused before the driver sees them."""
    with running(fake) as engine:
        with pytest.raises(ProgramError, match=words):
            load(engine, image)
        assert fake.count("cuModuleLoadData") == 0


@pytest.mark.parametrize(
    ("result", "words"), [(2, "^out of memory"), (218, "CUDA_ERROR_INVALID_PTX"), (209, "CUDA_ERROR_NO_BINARY_FOR_GPU")]
)
def test_refusal_of_an_image_by_the_driver_is_reported(fake: FakeDriver, result: int, words: str) -> None:
    with running(fake) as engine:
        fake.inject("cuModuleLoadData", result, times=2)
        with pytest.raises(ProgramError, match=words):
            load(engine, cuda_cubin.all_kernels())
        assert fake.number("modules") == 0


# ---- charges of a program ----------------------------------------------------------------------------


def test_a_program_is_charged_for_the_memory_it_loads(fake: FakeDriver) -> None:
    image = compiled(SOURCE)
    with running(fake) as engine:
        program = load(engine, image)
        assert program.charged_bytes == cubin.parse(image).loaded_bytes > 0
        engine.unload_program(program)


def test_stacks_are_charged_for_all_threads_of_the_share(fake: FakeDriver) -> None:
    """The kernel with the largest stack decides."""
    kernels = [one_kernel(local_bytes=256), cuda_cubin.Kernel("hang", local_bytes=1024)]
    without = [one_kernel(), cuda_cubin.Kernel("hang")]
    with running(fake) as engine:
        deep, flat = load(engine, cuda_cubin.cubin(kernels)), load(engine, cuda_cubin.cubin(without))
        assert deep.charged_bytes - flat.charged_bytes == 1024 * RESIDENT_THREADS
        engine.unload_program(deep)
        engine.unload_program(flat)


@pytest.mark.parametrize(
    ("statement", "charged"), [('printf("x");', MIB), ("free(0);", 5 * MIB), ('printf("x"); free(0);', 6 * MIB)]
)
def test_the_drivers_heap_and_printf_buffer_are_charged(fake: FakeDriver, statement: str, charged: int) -> None:
    """The heap has the configured size."""
    image = compiled(f"__global__ void kernel() {{ {statement} }}")
    with running(fake, heap=5 * MIB) as engine:
        program = load(engine, image)
        assert program.charged_bytes - cubin.parse(image).loaded_bytes == charged
        engine.unload_program(program)


def test_a_program_beyond_the_quota_is_unloaded_again(fake: FakeDriver) -> None:
    image = cuda_cubin.cubin([one_kernel(local_bytes=4096)])
    with rig_of(fake) as rig:
        reply = loaded(rig, rig.context(), image)
        assert reply.status is Status.OUT_OF_MEMORY
        assert "of device memory" in reply.text
        assert fake.number("modules") == 0
        assert not stack_limits(fake)


def test_a_program_without_room_for_its_stacks_is_unloaded_again(fake: FakeDriver) -> None:
    """The quota allows the stacks, but the GPU has no more memory."""
    image = cuda_cubin.cubin([one_kernel(local_bytes=1032)])
    with rig_of(fake) as rig:
        context = rig.context()
        fake.inject("cuCtxSetLimit", 2, times=2)
        reply = loaded(rig, context, image)
        assert reply.status is Status.OUT_OF_MEMORY
        assert "no room for the stacks of all threads" in reply.text
        assert fake.number("modules") == 0
        assert rig.plane.usage().memory_used_bytes == 0


def test_variables_beyond_the_quota_are_never_on_the_gpu(fake: FakeDriver) -> None:
    """The rest of the GPU's memory belongs to other VMs."""
    image = cuda_cubin.cubin([one_kernel()], [cuda_cubin.Global("vast", 65 * MIB)])
    with rig_of(fake) as rig:
        reply = loaded(rig, rig.context(), image)
        assert reply.status is Status.OUT_OF_MEMORY
        assert f"{64 * MIB} of {64 * MIB} bytes free; the host's operator" in reply.text
        assert fake.count("cuModuleLoadData") == 0


def test_variables_beyond_what_is_left_are_never_on_the_gpu(fake: FakeDriver) -> None:
    image = cuda_cubin.cubin([one_kernel()], [cuda_cubin.Global("large", 40 * MIB)])
    with rig_of(fake) as rig:
        context = rig.context()
        assert loaded(rig, context, image).status is Status.OK
        used = rig.plane.usage().memory_used_bytes
        reply = loaded(rig, context, image)
        assert reply.status is Status.OUT_OF_MEMORY
        assert f"bytes of device memory, {64 * MIB - used} of {64 * MIB} bytes free; the host's operator" in reply.text
        assert fake.count("cuModuleLoadData") == 1
        assert rig.plane.usage().memory_used_bytes == used


def stack_limits(fake: FakeDriver) -> list[str]:
    return [call for call in fake.calls("cuCtxSetLimit") if call.startswith("cuCtxSetLimit(0, ")]


def test_stacks_beyond_the_quota_are_never_on_the_gpu(fake: FakeDriver) -> None:
    """Nor are those of a program that would have room without the VM's other programs."""
    vast = cuda_cubin.cubin([one_kernel(local_bytes=400_000)])
    half = cuda_cubin.cubin([one_kernel(local_bytes=1400)])
    with rig_of(fake) as rig:
        context = rig.context()
        for image, status in ((vast, Status.OUT_OF_MEMORY), (half, Status.OK), (half, Status.OUT_OF_MEMORY)):
            assert loaded(rig, context, image).status is status
        assert stack_limits(fake) == ["cuCtxSetLimit(0, 1400) = CUDA_SUCCESS"]


VAST = cuda_cubin.cubin([one_kernel()], [cuda_cubin.Global("vast", 63 * MIB)])
"""Almost the whole quota."""


def loaded(rig: Rig, context: int, image: bytes) -> Reply:
    body = {"kind": 1, "source_len": len(image)}
    pending = rig.driver.submit(Opcode.PROGRAM_LOAD, body, image, context=context, writable_len=4096)
    rig.serve_cold()
    rig.answer_compile()
    return rig.driver.wait(pending)


@contextmanager
def mapped_rig(fake: FakeDriver) -> Iterator[tuple[Rig, int]]:
    with rig_of(fake, memory="mapped") as rig:
        yield rig, rig.context()


def test_remains_of_allocations_make_room_for_a_program(fake: FakeDriver) -> None:
    """A few bytes hold a whole unit of physical memory, while the quota counts only those bytes."""
    with mapped_rig(fake) as (rig, context):
        given = [
            rig.ok(Opcode.ALLOC, {"size": size}, context=context).value
            for _ in range(32)
            for size in (2 * MIB - 512, 512)
        ]
        for address in given[::2]:
            rig.ok(Opcode.FREE, {"address": address}, context=context)
        reply = loaded(rig, context, VAST)
        assert reply.status is Status.OUT_OF_MEMORY
        assert reply.text.startswith("out of memory: allocations leave too little memory: ")
        assert fake.number("device_bytes") <= 128 * MIB
        for address in given[1::2]:
            rig.ok(Opcode.FREE, {"address": address}, context=context)
        assert loaded(rig, context, VAST).status is Status.OK
        assert fake.number("device_bytes") <= 128 * MIB


def test_kept_memory_makes_room_for_a_program(fake: FakeDriver) -> None:
    """Twice, on a GPU with no more memory than the VM's quota: the program's memory can be used again."""
    fake.set(f"memory {76 * MIB}")
    with mapped_rig(fake) as (rig, context):
        for _ in range(2):
            address = rig.ok(Opcode.ALLOC, {"size": 64 * MIB}, context=context).value
            rig.ok(Opcode.FREE, {"address": address}, context=context)
            reply = loaded(rig, context, VAST)
            assert reply.status is Status.OK
            body = {"program": reply.value}
            pending = rig.driver.submit(Opcode.PROGRAM_UNLOAD, body, context=context)
            rig.serve_cold()
            assert rig.driver.wait(pending).status is Status.OK


def test_the_pool_releases_kept_memory_for_a_program(fake: FakeDriver) -> None:
    with rig_of(fake) as rig:
        assert loaded(rig, rig.context(), VAST).status is Status.OK
        (call,) = fake.calls("cuMemPoolTrimTo")
        kept = int(call.partition(", ")[2].partition(")")[0])
        assert 65 * MIB - 65536 < kept <= 65 * MIB


# ---- printing ----------------------------------------------------------------------------------------


@contextmanager
def rig_of(fake: FakeDriver, **options: Any) -> Iterator[Rig]:
    engine = opened(fake, **options)
    engine.start()
    with plane_rig(replace(CUDA_LIMITS, memory_bytes=64 * MIB), engine=engine) as rig:
        yield rig


def printed(rig: Rig, context: int) -> str:
    text, left, lost = ffi.new("char[]", 4096), ffi.new("uint32_t *"), ffi.new("uint64_t *")
    with entered(rig.engine):
        size = rig.engine.handle.ops.take_output(rig.engine.handle, context, text, 4096, left, lost)
    assert (left[0], lost[0]) == (0, 0)
    return bytes(ffi.buffer(text, size)).decode()


def test_output_of_kernels_is_kept_for_their_context(fake: FakeDriver) -> None:
    image = compiled('extern "C" __global__ void prints(unsigned count) { printf("%u", count); }')
    with rig_of(fake) as rig:
        contexts = [rig.context(), rig.context()]
        for context, lines in zip(contexts, (2, 3), strict=True):
            launch = {"function": rig.load(context, image)["prints"], "param_len": 4}
            geometry = {"grid": [1, 1, 1], "block": [1, 1, 1]}
            rig.ok(Opcode.LAUNCH, launch | geometry, struct.pack("<I", lines), context=context)
        assert [printed(rig, number) for number in (1, 2)] == ["hello 0\nhello 1\n", "hello 0\nhello 1\nhello 2\n"]


def test_closing_restores_stdout(fake: FakeDriver) -> None:
    with memfd_on_stdout() as file:
        with running(fake):
            assert not os.path.sameopenfile(1, file)
        assert os.path.sameopenfile(1, file)


@contextmanager
def memfd_on_stdout() -> Iterator[int]:
    saved, file = os.dup(1), memfd.create("stdout")
    os.dup2(file, 1)
    try:
        yield file
    finally:
        os.dup2(saved, 1)
        os.close(saved)
        os.close(file)
