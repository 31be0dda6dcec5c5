"""docs/request-path.md names files; they are there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "request-path.md"


def test_every_file_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`([a-z_]+/[\w/.-]+\.(?:py|c|h))`", PAGE.read_text()))
    assert len(named) > 20
    assert not sorted(name for name in named if not (ROOT / name).exists())
