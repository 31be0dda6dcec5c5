"""Requests of libvgc: what reaches the device, what comes back, and refusals before anything is sent."""

from __future__ import annotations

import random
import threading
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import guest_driver as vgc
from guest_driver.arguments import Param, ParamKind
from tests.fakes import cuda_cubin
from tests.fakes.device import SILENCE, Answer, Ask, FakeDevice, FakeFunction, program_table
from tests.fakes.guest import open_device
from tests.fakes.link import GuestLink
from tests.fakes.ring import RawRing
from tests.fakes.units import Unit, pack
from tests.limits import TIME_TO_ANSWER_S
from tests.unit.guest_rig import dev, fake, link
from vhost_backend.engines.cuda import cubin
from virtio_proto import schema
from virtio_proto.schema import Health, Opcode, Status

__all__ = ["dev", "fake", "link"]

SIZES = [1, 1999, 2000, 2001, 4096, 4097, 65536, 300_001]
"""Sizes around the limits between inline, staged and pipelined copies."""


def noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


# ---- copies --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_copy_in_and_out_keeps_every_byte(dev: vgc.Device, size: int) -> None:
    memory = dev.alloc(size)
    memory.write(noise(size))
    assert memory.read() == noise(size)


@pytest.mark.parametrize("size", SIZES)
def test_asynchronous_copy_keeps_every_byte(dev: vgc.Device, size: int) -> None:
    memory, back = dev.alloc(size), bytearray(size)
    with dev.stream() as stream:
        memory.write(noise(size), stream=stream)
        memory.read_into(back, stream=stream)
    assert back == noise(size)


@pytest.mark.parametrize("size", [5000, 300_001])
def test_copy_between_region_and_device_takes_one_request(dev: vgc.Device, fake: FakeDevice, size: int) -> None:
    source, back = dev.region_array(size, "uint8"), dev.region_array(size, "uint8")
    source[:] = np.frombuffer(noise(size), np.uint8)
    memory = dev.alloc(size)
    before = len(fake.opcodes())
    memory.write(source)
    memory.read_into(back)
    assert bytes(back) == noise(size)
    assert fake.opcodes()[before:] == [Opcode.COPY_IN, Opcode.COPY_OUT], "one request each, not pieces"


def test_large_copy_goes_in_pieces_that_overlap(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(1 << 20)
    memory.write(noise(1 << 20))
    assert fake.opcodes().count(Opcode.COPY_IN) > 1
    assert memory.read() == noise(1 << 20)


@pytest.mark.parametrize("size", [2**64 - 1, 2**64 - 65536, 2**63, 2**40])
def test_region_memory_of_absurd_sizes_is_refused(dev: vgc.Device, size: int) -> None:
    with pytest.raises(vgc.ResourcesExhausted, match="contiguous bytes left in the shared region"):
        dev.region_buffer(size)


def test_copy_works_while_the_region_is_nearly_full(dev: vgc.Device) -> None:
    held: list[object] = []

    def fill_region() -> None:
        while True:
            held.append(dev.region_buffer(256 << 10))

    with pytest.raises(vgc.ResourcesExhausted, match="contiguous bytes left in the shared region"):
        fill_region()
    del held[0]
    memory = dev.alloc(1 << 20)
    memory.write(noise(1 << 20))
    assert memory.read() == noise(1 << 20)


def test_device_copy_and_fill_carry_their_arguments(dev: vgc.Device) -> None:
    one, two = dev.alloc(4096), dev.alloc(4096)
    one.fill_bytes(b"\x01\x02\x03\x04")
    two.copy_from(one)
    assert two.read() == b"\x01\x02\x03\x04" * 1024


def test_failed_piece_of_a_large_copy_fails_the_copy(dev: vgc.Device, fake: FakeDevice) -> None:
    memory = dev.alloc(1 << 20)
    bad = Answer(Status.INVALID_ADDRESS, b"piece refused")
    fake.override[Opcode.COPY_IN] = lambda ask: bad if ask.body.dst > memory.address + (1 << 19) else None
    with pytest.raises(vgc.InvalidAddress, match="piece refused"):
        memory.write(noise(1 << 20))
    fake.override.clear()
    memory.write(noise(1 << 20))
    assert memory.read() == noise(1 << 20)


def test_region_buffers_do_not_overlap_and_come_back(dev: vgc.Device) -> None:
    for _ in range(3):
        arrays = [dev.region_array(1000 + 77 * i, "uint8") for i in range(40)]
        for i, array in enumerate(arrays):
            array[:] = i
        assert all((array == i).all() for i, array in enumerate(arrays))


def test_region_array_outlives_the_device_handle(dev: vgc.Device, fake: FakeDevice) -> None:
    array = dev.region_array(100, "int32")
    array[:] = 7
    dev.close()
    assert array.sum() == 700
    assert fake.contexts
    del array
    assert not fake.contexts, "the last view of the region ends the device"


# ---- quota ---------------------------------------------------------------------------------------


def test_memory_quota_is_checked_before_sending(dev: vgc.Device, fake: FakeDevice) -> None:
    with pytest.raises(
        vgc.OutOfMemory, match="asked 16777217, 16777216 of 16777216 bytes free; the host's operator may raise it"
    ):
        dev.alloc((1 << 24) + 1)
    with pytest.raises(vgc.ResourcesExhausted):
        dev.alloc(2**64 - 1)
    assert Opcode.ALLOC not in fake.opcodes()
    dev.alloc(1 << 24).free()
    dev.alloc(1 << 24).free()


def test_hosts_refusal_does_not_use_up_quota(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.override[Opcode.ALLOC] = lambda _: Answer(Status.OUT_OF_MEMORY, b"asked 9, 0 of 9 bytes free")
    for _ in range(3):
        with pytest.raises(vgc.OutOfMemory, match="0 of 9 bytes free"):
            dev.alloc(1 << 23)
    fake.override.clear()
    dev.alloc(1 << 24)


def test_queue_depth_is_checked_before_sending(tmp_path: Path) -> None:
    with GuestLink(queue_depth=3) as link, FakeDevice(link) as fake, open_device(link, tmp_path) as dev:
        fake.override[Opcode.FILL] = lambda _: SILENCE
        memory, stream = dev.alloc(64), dev.stream()
        jobs = [memory.fill_bytes(b"x", stream) for _ in range(3)]
        with pytest.raises(
            vgc.ResourcesExhausted,
            match="3 requests of this VM are in flight and its quota is 3; wait for some; the host's operator may raise it",
        ):
            memory.fill_bytes(b"x", stream)
        fake.answer_silenced(Answer(), count=3)
        assert fake.opcodes().count(Opcode.FILL) == 3
        assert [job.wait().exec_ns for job in jobs if job is not None] == [7, 7, 7]


def test_requests_beyond_the_slots_of_a_queue_wait_for_room(dev: vgc.Device) -> None:
    memory = dev.alloc(64)
    for _ in range(300):
        memory.fill_bytes(b"y")
    assert memory.read() == b"y" * 64


@pytest.mark.parametrize(
    ("grid", "block", "kind"),
    [
        ((0,), (1,), vgc.InvalidArgument),
        ((1,), (0, 1, 1), vgc.InvalidArgument),
        ((1, 65536), (1,), vgc.InvalidArgument),
        ((2**31,), (1,), vgc.InvalidArgument),
        ((1,), (1025,), vgc.ResourcesExhausted),
        ((1,), (2**16, 2**16, 2**16), vgc.ResourcesExhausted),
    ],
)
def test_geometry_is_checked_before_sending(
    dev: vgc.Device, fake: FakeDevice, grid: tuple[int, ...], block: tuple[int, ...], kind: type[Exception]
) -> None:
    program = dev.compile("source")
    with pytest.raises(kind):
        program.empty[grid, block]()
    assert Opcode.LAUNCH not in fake.opcodes()


def test_vm_without_processing_elements_cannot_launch(tmp_path: Path) -> None:
    with GuestLink(quota_pes=0) as link, FakeDevice(link) as fake, open_device(link, tmp_path) as dev:
        with pytest.raises(vgc.ResourcesExhausted, match="no processing elements"):
            dev.compile("source").empty[1, 1]()
        assert Opcode.LAUNCH not in fake.opcodes()


# ---- programs ------------------------------------------------------------------------------------


def test_program_lists_its_kernels_and_their_parameters(dev: vgc.Device) -> None:
    program = dev.compile("source", ["-O3", "-DX=1"])
    assert list(program) == ["saxpy", "empty"]
    assert program.saxpy.params == [
        Param(0, 4, ParamKind.INTEGER),
        Param(4, 4, ParamKind.FLOAT),
        Param(8, 8, ParamKind.POINTER),
        Param(16, 8, ParamKind.POINTER),
    ]
    assert program["_Z5saxpyv"].name == "saxpy"


def test_options_and_source_arrive_unchanged(dev: vgc.Device, fake: FakeDevice) -> None:
    dev.compile("the source", ["-O3", "-DX=1"])
    load = next(ask for ask in fake.seen if ask.opcode is Opcode.PROGRAM_LOAD)
    assert load.rest == b"-O3\0-DX=1\0the source"


def test_units_arrive_unchanged(dev: vgc.Device, fake: FakeDevice) -> None:
    dev.link([vgc.Unit("a.cu", "first", ["-DX=1", "-w"]), vgc.Unit("b.cu", b""), vgc.Unit("ü.cu", "third")], ["-O3"])
    load = next(ask for ask in fake.seen if ask.opcode is Opcode.PROGRAM_LOAD)
    assert load.body.kind == schema.ProgramKind.CUDA_UNITS
    units = [Unit("a.cu", "first", ("-DX=1", "-w")), Unit("b.cu", ""), Unit("ü.cu", "third")]
    assert load.rest == b"-O3\0" + pack(units)


@pytest.mark.parametrize(
    ("units", "problem"),
    [
        ([], "a program of 0 units; allowed: 1 to 256"),
        ([vgc.Unit("a", "")] * 257, "a program of 257 units; allowed: 1 to 256"),
        ([vgc.Unit("", "")], "unit 0 has a name of 0 bytes; allowed: 1 to 255"),
        ([vgc.Unit("a", ""), vgc.Unit("b" * 256, "")], "unit 1 has a name of 256 bytes; allowed: 1 to 255"),
        ([vgc.Unit("a", "", ["x" * 20_000])], "compiler options of 20001 bytes for unit 'a'; allowed: 16384"),
        ([vgc.Unit("a", b"x" * (17 << 20))], f"unit 'a' has {17 << 20} bytes; allowed: {16 << 20}"),
        (
            [vgc.Unit(name, b"x" * (9 << 20)) for name in "ab"],
            f"a program of {(18 << 20) + 42} bytes; allowed: 1 to {16 << 20}",
        ),
    ],
    ids=["none", "many", "no name", "long name", "options", "large", "large together"],
)
def test_units_beyond_the_limits_are_not_sent(
    dev: vgc.Device, fake: FakeDevice, units: list[vgc.Unit], problem: str
) -> None:
    with pytest.raises(vgc.InvalidArgument, match=problem):
        dev.link(units)
    assert Opcode.PROGRAM_LOAD not in fake.opcodes()


def test_compile_error_carries_the_log(dev: vgc.Device) -> None:
    with pytest.raises(vgc.CompileError, match="does not compile") as caught:
        dev.compile("error")
    assert caught.value.log == "line 1: error: no such thing"


def test_long_compiler_log_is_complete(dev: vgc.Device, fake: FakeDevice) -> None:
    log = b"".join(b"line %d: error: this\n" % i for i in range(3000))
    fake.override[Opcode.PROGRAM_LOAD] = lambda _: Answer(Status.COMPILE_FAILED, log)
    with pytest.raises(vgc.CompileError) as caught:
        dev.compile("source")
    assert caught.value.log.encode() == log


def test_warnings_of_a_program_that_compiles_are_kept(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.log = "warning: unused variable"
    assert dev.compile("source").log == "warning: unused variable"


def test_table_that_was_cut_short_is_asked_for_again(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction(f"kernel_{'x' * 900}_{i}") for i in range(200)]
    assert len(list(dev.compile("source"))) == 200
    assert fake.opcodes().count(Opcode.PROGRAM_LOAD) == 2
    assert fake.opcodes().count(Opcode.PROGRAM_UNLOAD) == 1


def _lies() -> list[bytes]:
    good = program_table([FakeFunction("f", (4, 8))], {"v": (1, 2)}, "log")
    changes = [(0, 2**31), (4, 2**30), (8, 7), (12, 2**32 - 1), (16, 2**32 - 1)]
    changes += [(28, 1)]  # 4 GiB of memory
    function = schema.PROGRAM_TABLE.size_bytes
    changes += [(function + 4, 10**6), (function + 20, 9), (function + 28, 2)]  # size of the function's entry
    param = function + schema.FUNCTION_ENTRY.size_bytes
    changes += [(param + 4, 17), (param + 8, ParamKind.POINTER), (param + 8, ParamKind.OTHER + 1)]
    lies = [good[:at] + value.to_bytes(4, "little") + good[at + 4 :] for at, value in changes]
    return [*lies, b"", good[:31], good[:-4]]


@pytest.mark.parametrize("table", _lies())
def test_function_table_that_contradicts_itself_is_refused(dev: vgc.Device, fake: FakeDevice, table: bytes) -> None:
    fake.override[Opcode.PROGRAM_LOAD] = lambda _: Answer(payload=table, value=1)
    with pytest.raises(vgc.InternalError, match="contradicts itself"):
        dev.compile("source")


def test_programs_count_before_memory_is_asked_for(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.program_bytes = 3 << 20
    program = dev.compile("source")
    held = dev.alloc((1 << 24) - (3 << 20))
    before = len(fake.opcodes())
    with pytest.raises(vgc.OutOfMemory, match="resources exhausted: asked 1, 0 of 16777216 bytes free"):
        dev.alloc(1)
    assert len(fake.opcodes()) == before
    program.unload()
    dev.alloc(3 << 20).free()
    held.free()
    dev.compile("source")
    dev.reset()
    dev.alloc(1 << 24)


def test_program_loaded_before_a_reset_gives_nothing_back(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.program_bytes = 3 << 20
    program = dev.compile("source")
    dev.reset()
    held = dev.alloc(1 << 24)
    program.unload()
    with pytest.raises(vgc.OutOfMemory):
        dev.alloc(1)
    held.free()


def test_cubin_for_which_there_is_no_room_is_not_sent(dev: vgc.Device, fake: FakeDevice) -> None:
    kernel = cuda_cubin.Kernel("kernel", shared_bytes=48 << 10)
    image = cuda_cubin.cubin([kernel], [cuda_cubin.Global("vast", 1 << 23)])
    needed = cubin.parse(image).loaded_bytes
    dev.compile(image, kind="cubin")
    held = dev.alloc((1 << 24) - needed)
    dev.compile(image, kind="cubin")
    assert fake.opcodes().count(Opcode.PROGRAM_LOAD) == 2
    more = dev.alloc(1)
    words = (
        f"resources exhausted: the program takes {needed} bytes of device memory, {needed - 1} of 16777216 bytes free"
        "; the host's operator may raise it: vgcctl vm limits VM --memory"
    )
    with pytest.raises(vgc.OutOfMemory, match=words):
        dev.compile(image, kind="cubin")
    assert fake.opcodes().count(Opcode.PROGRAM_LOAD) == 2
    dev.compile("source")
    more.free()
    held.free()


@pytest.mark.parametrize("seed", range(8))
def test_broken_cubins_are_left_to_the_host(dev: vgc.Device, seed: int) -> None:
    """None is read beyond its end: a sanitizer would tell."""
    chance = random.Random(seed)
    whole = cuda_cubin.cubin([cuda_cubin.Kernel("kernel")], [cuda_cubin.Global("small", 64)])
    for _ in range(50):
        image = bytearray(whole[: chance.randrange(1, len(whole))] if chance.random() < 0.5 else whole)
        for _ in range(chance.randrange(4)):
            image[chance.randrange(len(image))] = chance.randrange(256)
        with suppress(vgc.OutOfMemory):
            dev.compile(bytes(image), kind="cubin").unload()
    assert dev.compile("source")


def test_unknown_and_ambiguous_names_are_explained(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("f", linker_name="_Z1fi"), FakeFunction("f", linker_name="_Z1ff")]
    program = dev.compile("source")
    with pytest.raises(vgc.NotFound, match="no kernel 'g'; it has, for one, f"):
        program["g"]
    with pytest.raises(AttributeError, match="no kernel 'g'"):
        program.g  # noqa: B018  looking is the test
    with pytest.raises(vgc.InvalidArgument, match="several functions are called 'f'"):
        program["f"]
    assert program["_Z1fi"].linker_name == "_Z1fi"
    assert program._Z1ff.linker_name == "_Z1ff"
    with pytest.raises(TypeError, match=r"f: say how many blocks and threads, f\[grid, block\]\(arguments\)"):
        program["_Z1fi"](1)


def test_variables_of_a_program_are_found(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.variables = {"table": (0x1000, 64)}
    program = dev.compile("source")
    assert program.variable("table").address == 0x1000
    assert program.variable("table").size_bytes == 64
    with pytest.raises(vgc.NotFound, match="'chair'"):
        program.variable("chair")


# ---- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 3000, 200_000])
@pytest.mark.parametrize("in_region", [False, True])
def test_call_copies_inputs_in_and_outputs_back(dev: vgc.Device, fake: FakeDevice, size: int, in_region: bool) -> None:
    def kernel(buffers: list[bytes]) -> list[bytes]:
        source, out, both = buffers
        assert out == bytes(size)
        return [source, source[::-1], bytes(255 - byte for byte in both)]

    fake.functions = [FakeFunction("mix", (4, 8, 8, 8), call=kernel)]
    dev.compile("source")
    make = (lambda: dev.region_array(size, "uint8")) if in_region else (lambda: np.empty(size, np.uint8))
    source, out, both = make(), make(), make()
    source[:] = both[:] = np.frombuffer(noise(size), np.uint8)
    before = len(fake.opcodes())
    args = [np.int32(3), vgc.In(source), vgc.Out(out), vgc.InOut(both)]
    dev.call("mix", grid=2, block=(8, 8), args=args)
    assert fake.opcodes()[before:] == [Opcode.CALL], "the whole call is one request"
    assert bytes(out) == noise(size)[::-1]
    assert bytes(both) == bytes(255 - byte for byte in noise(size))


def test_call_in_a_stream_returns_at_once(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("copy", (8, 8), call=lambda buffers: [buffers[0], buffers[0]])]
    dev.compile("source")
    source, out = np.arange(1000), np.zeros(1000, int)
    fake.override[Opcode.CALL] = lambda _: SILENCE
    with dev.stream() as stream:
        job = dev.call("copy", grid=1, block=1, args=[vgc.In(source), vgc.Out(out)], stream=stream)
        assert isinstance(job, vgc.Job)
        assert not job.done()
        fake.answer_silenced(Answer(payload=source.tobytes()))
    assert (out == source).all()


def test_call_of_an_unknown_name_is_refused(dev: vgc.Device, fake: FakeDevice) -> None:
    with pytest.raises(vgc.NotFound, match="'nothing'"):
        dev.call("nothing", grid=1, block=1)
    assert Opcode.CALL not in fake.opcodes()


def test_failed_call_leaves_outputs_alone_and_gives_staging_back(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.functions = [FakeFunction("copy", (8, 8))]
    dev.compile("source")
    fake.override[Opcode.CALL] = lambda _: Answer(Status.FAULT, b"block (1, 0, 0), thread (3, 0, 0): address 0x10")
    source, out = np.ones(100_000), np.full(100_000, 5.0)
    for _ in range(20):  # staging memory that is not freed would fill the region
        with pytest.raises(vgc.KernelFault, match="thread \\(3, 0, 0\\): address 0x10"):
            dev.call("copy", grid=1, block=1, args=[vgc.In(source), vgc.Out(out)])
    assert (out == 5).all()


# ---- streams and events --------------------------------------------------------------------------


def test_streams_are_numbered_and_limited(dev: vgc.Device) -> None:
    streams = [dev.stream() for _ in range(7)]
    assert sorted(stream.number for stream in streams) == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(vgc.ResourcesExhausted, match="all 8 streams"):
        dev.stream()
    streams[2].close()
    assert dev.stream().number == 3


def test_stream_reports_the_first_failure(dev: vgc.Device, fake: FakeDevice) -> None:
    memory, stream = dev.alloc(64), dev.stream()
    answers = iter([None, Answer(Status.FAULT, b"first"), Answer(Status.TIMEOUT, b"second")])
    fake.override[Opcode.FILL] = lambda _: next(answers)
    for _ in range(3):
        memory.fill_bytes(b"x", stream)
    with pytest.raises(vgc.KernelFault, match="first"):
        stream.synchronize()
    stream.synchronize()


def test_events_measure_the_time_between_them(dev: vgc.Device) -> None:
    start, end = dev.event(), dev.event()
    with pytest.raises(vgc.InvalidArgument, match="start event was never recorded"):
        start.elapsed_s(end)
    start.record()
    end.record()
    assert start.elapsed_s(end) == 1e-6
    assert end.happened()


def test_event_is_waited_for_by_another_stream(dev: vgc.Device, fake: FakeDevice) -> None:
    event, stream = dev.event(), dev.stream()
    event.record()
    stream.wait_for(event)
    dev.synchronize()
    assert fake.seen[-1].opcode is Opcode.EVENT_WAIT
    assert fake.seen[-1].stream == stream.number


# ---- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [status for status in Status if status not in (Status.OK, Status.NO_CONTEXT)])
def test_each_status_has_an_exception_with_the_hosts_text(dev: vgc.Device, fake: FakeDevice, status: Status) -> None:
    fake.override[Opcode.QUERY] = lambda _: Answer(status, "wörds of the host".encode())
    with pytest.raises(vgc.VgcError, match="wörds of the host") as caught:
        dev.usage()
    assert type(caught.value) is not vgc.VgcError
    assert caught.value.result == status


def test_lost_device_fails_fast_until_reset(dev: vgc.Device, fake: FakeDevice, link: GuestLink) -> None:
    program, memory = dev.compile("source"), dev.alloc(1 << 24)
    fake.override[Opcode.LAUNCH] = lambda _: Answer(Status.DEVICE_LOST)
    with pytest.raises(vgc.DeviceLost, match="replaced the worker"):
        program.empty[1, 1]()
    before = len(fake.opcodes())
    with pytest.raises(vgc.DeviceLost, match="vgc_reset"):
        memory.read()
    assert len(fake.opcodes()) == before, "nothing is sent to a context that is gone"
    fake.override.clear()
    fake.contexts.clear()
    fake.memory.clear()
    link.set_config(generation=2, health=Health.READY)
    dev.reset()
    dev.alloc(1 << 24)  # the quota is whole again
    with pytest.raises(vgc.DeviceLost, match="before vgc_reset"):
        program.empty[1, 1]()
    assert list(dev.compile("source")) == ["saxpy", "empty"]


def test_program_loaded_before_a_reset_is_refused(dev: vgc.Device, fake: FakeDevice) -> None:
    event = dev.event()
    dev.reset()
    with pytest.raises(vgc.DeviceLost, match="before vgc_reset"):
        event.record()
    assert Opcode.EVENT_RECORD not in fake.opcodes()


def test_context_that_the_host_forgot_counts_as_lost(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.contexts.clear()
    with pytest.raises(vgc.DeviceLost, match="before it saw this request"):
        dev.alloc(1)
    with pytest.raises(vgc.DeviceLost, match="vgc_reset"):
        dev.alloc(1)
    dev.reset()
    dev.alloc(1)


def test_request_that_is_never_answered_times_out_and_may_still_end(
    link: GuestLink, fake: FakeDevice, tmp_path: Path
) -> None:
    with open_device(link, tmp_path, request_timeout_s=TIME_TO_ANSWER_S) as dev:
        memory = dev.alloc(1 << 20)
        fake.override[Opcode.COPY_OUT] = lambda _: SILENCE
        with pytest.raises(vgc.NoAnswer, match="did not answer request 0x41"):
            memory.read(100)
        fake.answer_silenced(Answer(payload=bytes(100)))
        fake.override.clear()
        memory.write(b"hello")
        assert memory.read(5) == b"hello"


def test_answer_without_a_response_is_a_malformed_request(dev: vgc.Device, fake: FakeDevice) -> None:
    respond = fake._respond
    ring = fake._rings[0]
    fake._respond = lambda _queue, _: ring.push(ring.chain.head, 0)  # type: ignore[method-assign,assignment]
    with pytest.raises(vgc.BadRequest, match="malformed"):
        dev.nop()
    fake._respond = respond  # type: ignore[method-assign]
    dev.nop()


@pytest.mark.parametrize("payload_len", [2**32 - 1, 10**6, 3000])
def test_false_payload_length_reads_nothing_beyond_the_buffer(
    dev: vgc.Device, fake: FakeDevice, payload_len: int
) -> None:
    memory = dev.alloc(64)
    fake.override[Opcode.COPY_OUT] = lambda _: Answer(payload=b"a" * 64, payload_len=payload_len)
    assert memory.read() == b"a" * 64
    fake.override[Opcode.COPY_OUT] = lambda _: Answer(Status.FAULT, b"text", payload_len=payload_len)
    with pytest.raises(vgc.KernelFault, match="text"):
        memory.read()


def test_status_that_does_not_exist_is_an_internal_error(dev: vgc.Device, fake: FakeDevice) -> None:
    fake.override[Opcode.NOP] = lambda _: Answer(status=99)  # type: ignore[arg-type]
    with pytest.raises(vgc.InternalError):
        dev.nop()


def test_head_that_was_never_in_flight_ends_the_queue(dev: vgc.Device, fake: FakeDevice, link: GuestLink) -> None:
    fake.override[Opcode.FILL] = lambda _: SILENCE
    memory, stream = dev.alloc(64), dev.stream()
    job = memory.fill_bytes(b"x", stream)
    ring = RawRing(link.region, link.rings[0])
    ring.set_used_entry(ring.used_idx, 63, 48)
    ring.used_idx += 1
    assert job is not None
    with pytest.raises(vgc.DeviceLost):
        job.wait()
    with pytest.raises(vgc.DeviceLost, match="corrupted by the device"):
        dev.nop()


# ---- threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("own_queue", [False, True])
def test_threads_work_side_by_side(tmp_path: Path, own_queue: bool) -> None:
    failures: list[BaseException] = []
    with (
        GuestLink(num_queues=5, region_bytes=8 << 20) as link,
        FakeDevice(link) as fake,
        open_device(link, tmp_path) as dev,
    ):

        def work(seed: int) -> None:
            try:
                if own_queue:
                    dev.claim_queue()
                for turn in range(5):
                    data = noise(20_000 + 1000 * seed + turn)
                    with dev.alloc(len(data)) as memory:
                        memory.write(data)
                        assert memory.read() == data
                if own_queue:
                    dev.release_queue()
            except BaseException as error:  # noqa: BLE001  raised below
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures
        assert fake.memory == {}


@pytest.mark.usefixtures("fake")
def test_spinning_forever_and_sleeping_at_once_both_get_their_answers(link: GuestLink, tmp_path: Path) -> None:
    for spin_s in (1e-9, 3600.0):
        with open_device(link, tmp_path, spin_s=spin_s) as dev:
            for _ in range(50):
                assert dev.nop().exec_ns == 7


def test_requests_carry_context_and_stream(dev: vgc.Device, fake: FakeDevice) -> None:
    seen: list[Ask] = []
    fake.override[Opcode.LAUNCH] = seen.append
    program, stream = dev.compile("source"), dev.stream()
    job = program.saxpy[(2, 3), (4, 5, 6), 16, stream](7, 2.5, dev.alloc(4), dev.alloc(4))
    assert isinstance(job, vgc.Job)
    job.wait()
    body = seen[0].body
    assert (list(body.grid), list(body.block), body.shared_bytes) == ([2, 3, 1], [4, 5, 6], 16)
    assert (seen[0].context, seen[0].stream) == (dev.info().context, stream.number)
    assert seen[0].rest[:8] == (7).to_bytes(4, "little") + np.float32(2.5).tobytes()
