"""Cluster of all registered hosts, polled independently: a host that is slow or gone does not delay the others."""

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
from virtio_proto.control.verbs.base import Request

log = structlog.get_logger()
POLL_S: Final = 1.0
"""Interval of polls of each host."""
_T = TypeVar("_T")


class Listener:
    """Receives what happens on hosts. Every method does nothing unless overridden, and must not wait."""

    def host_changed(self, host: Host) -> None:
        """Called when a host's state or topology has changed."""

    def records(self, host: Host, push: RecordsPush) -> None:
        """Called with a batch whose fields were checked and whose records were not."""

    def event(self, host: Host, push: EventPush) -> None:
        """Called with an event of a host."""

    def wanted(self, host: Host) -> set[int]:  # noqa: ARG002  subclasses use it
        """Instances of a host whose records this listener wants; after a change of them, call `Host.listen`."""
        return set()


@dataclass(slots=True)
class Gathered(Generic[_T]):
    """Answers and refusals of several hosts, by host."""

    answers: dict[str, _T] = field(default_factory=dict)
    failed: dict[str, RefusedError] = field(default_factory=dict)

    def or_raise(self) -> dict[str, _T]:
        """Answers, if any host answered or none was asked.

        :raise RefusedError: all hosts failed; a refusal is preferred to a host that cannot be reached.
        """
        if not self.answers and self.failed:
            raise min(self.failed.values(), key=lambda error: isinstance(error, UnreachableError))
        return self.answers


class Cluster(Listener):
    """Hosts by name. Passes what happens on them to `listeners`, in order."""

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
        """Runs a host until cancelled; after an error of ours, logs it and starts the host's link again."""
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
        """Hosts that a caller with `scope` may know of: those with a VM in the scope."""
        return [
            host for host in self.hosts.values() if scope.is_all or any(scope.sees(host.name, vm) for vm in host.vms)
        ]

    def chosen(self, scope: Scope, selector: Selector) -> list[Host]:
        """Visible hosts that `selector` matches.

        :raise RefusedError: "unknown": `selector` names a host, and no visible host matches.
        """
        visible = self.visible(scope)
        found = [host for host in visible if selector.matches_host(host.name)]
        if not found and selector.host != "*":
            raise _unknown(selector.host, visible)
        return found

    def host(self, scope: Scope, name: str) -> Host:
        """:raise RefusedError: "unknown": the caller may not know of a host with this name."""
        host = self.hosts.get(name)
        if host is None or not _is_visible(host, scope):
            raise _unknown(name, self.visible(scope))
        return host

    # ---- asking several hosts --------------------------------------------------------------------

    async def gather(self, asked: Mapping[Host, Request], timeout_s: float | None = None) -> Gathered[Any]:
        """Asks several hosts at once, each with a request of its own."""
        found: Gathered[Any] = Gathered()

        async def ask(host: Host, request: Request) -> None:
            try:
                found.answers[host.name] = await host.ask(request, timeout_s)
            except RefusedError as error:
                found.failed[host.name] = error

        await asyncio.gather(*(ask(host, request) for host, request in asked.items()))
        return found

    # ---- to the listeners ------------------------------------------------------------------------

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
    return RefusedError("unknown", f"no host {name:.80}; there is: {', '.join(names[:16]) or 'none'}{rest}")
