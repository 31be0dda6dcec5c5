"""Programs of the CUDA engine: kernels and variables as the driver reports them, and output of kernels."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.fakes import cuda_cubin
from tests.unit.cuda_direct import Direct, direct, hello, printing
from tests.unit.cuda_rig import IMAGE
from vhost_backend._dataplane import lib
from vhost_backend.engines.base import ProgramError, ProgramMemoryError
from virtio_proto.schema import LIMITS

ROOM = LIMITS["MAX_OUTPUT_BYTES"]
INVALID_VALUE, OUT_OF_MEMORY, UNSUPPORTED_LIMIT = 1, 2, 215


def with_changes(*changed: cuda_cubin.Kernel, variables: tuple[cuda_cubin.Global, ...] = ()) -> bytes:
    """A cubin of the fake's kernels, with some replaced."""
    kernels = {name: cuda_cubin.Kernel(name, params) for name, params in cuda_cubin.KERNELS.items()}
    kernels |= {kernel.name: kernel for kernel in changed}
    return cuda_cubin.cubin(list(kernels.values()), variables)


@pytest.fixture
def gpu() -> Iterator[Direct]:
    with direct() as made:
        yield made


def test_limits_of_kernels_come_from_the_driver(gpu: Direct) -> None:
    changed = cuda_cubin.Kernel("empty", shared_bytes=1000, max_threads=256)
    with gpu.left():
        program = gpu.load_image(with_changes(changed, cuda_cubin.Kernel("hang", local_bytes=4096)))
    empty = next(function for function in program.functions if function.name == "empty")
    assert (empty.shared_bytes, empty.max_threads) == (1000, 256)
    assert lib.vgc_cuda_program_local_bytes(program.private) == 4096


def stack_limits(gpu: Direct) -> list[str]:
    return [call.partition(" = ")[0] for call in gpu.driver.calls("cuCtxSetLimit")]


def test_room_for_stacks_is_made_before_a_program_runs(gpu: Direct) -> None:
    """Otherwise the first launch would wait for everything that runs. Smaller stacks than before need no call."""
    for local_bytes in (512, 8192, 4096, 8193):
        with gpu.left():
            gpu.load_image(with_changes(cuda_cubin.Kernel("hang", local_bytes=local_bytes)))
    assert stack_limits(gpu) == ["cuCtxSetLimit(0, 8192)", "cuCtxSetLimit(0, 8193)"]


def test_room_for_stacks_is_released_with_the_programs_that_need_it(gpu: Direct) -> None:
    """The room is no longer charged then."""
    with gpu.left():
        for local_bytes in (8192, 4096, 8192):
            gpu.load_image(with_changes(cuda_cubin.Kernel("hang", local_bytes=local_bytes)))
        gpu.driver.clear()
        for place, then in ((1, []), (2, [4096]), (1, [4096, 1024])):
            gpu.engine.unload_program(gpu.programs.pop(place))
            assert stack_limits(gpu) == [f"cuCtxSetLimit(0, {limit})" for limit in then]
    gpu.wait(gpu.launch("empty"))


def test_a_program_without_room_for_its_stacks_is_not_loaded(gpu: Direct) -> None:
    gpu.driver.inject("cuCtxSetLimit", OUT_OF_MEMORY, times=2)
    words = r"^out of memory: no room for the stacks of all threads: CUDA_"
    with gpu.left(), pytest.raises(ProgramMemoryError, match=words):
        gpu.load_image(with_changes(cuda_cubin.Kernel("hang", local_bytes=8192)))
    with gpu.left():
        gpu.engine.unload_program(gpu.programs.pop())
    assert stack_limits(gpu) == ["cuCtxSetLimit(0, 8192)"] * 2


@pytest.mark.parametrize("error", [INVALID_VALUE, UNSUPPORTED_LIMIT])
def test_a_program_is_loaded_even_if_the_driver_refuses_the_limit(gpu: Direct, error: int) -> None:
    gpu.driver.inject("cuCtxSetLimit", error)
    with gpu.left():
        gpu.load_image(with_changes(cuda_cubin.Kernel("hang", local_bytes=8192)))
    gpu.wait(gpu.launch("empty"))


def test_variables_have_addresses_that_can_be_copied_to(gpu: Direct) -> None:
    with gpu.left():
        program = gpu.load_image(with_changes(variables=(cuda_cubin.Global("table", 64, b"abc"),)))
        table = gpu.engine.variable(program, "table")
    assert table.size == 64
    assert gpu.read(table.address, 4) == b"abc\0"


def test_missing_variables_are_named(gpu: Direct) -> None:
    with gpu.left():
        with pytest.raises(ProgramError, match=r"variable nothing: CUDA_ERROR_NOT_FOUND \("):
            gpu.engine.variable(gpu.programs[0], "nothing")
        gpu.driver.inject("cuModuleGetGlobal_v2", 2)
        with pytest.raises(ProgramError, match=r"^out of memory: variable nothing: CUDA_ERROR_OUT_OF_MEMORY"):
            gpu.engine.variable(gpu.programs[0], "nothing")


def test_an_image_without_its_kernels_is_refused_by_name(gpu: Direct) -> None:
    with gpu.left(), pytest.raises(ProgramError, match=r"kernel slow: CUDA_ERROR_NOT_FOUND \("):
        gpu.load_image(cuda_cubin.cubin([cuda_cubin.Kernel("add_one", (8, 4))]))


def test_a_malformed_image_is_refused(gpu: Direct) -> None:
    with gpu.left(), pytest.raises(ProgramError, match=r"the driver does not load the program: CUDA_ERROR_"):
        gpu.load_image(IMAGE[:16] + bytes(100))


# ---- output of kernels ---------------------------------------------------------------------------


def test_output_of_kernels_can_be_taken() -> None:
    with printing() as gpu:
        launch = gpu.launch("prints", struct.pack("<I", 3))
        gpu.wait(launch)
        assert launch.output_bytes == len(hello(3))
        assert gpu.take_output(room=8) == (hello(3)[:8], len(hello(3)) - 8, 0)
        assert gpu.take_output() == (hello(3)[8:], 0, 0)
        assert gpu.take_output() == ("", 0, 0)


def test_output_grows_until_it_is_taken() -> None:
    with printing() as gpu:
        launches = [gpu.launch("prints", struct.pack("<I", count)) for count in (2, 3)]
        gpu.wait(*launches, gpu.launch("empty"))
        assert launches[1].output_bytes == len(hello(2) + hello(3))
        assert gpu.take_output() == (hello(2) + hello(3), 0, 0)


def test_excess_output_is_lost_in_whole_lines() -> None:
    with printing() as gpu:
        count = 10_000
        launch = gpu.launch("prints", struct.pack("<I", count))
        gpu.wait(launch)
        assert launch.output_bytes == len(hello(count))
        text, left_bytes, lost = gpu.take_output()
        assert ROOM - 20 < len(text) <= ROOM
        assert text.endswith("\n")
        assert hello(count).startswith(text)
        assert (left_bytes, lost) == (0, len(hello(count)) - len(text))
        assert gpu.take_output() == ("", 0, 0)


def test_output_belongs_to_the_context_that_launched() -> None:
    """Kernels of different contexts that may print do not run side by side."""
    with printing(contexts=2) as gpu:
        gpu.driver.hold()
        before = gpu.driver.count("cuLaunchKernel")
        launches = [gpu.launch("prints", struct.pack("<I", context), context=context) for context in (1, 2)]
        gpu.poll()
        assert gpu.driver.count("cuLaunchKernel") == before + 1
        gpu.driver.go_on()
        gpu.wait(*launches)
        assert gpu.take_output(context=1) == (hello(1), 0, 0)
        assert gpu.take_output(context=2) == (hello(2), 0, 0)


def test_no_operation_follows_a_kernel_that_prints_before_its_output_is_read() -> None:
    with printing() as gpu:
        gpu.driver.hold()
        before = gpu.driver.count("cuLaunchKernel")
        launches = [gpu.launch("prints", struct.pack("<I", 1)), gpu.launch("empty")]
        gpu.poll()
        assert gpu.driver.count("cuLaunchKernel") == before + 1
        gpu.driver.go_on()
        gpu.wait(*launches)


def test_without_a_file_there_is_no_output() -> None:
    with direct() as gpu:
        launch = gpu.launch("prints", struct.pack("<I", 0))
        gpu.wait(launch)
        assert launch.output_bytes == 0
        assert gpu.take_output() == ("", 0, 0)
