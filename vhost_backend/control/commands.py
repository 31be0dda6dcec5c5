"""The commands of the control API: each verb's fields, what it does, what it answers.

The patent's "user-mode control module", as far as it takes user commands apart. Roles are checked before anything else;
every command that changes something, and every one that is denied, becomes an event ``command``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from vhost_backend.control.access import Peer
from vhost_backend.control.events import EventHub, Subscriber
from vhost_backend.control.fields import Fields
from vhost_backend.control.refusal import RefusedError
from vhost_backend.log import Logger
from virtio_proto.control.api import VERBS

MAX_SHOWN_CHARS: Final = 200
"""Of a field's value, in an event."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, over which connection."""

    peer: Peer
    connection: int
    subscriber: Subscriber


Handler: TypeAlias = Callable[[Caller, Fields], Awaitable[Any]]


class CommandSet(Protocol):
    """A group of verbs."""

    def handlers(self) -> Mapping[str, Handler]:
        """What each does. It raises `RefusedError` for what cannot be done."""
        ...


class Commands:
    """All verbs of a daemon."""

    def __init__(self, hub: EventHub, log: Logger, *sets: CommandSet) -> None:
        self._hub = hub
        self._log = log
        self._handlers: dict[str, Handler] = {}
        for group in sets:
            self._handlers |= group.handlers()

    async def do(self, caller: Caller, verb: object, values: object) -> Any:
        """What the command answers.

        :raise RefusedError: it is not done, or no command.
        """
        if not isinstance(verb, str) or verb not in VERBS:
            raise RefusedError("malformed", f"do is {verb!r:.80}; allowed: {', '.join(VERBS)}")
        if values is None:
            values = {}
        if not isinstance(values, dict):
            raise RefusedError("malformed", f"{verb}: with is {values!r:.80}; allowed: a map of fields")
        try:
            caller.peer.may(verb)
            answer = await self._answer(caller, verb, values)
        except RefusedError as error:
            self._audit(caller, verb, values, f"{error.kind}: {error}", denied=error.kind == "denied")
            raise
        self._audit(caller, verb, values, "done")
        return answer

    async def _answer(self, caller: Caller, verb: str, values: Mapping[str, Any]) -> Any:
        handler = self._handlers.get(verb)
        if handler is None:
            raise RefusedError("unknown", f"{verb} is not possible here; there is: {', '.join(self._handlers)}")
        return await handler(caller, Fields(verb, values))

    def _audit(
        self, caller: Caller, verb: str, values: Mapping[str, Any], result: str, *, denied: bool = False
    ) -> None:
        if VERBS[verb] == "view" and not denied:
            return
        vm = values.get("vm")
        shown = {key: _shown(value) for key, value in list(values.items())[:16]}
        about = {"verb": verb, "by": caller.peer.name, "role": caller.peer.role, "with": shown, "result": result}
        only = next(iter(caller.peer.vms)) if caller.peer.vms is not None and len(caller.peer.vms) == 1 else None
        self._hub.event("command", vm if isinstance(vm, str) and caller.peer.sees(vm) else only, **about)
        self._log.info("control_command", **about, guest=True)


def _shown(value: object) -> str:
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    return str(value)[:MAX_SHOWN_CHARS]
