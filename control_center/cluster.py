"""All registered hosts, kept fresh side by side; one that is slow or gone holds up nobody."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Self, TypeVar

import structlog

from control_center.errors import RefusedError, UnreachableError
from control_center.host import Ages, Clocks, Host, HostConfig
from control_center.scope import Scope
from virtio_proto.control.api import EventPush, RecordsPush
from virtio_proto.control.selector import Selector

log = structlog.get_logger()
POLL_S: Final = 1.0
_T = TypeVar("_T")


class Listener:
    """Told of what happens; all methods do nothing unless they are overridden. Must not wait."""

    def host_changed(self, host: Host) -> None:
        """A host's state or topology is another one."""

    def records(self, host: Host, push: RecordsPush) -> None:
        """A batch, of a shape that was checked; its records were not."""

    def event(self, host: Host, push: EventPush) -> None:
        """Something happened on a host."""

    def wanted(self, host: Host) -> set[int]:  # noqa: ARG002  overridden where somebody listens
        """The instances of a host whose records this listener wants; `Host.listen` when it is another set."""
        return set()


@dataclass(slots=True)
class Gathered(Generic[_T]):
    """What several hosts answered."""

    answers: dict[str, _T] = field(default_factory=dict)
    """By host."""
    failed: dict[str, RefusedError] = field(default_factory=dict)

    def or_raise(self) -> dict[str, _T]:
        """The answers.

        :raise RefusedError: there are none; the first refusal, of a host that could be asked if there is one.
        """
        if not self.answers and self.failed:
            raise min(self.failed.values(), key=lambda error: isinstance(error, UnreachableError))
        return self.answers


class Cluster(Listener):
    """The hosts by name. `listeners` are told of everything, in order."""

    def __init__(
        self,
        hosts: Iterable[HostConfig],
        *,
        clocks: Clocks | None = None,
        ages: Ages | None = None,
        poll_s: float = POLL_S,
    ) -> None:
        self.clocks = clocks or Clocks()
        self.listeners: list[Listener] = []
        self.hosts = {config.name: Host(config, self, self.clocks, ages or Ages()) for config in hosts}
        self._poll_s = poll_s
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        each_s = self._poll_s / max(len(self.hosts), 1)
        runs = (self._run(host, place * each_s) for place, host in enumerate(self.hosts.values()))
        self._tasks = [asyncio.create_task(run) for run in runs]
        return self

    async def _run(self, host: Host, offset_s: float) -> None:
        """Runs a host until cancelled; an error of ours is told in the log, and the host's link begins anew."""
        while True:
            try:
                await host.run(self._poll_s, offset_s)
            except Exception:
                log.exception("host_failed", host=host.name)
            host.look()
            await asyncio.sleep(self._poll_s)

    async def __aexit__(self, *_exc: object) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # ---- choosing --------------------------------------------------------------------------------

    def visible(self, scope: Scope) -> list[Host]:
        """The hosts that there are for somebody: those with a VM of theirs."""
        return [
            host for host in self.hosts.values() if scope.is_all or any(scope.sees(host.name, vm) for vm in host.vms)
        ]

    def chosen(self, scope: Scope, selector: Selector) -> list[Host]:
        """The visible hosts that `selector` names; none, if it names none.

        :raise RefusedError: "unknown": it names no host that is there.
        """
        visible = self.visible(scope)
        found = [host for host in visible if selector.matches_host(host.name)]
        if not found and selector.host != "*":
            raise _unknown(selector.host, visible)
        return found

    def host(self, scope: Scope, name: str) -> Host:
        """:raise RefusedError: "unknown": there is no such host for the caller."""
        host = self.hosts.get(name)
        if host is None or not _is_visible(host, scope):
            raise _unknown(name, self.visible(scope))
        return host

    # ---- asking several --------------------------------------------------------------------------

    async def gather(
        self, asked: Mapping[Host, Mapping[str, Any]], verb: str, timeout_s: float = 30.0
    ) -> Gathered[Any]:
        """`verb` to several hosts at once, each with fields of its own."""
        found: Gathered[Any] = Gathered()

        async def ask(host: Host, fields: Mapping[str, Any]) -> None:
            try:
                found.answers[host.name] = await host.ask(verb, fields, timeout_s)
            except RefusedError as error:
                found.failed[host.name] = error

        await asyncio.gather(*(ask(host, fields) for host, fields in asked.items()))
        return found

    # ---- what hosts say --------------------------------------------------------------------------

    def host_changed(self, host: Host) -> None:
        self._tell(lambda listener: listener.host_changed(host))

    def records(self, host: Host, push: RecordsPush) -> None:
        self._tell(lambda listener: listener.records(host, push))

    def event(self, host: Host, push: EventPush) -> None:
        self._tell(lambda listener: listener.event(host, push))

    def wanted(self, host: Host) -> set[int]:
        return set().union(*(listener.wanted(host) for listener in self.listeners))

    def _tell(self, tell: Callable[[Listener], None]) -> None:
        for listener in self.listeners:
            try:
                tell(listener)
            except Exception:
                log.exception("listener_failed", listener=type(listener).__name__)


def _is_visible(host: Host, scope: Scope) -> bool:
    return scope.is_all or any(scope.sees(host.name, vm) for vm in host.vms)


def _unknown(name: str, visible: Iterable[Host]) -> RefusedError:
    names = [host.name for host in visible]
    rest = f" and {len(names) - 16} more" if len(names) > 16 else ""
    return RefusedError("unknown", f"no host {name}; there is: {', '.join(names[:16]) or 'none'}{rest}")
