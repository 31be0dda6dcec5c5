"""docs/functions.md is made from the table of the built-in functions."""

from __future__ import annotations

from tests.unit import builtins_rig as rig
from tools import functions
from tools.common import REPOSITORY


def test_page_of_functions_is_current() -> None:
    rig.lib()
    assert (REPOSITORY / functions.PAGE).read_text() == functions.current(), "run `python -m tools.functions`"


def test_page_names_every_function() -> None:
    page = (REPOSITORY / functions.PAGE).read_text()
    assert all(f"`{rig.text(builtin.name)}`" in page for builtin in rig.builtins())
