"""Names of built-in functions: ``group.function_type``."""

from __future__ import annotations

import re
from typing import Final

TYPES: Final = {
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "i32": "int32",
    "i64": "int64",
    "u32": "uint32",
    "u64": "uint64",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
}
"""numpy's names of element types, by their suffixes."""

METHODS: Final[dict[str, tuple[str, ...]]] = {
    "blas.gemm": ("blas.gemm", "blas.matmul"),
    "reduce.sum": ("reduce.sum", "reduce.count_nonzero"),
    "reduce.min": ("reduce.min", "reduce.all"),
    "reduce.max": ("reduce.max", "reduce.any"),
    "math.minimum": ("math.minimum", "math.logical_and", "math.bitwise_and"),
    "math.maximum": ("math.maximum", "math.logical_or", "math.bitwise_or"),
    "math.not_equal": ("math.not_equal", "math.logical_xor", "math.bitwise_xor"),
    "math.equal": ("math.equal", "math.logical_not", "math.invert"),
    "select.take": ("select.take", "select.masked"),
    "sort.keys": ("sort.sort",),
    "fft.c2c": ("fft.fft", "fft.ifft", "fft.fft2", "fft.ifft2", "fft.fftn", "fft.ifftn"),
    "fft.r2c": ("fft.rfft", "fft.rfft2", "fft.rfftn"),
    "fft.c2r": ("fft.irfft", "fft.irfft2", "fft.irfftn"),
    "sparse.spmv": ("sparse.spmv", "sparse.multiply"),
}
"""Methods of a device that run a function, by its name without types; the others have one of the function's name."""

SUFFIX: Final = re.compile(rf"_({'|'.join(TYPES)})(?:_(?:i32|i64))?$")
"""Type at the end of a name, and the type of indices behind it."""


def methods_of(name: str) -> tuple[str, ...]:
    """Methods of a device that run a function, the plainest first, such as ``blas.gemm``."""
    stem = SUFFIX.sub("", name)
    return METHODS.get(stem, (stem,))
