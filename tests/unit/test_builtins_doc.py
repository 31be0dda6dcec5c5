"""docs/functions.md is made from the table of the built-in functions."""

from __future__ import annotations

from typing import Any, Final

import pytest

from guest_driver.call_command import GROUPS
from guest_driver.functions.groups import BuiltinFunctions
from guest_driver.functions.names import METHODS, SUFFIX, methods_of
from tests.unit import builtins_rig as rig
from tools import functions
from tools.common import REPOSITORY


def test_page_of_functions_is_current() -> None:
    rig.lib()
    assert (REPOSITORY / functions.PAGE).read_text() == functions.current(), "run `python -m tools.functions`"


def test_page_names_every_function() -> None:
    page = (REPOSITORY / functions.PAGE).read_text()
    assert all(f"`{rig.text(builtin.name)}`" in page for builtin in rig.builtins())


def test_page_has_each_heading_once() -> None:
    headings = [line for line in (REPOSITORY / functions.PAGE).read_text().splitlines() if line.startswith("#")]
    assert len(set(headings)) == len(headings)


# ---- methods -------------------------------------------------------------------------------------

HELPERS: Final = {"math.apply", "math.assign", "math.common", "math.real", "math.imag"}
"""Methods that are no functions of their own."""


class Groups(BuiltinFunctions):
    """Groups of methods without a device."""

    @property
    def _host(self) -> Any:
        return None


def test_methods_of_the_page_are_those_of_devices() -> None:
    told = {method for builtin in rig.builtins() for method in methods_of(rig.text(builtin.name))}
    groups = Groups()
    methods = {f"{group}.{name}" for group in GROUPS for name in dir(getattr(groups, group)) if name[0] != "_"}
    assert told == methods - HELPERS


@pytest.mark.parametrize("stem", METHODS)
def test_other_names_are_of_functions_that_there_are(stem: str) -> None:
    assert stem in {SUFFIX.sub("", rig.text(builtin.name)) for builtin in rig.builtins()}
