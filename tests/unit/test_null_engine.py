"""The null engine passes the contract suite, except that it stores no data."""

from __future__ import annotations

import os
from typing import ClassVar

import pytest

from tests.unit.engine_contract import EngineContract
from vhost_backend.engines.base import Engine, LoadedProgram, ProgramError
from vhost_backend.engines.null import NullEngine
from vhost_backend.engines.registry import engine_class
from vhost_backend.errors import EngineError
from virtio_proto.schema import ParamKind

PROGRAM = b"""
kernel add_one 8 4
kernel slow 8 4 behaviour=later   # by the next poll
kernel fails behaviour=assert
"""


class TestNullEngine(EngineContract):
    stores_data: ClassVar[bool] = False

    def open_engine(self) -> Engine:
        return NullEngine.open({}, 2, 1 << 24, 10**9)

    def image(self) -> bytes:
        return PROGRAM


def load(text: str) -> LoadedProgram:
    engine = NullEngine.open({}, 1, 1, 1)
    fd = os.memfd_create("program")
    try:
        os.write(fd, text.encode())
        return engine.load_program(fd, len(text.encode()), 1)
    finally:
        os.close(fd)
        engine.close()


@pytest.mark.parametrize(
    "text",
    [
        "kernel",
        "global g",
        "global g many",
        "kernel k -1",
        "kernel k 40000",
        "kernel k x4",
        "kernel k f",
        "kernel k f3",
        "kernel k p4",
        "kernel k colour=red",
        "kernel k behaviour=odd",
        "nonsense",
    ],
)
def test_malformed_programs_are_refused_with_the_line(text: str) -> None:
    with pytest.raises(ProgramError, match="line 2"):
        load(f"# a comment\n{text}\n")


def test_parameters_have_the_declared_kinds() -> None:
    (function,) = load("kernel k i4 f4 p8 o12 4").functions
    kinds = (ParamKind.INTEGER, ParamKind.FLOAT, ParamKind.POINTER, ParamKind.OTHER, ParamKind.UNKNOWN)
    assert function.param_kinds == kinds
    assert function.params == ((0, 4), (4, 4), (8, 8), (16, 12), (28, 4))
    assert tuple(function.kernel.params[index].kind for index in range(5)) == kinds


def test_options_are_refused() -> None:
    with pytest.raises(EngineError, match="no options, but got speed"):
        NullEngine.open({"speed": 1}, 1, 1, 1)


def test_only_plain_sources_are_compiled() -> None:
    with pytest.raises(ValueError, match="PTX"):
        NullEngine.compile_job("PTX", b"", (), {})


def test_the_registry_knows_its_engines() -> None:
    assert engine_class("null") is NullEngine
    with pytest.raises(EngineError, match="engine 'abacus' is unknown; allowed: null, cpu"):
        engine_class("abacus")
