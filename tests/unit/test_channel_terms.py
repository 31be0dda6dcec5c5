"""Channel terms: the declaration in Python agrees with the one in C."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.unit.control_driver_rig import DriverRig, driver_rig
from vhost_backend._dataplane import ffi, lib
from vhost_backend.channels.driver import DriverError
from vhost_backend.worker_protocol import codec
from vhost_backend.worker_protocol.codec import ProtocolError
from vhost_backend.worker_protocol.control_messages import (
    MAX_IN_BYTES,
    MAX_SAMPLE,
    MAX_SLOTS,
    ControlOpen,
    Terms,
)
from virtio_proto.control.api import POLICIES
from virtio_proto.control.records import Level

LIMITS = {
    "function": lib.VGC_CTL_FUNCTIONS - 1,
    "policy": lib.VGC_CTL_WAIT,
    "level": lib.VGC_CTL_DEBUG,
    "sample": MAX_SAMPLE,
    "slots": MAX_SLOTS,
    "in_bytes": MAX_IN_BYTES,
}
"""Highest value of each field that is limited in C."""


def decoded(terms: Terms) -> Terms:
    """Encodes and decodes the terms as on the way to a worker.

    :raise ProtocolError: a value is not allowed.
    """
    return codec.decode(codec.encode(ControlOpen(1, terms, (0,), (1,), (1,))), (ControlOpen,)).terms


def asked(rig: DriverRig, terms: Terms) -> None:
    """Has the C driver check the terms, for no channels.

    :raise DriverError: they are wrong.
    """
    rig.driver.open(terms, [], [], [])


def test_fields_are_those_of_the_structure() -> None:
    structure = [name for name, _ in ffi.typeof("struct vgc_control_terms").fields]
    assert [field.name for field in structs.fields(Terms)] == structure


@pytest.mark.parametrize(("name", "most"), LIMITS.items())
def test_both_languages_allow_the_same_values(name: str, most: int) -> None:
    right, wrong = (structs.replace(Terms(0), **{name: value}) for value in (most, most + 1))
    with driver_rig() as rig:
        asked(rig, right)
        assert decoded(right) == right
        with pytest.raises(DriverError, match=f"{most + 1}.*; allowed: at most"):
            asked(rig, wrong)
        with pytest.raises(ProtocolError, match=rf"terms\.{name} is {most + 1}; allowed: `int` <= {most}"):
            decoded(wrong)


def test_names_of_policies_and_levels_are_numbered_as_in_c() -> None:
    numbers = (lib.VGC_CTL_DROP_NEW, lib.VGC_CTL_OVERWRITE_OLDEST, lib.VGC_CTL_WAIT)
    assert dict(enumerate(POLICIES)) == dict(zip(numbers, ("drop-new", "overwrite-oldest", "wait"), strict=True))
    assert (Level.CRITICAL, Level.DEBUG) == (lib.VGC_CTL_CRITICAL, lib.VGC_CTL_DEBUG)
