"""PTX modules for the fuzzer to start from: ``python -m tests.ptx_reference.seeds FOLDER``.

They have every form of the table, and the kernels of frameworks that examples and tests have.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.ptx_reference.table import GROUPS, forms
from tests.ptx_reference.table_rig import HEADER, Applied, kernel

ROOT: Final = Path(__file__).resolve().parents[2]
FORMS_OF_A_MODULE: Final = 12
NO_OPERANDS: Final = [(0,) * 8]


def modules() -> Iterator[tuple[str, str]]:
    """Names and texts."""
    for group in GROUPS:
        known = forms(group)
        for first in range(0, len(known), FORMS_OF_A_MODULE):
            part = known[first : first + FORMS_OF_A_MODULE]
            text = HEADER + "".join(kernel(n, Applied(form, NO_OPERANDS)) for n, form in enumerate(part))
            yield f"{group}-{first}.ptx", text
    for path in (*ROOT.glob("examples/ptx/*.ptx"), *ROOT.glob("tests/ptx/triton/*.ptx")):
        yield path.name, path.read_text()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.ptx_reference.seeds", description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in modules():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main()
