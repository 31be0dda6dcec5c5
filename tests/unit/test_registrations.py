"""Lists that name every engine, or every control function, agree: a new one that is forgotten somewhere fails here."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from guest_driver.device import ENGINES as GUEST_ENGINES
from vhost_backend.config.engine import ENGINE_OPTIONS, ENGINES, EngineName
from vhost_backend.control.functions.modules import MODULES
from vhost_backend.engines import registry
from virtio_proto.control import selector
from virtio_proto.control.api import GpuInfo
from virtio_proto.control.records import TYPES, Function
from virtio_proto.schema import EngineKind

ROOT = Path(__file__).resolve().parents[2]
KINDS = {kind.name.lower() for kind in EngineKind}
CHOSEN = {"auto"}
"""Engines of the configuration that stand for one of the kinds."""

FUNCTIONS = tuple(function.name.lower() for function in Function)


@pytest.mark.parametrize(
    "named",
    [
        set(registry.KINDS),
        set(ENGINES) - CHOSEN,
        set(get_args(EngineName)) - CHOSEN,
        set(ENGINE_OPTIONS) - CHOSEN,
        set(get_args(get_type_hints(GpuInfo)["kind"])),
        set(GUEST_ENGINES.values()),
    ],
)
def test_every_list_of_engines_names_all_kinds(named: set[str]) -> None:
    assert named == KINDS


def test_the_guest_knows_engines_by_the_numbers_of_the_schema() -> None:
    assert {kind.value: kind.name.lower() for kind in EngineKind} == GUEST_ENGINES


def test_every_list_of_control_functions_names_all() -> None:
    page = (ROOT / "control_center/web/js/selector.js").read_text()
    (listed,) = re.findall(r"export const FUNCTIONS = \[(.*?)\]", page)
    assert selector.FUNCTIONS == FUNCTIONS
    assert tuple(MODULES) == FUNCTIONS
    assert tuple(TYPES) == tuple(Function)
    assert tuple(re.findall(r'"(\w+)"', listed)) == FUNCTIONS
    assert all((ROOT / f"kernels/control/functions/{name}.h").is_file() for name in FUNCTIONS)
