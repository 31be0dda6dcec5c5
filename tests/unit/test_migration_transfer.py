"""Transfer of a migration: valid state is loaded whole, invalid state is refused."""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes.driver import Reply
from tests.fakes.graph import node, nodes_request
from tests.unit.plane_rig import LIMITS, Rig, plane_rig
from vhost_backend.engines.base import Engine, LoadedProgram
from vhost_backend.engines.cpu.engine import CpuEngine
from vhost_backend.engines.null import NullEngine
from vhost_backend.worker.cold import ColdServer
from vhost_backend.worker.migration.file import HEAD, Manifest, MigratedProgram, Transfer, TransferError, places
from vhost_backend.worker.migration.loader import Loader
from vhost_backend.worker.migration.migrator import REFUSALS
from vhost_backend.worker.migration.plane import MigrationPlane
from vhost_backend.worker.migration.saver import Saver
from vhost_backend.worker.plane import DataPlaneError
from vhost_backend.worker_protocol.codec import Part
from virtio_proto.schema import Opcode, Status

ARENA = (0x3000_0000_0000, 1 << 40)
PROGRAM = "kernel k i4 p8\nkernel other behaviour=later\nglobal g 8\nbytes 5000"
EVENT_BYTES, ALLOC_BYTES = 16, 24
MOVED_HEAD = 48
"""Offset of the contexts in a ``struct vgc_migration_state``; each has 8 bytes."""
EVENTS_AT = MOVED_HEAD + 256 * 8
GRAPHS_AT = EVENTS_AT + 4096 * EVENT_BYTES + 1024 * 56
SHARES_AT = GRAPHS_AT + 1024 * 24 + 4096 * 4


def null_engine() -> Engine:
    return NullEngine(1)


def cpu_engine() -> Engine:
    engine = CpuEngine(1)
    engine.set_arena(*ARENA)
    engine.start()
    return engine


def named(kind: type[Part], values: list[Any]) -> dict[str, Any]:
    """Fields of a struct by name."""
    return dict(zip(kind.__struct_fields__, values, strict=True))


class Saved:
    """State that a worker has saved, in a file that a test may change."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.manifest_at, self.manifest_bytes, self.contents_at = HEAD.unpack(os.pread(fd, HEAD.size, 0))
        self.manifest = named(Manifest, msgspec.msgpack.decode(os.pread(fd, self.manifest_bytes, self.manifest_at)))
        self.manifest["programs"] = [named(MigratedProgram, each) for each in self.manifest["programs"]]

    def change_manifest(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Changes the manifest; the new one is at the end of the file."""
        change(self.manifest)
        programs = [list(program.values()) for program in self.manifest["programs"]]
        raw = msgspec.msgpack.encode(list((self.manifest | {"programs": programs}).values()))
        at = os.fstat(self.fd).st_size
        os.pwrite(self.fd, raw, at)
        self.head(at, len(raw), self.contents_at)

    def put(self, offset: int, data: bytes) -> None:
        os.pwrite(self.fd, data, offset)

    def head(self, manifest_at: int, manifest_bytes: int, contents_at: int) -> None:
        os.pwrite(self.fd, HEAD.pack(manifest_at, manifest_bytes, contents_at), 0)


@contextmanager
def saved(make: Callable[[], Engine], work: Callable[[Rig], None]) -> Iterator[Saved]:
    """The saved state of a worker that did some work and has ended."""
    with plane_rig(engine=make()) as rig:
        work(rig)
        plane = MigrationPlane(rig.plane)
        plane.hold()
        saver = Saver(rig.engine, plane, rig.server.programs, rig.server.registrations)
        fd = os.memfd_create("transfer")
        os.ftruncate(fd, saver.size_bytes)
        with Transfer(fd, writable=True) as transfer:
            assert sum(saver.write(transfer)) > 0
        rig.plane.stop()
    try:
        yield Saved(fd)
    finally:
        os.close(fd)


@contextmanager
def loaded(make: Callable[[], Engine], fd: int) -> Iterator[Rig]:
    """A worker that has loaded the state. Its rings are new."""
    with plane_rig(engine=make()) as rig:
        load(rig, rig.server, fd)
        yield rig


def load(rig: Rig, server: ColdServer, fd: int) -> None:
    with Transfer(fd, writable=False) as transfer:
        Loader(rig.engine, MigrationPlane(rig.plane), server.programs, server.registrations, transfer).run()


def graph_entry(**changes: int) -> Callable[[Saved], None]:
    """Changes the first graph's entry in the state."""
    fields = {"id": 1 << 16 | 1, "serial": 1, "context": 1, "num_nodes": 1, "nodes_len": 8, "reserved": 0} | changes
    return lambda file: file.put(file.manifest["objects_at"] + GRAPHS_AT, struct.pack("<6I", *fields.values()))


def some_work(rig: Rig) -> None:
    context = rig.context()
    rig.alloc(context, 1000)
    rig.alloc(context, 5000)
    rig.ok(Opcode.EVENT_CREATE, context=context)
    rig.ok(Opcode.GRAPH_CREATE, *nodes_request([node(Opcode.NOP)]), context=context)
    rig.load(context, PROGRAM)


def test_places_are_consecutive_and_aligned() -> None:
    assert list(places([1, 256, 0, 257], 3)) == [256, 512, 768, 768, 1280]


def test_contents_ids_and_figures_arrive() -> None:
    addresses: list[int] = []

    def work(rig: Rig) -> None:
        context = rig.context()
        addresses.extend((context, rig.alloc(context, 100), rig.alloc(context, 3 << 18)))
        rig.ok(Opcode.FILL, {"dst": addresses[1], "size": 100, "value": 7, "unit": 1}, context=context)
        rig.ok(Opcode.FILL, {"dst": addresses[2] + 70000, "size": 8, "value": 0x0102, "unit": 8}, context=context)
        addresses.append(rig.usage().requests_done)

    with saved(cpu_engine, work) as file, loaded(cpu_engine, file.fd) as rig:
        context, small, large, done = addresses
        assert rig.usage().requests_done == done
        for address, data in ((small, b"\7" * 100), (large + 69998, b"\0\0\2\1\0\0\0\0\0\0\0\0")):
            body = {"src": address, "size": len(data)}
            assert rig.ok(Opcode.COPY_OUT, body, context=context, writable_len=len(data)).payload == data
        assert rig.context() != context
        rig.ok(Opcode.FREE, {"address": large}, context=context)


def test_holes_in_memory_stay_holes() -> None:
    """Memory that was never written is neither copied nor touched."""

    def work(rig: Rig) -> None:
        rig.alloc(rig.context(), 1 << 20)

    with saved(cpu_engine, work) as file:
        assert os.fstat(file.fd).st_blocks * 512 < 512 << 10


def test_programs_come_with_their_ids_and_names() -> None:
    ids: dict[str, int] = {}

    def work(rig: Rig) -> None:
        context = rig.context()
        rig.load(context, "kernel forgotten")
        ids.update(rig.load(context, PROGRAM))
        rig.cold(Opcode.PROGRAM_UNLOAD, {"program": rig.programs[0]}, context=context)

    with saved(null_engine, work) as file, loaded(null_engine, file.fd) as rig:
        context = 1 << 16 | 1
        launch = {"grid": [1, 1, 1], "block": [1, 1, 1], "function": ids["k"], "param_len": 16}
        rig.ok(Opcode.LAUNCH, launch, bytes(16), context=context)
        assert rig.usage().num_programs == 1
        assert rig.usage().memory_used_bytes == 5000
        name = b"other"
        found = rig.cold(Opcode.FUNCTION_LOOKUP, {"name_len": len(name)}, name, context=context, writable_len=200)
        assert found.value == ids["other"]
        again = rig.load(context, PROGRAM)
        assert not set(again.values()) & set(ids.values())


def test_graphs_come_with_their_ids_and_nodes() -> None:
    """Also one whose memory is gone: it is refused when it is launched, as before."""
    made: dict[str, int] = {}

    def work(rig: Rig) -> None:
        context = rig.context()
        rig.ok(Opcode.GRAPH_CREATE, *nodes_request([node(Opcode.NOP)] * 3), context=context)
        function = rig.load(context, PROGRAM)["other"]
        address = rig.alloc(context, 100)
        fill = node(Opcode.FILL, {"dst": address, "size": 100, "unit": 1})
        launch = node(Opcode.LAUNCH, {"grid": [1, 1, 1], "block": [1, 1, 1], "function": function})
        for name, nodes in (("lasts", [node(Opcode.NOP), launch]), ("goes", [launch, fill])):
            made[name] = rig.ok(Opcode.GRAPH_CREATE, *nodes_request(nodes), context=context).value
        rig.ok(Opcode.FREE, {"address": address}, context=context)
        made["used"] = rig.usage().memory_used_bytes

    with saved(null_engine, work) as file, loaded(null_engine, file.fd) as rig:
        context = 1 << 16 | 1
        assert rig.usage().memory_used_bytes == made["used"]
        assert rig.ok(Opcode.GRAPH_LAUNCH, {"graph": made["lasts"]}, context=context).exec_ns > 0
        gone = rig.driver.request(Opcode.GRAPH_LAUNCH, {"graph": made["goes"]}, context=context, writable_len=99)
        assert (gone.status, gone.text[:8]) == (Status.INVALID_ADDRESS, "node 1: ")
        for name in ("lasts", "goes"):
            rig.ok(Opcode.GRAPH_DESTROY, {"graph": made[name]}, context=context)
        body, nodes = nodes_request([node(Opcode.NOP)])
        assert rig.ok(Opcode.GRAPH_CREATE, body, nodes, context=context).value not in made.values()


def test_shared_memory_and_events_arrive_with_their_keys_and_users() -> None:
    """Also those whose owner has given them up."""
    made: dict[str, Any] = {}

    def key_of(reply: Reply) -> dict[str, list[int]]:
        return {"key": [reply.value, reply.aux]}

    def work(rig: Rig) -> None:
        owner, user = made["contexts"] = rig.context(), rig.context()
        for name in ("kept", "freed", "unopened"):
            made[name] = rig.alloc(owner, 100)
            made[f"key of {name}"] = key_of(rig.ok(Opcode.MEMORY_EXPORT, {"address": made[name]}, context=owner))
            if name != "unopened":
                rig.ok(Opcode.MEMORY_OPEN, made[f"key of {name}"], context=user)
        rig.ok(Opcode.FILL, {"dst": made["freed"], "size": 100, "value": 7, "unit": 1}, context=user)
        rig.ok(Opcode.FREE, {"address": made["freed"]}, context=owner)
        for name in ("event", "destroyed"):
            event = {"event": rig.ok(Opcode.EVENT_CREATE, context=owner).value}
            made[f"key of {name}"] = key_of(rig.ok(Opcode.EVENT_EXPORT, event, context=owner))
            made[name] = {"event": rig.ok(Opcode.EVENT_OPEN, made[f"key of {name}"], context=user).value}
        rig.ok(Opcode.EVENT_DESTROY, event, context=owner)

    with saved(cpu_engine, work) as file, loaded(cpu_engine, file.fd) as rig:
        _, user = made["contexts"]
        for name in ("kept", "freed"):
            copy = {"src": made[name], "size": 100}
            data = b"\0" * 100 if name == "kept" else b"\7" * 100
            assert rig.ok(Opcode.COPY_OUT, copy, context=user, writable_len=100).payload == data
        assert rig.ok(Opcode.MEMORY_OPEN, made["key of unopened"], context=user).value == made["unopened"]
        refused = rig.driver.request(Opcode.MEMORY_OPEN, made["key of freed"], context=user)
        assert refused.status is Status.NOT_FOUND
        for name in ("event", "destroyed"):
            rig.ok(Opcode.EVENT_RECORD, made[name], context=user)
        rig.ok(Opcode.EVENT_OPEN, made["key of event"], context=user)
        gone = rig.driver.request(Opcode.EVENT_OPEN, made["key of destroyed"], context=user)
        assert gone.status is Status.NOT_FOUND
        used = rig.usage().memory_used_bytes
        rig.ok(Opcode.MEMORY_CLOSE, {"address": made["freed"]}, context=user)
        assert rig.usage().num_allocations == 2
        assert rig.usage().memory_used_bytes == used * 2 // 3


def test_nodes_that_the_source_has_forged_are_refused_when_they_are_launched() -> None:
    with saved(null_engine, some_work) as file:
        file.put(file.manifest["graphs_at"], struct.pack("<II", 0x77, 0))
        with loaded(null_engine, file.fd) as rig:
            body = {"graph": 1 << 16 | 1}
            for _ in range(2):
                reply = rig.driver.request(Opcode.GRAPH_LAUNCH, body, context=1 << 16 | 1, writable_len=200)
                assert (reply.status, reply.text[:15]) == (Status.BAD_REQUEST, "node 0: opcode ")


def test_a_worker_saves_only_while_held_and_idle() -> None:
    with plane_rig() as rig:
        plane = MigrationPlane(rig.plane)
        with pytest.raises(DataPlaneError, match="in flight"):
            plane.save()
        context = rig.context()
        hold = rig.load(context, "kernel hold behaviour=hold")["hold"]
        body = {"grid": [1, 1, 1], "block": [1, 1, 1], "function": hold}
        rig.driver.submit(Opcode.LAUNCH, body, context=context)
        rig.ok(Opcode.NOP)
        plane.hold()
        with pytest.raises(DataPlaneError, match="1 requests are in flight"):
            plane.save()


def test_only_a_fresh_worker_can_load() -> None:
    with saved(null_engine, some_work) as file, plane_rig() as rig:
        rig.context()
        with pytest.raises(DataPlaneError, match="has served requests already"):
            load(rig, rig.server, file.fd)


def first_alloc(file: Saved, address: int, size: int, context: int = 1) -> None:
    file.put(file.manifest["allocs_at"], struct.pack("<QQII", address, size, context, 0))


def share(times: int = 1, *, address: int = 0, event: int = 0, users: int = 0) -> Callable[[Saved], None]:
    """Adds entries of what is shared; `address` True: the first allocation's."""

    def change(file: Saved) -> None:
        allocation = struct.unpack("<Q", os.pread(file.fd, 8, file.manifest["allocs_at"]))[0]
        place = allocation if address is True else address
        entry = struct.pack("<3Q4Q2I", 5, 6, place, users, 0, 0, 0, event, 0)
        file.put(file.manifest["objects_at"] + SHARES_AT, entry * times)

    return change


def set_manifest(**values: object) -> Callable[[Saved], None]:
    return lambda file: file.change_manifest(lambda manifest: manifest.update(values))


def set_program(**values: object) -> Callable[[Saved], None]:
    def change(manifest: dict[str, Any]) -> None:
        manifest["programs"][0].update(values)

    return lambda file: file.change_manifest(change)


def swap_function_ids(file: Saved) -> None:
    ids = file.manifest["programs"][0]["functions"]
    set_program(functions=[ids[0], ids[0]])(file)


WRONG: dict[str, tuple[Callable[[Saved], None], str]] = {
    "another engine": (set_manifest(engine="cpu"), "work of the engine cpu"),
    "no manifest": (lambda file: file.head(0, 0, 0), "is malformed"),
    "a manifest outside": (lambda file: file.head(1 << 60, 10, 0), "manifest at"),
    "a manifest without end": (lambda file: file.head(0, 1 << 50, 0), "manifest of"),
    "contents outside": (lambda file: file.head(file.manifest_at, file.manifest_bytes, 1 << 62), "contents at"),
    "an unknown version": (lambda file: file.put(file.manifest["objects_at"] + 4, b"\xff"), "version"),
    "objects outside": (set_manifest(objects_at=1 << 60), "of a transfer"),
    "a context elsewhere": (
        lambda file: file.put(file.manifest["objects_at"] + MOVED_HEAD, struct.pack("<II", 5 << 16 | 9, 5)),
        "at place 0",
    ),
    "contexts beyond the quota": (
        lambda file: file.put(
            file.manifest["objects_at"] + MOVED_HEAD + 8 * 9,
            b"".join(struct.pack("<II", 1 << 16 | place, 1) for place in range(10, 15)),
        ),
        "4 contexts",
    ),
    "an event of nobody": (
        lambda file: file.put(file.manifest["objects_at"] + EVENTS_AT, struct.pack("<IIII", 1 << 16 | 1, 1, 200, 0)),
        "context number 200",
    ),
    "a graph of a context that does not exist": (graph_entry(context=3), "Invalid argument"),
    "a graph of another place": (graph_entry(id=1 << 16 | 2), "Invalid argument"),
    "a graph without nodes": (graph_entry(num_nodes=0), "Invalid argument"),
    "a graph of too many nodes": (graph_entry(num_nodes=16385), "Invalid argument"),
    "a graph of too many bytes": (graph_entry(nodes_len=(4 << 20) + 1), "of a transfer|Invalid argument"),
    "a graph beyond the quota": (graph_entry(num_nodes=16384), "Disk quota exceeded"),
    "graphs outside": (set_manifest(graphs_at=1 << 60), "of a transfer"),
    "an event that nobody uses": (
        lambda file: file.put(file.manifest["objects_at"] + EVENTS_AT, struct.pack("<IIII", 1 << 16 | 1, 1, 0, 0)),
        "is nobody's",
    ),
    "an event that stands for itself": (
        lambda file: file.put(file.manifest["objects_at"] + EVENTS_AT, struct.pack("<IIII", 1 << 16 | 1, 1, 1, 1)),
        "stands for the one at place 0",
    ),
    "an event that stands for none": (
        lambda file: file.put(file.manifest["objects_at"] + EVENTS_AT, struct.pack("<IIII", 1 << 16 | 1, 1, 1, 9999)),
        "stands for the one at place 9998",
    ),
    "shared memory that does not exist": (share(address=64), "shared memory at 0x40 at place 0"),
    "shared memory that is an event, too": (share(address=True, event=1), "shared memory at"),
    "shared memory of a context that does not exist": (share(address=True, users=1 << 2), "shared memory at"),
    "shared memory that its owner has open": (share(address=True, users=1), "shared memory at"),
    "memory that is shared twice": (share(2, address=True), "at place 1"),
    "a shared event that does not exist": (share(event=2), "which is entry 2"),
    "a shared event beyond the table": (share(event=4097), "which is entry 4097"),
    "a shared event with users": (share(event=1, users=1), "which is entry 1"),
    "memory that nobody has open": (lambda file: first_alloc(file, 1 << 32, 4096, 0), "at 0x100000000 is nobody's"),
    "memory of nobody": (lambda file: first_alloc(file, 1 << 32, 4096, 3), "context number 3"),
    "no memory": (lambda file: first_alloc(file, 1 << 32, 0), "allocation of 0 bytes"),
    "memory beyond the quota": (lambda file: first_alloc(file, 1 << 32, 1 << 40), "bytes free"),
    "memory nowhere": (lambda file: first_alloc(file, 64, 4096), "cannot be had"),
    "a function twice": (swap_function_ids, "File exists"),
    "too few ids": (set_program(functions=[]), "ids for them"),
    "a program of nobody": (set_program(context=4), "Invalid argument"),
    "a program elsewhere": (set_program(base=0), "allowed"),
    "an image outside": (set_program(image_at=1 << 60), "of a transfer"),
    "another image": (
        lambda file: file.put(file.manifest["programs"][0]["image_at"], b"mischief"),
        "allowed: kernel NAME",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_inconsistent_state_is_refused(name: str) -> None:
    spoil, text = WRONG[name]
    with saved(null_engine, some_work) as file:
        spoil(file)
        with plane_rig() as rig, pytest.raises(REFUSALS, match=text):
            load(rig, rig.server, file.fd)


def test_memory_outside_the_arena_is_refused() -> None:
    def work(rig: Rig) -> None:
        rig.alloc(rig.context(), 4096)

    for address in (0x7000_0000_0000, ARENA[0] - 4096, ARENA[0], ARENA[0] + 100, ARENA[0] + ARENA[1] - 4096):
        with saved(cpu_engine, work) as file:
            first_alloc(file, address, 4096)
            with plane_rig(engine=cpu_engine()) as rig, pytest.raises(DataPlaneError, match="cannot be had"):
                load(rig, rig.server, file.fd)


def test_two_allocations_that_overlap_are_refused() -> None:
    def work(rig: Rig) -> None:
        context = rig.context()
        rig.alloc(context, 4096)
        rig.alloc(context, 4096)

    with saved(cpu_engine, work) as file:
        address, size, context, _ = struct.unpack("<QQII", os.pread(file.fd, 24, file.manifest["allocs_at"]))
        file.put(file.manifest["allocs_at"] + ALLOC_BYTES, struct.pack("<QQII", address + 512, size, context, 0))
        with plane_rig(engine=cpu_engine()) as rig, pytest.raises(DataPlaneError, match="cannot be had"):
            load(rig, rig.server, file.fd)


def test_a_program_beyond_the_quota_is_refused_before_it_is_loaded() -> None:
    class NeverLoads(NullEngine):
        def load_program_at(self, image: bytes, context: int, base: int) -> LoadedProgram:
            raise AssertionError(f"{len(image)} bytes for context {context} at {base:#x}")

    def work(rig: Rig) -> None:
        rig.load(rig.context(), PROGRAM)

    with saved(null_engine, work) as file:
        small = replace(LIMITS, memory_bytes=4999)
        with plane_rig(small, engine=NeverLoads(1)) as rig, pytest.raises(DataPlaneError) as caught:
            load(rig, rig.server, file.fd)
        assert caught.value.number == errno.EDQUOT


def test_a_smaller_quota_is_refused() -> None:
    with saved(null_engine, some_work) as file:
        small = replace(LIMITS, memory_bytes=8192)
        with plane_rig(small) as rig, pytest.raises(DataPlaneError, match="bytes free"):
            load(rig, rig.server, file.fd)


def test_a_transfer_is_read_and_written_within_its_bounds() -> None:
    fd = os.memfd_create("transfer")
    os.ftruncate(fd, 100)
    with Transfer(fd, writable=True) as transfer:
        transfer.write(90, b"0123456789")
        assert bytes(transfer.read(95, 5)) == b"56789"
        for offset, size in ((91, 10), (1 << 63, 1), (0, 101)):
            with pytest.raises(TransferError):
                transfer.read(offset, size)
        with pytest.raises(TransferError):
            transfer.write(99, b"ab")
    os.close(fd)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from([1, 2, 4, 8]), st.integers(0, 2**64 - 1)), max_size=6))
def test_random_changes_of_the_state_do_no_harm(changes: list[tuple[float, int, int]]) -> None:
    with saved(null_engine, some_work) as file:
        size = os.fstat(file.fd).st_size
        for place, length, value in changes:
            file.put(
                min(int(place * size), size - length), (value & ((1 << 8 * length) - 1)).to_bytes(length, "little")
            )
        with plane_rig() as rig, contextlib.suppress(*REFUSALS):
            load(rig, rig.server, file.fd)
            assert rig.driver.request(Opcode.NOP).status == Status.OK
