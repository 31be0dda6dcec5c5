"""Base class of verbs: a verb of the control API is a class with a name, a role, a request and the shape of its answer.

Each verb is declared once. The daemon's dispatch (`vhost_backend.control.api.commands`), the control centre's REST
route and its OpenAPI description (`control_center.rest.route`), the check of answers, and both links of ``vgcctl``
(`control_center.cli.link`) derive from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, TypedDict, cast
from urllib.parse import quote

import msgspec
from msgspec import Meta

from virtio_proto.control import selector
from virtio_proto.control.api import Role
from virtio_proto.control.selector import Selector

ANSWER_S: Final = 30.0
"""Timeout of a daemon's answer to a verb that changes something."""
LOOK_S: Final = 5.0
"""Timeout of a daemon's answer to a verb that only reads."""
HOST: Final = "host"
"""Name of the field that names the host in paths, queries and bodies."""
_NAMES: Final = re.compile(r"\{(\w+)\}")


class Reach(Enum):
    """Daemons that the control centre asks to answer a verb, and callers that may use the verb there."""

    CONNECTION = auto()
    """No daemon: the verb is about the connection to a daemon itself."""
    LOOK = auto()
    """Hosts that the selector names. Silent hosts are left out; the caller gets rows of its own VMs only."""
    ELEMENTS = auto()
    """Hosts that the selector names, each asked with a selector of what the caller may use. Refusals go to ``failed``."""
    INSTANCE = auto()
    """Host of an instance; the caller must see all VMs of the instance."""
    VM = auto()
    """Host of a VM that the caller sees."""
    HOST = auto()
    """A single host; the caller must see all VMs."""
    HOSTS = auto()
    """A single host or all hosts; the caller must see all VMs."""

    @property
    def needs_host(self) -> bool:
        """True if a request must name a host."""
        return self in (Reach.INSTANCE, Reach.VM, Reach.HOST)

    @property
    def takes_host(self) -> bool:
        """True if a request may name a host."""
        return self.needs_host or self == Reach.HOSTS


Method: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True)
class Rest:
    """REST route of a verb in the control centre."""

    method: Method
    path: str
    """Path under /api/v1, with ``{host}`` and names of fields in braces."""
    tag: str
    max_body: int = 1 << 20
    """Most bytes of a request's body."""

    @property
    def in_path(self) -> tuple[str, ...]:
        """Names of the fields in the path."""
        return tuple(_NAMES.findall(self.path))


# ---- requests ------------------------------------------------------------------------------------

MAX_NAME_CHARS: Final = 256
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=MAX_NAME_CHARS)]


class Request(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Fields of a verb's request. A null field counts as left out. Texts are printable, numbers are finite."""

    verb: ClassVar[type[Verb]]

    def __post_init__(self) -> None:
        """:raise ValueError: a field has a value that its type allows but the verb does not, or fields contradict."""
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, str) and not value.isprintable():
                raise ValueError(f"{name} is {value!r:.80}; allowed: printable text")
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; allowed: a finite number")

    def given(self) -> dict[str, Any]:
        """Fields that differ from their defaults, in the form that is sent to a daemon."""
        found: dict[str, Any] = msgspec.to_builtins(self, builtin_types=(bytes,))
        return found


class Selecting(Request, kw_only=True, frozen=True):
    """Request about the processing elements of a selector; a daemon ignores the selector's ``host``."""

    selector: Annotated[
        str,
        Meta(max_length=selector.MAX_CHARS, description="Hosts, GPUs, VMs, PEs, functions, as `vm=web1,pe=0-3`."),
    ] = ""

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        selector.parse(self.selector)

    @property
    def chosen(self) -> Selector:
        return selector.parse(self.selector)


class InstanceRequest(Request, kw_only=True, frozen=True):
    """Request about an instance."""

    instance: Annotated[int, Meta(ge=1, le=1 << 53)]


class VmRequest(Request, kw_only=True, frozen=True):
    """Request about a VM."""

    vm: Name


# ---- answers -------------------------------------------------------------------------------------


class HostError(TypedDict):
    """A host that refused or did not answer, and why."""

    host: str
    error: str


Answers: TypeAlias = Mapping[str, Any]
"""Daemons' answers by host."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Rule that merges daemons' answers into the answer that a client gets; `shape` is its type."""

    shape: Any
    of: Callable[[Answers, Sequence[HostError]], Any]


def one(shape: Any, convert: Callable[[str, Any], Any] = lambda host, answer: {**answer, "host": host}) -> Merged:
    """Answers of exactly one host, with the host's name added."""

    def merge(answers: Answers, _failed: Sequence[HostError]) -> Any:
        ((host, answer),) = answers.items()
        return convert(host, answer)

    return Merged(shape, merge)


def unchanged(shape: Any, key: str | None = None) -> Merged:
    """Answers of exactly one host as they are, or their value under `key`."""
    return one(shape, lambda _host, answer: answer if key is None else answer[key])


def rows(
    shape: Any,
    key: str,
    *,
    newest: str | None = None,
    convert: Callable[[str, Any], Any] = lambda host, row: {**row, "host": host},
) -> Merged:
    """Rows under `key` of all answers, with their hosts' names, sorted by host, or by the field `newest`, descending."""

    def merge(answers: Answers, _failed: Sequence[HostError]) -> Any:
        found = [convert(host, row) for host, answer in sorted(answers.items()) for row in answer[key]]
        return found if newest is None else sorted(found, key=lambda row: -row[newest])

    return Merged(list[shape], merge)


def total(shape: Any, key: str) -> Merged:
    """Sum of the number under `key` of all answers, and the hosts that failed."""
    return Merged(
        shape, lambda answers, failed: {key: sum(answer[key] for answer in answers.values()), "failed": list(failed)}
    )


def by_host(shape: Any) -> Merged:
    """Answers under the names of their hosts, and the hosts that failed."""
    return Merged(shape, lambda answers, failed: {"hosts": dict(sorted(answers.items())), "failed": list(failed)})


# ---- verbs ---------------------------------------------------------------------------------------


class Body(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Body of a verb's REST route, for verbs whose bodies differ from their requests."""

    @classmethod
    def of(cls, request: Any, host: str | None) -> Body:
        """Makes the body that asks the control centre for `request`, on `host` if that is not None."""
        raise NotImplementedError  # abstract: each body defines it

    def request(self, of_path: Mapping[str, Any]) -> Request:
        """Makes the daemon's request from this body and the fields in the path.

        A body that names several hosts' things (`ClearFaults`) has none: the handler of its route makes the requests.
        """
        raise NotImplementedError  # abstract: each body defines it, but for those that the docstring names


class Verb:
    """Verb of the control API. OpenAPI and ``vgcctl`` show the first line of a subclass's docstring."""

    name: ClassVar[str]
    role: ClassVar[Role] = "view"
    """Lowest role that may use the verb."""
    reach: ClassVar[Reach] = Reach.LOOK
    timeout_s: ClassVar[float] = ANSWER_S
    """Time that the control centre waits for a daemon's answer."""
    rest: ClassVar[Rest | None] = None
    """None: the control centre does not offer the verb."""
    Request: ClassVar[type[Request]] = Request
    Body: ClassVar[type[Body] | None] = None
    Answer: ClassVar[Any]
    """Type of a daemon's answer."""
    merged: ClassVar[Merged]
    """Answer that clients of the control centre, and ``vgcctl``, get."""

    def __init_subclass__(cls) -> None:
        if "Request" not in cls.__dict__:
            made = msgspec.defstruct("Request", [], bases=(cls.Request,), module=cls.__module__, kw_only=True)
            cls.Request = cast("type[Request]", made)
        cls.Request.verb = cls

    @classmethod
    def summary(cls) -> str:
        return (cls.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @classmethod
    def in_rest(cls, request: msgspec.Struct, host: str | None) -> tuple[str, dict[str, Any]]:
        """Path of a request to the control centre, and the fields that go into its query or body."""
        assert cls.rest is not None
        fields: dict[str, Any] = msgspec.to_builtins(request if cls.Body is None else cls.Body.of(request, host))
        of_path = {**msgspec.to_builtins(request), HOST: host}
        path = _NAMES.sub(lambda name: quote(str(of_path[name[1]]), safe=""), cls.rest.path)
        if cls.reach.takes_host and host is not None:
            fields[HOST] = host
        return path, {name: value for name, value in fields.items() if name not in cls.rest.in_path}

    @classmethod
    def deadline_s(cls, request: Any) -> float:  # noqa: ARG003  for verbs whose requests say how long they take
        """Time that the control centre waits for the answer to `request`."""
        return cls.timeout_s
