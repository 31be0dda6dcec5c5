"""Random kernels compute on the CPU engine what a plain C++ program computes thread by thread."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.cpu_random import kernel
from tests.unit.cpu_rig import Rig, rig

PLAIN = range(100, 140)
WITH_BARRIERS = range(200, 230)
IN_STRIPS = range(300, 330)  # threads do not ask for their block: neighbouring blocks run as one
ALL = (*PLAIN, *WITH_BARRIERS, *IN_STRIPS)

DEVICE = """
#define EXCHANGE(to, from, shift) \\
    do { __syncthreads(); cells[threadIdx.x] = from; __syncthreads(); \\
         to = cells[(threadIdx.x + shift) % blockDim.x]; } while (0)
"""

# Threads without coroutines: the block is run once per barrier, each time from the start and one barrier further,
# with the values that all threads had in their cells at the earlier barriers.
HOST = """
#include <vector>
#include <string.h>
struct Wait {};
static std::vector<std::vector<unsigned>> rounds;
static unsigned round_, thread_, threads_;
static std::vector<unsigned> *filling;
#define EXCHANGE(to, from, shift) do { \\
    if (round_ == rounds.size()) { (*filling)[thread_] = from; throw Wait(); } \\
    to = rounds[round_++][(thread_ + shift) % threads_]; } while (0)
template <class Body> static void run_block(unsigned threads, unsigned block, unsigned n, const unsigned *in, unsigned *out, Body body) {
    std::vector<unsigned> saved(out + block * threads * 4, out + (block + 1) * threads * 4);
    rounds.clear();
    threads_ = threads;
    for (bool waits = true; waits;) {
        std::vector<unsigned> cells(threads);
        waits = false;
        filling = &cells;
        memcpy(out + block * threads * 4, saved.data(), saved.size() * 4);
        for (thread_ = 0; thread_ < threads; thread_++) {
            round_ = 0;
            try { body(block * threads + thread_, block, n, in, out); } catch (Wait) { waits = true; }
        }
        rounds.push_back(cells);
    }
}
"""


def body_of(seed: int) -> str:
    text = kernel(seed, with_barriers=seed in WITH_BARRIERS)
    return re.sub(r"\bbid\b", "11u", text) if seed in IN_STRIPS else text


def device_source(seed: int) -> str:
    """Source of one kernel: programs are compiled one by one, since all of them in one take minutes."""
    shared = "    __shared__ unsigned cells[256];\n" if seed in WITH_BARRIERS else ""
    body = body_of(seed)
    return (
        f'{DEVICE}extern "C" __global__ void k{seed}(unsigned n, const unsigned *in, unsigned *out) {{\n{shared}'
        f"    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, bid = blockIdx.x;\n{body}}}\n"
    )


def host_source() -> str:
    parts = [HOST]
    for seed in ALL:
        body = body_of(seed)
        parts.append(
            f"static void t{seed}(unsigned x, unsigned bid, unsigned n, const unsigned *in, unsigned *out) {{\n{body}}}\n"
            f'extern "C" void k{seed}(unsigned blocks, unsigned threads, unsigned n, const unsigned *in, unsigned *out) {{\n'
            f"    for (unsigned b = 0; b < blocks; b++) run_block(threads, b, n, in, out, t{seed});\n}}\n"
        )
    return "".join(parts)


@pytest.fixture(scope="module")
def gpu() -> Iterator[Rig]:
    with rig(pes=2) as made:
        yield made


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    folder: Path = tmp_path_factory.mktemp("reference")
    (folder / "host.cpp").write_text(host_source())
    argv = ["clang++-19", "-O1", "-w", "-shared", "-fPIC", "-o", "host.so", "host.cpp"]
    subprocess.run(argv, cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "host.so"))
    return lambda name: getattr(library, name)


@pytest.mark.parametrize("threads", [7, 64, 100])
@pytest.mark.parametrize("seed", ALL)
def test_random_kernel_computes_as_plain_cpp(
    gpu: Rig, reference: Callable[[str], Any], seed: int, threads: int
) -> None:
    if f"k{seed}" not in gpu.functions:
        gpu.load(device_source(seed))
    values = np.random.default_rng(seed).integers(0, 1 << 32, 2048, np.uint64).astype(np.uint32)
    blocks = 19 if seed in IN_STRIPS else 2
    out = gpu.array(blocks * threads * 4, np.uint32)
    expected = np.zeros_like(out)
    reference(f"k{seed}")(
        blocks, threads, 6, values.ctypes.data_as(ctypes.c_void_p), expected.ctypes.data_as(ctypes.c_void_p)
    )
    gpu.launch(f"k{seed}", blocks, threads, np.uint32(6), gpu.array(2048, np.uint32, values), out)
    assert np.array_equal(out, expected), body_of(seed)
