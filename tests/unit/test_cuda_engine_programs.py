"""Programs of the CUDA engine: what the driver says about kernels and variables, and what kernels print."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.fakes import cuda_cubin
from tests.unit.cuda_direct import Direct, direct
from tests.unit.cuda_rig import IMAGE
from vhost_backend._dataplane import lib
from vhost_backend.engines.base import ProgramError
from virtio_proto.schema import LIMITS

ROOM = LIMITS["MAX_OUTPUT_BYTES"]


def with_changes(*changed: cuda_cubin.Kernel, variables: tuple[cuda_cubin.Global, ...] = ()) -> bytes:
    """The fake's kernels, some of them otherwise."""
    kernels = {name: cuda_cubin.Kernel(name, params) for name, params in cuda_cubin.KERNELS.items()}
    kernels |= {kernel.name: kernel for kernel in changed}
    return cuda_cubin.cubin(list(kernels.values()), variables)


@pytest.fixture
def gpu() -> Iterator[Direct]:
    with direct() as made:
        yield made


def test_limits_of_kernels_are_the_drivers(gpu: Direct) -> None:
    changed = cuda_cubin.Kernel("empty", shared_bytes=1000, max_threads=256)
    with gpu.left():
        program = gpu.load_image(with_changes(changed, cuda_cubin.Kernel("hang", local_bytes=4096)))
    empty = next(function for function in program.functions if function.name == "empty")
    assert (empty.shared_bytes, empty.max_threads) == (1000, 256)
    assert lib.vgc_cuda_program_local_bytes(program.private) == 4096


def test_variables_have_addresses_that_can_be_copied_to(gpu: Direct) -> None:
    with gpu.left():
        program = gpu.load_image(with_changes(variables=(cuda_cubin.Global("table", 64, b"abc"),)))
        table = gpu.engine.variable(program, "table")
    assert table.size == 64
    assert gpu.read(table.address, 4) == b"abc\0"


def test_variables_that_are_not_there_are_told_by_name(gpu: Direct) -> None:
    with gpu.left():
        with pytest.raises(ProgramError, match=r"variable nothing: CUDA_ERROR_NOT_FOUND \("):
            gpu.engine.variable(gpu.programs[0], "nothing")
        gpu.driver.inject("cuModuleGetGlobal_v2", 2)
        with pytest.raises(ProgramError, match=r"^out of memory: variable nothing: CUDA_ERROR_OUT_OF_MEMORY"):
            gpu.engine.variable(gpu.programs[0], "nothing")


def test_an_image_without_its_kernels_is_refused_by_name(gpu: Direct) -> None:
    with gpu.left(), pytest.raises(ProgramError, match=r"kernel slow: CUDA_ERROR_NOT_FOUND \("):
        gpu.load_image(cuda_cubin.cubin([cuda_cubin.Kernel("add_one", (8, 4))]))


def test_an_image_that_is_none_is_refused(gpu: Direct) -> None:
    with gpu.left(), pytest.raises(ProgramError, match=r"the driver does not load it: CUDA_ERROR_"):
        gpu.load_image(IMAGE[:16] + bytes(100))


# ---- what kernels print --------------------------------------------------------------------------


@contextmanager
def printing(contexts: int = 1) -> Iterator[Direct]:
    """An engine whose stdout is a file, as a worker's is."""
    file, stdout = os.memfd_create("output"), os.dup(1)
    fcntl.fcntl(file, fcntl.F_SETFL, os.O_APPEND)
    os.dup2(file, 1)
    try:
        with direct(output_fd=file, contexts=contexts) as made:
            yield made
    finally:
        os.dup2(stdout, 1)
        os.close(stdout)
        os.close(file)


def hello(count: int) -> str:
    return "".join(f"hello {i}\n" for i in range(count))


def test_what_kernels_print_can_be_taken() -> None:
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


def test_what_does_not_fit_is_lost_in_whole_lines() -> None:
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


def test_output_is_the_contexts_that_launched() -> None:
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


def test_nothing_follows_a_kernel_that_prints_before_its_output_is_taken_over() -> None:
    with printing() as gpu:
        gpu.driver.hold()
        before = gpu.driver.count("cuLaunchKernel")
        launches = [gpu.launch("prints", struct.pack("<I", 1)), gpu.launch("empty")]
        gpu.poll()
        assert gpu.driver.count("cuLaunchKernel") == before + 1
        gpu.driver.go_on()
        gpu.wait(*launches)


def test_without_a_file_nothing_is_taken() -> None:
    with direct() as gpu:
        launch = gpu.launch("prints", struct.pack("<I", 0))
        gpu.wait(launch)
        assert launch.output_bytes == 0
        assert gpu.take_output() == ("", 0, 0)
