"""The toolkit's libraries whose work a library of the host does, called by name: fakes of NVIDIA's compute."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.protocol.fake_gpu import fake_gpu_host
from tests.protocol.guest_host import GuestHost

CUFFT: Final = {"every_size": 41 + 20, "reals": 40, "strides": 4, "extended": 1}
"""Cases of `tests.cuda_libraries.cufft`, and how many transforms they make at least."""


@pytest.fixture(scope="module")
def gpu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GuestHost, Path]]:
    with fake_gpu_host(tmp_path_factory.mktemp("host"), "cufft") as made:
        yield made


def calls(log: Path, beginning: str) -> int:
    return sum(line.startswith(beginning) for line in log.read_text().splitlines())


@pytest.mark.parametrize("case", CUFFT)
def test_transforms_are_those_of_the_host_s_cufft(gpu: tuple[GuestHost, Path], case: str) -> None:
    """In any layout, in place and not; no kernel computes, and the guest takes no memory for tables and work areas."""
    host, log = gpu
    before, kernels = calls(log, "cufftExec"), calls(log, "launch ")
    done = host.python("-m", "tests.cuda_libraries.cufft", case)
    assert done.returncode == 0, done.stderr
    assert calls(log, "cufftExec") - before >= CUFFT[case]
    assert calls(log, "launch ") == kernels
    assert not calls(log, "misuse")
