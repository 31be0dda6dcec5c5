"""Routes of the REST API as data: what is asked, by whom, what comes back. `control_center.openapi` describes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from aiohttp import web

from control_center.errors import RefusedError
from control_center.host import Host
from control_center.scope import Caller, Scope
from virtio_proto.control import selector
from virtio_proto.control.api import Role
from virtio_proto.control.selector import Selector, SelectorError

if TYPE_CHECKING:
    from control_center.centre import Centre

Kind: TypeAlias = Literal["text", "integer", "number", "flag", "selector"]
_FLAGS = {"1": True, "true": True, "yes": True, "": True, "0": False, "false": False, "no": False}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter."""

    name: str
    kind: Kind
    doc: str
    low: float = 0
    high: float = 2**63 - 1

    def parse(self, text: str) -> Any:
        """:raise RefusedError: "malformed"."""
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
    """The query of a request.

    :raise RefusedError: "malformed": a parameter is not known, or its value is wrong.
    """
    known = {parameter.name: parameter for parameter in allowed}
    for name in given:
        if name not in known:
            raise RefusedError("malformed", f"parameter {name!r:.80}; allowed: {', '.join(known) or 'none'}")
    return {name: known[name].parse(text) for name, text in given.items()}


SELECTOR = Parameter("selector", "selector", "Which hosts, GPUs, VMs, elements and functions, as `vm=web1,pe=0-3`.")
FROM = Parameter("from_ns", "integer", "From this time on, ns of CLOCK_REALTIME.")
TO = Parameter("to_ns", "integer", "Up to, not including, this time.")


def parse_selector(text: str) -> Selector:
    """:raise RefusedError: "malformed": it is none."""
    try:
        return selector.parse(text)
    except SelectorError as error:
        raise RefusedError("malformed", str(error)) from None


@dataclass(frozen=True, slots=True)
class Call:
    """One request, parsed and checked."""

    centre: Centre
    caller: Caller
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Any
    request: web.Request

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    @property
    def selector(self) -> Selector:
        """Of the query; everything, if there is none."""
        found: Selector = self.query.get("selector") or Selector()
        return found

    @property
    def body_selector(self) -> Selector:
        """Of the body.

        :raise RefusedError: "malformed".
        """
        return parse_selector(self.body.get("selector") or "")

    def host(self, name: str | None = None) -> Host:
        """The host that the path, or `name`, names.

        :raise RefusedError: "unknown".
        """
        return self.centre.cluster.host(self.scope, self.path["host"] if name is None else name)

    def chosen(self, chosen: Selector) -> list[Host]:
        """The hosts that a selector names.

        :raise RefusedError: "unknown": it names none that is there.
        """
        return self.centre.cluster.chosen(self.scope, chosen)


Handler: TypeAlias = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class JsonText:
    """An answer that is JSON already."""

    text: str


@dataclass(frozen=True, slots=True)
class Route:
    """What can be asked for. A handler returns what becomes JSON, a `JsonText`, or a whole `web.StreamResponse`."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    """Under /api/v1, with ``{names}``."""
    handler: Handler
    answer: Any
    """Its shape."""
    role: Role = "view"
    query: tuple[Parameter, ...] = ()
    body: Any = None
    """The shape of the request's body; None: there is none."""
    max_body: int = 1 << 20
    """Bytes."""
    media: str = "application/json"
    tags: tuple[str, ...] = field(default=())

    @property
    def summary(self) -> str:
        return (self.handler.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @property
    def description(self) -> str:
        return " ".join((self.handler.__doc__ or "").split())
