"""Fails each driver call of a session in turn, a process for each case. Run by test_cuda_engine_faults.

``python -m tests.unit.cuda_injection_child COMPLETION MEMORY FUNCTION...`` prints, by function, a list of
[which call, error, exit code, complaint] in JSON.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

from tests.fakes.cuda_driver import FakeDriver
from tests.limits import ANSWERS_WITHIN_S
from tests.unit.cuda_arrays import FLOATS
from tests.unit.cuda_rig import CUDA_LIMITS, IMAGE, ONE_THREAD, check_driver, fake_driver, plane
from tests.unit.plane_rig import Rig, function_ids
from vhost_backend.errors import EngineError
from virtio_proto.schema import ArrayFlag, LaunchFlag, Opcode, ProgramKind, Status, TextureFlag

NAMES: Final = {1: "CUDA_ERROR_INVALID_VALUE", 2: "CUDA_ERROR_OUT_OF_MEMORY", 214: "CUDA_ERROR_ECC_UNCORRECTABLE"}
ERRORS: Final = tuple(NAMES)
GIVE_BACK: Final = {
    "cuArrayDestroy",
    "cuEventDestroy_v2",
    "cuMemAddressFree",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemHostUnregister",
    "cuMemPoolDestroy",
    "cuMemRelease",
    "cuMemUnmap",
    "cuMipmappedArrayDestroy",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    "cuSurfObjectDestroy",
    "cuTexObjectDestroy",
}
"""Functions whose failure leaves an object behind."""

ROUNDS: Final = 8
"""Number of sequential requests that give the data plane time to submit everything before them."""
MIB: Final = 1 << 20


@dataclass
class Session:
    """All kinds of requests, each of which must be answered: with success, or with the error by name."""

    rig: Rig
    fake: FakeDriver
    error: str
    pending: list[tuple[str, Any]] = field(default_factory=list)

    def check(self, what: str, reply: Any) -> Any:
        if reply.status is not Status.OK and what != "ALLOC":  # errors that the data plane answers with its own text
            assert self.error in reply.text, f"{what}: {reply.status.name} {reply.text}"
        return reply

    def submit(self, opcode: Opcode, body: Any, trailing: bytes = b"", **options: Any) -> None:
        pending = self.rig.driver.submit(opcode, body, trailing, **{"writable_len": 1024} | options)
        self.pending.append((opcode.name, pending))

    def settle(self) -> None:
        for what, pending in self.pending:
            self.check(what, self.rig.driver.wait(pending))
        self.pending.clear()

    def load(self, context: int) -> dict[str, int]:
        """Loads a program; at most one call fails, so the second attempt succeeds."""
        while True:
            body = {"kind": ProgramKind.CUDA_SOURCE, "source_len": len(IMAGE)}
            pending = self.rig.driver.submit(Opcode.PROGRAM_LOAD, body, IMAGE, context=context, writable_len=4096)
            self.rig.serve_cold()
            self.rig.answer_compile()
            reply = self.check("PROGRAM_LOAD", self.rig.driver.wait(pending))
            if reply.status is Status.OK:
                self.rig.programs.append(reply.value)
                return function_ids(reply.payload)

    def alloc(self, context: int, size: int) -> int:
        while True:
            reply = self.check("ALLOC", self.rig.driver.request(Opcode.ALLOC, {"size": size}, context=context))
            if reply.status is Status.OK:
                return int(reply.value)

    def run(self) -> None:
        context = self.rig.context()
        functions = self.load(context)
        address = self.alloc(context, 10 * MIB)
        self.copies(context, address)
        self.launches(context, address, functions)
        self.arrays(context, address)
        self.events(context)
        body = {"address": address}
        self.check("FREE", self.rig.driver.request(Opcode.FREE, body, context=context, writable_len=1024))
        assert self.rig.cold(Opcode.CONTEXT_DESTROY, context=context).status is Status.OK
        usage = self.rig.usage()
        assert (usage.num_contexts, usage.memory_used_bytes, usage.in_flight) == (0, 0, 0)

    def copies(self, context: int, address: int) -> None:
        data = bytes(range(250))
        for stream in range(3):
            where: dict[str, Any] = {"context": context, "stream": stream}
            self.submit(Opcode.COPY_IN, {"dst": address, "size": 250}, data, **where)
            self.submit(Opcode.COPY_OUT, {"src": address, "size": 250}, **where)
            self.submit(Opcode.COPY_DEVICE, {"src": address, "dst": address + 300, "size": 250}, **where)
            self.submit(Opcode.COPY_DEVICE, {"src": address, "dst": address + 1, "size": 5 * MIB}, **where)
            for unit in (1, 2, 4, 8):
                fill = {"dst": address, "size": MIB, "unit": unit, "value": 0x0102030405060708}
                self.submit(Opcode.FILL, fill, **where)
        self.settle()

    def launches(self, context: int, address: int, functions: dict[str, int]) -> None:
        for stream in range(3):
            for name, params in (
                ("empty", b""),
                ("add_one", struct.pack("<QI", address, 10)),
                ("slow", struct.pack("<QI", address, 1)),
            ):
                for flags in (0, LaunchFlag.COOPERATIVE):
                    body = {"function": functions[name], "param_len": len(params), "flags": int(flags)}
                    self.submit(Opcode.LAUNCH, {**ONE_THREAD, **body}, params, context=context, stream=stream)
        self.settle()

    def make(self, opcode: Opcode, body: dict[str, Any], context: int) -> int:
        """Makes an object; at most one call fails, so the second attempt succeeds."""
        while True:
            reply = self.check(opcode.name, self.rig.driver.request(opcode, body, context=context, writable_len=1024))
            if reply.status is Status.OK:
                return int(reply.value)

    def arrays(self, context: int, address: int) -> None:
        """Arrays with one level and with several, boxes into and out of them, textures and surfaces."""
        kept: dict[str, Any] = {"context": context, "writable_len": 1024}
        for levels in (1, 3):
            shape = dict(FLOATS) | {"levels": levels, "flags": int(ArrayFlag.SURFACE)}
            array = self.make(Opcode.ARRAY_CREATE, shape, context)
            box = {"width": 16, "height": 2, "depth": 1}
            for stream in range(3):
                rows = box | {"src": address, "src_pitch": 16, "src_slice": 32, "dst_array": array}
                self.submit(Opcode.COPY_BOX, rows, context=context, stream=stream)
                rows = box | {"dst": address, "dst_pitch": 16, "dst_slice": 32, "src_array": array}
                self.submit(Opcode.COPY_BOX, rows, context=context, stream=stream)
            self.settle()
            sampling = {"array": array, "flags": int(TextureFlag.NORMALISED)}
            texture = self.make(Opcode.TEXTURE_CREATE, sampling, context)
            surface = self.make(Opcode.SURFACE_CREATE, {"array": array}, context)
            for opcode, body in (
                (Opcode.OBJECT_DESTROY, {"object": texture}),
                (Opcode.OBJECT_DESTROY, {"object": surface}),
                (Opcode.ARRAY_DESTROY, {"array": array}),
            ):
                self.check(opcode.name, self.rig.driver.request(opcode, body, **kept))

    def events(self, context: int) -> None:
        """Records and waits for events; a held kernel delays each record until the driver has the waits for it."""
        event = {"event": self.rig.ok(Opcode.EVENT_CREATE, context=context).value}
        self.fake.hold()
        for stream in range(3):
            self.submit(Opcode.EVENT_RECORD, event, context=context, stream=stream)
            self.submit(Opcode.EVENT_WAIT, event, context=context, stream=(stream + 1) % 3)
        for _ in range(ROUNDS):
            self.rig.ok(Opcode.EVENT_CREATE, context=context)
        self.fake.go_on()
        self.settle()


def run(driver: FakeDriver, kinds: tuple[int, int], error: str) -> None:
    """Runs one session. An engine that does not start must give a reason."""
    try:
        with plane(driver, CUDA_LIMITS, completion=kinds[0], memory_kind=kinds[1]) as rig:
            Session(rig, driver, error).run()
    except EngineError as failure:
        assert error in str(failure), failure  # noqa: PT017  there are two good ends


def in_a_process(work: Any) -> tuple[int, str]:
    """Runs a session in a forked process; returns its exit code and its complaint."""
    reader, writer = os.pipe()
    child = os.fork()  # safe: no library with threads is loaded yet
    if child == 0:
        os.close(reader)
        signal.alarm(int(ANSWERS_WITHIN_S))
        code = 0
        try:
            os.write(writer, json.dumps(work()).encode())
        except BaseException:  # noqa: BLE001  all of them are told
            os.write(writer, traceback.format_exc().encode())
            code = 1
        os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as told:
        text = told.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), text


def counts(kinds: tuple[int, int], functions: list[str]) -> dict[str, int]:
    """Number of calls of each function in a session."""
    with fake_driver() as driver:
        before = {name: driver.count(name) for name in functions}
        run(driver, kinds, "no error")
        return {name: driver.count(name) - before[name] for name in functions}


def fail(kinds: tuple[int, int], function: str, nth: int, error: int) -> None:
    driver = FakeDriver()
    driver.reset()
    driver.inject(function, error, nth=nth)
    run(driver, kinds, NAMES[error])
    if function not in GIVE_BACK:
        check_driver(driver)


def main(kinds: tuple[int, int], functions: list[str]) -> None:
    code, text = in_a_process(lambda: counts(kinds, functions))
    assert code == 0, text
    outcomes: dict[str, list[Any]] = {}
    for function, count in json.loads(text).items():
        which = sorted({1, 2, count // 2 + 1, count} & set(range(1, count + 1)))
        cases = [(nth, error) for nth in which for error in ERRORS]
        outcomes[function] = [
            (nth, error, *in_a_process(lambda case=(nth, error): fail(kinds, function, *case)))  # noqa: B023  runs at once
            for nth, error in cases
        ]
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main((int(sys.argv[1]), int(sys.argv[2])), sys.argv[3:])
