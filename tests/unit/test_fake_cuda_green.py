"""The rules of green contexts in the fake CUDA driver: sizes of parts, their use, and their end.

Sources: cuda.h, section Green Contexts. What it leaves open, and the fake decides, is marked "assumed".
"""

from __future__ import annotations

import ctypes
import struct

import pytest

from tests.unit.fake_cuda_rig import (
    ASSERT,
    CONTEXT_ALREADY_IN_USE,
    INVALID_CONTEXT,
    INVALID_RESOURCE_CONFIGURATION,
    INVALID_RESOURCE_TYPE,
    INVALID_VALUE,
    NON_BLOCKING,
    STREAM_DETACHED,
    SUCCESS,
    Resource,
    Rig,
    bare,
    fake,
    in_thread,
    rig,
)

__all__ = ["bare", "fake", "rig"]

IGNORE_COSCHEDULING, LARGEST_CLUSTERS = 1, 2
SM_TYPE, WORKQUEUE_TYPE = 1, 10000


def whole(rig: Rig, device: int = 0) -> Resource:
    resource = Resource()
    rig.call("cuDeviceGetDevResource", device, ctypes.byref(resource), SM_TYPE)
    return resource


def parts(rig: Rig, of: Resource, wanted: int, *, count: int = 1, flags: int = 0) -> tuple[list[Resource], Resource]:
    """Splits into at most `count` groups of at least `wanted` SMs; returns the groups and the remainder."""
    groups, made, rest = (Resource * count)(), ctypes.c_uint(count), Resource()
    arguments = (groups, ctypes.byref(made), ctypes.byref(of), ctypes.byref(rest), flags, wanted)
    rig.call("cuDevSmResourceSplitByCount", *arguments)
    return list(groups)[: made.value], rest


def split_code(rig: Rig, of: Resource, wanted: int, *, count: int = 1, flags: int = 0) -> int:
    groups, made = (Resource * max(count, 1))(), ctypes.c_uint(count)
    return rig.code("cuDevSmResourceSplitByCount", groups, ctypes.byref(made), ctypes.byref(of), None, flags, wanted)


def description_code(rig: Rig, *resources: Resource) -> int:
    array = (Resource * max(len(resources), 1))(*resources)
    return rig.code("cuDevResourceGenerateDesc", ctypes.byref(ctypes.c_uint64()), array, len(resources))


def description(rig: Rig, *resources: Resource) -> int:
    return rig.get("cuDevResourceGenerateDesc", (Resource * len(resources))(*resources), len(resources))


def green(rig: Rig, wanted: int = 16) -> tuple[int, int]:
    """Makes a green context; returns it and its CUcontext."""
    groups, _ = parts(rig, whole(rig), wanted)
    made = rig.get("cuGreenCtxCreate", description(rig, *groups), 0, 1)
    return made, rig.get("cuCtxFromGreenCtx", made)


# ---- sizes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "given", "count", "rest"),
    [(0, 8, 16, 4), (1, 8, 16, 4), (8, 8, 16, 4), (9, 16, 8, 4), (24, 24, 5, 12), (100, 104, 1, 28), (128, 128, 1, 4)],
)
def test_parts_of_sm_90_are_multiples_of_8(rig: Rig, wanted: int, given: int, count: int, rest: int) -> None:
    groups, remaining = parts(rig, whole(rig), wanted, count=20)
    assert [group.sms for group in groups] == [given] * count
    assert (remaining.type, remaining.sms) == (SM_TYPE, rest)


def test_the_number_of_parts_can_be_asked_for(rig: Rig) -> None:
    count, input_ = ctypes.c_uint(99), whole(rig)
    rig.call("cuDevSmResourceSplitByCount", None, ctypes.byref(count), ctypes.byref(input_), None, 0, 24)
    assert count.value == 5


def test_a_part_larger_than_128_of_132_sms_is_refused(rig: Rig) -> None:
    assert split_code(rig, whole(rig), 129) == INVALID_RESOURCE_CONFIGURATION


@pytest.mark.parametrize(("wanted", "count", "flags"), [(133, 1, 0), (8, 0, 0), (8, 1, 4)])
def test_invalid_splits_are_refused(rig: Rig, wanted: int, count: int, flags: int) -> None:
    """More SMs than the device has; no groups (assumed); an unknown flag."""
    assert split_code(rig, whole(rig), wanted, count=count, flags=flags) == INVALID_VALUE


@pytest.mark.parametrize(("wanted", "given"), [(1, 2), (3, 4), (130, 130)])
def test_without_coscheduling_parts_are_smaller(rig: Rig, wanted: int, given: int) -> None:
    """Parts are pairs of SMs (assumed): "lower the minimum SM count and alignment" is all that is documented."""
    groups, _ = parts(rig, whole(rig), wanted, flags=IGNORE_COSCHEDULING)
    assert [group.sms for group in groups] == [given]


def test_the_largest_clusters_are_for_sm_90_and_newer(bare: Rig) -> None:
    bare.fake.set("devices 2", "1.capability 8.9")
    bare.start()
    assert split_code(bare, whole(bare), 8, flags=LARGEST_CLUSTERS) == SUCCESS
    assert split_code(bare, whole(bare, 1), 8, flags=LARGEST_CLUSTERS) == INVALID_VALUE


def test_an_empty_remainder_cannot_be_used_as_a_resource(rig: Rig) -> None:
    _, rest = parts(rig, whole(rig), 66, flags=IGNORE_COSCHEDULING, count=2)
    assert (rest.type, rest.sms) == (0, 0)
    assert description_code(rig, rest) == INVALID_RESOURCE_TYPE


# ---- where parts come from ---------------------------------------------------------------------------


def test_only_sms_can_be_queried_as_a_resource(rig: Rig) -> None:
    resource, context = Resource(), rig.get("cuCtxGetCurrent")
    for name, of in (("cuDeviceGetDevResource", 0), ("cuCtxGetDevResource", context)):
        assert rig.code(name, of, ctypes.byref(resource), WORKQUEUE_TYPE) == INVALID_RESOURCE_TYPE


def test_use_of_a_resource_not_from_the_driver_is_misuse(rig: Rig) -> None:
    assert split_code(rig, Resource(), 8) == INVALID_RESOURCE_TYPE
    assert split_code(rig, Resource(type=SM_TYPE, sms=132, least=8, unit=8), 8) == INVALID_VALUE
    assert rig.fake.misuses() == ["a CUdevResource that the driver did not fill in"]


def test_a_part_is_not_split_again_before_it_is_a_green_context(rig: Rig) -> None:
    groups, rest = parts(rig, whole(rig), 64)
    assert split_code(rig, groups[0], 8) == split_code(rig, rest, 8) == INVALID_RESOURCE_CONFIGURATION
    made, _ = green(rig, 64)
    resource = Resource()
    rig.call("cuGreenCtxGetDevResource", made, ctypes.byref(resource), SM_TYPE)
    assert split_code(rig, resource, 8) == SUCCESS


def test_a_description_needs_at_least_one_resource(rig: Rig) -> None:
    assert description_code(rig) == INVALID_VALUE


def test_parts_of_one_split_can_be_joined(rig: Rig) -> None:
    groups, rest = parts(rig, whole(rig), 64, count=2)
    made = rig.get("cuGreenCtxCreate", description(rig, groups[0], rest), 0, 1)
    resource = Resource()
    rig.call("cuGreenCtxGetDevResource", made, ctypes.byref(resource), SM_TYPE)
    assert resource.sms == 68


def test_parts_of_different_splits_cannot_be_joined(rig: Rig) -> None:
    """A part cannot be joined with itself either (assumed)."""
    first, second = (parts(rig, whole(rig), 64)[0][0] for _ in range(2))
    assert description_code(rig, first, second) == INVALID_RESOURCE_CONFIGURATION
    assert description_code(rig, first, first) == INVALID_RESOURCE_CONFIGURATION


def test_sms_of_another_device_are_refused(bare: Rig) -> None:
    bare.fake.set("devices 2")
    bare.start()
    groups, _ = parts(bare, whole(bare, 1), 8)
    desc = description(bare, *groups)
    assert bare.code("cuGreenCtxCreate", ctypes.byref(ctypes.c_uint64()), desc, 0, 1) == INVALID_VALUE
    assert bare.fake.misuses() == ["a green context of device 0 with multiprocessors of device 1"]


# ---- making and ending -------------------------------------------------------------------------------


def test_a_green_context_must_ask_for_a_default_stream(rig: Rig) -> None:
    """Drivers after CUDA 13.0 allow green contexts without one."""
    desc, made = description(rig, whole(rig)), ctypes.byref(ctypes.c_uint64())
    assert [rig.code("cuGreenCtxCreate", made, desc, 0, flags) for flags in (0, 1, 2)] == [
        INVALID_VALUE,
        SUCCESS,
        INVALID_VALUE,
    ]


def test_a_description_can_be_used_again(rig: Rig) -> None:
    desc = description(rig, *parts(rig, whole(rig), 8)[0])
    made = [rig.get("cuGreenCtxCreate", desc, 0, 1) for _ in range(2)]
    assert made[0] != made[1]


def test_a_green_context_makes_the_primary_one_if_there_is_none(bare: Rig) -> None:
    bare.call("cuInit", 0)
    made, _ = green(bare)
    assert bare.fake.number("contexts") == 2
    bare.call("cuGreenCtxDestroy", made)
    assert bare.fake.number("contexts") == 0


def test_a_green_context_must_be_converted_to_a_context(rig: Rig) -> None:
    made, _ = green(rig)
    assert rig.code("cuCtxSetCurrent", made) == INVALID_CONTEXT


def test_streams_outlive_their_green_context_and_can_only_be_destroyed(rig: Rig) -> None:
    primary = rig.get("cuCtxGetCurrent")
    made, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    streams = [rig.stream(), rig.get("cuGreenCtxStreamCreate", made, NON_BLOCKING, 0)]
    rig.call("cuCtxSetCurrent", primary)
    rig.call("cuGreenCtxDestroy", made)
    assert [rig.code("cuStreamQuery", stream) for stream in streams] == [STREAM_DETACHED] * 2
    assert rig.fake.alive()["streams"] == 2
    for stream in streams:
        rig.call("cuStreamDestroy_v2", stream)
    assert "streams" not in rig.fake.alive()


def test_a_green_context_is_not_destroyed_as_a_context(rig: Rig) -> None:
    _, context = green(rig)
    assert rig.code("cuCtxDestroy_v2", context) == INVALID_CONTEXT
    assert rig.fake.misuses() == ["cuCtxDestroy of a green context"]


# ---- work in a green context -------------------------------------------------------------------------


def green_context_of(rig: Rig, stream: int) -> int:
    value = ctypes.c_uint64(1)
    rig.call("cuStreamGetGreenCtx", stream, ctypes.byref(value))
    return value.value


def test_a_stream_knows_its_green_context(rig: Rig) -> None:
    assert green_context_of(rig, rig.stream()) == 0
    made, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    assert [green_context_of(rig, stream) for stream in (rig.stream(), 0)] == [made, made]


def test_streams_made_under_a_green_context_are_its_own_and_non_blocking(rig: Rig) -> None:
    made, context = green(rig)
    assert rig.code("cuGreenCtxStreamCreate", ctypes.byref(ctypes.c_uint64()), made, 0, 0) == INVALID_VALUE
    rig.call("cuCtxSetCurrent", context)
    rig.get("cuStreamCreate", 0)
    assert rig.fake.misuses() == ["streams of a green context are CU_STREAM_NON_BLOCKING"]


def test_limits_are_those_of_the_primary_context(rig: Rig) -> None:
    """Assumed: the documentation only says that a green context equals the primary one where SMs do not matter."""
    primary = rig.get("cuCtxGetCurrent")
    _, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    rig.call("cuCtxSetLimit", 0, 4096)
    rig.call("cuCtxSetCurrent", primary)
    assert rig.get("cuCtxGetLimit", 0, kind=ctypes.c_size_t) == 4096


def test_synchronising_a_green_context_waits_for_its_own_work_only(rig: Rig) -> None:
    rig.launch(rig.kernel("hang"), stream=rig.stream())
    rig.fake.await_hanging()
    _, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    rig.call("cuCtxSynchronize")
    assert rig.fake.number("hanging") == 1
    rig.fake.release()


def test_synchronising_the_primary_context_waits_for_green_ones(rig: Rig) -> None:
    primary, address = rig.get("cuCtxGetCurrent"), rig.alloc(4)
    _, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    params = struct.pack("<Q", address), struct.pack("<I", 1)
    rig.launch(rig.kernel("slow"), *params, stream=rig.stream(), grid=(20000, 1, 1))
    rig.call("cuCtxSetCurrent", primary)
    rig.call("cuCtxSynchronize")
    assert rig.fake.number("finished") == rig.fake.number("submitted")


def test_a_green_context_reports_its_part(rig: Rig) -> None:
    _, context = green(rig)
    resource = Resource()
    rig.call("cuCtxGetDevResource", context, ctypes.byref(resource), 1)
    assert resource.sms == 16


def test_a_green_context_is_current_in_one_thread_only(rig: Rig) -> None:
    _, context = green(rig)
    rig.call("cuCtxSetCurrent", context)
    assert in_thread(lambda: rig.code("cuCtxSetCurrent", context)) == CONTEXT_ALREADY_IN_USE
    assert "is current in another thread already" in rig.fake.misuses()[-1]
    rig.call("cuCtxSetCurrent", 0)
    assert in_thread(lambda: rig.code("cuCtxSetCurrent", context)) == SUCCESS
    while rig.code("cuCtxSetCurrent", context) != SUCCESS:
        pass  # the thread releases the context a little after it was joined


def test_a_green_context_keeps_the_primary_one_alive(rig: Rig) -> None:
    made, _ = green(rig)
    rig.call("cuDevicePrimaryCtxRelease_v2", 0)
    assert rig.fake.number("contexts") == 2
    rig.call("cuGreenCtxDestroy", made)
    assert rig.fake.number("contexts") == 0


def test_streams_of_other_contexts_are_refused(rig: Rig) -> None:
    made, _ = green(rig)
    stream = rig.get("cuGreenCtxStreamCreate", made, NON_BLOCKING, 0)
    assert rig.code("cuStreamQuery", stream) == INVALID_CONTEXT


def test_a_fault_in_a_green_context_affects_the_whole_device(rig: Rig) -> None:
    made, context = green(rig)
    stream = rig.get("cuGreenCtxStreamCreate", made, NON_BLOCKING, 0)
    rig.call("cuCtxSetCurrent", context)
    rig.launch(rig.kernel("fails"), stream=stream)
    assert rig.code("cuStreamSynchronize", stream) == ASSERT
    rig.call("cuCtxSetCurrent", rig.get("cuDevicePrimaryCtxRetain", 0))
    assert rig.code("cuCtxSynchronize") == ASSERT
