"""The pages that walk through the code name files; they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["request-path.md", "control.md"])
def test_every_file_that_the_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`([a-z_]+/[\w/.-]+\.(?:py|c|h|js))`", (ROOT / "docs" / page).read_text()))
    assert len(named) > 20
    assert not sorted(name for name in named if not (ROOT / name).exists())
