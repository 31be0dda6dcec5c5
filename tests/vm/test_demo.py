"""`make demo`: both examples run in a guest and agree with numpy, and their pictures reach the host."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from tools import demo
from tools.photo import photo

pytestmark = pytest.mark.vm


def test_demo_computes_and_leaves_pictures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "OUTPUT", tmp_path / "demo")
    demo.main()
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert said.count("(right)") == 4  # blur, sobel, equalised; the product of the matrices
    with Image.open(photo()) as original:
        size = original.size
    for name in ("original", "blur", "sobel", "equalised"):
        with Image.open(tmp_path / "demo" / f"photo-{name}.png") as picture:
            assert picture.size == size
