"""Shapes: data are checked against TypedDicts, from which JSON schemas are made."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pytest
from msgspec import Meta

from virtio_proto.control import tokens
from virtio_proto.control.shapes import ShapeError, checked, schema
from virtio_proto.control.tokens import TokenError


class Inner(TypedDict):
    number: int


class Outer(TypedDict):
    """An example."""

    name: str
    kind: Literal["a", "b"]
    share: float
    inner: NotRequired[Inner]
    many: NotRequired[list[int | None]]
    by_name: NotRequired[dict[str, Inner]]


RIGHT: dict[str, Any] = {"name": "x", "kind": "a", "share": 1}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"inner": {"number": 1}},
        {"many": [1, None]},
        {"by_name": {"k": {"number": 2}}},
        {"unknown": 1},
        {"share": 0.5},
    ],
)
def test_what_is_right(more: dict[str, Any]) -> None:
    assert checked({**RIGHT, **more}, Outer, "it") == {**RIGHT, **{key: more[key] for key in more if key != "unknown"}}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "it is 7; allowed: a map with name, kind, share, inner, many, by_name"),
        ({"name": "x", "kind": "a"}, "it.share is missing"),
        ({**RIGHT, "name": 1}, "it.name is 1; allowed: text"),
        ({**RIGHT, "kind": "c"}, "it.kind is 'c'; allowed: a or b"),
        ({**RIGHT, "kind": []}, "it.kind is []; allowed: a or b"),
        ({**RIGHT, "share": True}, "it.share is True; allowed: a number"),
        ({**RIGHT, "inner": {"number": 1.5}}, "it.inner.number is 1.5; allowed: an integer"),
        ({**RIGHT, "many": ["x"]}, "it.many[] is 'x'; allowed: an integer or null"),
        ({**RIGHT, "many": {}}, "it.many is {}; allowed: a list"),
        ({**RIGHT, "by_name": {1: {}}}, "it.by_name is {1: {}}; allowed: a map with text as keys"),
        ({**RIGHT, "by_name": {"k": {}}}, "it.by_name.*.number is missing"),
    ],
)
def test_errors_name_their_place(value: Any, text: str) -> None:
    with pytest.raises(ShapeError) as found:
        checked(value, Outer, "it")
    assert str(found.value).startswith(text)


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    number: Annotated[int, Meta(ge=1, le=3)]
    data: bytes = b""

    def __post_init__(self) -> None:
        if self.data == b"odd":
            raise ValueError("data is odd; allowed: even")


class Around(msgspec.Struct, forbid_unknown_fields=True):
    inner: Strict


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ({"number": 1, "colour": 2}, "it.inner.colour is no field; allowed: number, data"),
        ({"number": 4}, "it.inner.number is 4; allowed: an integer of 1 to 3"),
        ({"number": 1, "data": "YQ=="}, "it.inner.data is 'YQ=='; allowed: bytes"),
        ({"number": 1, "data": b"odd"}, "it.inner: data is odd; allowed: even"),
        ({}, "it.inner.number is missing; allowed: an integer of 1 to 3"),
    ],
)
def test_what_is_wrong_in_a_struct_is_said_with_its_place(inner: dict[str, Any], text: str) -> None:
    with pytest.raises(ShapeError) as found:
        checked({"inner": inner}, Around, "it")
    assert str(found.value) == text


class Many(TypedDict):
    numbers: Annotated[list[Annotated[int, Meta(ge=0)]], Meta(max_length=1 << 20)] | None
    texts: NotRequired[dict[str, int] | None]


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4, 6])
def test_wrong_item_of_a_list_is_found_wherever_it_is(at: int) -> None:
    numbers: list[Any] = [0] * 7
    numbers[at] = "first"
    numbers[-1] = numbers[-1] or "last"
    with pytest.raises(ShapeError, match=r"it\.numbers\[\] is 'first'; allowed: an integer of 0 or more"):
        checked({"numbers": numbers}, Many, "it")


def test_bound_of_an_optional_list_is_named() -> None:
    with pytest.raises(ShapeError, match=r"it\.numbers is .*; allowed: a list of at most 1048576"):
        checked({"numbers": [0] * ((1 << 20) + 1)}, Many, "it")


def test_wrong_value_of_an_optional_map_is_found() -> None:
    with pytest.raises(ShapeError, match=r"it\.texts\.\* is 'x'; allowed: an integer"):
        checked({"numbers": None, "texts": {"a": 1, "b": "x"}}, Many, "it")


def test_search_for_a_wrong_item_converts_few_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    convert = msgspec.convert

    def counted(*args: Any, **more: Any) -> Any:
        calls.append(args)
        return convert(*args, **more)

    monkeypatch.setattr(msgspec, "convert", counted)
    with pytest.raises(ShapeError, match="is 'x'"):
        checked({"numbers": [0] * 100_000 + ["x"]}, Many, "it")
    assert len(calls) < 100


def test_unknown_fields_are_named_in_printable_text() -> None:
    with pytest.raises(ShapeError) as caught:
        checked({"a\0\u202e": 1}, Strict, "it")
    assert str(caught.value).isprintable()


def test_bytes_are_base64_in_json() -> None:
    assert checked({"number": 1, "data": "YQ=="}, Strict, "it", from_json=True) == Strict(1, b"a")


class Number(TypedDict):
    one: int


class Name(TypedDict):
    other: str


def test_one_of_several_tables_is_enough() -> None:
    assert checked({"one": 1}, Number | Name, "it") == {"one": 1}
    assert checked({"other": "x"}, Number | Name, "it") == {"other": "x"}
    with pytest.raises(ShapeError, match=r"it is 5; allowed: a map with one or a map with other"):
        checked(5, Number | Name, "it")


def test_schemas_refer_to_nested_tables_by_name() -> None:
    components: dict[str, Any] = {}
    assert schema(Outer, components) == {"$ref": "#/components/schemas/Outer"}
    assert components["Outer"]["required"] == ["kind", "name", "share"]
    assert components["Outer"]["properties"]["many"] == {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    assert components["Inner"]["properties"] == {"number": {"type": "integer"}}
    schema(Strict, components)
    assert components["Strict"]["properties"]["number"] == {"type": "integer", "minimum": 1, "maximum": 3}


def test_a_token_line_round_trips() -> None:
    secret, token = tokens.new("operate", frozenset({"web1", "h2/web2"}), 1_900_000_000 * 10**9, "ann")
    assert secret.startswith("vgc_")
    assert tokens.parse(f"# people\n\n{token.line()}\n", "f") == (token,)
    assert token.sha256 == tokens.digest(secret)
    assert [token.is_expired(at * 10**9) for at in (1_899_999_999, 1_900_000_000)] == [False, True]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("hello", "f:1: the line begins with 'hello'; allowed: sha256: and 64 hexadecimal digits"),
        (f"sha256:{'0' * 64} role=king", "role='king'; allowed: view, operate, admin"),
        (f"sha256:{'0' * 64} role=view role=view", "allowed: each of role, vms, expires, name once"),
        (f"sha256:{'0' * 64} role=view vms=a/b/c", "vms='a/b/c'; allowed: names of VMs, as a|b"),
        (f"sha256:{'0' * 64} role=view expires=soon", "expires='soon'; allowed: a time such as"),
        (f"sha256:{'0' * 64} role=view expires=2030-01-01T00:00:00", "allowed: a time with its zone"),
        (f"sha256:{'0' * 64} role=view name=a/b", "name='a/b'; allowed: 1 to 63 of"),
    ],
)
def test_a_wrong_token_line_is_refused(line: str, text: str) -> None:
    with pytest.raises(TokenError) as found:
        tokens.parse(line, "f")
    assert text in str(found.value)
