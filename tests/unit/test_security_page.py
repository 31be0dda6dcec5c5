"""The page about security names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_test_of_the_page_exists() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    named = re.findall(r"`((?:unit|protocol|hostile|vm|web|fuzz|gpu)/[\w/]*(?:\.py)?)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []


def test_every_attack_program_is_on_the_page() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    attacks = (ROOT / "tests" / "hostile").glob("test_*.py")
    assert [path.name for path in attacks if f"`hostile/{path.name}`" not in page] == []
