"""Rows of the toolkit's cuBLAS in a guest, beside numpy's BLAS on the host, in turn."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.lab import Lab
from bench.native.build import HERE as NATIVE
from bench.registry import Outcome, row
from bench.results import Samples, SkipRow, outcome
from bench.rows.cudart import MYNVCC, device
from tools.common import REPOSITORY

PROGRAM: Final = REPOSITORY / "bench" / "guest" / "cublas.cu"
SIZES: Final = (512, 1024)
"""Rows and columns of the products."""

NUMPY: Final = """
import sys, time
import numpy as np

pairs = {int(n): [np.random.default_rng(1).random((int(n), int(n)), np.float32) for _ in range(2)] for n in sys.argv[1:]}
for _ in sys.stdin:
    for n, (a, b) in pairs.items():
        began = time.perf_counter_ns()
        a @ b
        print(n, time.perf_counter_ns() - began, flush=True)
"""
"""Takes rounds as the guest's program does."""


def build(folder: Path) -> Path:
    """Builds the guest's program.

    :raise SkipRow: it cannot be built here.
    """
    program = folder / "cublas"
    words = [MYNVCC, "-O2", f"-I{NATIVE}", PROGRAM, "-o", program, "-lcublas"]
    try:
        subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SkipRow(f"mynvcc does not build {PROGRAM.name}: {getattr(error, 'stderr', None) or error}") from error
    return program


@contextmanager
def subject(words: Sequence[str | Path], environment: Mapping[str, str], fds: Sequence[int]) -> Iterator[Subject]:
    """A process that takes rounds, one per line that it is sent."""
    with subprocess.Popen(
        [*words, *map(str, SIZES)],
        env=os.environ | environment,
        pass_fds=tuple(fds),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield Subject(process)
        finally:
            process.kill()


class Subject:
    """One of the programs whose products are timed.

    :param process: reads a line per round and answers with a line per size.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.found: defaultdict[int, list[float]] = defaultdict(list)

    def round(self) -> None:
        """Takes one round. :raise SkipRow: the program has failed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its last words say why
        for _ in SIZES:
            answer = self._process.stdout.readline().split()
            if not answer:
                assert self._process.stderr is not None
                raise SkipRow(f"a product failed: {self._process.stderr.read()}")
            self.found[int(answer[0])].append(int(answer[1]) / 1e6)

    def samples(self, size: int) -> Samples:
        """Milliseconds of a size, without the first round, which warms up."""
        return Samples(tuple(self.found[size][1:]))


@row(*(f"cublas_sgemm_{size}_ms" for size in SIZES))
def products(lab: Lab) -> Iterator[Outcome]:
    """Product of two matrices of floats on the software GPU, beside numpy's on as many threads."""
    folder = lab.own_folder("cublas")
    program = build(folder)
    threads = {f"{name}_NUM_THREADS": str(lab.threads) for name in ("OPENBLAS", "OMP", "MKL")}
    with device(folder, lab.threads, "cpu") as link:
        environment = {"VGC_MEMFD": link.description, "VGC_STATE_DIR": str(folder / "state")}
        with (
            subject([program], environment, link.fds) as ours,
            subject([sys.executable, "-c", NUMPY], threads, ()) as base,
        ):
            for _ in range(lab.samples(15, 5) + 1):
                ours.round()
                base.round()
    for size in SIZES:
        name = f"cublas_sgemm_{size}_ms"
        yield outcome(name, ours.samples(size), "ms", "lower", base.samples(size), against="numpy on the host")
