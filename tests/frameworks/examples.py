"""The examples of frameworks in Python, and what they print if they are right."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Example:
    """A program of a framework; `says` is a part of what it prints, `device` is tinygrad's."""

    framework: str
    name: str
    says: str
    device: str = ""

    @property
    def path(self) -> Path:
        """From the repository's root, as from a guest's home."""
        return Path("examples", "frameworks", f"{self.name}.py")

    @property
    def settings(self) -> dict[str, str]:
        """Environment of the program."""
        return {"PYTHONWARNINGS": "ignore"} | ({"DEV": self.device} if self.device else {})

    def __str__(self) -> str:
        return f"{self.name} {self.device}".strip()


EXAMPLES: Final = (
    Example("numba", "matmul_numba", "4608 elements of the product are right\n"),
    Example("triton", "kernels_triton", "softmax is right\nthe product of matrices is right\n"),
    Example("pycuda", "arrays_pycuda", "arrays, kernels of elements, a reduction and a kernel in CUDA C are right\n"),
    Example("tinygrad", "train_tinygrad", "CUDA: the loss fell from ", device="CUDA"),
    Example("tinygrad", "train_tinygrad", "CUDA: the loss fell from ", device="CUDA:PTX"),
)
