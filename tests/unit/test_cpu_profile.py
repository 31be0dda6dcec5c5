"""--profile on the CPU engine: launches print the lines that their samples were taken in."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.unit.cpu_rig import CompileError, LaunchError, Rig, compile_image, rig

SOURCE = """
extern "C" __global__ void lines(float *a, int n) {
    float x = a[threadIdx.x];
    for (int i = 0; i < n; i++)
        x = x / (1.0f + x * x); // hot
    for (int i = 0; i < n / 200; i++)
        x = x / (2.0f + x * x); // cold
    a[threadIdx.x] = x;
}
extern "C" __global__ void calls(double *a, int n) {
    double x = a[threadIdx.x];
    for (int i = 0; i < n; i++)
        x = tgamma(x) + 0.5; // calls
    a[threadIdx.x] = x;
}
extern "C" __global__ void ends(int *a, int how) {
    for (long i = 0; i < 2000000; i++)
        a[threadIdx.x] = a[threadIdx.x] * 3 + i; // ends
    if (how == 1)
        __trap();
}
extern "C" __global__ void nothing() {}
"""


def line_of(mark: str) -> int:
    return SOURCE[: SOURCE.index(f"// {mark}")].count("\n") + 1


def samples(gpu: Rig) -> dict[int, int]:
    """Samples by line; 0 for other code."""
    text, _, lost = gpu.take_output()
    assert lost == 0
    found = {}
    for line in text.splitlines():
        place = re.fullmatch(r"profile: (?:source\.cu:(\d+)|[a-z ]+): (\d+) of (\d+) samples in kernel '\w+'", line)
        assert place is not None, line
        found[int(place[1] or 0)] = int(place[2])
    return found


def sampled(gpu: Rig, name: str, dtype: type, wanted: int) -> dict[int, int]:
    """Launches a kernel for longer and longer, until that many samples were taken."""
    found: dict[int, int] = {}
    n = 100_000
    while sum(found.values()) < wanted:
        gpu.launch(name, 4, 64, gpu.array(64, dtype, 1.5), np.int32(n))
        found = samples(gpu)
        n *= 4
    return found


def test_hot_line_has_most_samples() -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("--profile",))
        found = sampled(gpu, "lines", np.float32, 50)
        assert found[line_of("hot")] > 5 * found.get(line_of("cold"), 0)
        assert found[line_of("hot")] > 0.5 * sum(found.values())
        assert next(iter(found)) == line_of("hot")


def test_functions_of_the_runtime_count_for_the_line_that_calls_them() -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("--profile",))
        found = sampled(gpu, "calls", np.float64, 50)
        assert found[line_of("calls")] > 0.5 * sum(found.values())


def test_only_programs_that_ask_are_sampled() -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("-lineinfo",))
        gpu.launch("lines", 4, 64, gpu.array(64, np.float32, 1), np.int32(1_000_000))
        assert gpu.take_output() == ("", 0, 0)


def test_short_kernels_say_so() -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("--profile",))
        gpu.launch("nothing", 1, 1)
        assert re.fullmatch(r"profile: .*: \d+ of \d+ samples in kernel 'nothing'\n", gpu.take_output()[0])


@pytest.mark.parametrize("how", [0, 1])
def test_failed_launches_have_profiles(how: int) -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("--profile",))
        if how == 0:
            gpu.launch("ends", 1, 32, gpu.array(32, np.int32), np.int32(0))
        else:
            with pytest.raises(LaunchError, match="__trap"):
                gpu.launch("ends", 1, 32, gpu.array(32, np.int32), np.int32(how))
        assert "samples in kernel 'ends'" in gpu.take_output()[0]


def test_profiles_while_programs_come_and_go() -> None:
    """Programs are loaded and unloaded while the first is sampled; engines end with a sampler that has run."""
    image = compile_image(SOURCE, ("--profile",))[0]
    with rig() as gpu, ThreadPoolExecutor(1) as pool:
        gpu.load_image(image)
        a = gpu.array(64, np.float32, 1)
        for _ in range(10):
            launch = pool.submit(gpu.launch, "lines", 8, 64, a, np.int32(200_000))
            functions = dict(gpu.functions)
            gpu.load_image(image)
            gpu.functions = functions
            gpu.engine.unload_program(gpu.programs.pop())
            launch.result()
        assert "samples in kernel 'lines'" in gpu.take_output()[0]


def test_output_of_many_launches_is_bounded() -> None:
    with rig() as gpu:
        gpu.load(SOURCE, ("--profile",))
        for _ in range(3000):
            gpu.launch("nothing", 1, 1)
        text, left, lost = gpu.take_output()
        assert (len(text) <= 64 << 10, left, lost > 0) == (True, 0, True)


def test_unknown_forms_are_refused() -> None:
    with pytest.raises(CompileError, match=r"--profile=lines.*allowed: .*--profile"):
        compile_image(SOURCE, ("--profile=lines",))
