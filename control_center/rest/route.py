"""Routes of the REST API as data, from which `control_center.openapi` makes the OpenAPI document.

A verb's route derives from its class (`Route.of`): the path, the parameters, the body, the role and the type of the
answer. Routes about the control centre's own snapshots and recordings are written out (`Route.own`).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_type_hints

from aiohttp import web

from control_center.errors import RefusedError
from control_center.host import Host
from control_center.scope import Caller, Scope
from virtio_proto.control import selector
from virtio_proto.control.api import Role
from virtio_proto.control.selector import Selector, SelectorError
from virtio_proto.control.shapes import ShapeError, check_plain, checked, not_a_field
from virtio_proto.control.verbs.base import HOST, Body, Method, Reach, Request, Selecting, Verb

if TYPE_CHECKING:
    from control_center.centre import Centre

Kind: TypeAlias = Literal["text", "integer", "number", "flag", "selector"]
_FLAGS = {"1": True, "true": True, "yes": True, "": True, "0": False, "false": False, "no": False}
_NAMES: Final = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """Query parameter."""

    name: str
    kind: Kind
    doc: str
    low: float = 0
    high: float = 2**63 - 1

    def parse(self, text: str) -> Any:
        """:raise RefusedError: "malformed": the text is not a value of this kind."""
        match self.kind:
            case "text":
                return text
            case "selector":
                return parse_selector(text)
            case "flag":
                if text.lower() in _FLAGS:
                    return _FLAGS[text.lower()]
                raise self._wrong(text, "0 or 1")
            case "integer" | "number":
                return self._number(text)

    def _number(self, text: str) -> float:
        allowed = f"{'an integer' if self.kind == 'integer' else 'a number'} of {self.low:g} to {self.high:g}"
        try:
            value = int(text) if self.kind == "integer" else float(text)
        except ValueError:
            raise self._wrong(text, allowed) from None
        if not self.low <= value <= self.high:
            raise self._wrong(text, allowed)
        return value

    def _wrong(self, text: str, allowed: str) -> RefusedError:
        return RefusedError("malformed", f"{self.name} is {text!r:.80}; allowed: {allowed}")


def parameters(allowed: Iterable[Parameter], given: Mapping[str, str]) -> dict[str, Any]:
    """Parses the query of a request.

    :raise RefusedError: "malformed": a parameter is unknown, or its value is wrong.
    """
    known = {parameter.name: parameter for parameter in allowed}
    for name in given:
        if name not in known:
            raise RefusedError("malformed", f"parameter {name!r:.80}; allowed: {', '.join(known) or 'none'}")
    return {name: known[name].parse(text) for name, text in given.items()}


SELECTOR = Parameter("selector", "selector", "Hosts, GPUs, VMs, PEs and functions, as `vm=web1,pe=0-3`.")
FROM = Parameter("from_ns", "integer", "Start, ns of CLOCK_REALTIME.")
TO = Parameter("to_ns", "integer", "End (exclusive), ns of CLOCK_REALTIME.")


def parse_selector(text: str) -> Selector:
    """:raise RefusedError: "malformed": `text` is not a selector."""
    try:
        return selector.parse(text)
    except SelectorError as error:
        raise RefusedError("malformed", str(error)) from None


# ---- parameters of a verb's route -----------------------------------------------------------------


class Form:
    """Input of a verb's route: the fields in the path, in the query and in the body."""

    def __init__(self, verb: type[Verb]) -> None:
        assert verb.rest is not None
        self.verb = verb
        self.rest = verb.rest
        self.in_path = verb.rest.in_path
        self.shape: type[Request | Body] = verb.Body or verb.Request
        self.names_host = verb.reach.takes_host and HOST not in self.in_path
        self.host_is_optional = not verb.reach.needs_host
        own = [name for name in self.shape.__struct_fields__ if name not in self.in_path]
        self.fields: tuple[str, ...] = (HOST, *own) if self.names_host else tuple(own)
        """Fields of the body."""
        self.has_body = verb.rest.method in ("POST", "PUT", "PATCH") and bool(self.fields)

    @property
    def query(self) -> tuple[Parameter, ...]:
        """Query parameters of a verb with the method GET: a selector, and the flags of the request."""
        if self.rest.method != "GET" or self.verb.reach != Reach.LOOK:
            return ()
        hints = get_type_hints(self.verb.Request, include_extras=True)
        flags = (name for name in self.fields if name != SELECTOR.name)
        return (SELECTOR, *(Parameter(name, "flag", _description(hints[name])) for name in flags))

    def parse(self, path: Mapping[str, str], query: Mapping[str, Any], body: Any) -> tuple[str | None, Request | Body]:
        """Parses a request; returns the named host, and the request, or the body if the verb has a `Body`.

        :raise ShapeError: a field is wrong.
        """
        values = self._values(body) if self.has_body else {}
        host = values.pop(HOST, None) if self.names_host else path.get(HOST)
        if self.verb.Body is not None:
            return host, checked(values, self.verb.Body, "body", from_json=True)
        for name, value in query.items():
            if name in self.fields:
                values[name] = str(value) if isinstance(value, Selector) else value
        return host, checked({**values, **self.of_path(path)}, self.shape, "body", from_json=True)

    def of_path(self, path: Mapping[str, str]) -> dict[str, Any]:
        """Fields of the request that are in the path.

        :raise ShapeError: an instance is not a number.
        """
        found: dict[str, Any] = {name: path[name] for name in self.in_path if name != HOST}
        if (text := found.get("instance")) is not None:
            if not text.isdecimal() or len(text) > 15:
                raise ShapeError(f"instance {text!r:.40}; allowed: a number")
            found["instance"] = int(text)
        return found

    def _values(self, body: Any) -> dict[str, Any]:
        """Fields of the body without those that are null.

        :raise ShapeError: the body is not a map, has unknown fields, or does not name the host.
        """
        if not isinstance(body, dict):
            check_plain(body, "body", strict=True)
            raise ShapeError(f"body is {body!r:.80}; allowed: a map with {', '.join(self.fields)}")
        if more := body.keys() - set(self.fields):
            raise ShapeError(not_a_field(min(more), "body", dict.fromkeys(self.fields)))
        check_plain(body, "body", strict=True)
        values = {name: value for name, value in body.items() if value is not None}
        if self.names_host and not (self.host_is_optional and HOST not in values):
            if HOST not in values:
                raise ShapeError("body.host is missing; allowed: text")
            checked(values[HOST], str, "body.host")
        return values


def _description(hint: Any) -> str:
    found = (getattr(meta, "description", None) for meta in getattr(hint, "__metadata__", ()))
    return next((text for text in found if text), "")


# ---- calls and routes ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """Request, parsed and checked."""

    centre: Centre
    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, Any]
    request: web.Request
    form: Form | None = None
    host_name: str | None = None
    """Host named in the path or in the body."""
    given: Request | Body | None = None
    """Request of a verb, or its `Body` if the verb has one."""

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    @property
    def verb(self) -> type[Verb]:
        assert self.form is not None
        return self.form.verb

    @cached_property
    def asked(self) -> Any:
        """Request of the call's verb, made from its `Body` if it has one.

        :raise RefusedError: "malformed": a field in the path or of the body is wrong.
        """
        assert self.form is not None
        if not isinstance(self.given, Body):
            return self.given
        try:
            return self.given.request(self.form.of_path(self.path))
        except ValueError as error:
            raise RefusedError("malformed", str(error)) from None

    @property
    def selector(self) -> Selector:
        """Selector of the query or of the request; without one, a selector of everything."""
        found: Selector | None = self.query.get("selector")
        if found is not None:
            return found
        return self.given.chosen if isinstance(self.given, Selecting) else Selector()

    def host(self, name: str | None = None) -> Host:
        """Finds the host `name`, by default the named one.

        :raise RefusedError: "unknown": the caller sees no such host.
        """
        return self.centre.cluster.host(self.scope, (self.host_name if name is None else name) or "")

    def chosen(self, chosen: Selector) -> list[Host]:
        """Finds the hosts of a selector.

        :raise RefusedError: "unknown": the selector names a host, and the caller sees none that matches.
        """
        return self.centre.cluster.chosen(self.scope, chosen)


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class JsonText:
    """Answer that is JSON already."""

    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """Route of the REST API. Its handler returns data to encode as JSON, a `JsonText`, or a `web.StreamResponse`."""

    method: Method
    path: str
    """Path under /api/v1, with ``{names}``."""
    handler: Handler
    answer: Any
    """Type of the answer."""
    name: str
    doc: str
    role: Role = "view"
    query: tuple[Parameter, ...] = ()
    form: Form | None = None
    """Input of a verb's route; None for the centre's own routes."""
    media: str = "application/json"
    tags: tuple[str, ...] = field(default=())

    @classmethod
    def of(cls, verb: type[Verb], handler: Handler) -> Route:
        """Makes the route of a verb; `handler` asks the daemons."""
        form = Form(verb)
        place, doc = form.rest, verb.__doc__ or ""
        shape, tags = verb.merged.shape, (place.tag,)
        return cls(place.method, place.path, handler, shape, verb.name, doc, verb.role, form.query, form, tags=tags)

    @classmethod
    def own(cls, path: str, handler: Handler, answer: Any, *query: Parameter, tag: str) -> Route:
        """Makes a route about the control centre's own snapshots or recordings; `handler`'s docstring describes it."""
        doc = handler.__doc__ or ""
        return cls("GET", path, handler, answer, handler.__name__, doc, query=query, tags=(tag,))

    @property
    def in_path(self) -> list[str]:
        return _NAMES.findall(self.path)

    @property
    def summary(self) -> str:
        return self.doc.strip().partition("\n")[0].rstrip(".")

    @property
    def description(self) -> str:
        return " ".join(self.doc.split())
