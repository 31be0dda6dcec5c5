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
}
"""numpy's names of element types, by their suffixes."""

SUFFIX: Final = re.compile(rf"_({'|'.join(TYPES)})(?:_(?:i32|i64))?$")
"""Type at the end of a name, and the type of indices behind it."""
