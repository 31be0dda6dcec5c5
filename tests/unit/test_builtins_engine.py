"""Built-in functions as the engine has them, and as the data plane gives them ids and launches them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from tests.fakes.graph import node, nodes_request
from tests.unit import builtins_rig
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend._dataplane import ffi
from vhost_backend.doctor import host
from vhost_backend.engines.cpu import CpuEngine
from vhost_backend.engines.cpu.builtins import library
from virtio_proto.schema import Opcode, Status

SERIAL = 0x7FFF
ONE = {"grid": [1, 1, 1], "block": [1, 1, 1]}


@pytest.fixture
def rig() -> Iterator[Rig]:
    with opened() as made:
        yield made


def opened() -> AbstractContextManager[Rig]:
    engine = CpuEngine.open({}, 2, LIMITS.memory_bytes, LIMITS.deadline_ns)
    engine.start()
    return plane_rig(replace(LIMITS, memory_bytes=8 << 20), engine=engine)


def ids_of(rig: Rig) -> dict[str, int]:
    return {str(ffi.string(kernel.name), "ascii"): number for number, kernel in rig.plane.builtins()}


def norm_params(n: int, x: int, result: int) -> bytes:
    return struct.pack("<qQqQ", n, x, 1, result)


def test_ids_are_those_of_every_worker(rig: Rig) -> None:
    ids = ids_of(rig)
    assert list(ids) == [builtins_rig.text(builtin.name) for builtin in builtins_rig.builtins()]
    assert len(set(ids.values())) == len(ids)
    for name in ids:
        builtin = builtins_rig.named(name)
        assert ids[name] == SERIAL << 16 | (builtin.function << 3 | builtin.type) + 1
    assert ids["blas.nrm2_f64"] == SERIAL << 16 | 19  # guests may know it from another worker: it never changes


def test_a_graph_launches_them_until_their_memory_is_gone(rig: Rig) -> None:
    context, launch = rig.context(), ids_of(rig)["blas.nrm2_f64"]
    x, result = rig.alloc(context, 32), rig.alloc(context, 8)
    params = norm_params(4, x, result)
    fill = node(
        Opcode.FILL, {"dst": x, "size": 32, "value": int.from_bytes(struct.pack("<d", 3.0), "little"), "unit": 8}
    )
    call = node(Opcode.LAUNCH, {"function": launch, "param_len": len(params), **ONE}, params)
    graph = rig.ok(Opcode.GRAPH_CREATE, *nodes_request([fill, call]), context=context).value
    rig.ok(Opcode.GRAPH_LAUNCH, {"graph": graph}, context=context)
    out = rig.ok(Opcode.COPY_OUT, {"src": result, "size": 8}, context=context, writable_len=8)
    assert struct.unpack("<d", out.payload) == (6.0,)
    rig.ok(Opcode.FREE, {"address": result}, context=context)
    reply = rig.driver.request(Opcode.GRAPH_LAUNCH, {"graph": graph}, context=context, writable_len=4096)
    assert reply.status is Status.INVALID_ADDRESS
    assert reply.text.startswith("node 1: 8 bytes at ")


def test_a_graph_with_a_wrong_call_is_refused(rig: Rig) -> None:
    context, launch = rig.context(), ids_of(rig)["blas.nrm2_f64"]
    x = rig.alloc(context, 32)
    for params, why in (
        (norm_params(5, x, x + 8), "node 0: 40 bytes at"),
        (norm_params(2, x, x + 8), "node 0: blas.nrm2_f64: x and result overlap"),
        (norm_params(-1, x, x), "node 0: blas.nrm2_f64: n is -1"),
    ):
        call = node(Opcode.LAUNCH, {"function": launch, "param_len": len(params), **ONE}, params)
        body, nodes = nodes_request([call])
        reply = rig.driver.request(Opcode.GRAPH_CREATE, body, nodes, context=context, writable_len=4096)
        assert reply.status in (Status.INVALID_ARGUMENT, Status.INVALID_ADDRESS)
        assert why in reply.text


def test_ids_that_are_none_are_not_found(rig: Rig) -> None:
    """Those of functions for types that they do not have are among them."""
    context, known = rig.context(), set(ids_of(rig).values())
    numbers = [SERIAL << 16 | place for place in (*range(max(known) + 20 & 0xFFFF), 0xFFFF)]
    for number in set(numbers) - known:
        reply = rig.driver.request(Opcode.LAUNCH, {"function": number, **ONE}, context=context, writable_len=4096)
        assert reply.status is Status.NOT_FOUND


def test_a_library_that_is_missing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "openblas", lambda: None)
    with opened() as rig:
        assert "sort.keys_f32" in ids_of(rig)
        assert rig.engine.missing_builtins == "the Python package scipy-openblas64 is not installed"
    monkeypatch.setattr(library, "library", lambda: None)
    with opened() as rig:
        assert ids_of(rig) == {}
        assert rig.engine.missing_builtins == "they were not built"


def test_a_file_that_is_no_library_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "libvgc-builtins.so").write_bytes(b"nothing")
    monkeypatch.setattr(library, "library", lambda: tmp_path / "libvgc-builtins.so")
    with opened() as rig:
        assert ids_of(rig) == {}
        assert "file too short" in rig.engine.missing_builtins


def test_doctor_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert all(finding.ok for finding in host._builtins())
    built = library.library()
    (tmp_path / "libvgc-builtins.so").write_bytes(b"nothing")
    monkeypatch.setattr(library, "library", lambda: tmp_path / "libvgc-builtins.so")
    (finding,) = host._builtins()
    assert "file too short" in finding.text
    monkeypatch.setattr(library, "library", lambda: built)
    monkeypatch.setattr(library, "openblas", lambda: None)
    assert [finding.ok for finding in host._builtins()] == [True, False]
    monkeypatch.setattr(library, "library", lambda: None)
    (finding,) = host._builtins()
    assert (finding.ok, finding.hint) == (False, "make build")


def test_control_system_reads_their_names(rig: Rig) -> None:
    name = next(kernel.name for _, kernel in rig.plane.builtins())
    text = ffi.new("char[]", 64)
    read = rig.engine.handle.ops.control_text
    address = int(ffi.cast("uintptr_t", name))
    assert read(rig.engine.handle, address, text, 64) == len("blas.axpy_f16")
    assert ffi.string(text) == b"blas.axpy_f16"
    assert read(rig.engine.handle, address, text, 5) == 4
    assert read(rig.engine.handle, address + 1, text, 64) < 0
