"""Shapes: what a TypedDict says is checked, and is what the JSON schema says."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

import pytest

from control_center.shapes import ShapeError, check, schema
from virtio_proto.control import tokens
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
    check({**RIGHT, **more}, Outer, "it")


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
def test_what_is_wrong_is_said_with_its_place(value: Any, text: str) -> None:
    with pytest.raises(ShapeError) as found:
        check(value, Outer, "it")
    assert str(found.value).startswith(text)


def test_strictly_what_is_not_known_is_wrong() -> None:
    with pytest.raises(ShapeError, match=r"it\.inner\.colour is no field; allowed: number"):
        check({**RIGHT, "inner": {"number": 1, "colour": 2}}, Outer, "it", strict=True)


def test_schemas_name_tables_once() -> None:
    components: dict[str, Any] = {}
    assert schema(Outer, components) == {"$ref": "#/components/schemas/Outer"}
    assert components["Outer"]["required"] == ["kind", "name", "share"]
    assert components["Outer"]["properties"]["many"] == {
        "type": "array",
        "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }
    assert components["Inner"]["properties"] == {"number": {"type": "integer"}}


def test_a_token_line_says_what_it_allows() -> None:
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
def test_a_wrong_token_line_is_said(line: str, text: str) -> None:
    with pytest.raises(TokenError) as found:
        tokens.parse(line, "f")
    assert text in str(found.value)
