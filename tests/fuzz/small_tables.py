"""Copies the headers of the wire format, with small tables, whose ends a fuzzer reaches and which it clears in no time."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

HEADER: Final = "vgc_wire.h"
SIZES: Final = {
    "VGC_MAX_QUEUES": 4,
    "VGC_MAX_CHAIN": 32,
    "VGC_MAX_CONTEXTS": 64,
    "VGC_MAX_EVENTS": 64,
    "VGC_MAX_SHARES": 32,
    "VGC_MAX_ARRAYS": 32,
    "VGC_MAX_GRAPHS": 16,
    "VGC_MAX_PARAM_BYTES": 1020,
    "VGC_MAX_ERROR_TEXT": 256,
}


def shrunk(header: str) -> str:
    """Returns the header with each of `SIZES` in place of its own; KeyError: the header lacks one, or it is smaller."""
    for name, size in SIZES.items():
        found = re.search(rf"^#define {name} (\d+)$", header, re.MULTILINE)
        if found is None or int(found[1]) <= size:
            raise KeyError(name)
        header = header[: found.start(1)] + str(size) + header[found.end(1) :]
    return header


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    for path in source.glob("*.h"):
        text = path.read_text()
        (target / path.name).write_text(shrunk(text) if path.name == HEADER else text)
