"""vhost-user messages: well-formed ones parse, and malformed ones are refused with the reason."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vhost_backend.errors import FrontendError
from vhost_backend.vhost_user import messages
from vhost_backend.vhost_user.messages import FLAG_NEED_REPLY, FLAG_REPLY, HEADER_BYTES, Request

REGION = messages.Region(messages.Gpa(0x1000), 0x2000, messages.Uva(0x7F00_0000), 0x3000)

WELL_FORMED = {
    Request.GET_FEATURES: (b"", 0, messages.Nothing()),
    Request.SET_FEATURES: (messages.u64(1 << 32), 0, messages.U64(1 << 32)),
    Request.SET_OWNER: (b"", 0, messages.Nothing()),
    Request.SET_MEM_TABLE: (messages.mem_table((REGION,)), 1, messages.MemTable((REGION,))),
    Request.SET_VRING_NUM: (messages.vring_state(1, 64), 0, messages.VringState(1, 64)),
    Request.SET_VRING_ADDR: (
        messages.vring_addr(2, 16, 32, 48),
        0,
        messages.VringAddr(2, 0, messages.Uva(16), messages.Uva(32), messages.Uva(48)),
    ),
    Request.SET_VRING_BASE: (messages.vring_state(1, 5), 0, messages.VringState(1, 5)),
    Request.GET_VRING_BASE: (messages.vring_state(1, 0), 0, messages.VringState(1, 0)),
    Request.SET_VRING_KICK: (messages.u64(3), 1, messages.VringFd(3, has_fd=True)),
    Request.SET_VRING_CALL: (messages.u64(3 | messages.VRING_NO_FD), 0, messages.VringFd(3, has_fd=False)),
    Request.SET_VRING_ERR: (messages.u64(0), 1, messages.VringFd(0, has_fd=True)),
    Request.GET_PROTOCOL_FEATURES: (b"", 0, messages.Nothing()),
    Request.SET_PROTOCOL_FEATURES: (messages.u64(9), 0, messages.U64(9)),
    Request.GET_QUEUE_NUM: (b"", 0, messages.Nothing()),
    Request.SET_VRING_ENABLE: (messages.vring_state(0, 1), 0, messages.VringState(0, 1)),
    Request.SET_BACKEND_REQ_FD: (b"", 1, messages.Nothing()),
    Request.GET_CONFIG: (messages.config(4, b"\0" * 8), 0, messages.ConfigAccess(4, 0, b"\0" * 8)),
    Request.SET_CONFIG: (messages.config(0, b"\1" * 256), 0, messages.ConfigAccess(0, 0, b"\1" * 256)),
    Request.RESET_DEVICE: (b"", 0, messages.Nothing()),
    Request.GET_MAX_MEM_SLOTS: (b"", 0, messages.Nothing()),
    Request.ADD_MEM_REG: (messages.mem_reg(REGION), 1, REGION),
    Request.REM_MEM_REG: (messages.mem_reg(REGION), 0, REGION),
}


def header(request: int, size: int, flags: int = 0, version: int = 1) -> bytes:
    return b"".join(value.to_bytes(4, "little") for value in (request, flags | version, size))


def parse(request: Request, payload: bytes, num_fds: int) -> messages.Payload:
    return messages.parse_payload(messages.Header(request, need_reply=False, size_bytes=len(payload)), payload, num_fds)


def refusal(request: Request, payload: bytes, num_fds: int = 0) -> FrontendError:
    """The error that a whole message causes, in its header or in its payload."""

    def parse_all() -> None:
        messages.parse_header(header(request, len(payload)))
        parse(request, payload, num_fds)

    with pytest.raises(FrontendError) as caught:
        parse_all()
    assert caught.value.message == request.name
    assert caught.value.allowed
    return caught.value


def test_every_request_has_a_well_formed_example() -> None:
    assert set(WELL_FORMED) == set(Request)


@pytest.mark.parametrize("request_", Request, ids=lambda r: r.name)
def test_well_formed_message_parses(request_: Request) -> None:
    payload, num_fds, expected = WELL_FORMED[request_]
    parsed = messages.parse_header(messages.build(request_, payload)[:HEADER_BYTES])
    assert parsed == messages.Header(request_, need_reply=False, size_bytes=len(payload))
    assert parse(request_, payload, num_fds) == expected


@pytest.mark.parametrize("request_", Request, ids=lambda r: r.name)
def test_one_byte_too_many_is_refused(request_: Request) -> None:
    payload, num_fds, _ = WELL_FORMED[request_]
    assert "size" in refusal(request_, payload + b"\0", num_fds).field


@pytest.mark.parametrize("request_", [r for r in Request if WELL_FORMED[r][0]], ids=lambda r: r.name)
def test_one_byte_too_few_is_refused(request_: Request) -> None:
    payload, num_fds, _ = WELL_FORMED[request_]
    assert "size" in refusal(request_, payload[:-1], num_fds).field


@pytest.mark.parametrize("request_", Request, ids=lambda r: r.name)
def test_too_many_descriptors_are_refused(request_: Request) -> None:
    payload, num_fds, _ = WELL_FORMED[request_]
    extra = 2 if request_ is Request.REM_MEM_REG else num_fds + 1
    assert refusal(request_, payload, extra).field == "number of fds"


@pytest.mark.parametrize("request_", [r for r in Request if WELL_FORMED[r][1]], ids=lambda r: r.name)
def test_missing_descriptor_is_refused(request_: Request) -> None:
    payload, num_fds, _ = WELL_FORMED[request_]
    assert refusal(request_, payload, num_fds - 1).field == "number of fds"


def test_removed_region_may_come_with_its_descriptor() -> None:
    assert parse(Request.REM_MEM_REG, messages.mem_reg(REGION), 1) == REGION


def test_unknown_request_is_refused() -> None:
    with pytest.raises(FrontendError, match="request is 99"):
        messages.parse_header(header(99, 0))


@pytest.mark.parametrize("version", [0, 2, 3])
def test_wrong_version_is_refused(version: int) -> None:
    with pytest.raises(FrontendError, match=f"version is {version}; allowed: 1"):
        messages.parse_header(header(Request.GET_FEATURES, 0, version=version))


@pytest.mark.parametrize("flags", [FLAG_REPLY, FLAG_REPLY | FLAG_NEED_REPLY, 1 << 4, 1 << 31])
def test_flags_that_no_frontend_sets_are_refused(flags: int) -> None:
    with pytest.raises(FrontendError, match="flags"):
        messages.parse_header(header(Request.GET_FEATURES, 0, flags))


def test_huge_size_is_refused_before_anything_is_read() -> None:
    with pytest.raises(FrontendError, match="size is 4294967295"):
        messages.parse_header(header(Request.SET_CONFIG, 0xFFFF_FFFF))


def test_reserved_bits_of_a_vring_descriptor_are_refused() -> None:
    assert refusal(Request.SET_VRING_CALL, messages.u64(1 << 9), 1).field == "u64"


def test_dirty_logging_is_refused() -> None:
    assert refusal(Request.SET_VRING_ADDR, messages.vring_addr(0, 0, 0, 0, flags=1)).field == "flags"


def test_memory_table_of_nine_regions_is_refused() -> None:
    payload = messages.mem_table((REGION,) * 9)
    assert refusal(Request.SET_MEM_TABLE, payload, 9).field == "size"


def test_memory_table_that_lies_about_its_length_is_refused() -> None:
    payload = (2).to_bytes(4, "little") + messages.mem_table((REGION,))[4:]
    assert refusal(Request.SET_MEM_TABLE, payload, 1).field == "size"


def test_memory_table_with_a_huge_count_is_refused() -> None:
    payload = (0xFFFF_FFFF).to_bytes(4, "little") + messages.mem_table((REGION,))[4:]
    assert refusal(Request.SET_MEM_TABLE, payload, 1).field == "num regions"


def test_configuration_access_beyond_the_space_is_refused() -> None:
    assert refusal(Request.GET_CONFIG, messages.config(250, b"\0" * 7)).field == "offset + size"
    assert refusal(Request.GET_CONFIG, messages.config(0xFFFF_FFFF, b"\0")).field == "offset + size"


def test_configuration_access_that_lies_about_its_size_is_refused() -> None:
    payload = messages.config(0, b"\0" * 8)
    assert refusal(Request.SET_CONFIG, payload[:-4]).field == "config size"


def test_replies_carry_the_reply_flag() -> None:
    raw = messages.build_reply(Request.GET_FEATURES, messages.u64(7))
    assert raw == header(Request.GET_FEATURES, 8, FLAG_REPLY) + (7).to_bytes(8, "little")


@given(raw=st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_any_header_parses_or_is_refused(raw: bytes) -> None:
    try:
        parsed = messages.parse_header(raw)
    except FrontendError:
        return
    assert parsed.size_bytes <= messages.MAX_PAYLOAD_BYTES


@given(request_=st.sampled_from(Request), payload=st.binary(max_size=300), num_fds=st.integers(0, 9))
def test_any_payload_parses_or_is_refused(request_: Request, payload: bytes, num_fds: int) -> None:
    try:
        parsed = messages.parse_header(header(request_, len(payload)))
        value = messages.parse_payload(parsed, payload, num_fds)
    except FrontendError:
        return
    assert type(value) is type(WELL_FORMED[request_][2])
