"""Dispatch of the control API: checks a request's role and fields and calls the handler of its verb.

`virtio_proto.control.verbs` declares the verbs. Roles are checked before fields. Every command that changes something,
and every denied one, becomes an event ``command``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from vhost_backend.control.api.access import Peer
from vhost_backend.control.api.push_hub import PushHub, Subscriber
from vhost_backend.control.api.refusal import RefusedError
from vhost_backend.log import Logger
from virtio_proto.control.shapes import ShapeError, checked
from virtio_proto.control.verbs import VERBS
from virtio_proto.control.verbs.base import MAX_NAME_CHARS, Verb

MAX_SHOWN_CHARS: Final = 200
"""Most characters of a field's value in an event ``command``."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Peer that sent a request, and its connection."""

    peer: Peer
    connection: int
    subscriber: Subscriber


Handler: TypeAlias = Callable[[Caller, Any], Awaitable[Any]]
"""Carries out a verb: takes its `Request`, returns its `Answer`."""


class CommandSet(Protocol):
    """Handlers of a group of verbs."""

    def handlers(self) -> Mapping[type[Verb], Handler]:
        """Handlers by verb. They raise `RefusedError` for what cannot be done."""
        ...


class Commands:
    """Dispatch of all verbs of a daemon."""

    def __init__(self, hub: PushHub, log: Logger, *sets: CommandSet) -> None:
        self._hub = hub
        self._log = log
        self._handlers: dict[type[Verb], Handler] = {}
        for group in sets:
            self.add(group)

    def add(self, group: CommandSet) -> None:
        """Adds the verbs of a group."""
        self._handlers |= group.handlers()

    @property
    def verbs(self) -> Collection[type[Verb]]:
        """Verbs that this daemon serves."""
        return self._handlers.keys()

    async def do(self, caller: Caller, name: object, values: object) -> Any:
        """Carries out a command and returns its answer.

        :raise RefusedError: the command is unknown or malformed, or the peer may not use it, or its handler refuses.
        """
        verb = VERBS.get(name) if isinstance(name, str) else None
        if verb is None:
            raise RefusedError("malformed", f"do is {name!r:.80}; allowed: {', '.join(VERBS)}")
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise RefusedError("malformed", f"{verb.name}: with is {values!r:.80}; allowed: a map of fields")
        try:
            caller.peer.may(verb)
            answer = await self._answer(caller, verb, values)
        except RefusedError as error:
            self._audit(caller, verb, values, f"{error.kind}: {error}", denied=error.kind == "denied")
            raise
        self._audit(caller, verb, values, "done")
        return answer

    async def _answer(self, caller: Caller, verb: type[Verb], values: Mapping[str, Any]) -> Any:
        handler = self._handlers.get(verb)
        if handler is None:
            there = ", ".join(known.name for known in self._handlers)
            raise RefusedError("unknown", f"this daemon does not serve {verb.name}; allowed: {there}")
        return await handler(caller, request_of(verb, values))

    def _audit(
        self, caller: Caller, verb: type[Verb], values: Mapping[str, Any], result: str, *, denied: bool = False
    ) -> None:
        if verb.role == "view" and not denied:
            return
        vm = _name(values.get("vm"))
        shown = {_shown(key): _shown(value) for key, value in list(values.items())[:16]}
        about = {"verb": verb.name, "by": caller.peer.name, "role": caller.peer.role, "with": shown, "result": result}
        only = next(iter(caller.peer.vms)) if caller.peer.vms is not None and len(caller.peer.vms) == 1 else None
        self._hub.event("command", vm if vm is not None and caller.peer.sees(vm) else only, **about)
        self._log.info("control_command", **about, guest=True)


def request_of(verb: type[Verb], values: Mapping[str, Any]) -> Any:
    """Checks the fields of a request and makes the verb's `Request` of them.

    :raise RefusedError: "malformed": a field is wrong, missing or unknown; the text says what is allowed.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return checked(given, verb.Request, f"{verb.name}: ")
    except ShapeError as error:
        raise RefusedError("malformed", str(error)) from None


def _name(value: object) -> str | None:
    """The value if it may be a VM's name; subscribers hang up on events with impossible names."""
    return value if isinstance(value, str) and len(value) <= MAX_NAME_CHARS and value.isprintable() else None


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return str(value)[:MAX_SHOWN_CHARS]
