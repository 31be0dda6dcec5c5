"""What verbs ask, and of whom: a control centre (`rest_link`) or one daemon (`daemon_side`).

Both answer in the shapes of the control centre's REST API: objects of `virtio_proto.control.api` with ``host`` added,
and instances named ``host/number``.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from control_center.cli.problems import MissingPackageError, UsageError, answers_of

DEFAULT_SOCKET: Final = Path("/run/vgc/control.sock")
DEFAULT_CENTRE: Final = "http://127.0.0.1:7070"

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a stream is to bring."""

    instances: Sequence[str] = ()
    """Records of these, as ``host/number``."""
    events: bool = False
    load: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a recording."""

    selector: str = ""
    from_ns: int | None = None
    to_ns: int | None = None

    def parameters(self) -> dict[str, str]:
        bounds = {"from_ns": self.from_ns, "to_ns": self.to_ns}
        return {"selector": self.selector, **{key: str(value) for key, value in bounds.items() if value is not None}}


class Recordings(Protocol):
    """A recording, wherever it is."""

    async def recorder(self) -> Object:
        """How much there is, as `control_center.recording_port.RecorderStatus`."""

    async def timeline(self, span: Span, bins: int) -> list[Object]: ...
    def export(self, span: Span, form: str) -> AsyncIterator[bytes]: ...
    def recorded(self, span: Span) -> AsyncIterator[Object]:
        """Recorded messages in the order of time, as fast as they are read."""


class Link(Protocol):
    """A control centre or a daemon. Everything raises `RefusalError` or `NobodyThereError`."""

    address: str

    @property
    def recordings(self) -> Recordings | None:
        """None: who is asked keeps none."""

    async def hosts(self) -> list[Object]: ...
    async def load(self, selector: str) -> Object: ...
    async def own_cost(self) -> Object: ...

    async def channels(self, selector: str) -> list[Object]: ...
    async def open(self, request: Object) -> Object:
        """``{"instances": [...], "failed": [{"host", "error"}]}``"""

    async def close(self, instance: str) -> None: ...
    async def change(self, instance: str, fields: Object) -> Object: ...
    async def send(
        self, instance: str, data: bytes, *, vm: str | None = None, pe: int | None = None, eof: bool = False
    ) -> None: ...
    async def stats(self, selector: str) -> list[Object]: ...
    def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        """Messages as they come, with a ``type`` of record, event, load or host."""

    async def snapshot(self, selector: str, deadline_ms: int) -> Object:
        """``{"id", "hosts": {host: SnapshotInfo}}``"""

    async def snapshots(self) -> list[Object]: ...
    async def snapshot_of(self, number: str) -> Object: ...
    async def faults(self, selector: str, *, cleared: bool) -> list[Object]: ...
    async def clear_faults(self, selector: str, ids: Sequence[str]) -> Object:
        """``{"cleared": number, "failed": [{"host", "error"}]}``"""

    async def policies(self, host: str) -> list[Object]: ...
    async def set_policies(self, host: str, policies: Sequence[Object]) -> list[Object]: ...
    async def migrate(self, host: str, vm: str, gpu: str | None, pes: str | None) -> Object: ...
    async def confine(self, host: str, vm: str, pes: str | None) -> Object: ...
    async def steer_worker(self, host: str, vm: str, action: str) -> None:
        """`action` is quiesce, resume or reset."""

    async def balance(self, host: str | None, *, apply: bool) -> Object:
        """``{"moves": [...], "failed": [{"host", "error"}]}``"""

    async def migrations(self) -> list[Object]: ...
    async def firmware(self) -> list[Object]:
        """``[{"host", "images": [...], "pes": [...]}]``"""

    async def stage_firmware(self, selector: str, image: bytes) -> Object: ...
    async def activate_firmware(self, selector: str, version: str) -> Object: ...
    async def rollback_firmware(self, selector: str) -> Object: ...


@dataclass(frozen=True, slots=True)
class Target:
    """Who is to be asked, by the command line and the environment."""

    centre: str | None = None
    daemon: str | None = None
    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None


def choose(given: Target, environment: Mapping[str, str] = os.environ) -> Target:
    """Exactly one of centre and daemon: the command line's, the environment's, or what there is on this host.

    :raise UsageError: both are asked for.
    """
    token = given.token or environment.get("VGC_TOKEN")
    centre, daemon = given.centre, given.daemon
    if centre is None and daemon is None:
        centre, daemon = environment.get("VGC_CENTRE"), environment.get("VGC_DAEMON")
    if centre and daemon:
        raise UsageError("both a control centre and a daemon are named; allowed: one of --centre and --daemon")
    if not centre and not daemon:
        centre, daemon = (None, f"unix:{DEFAULT_SOCKET}") if DEFAULT_SOCKET.is_socket() else (DEFAULT_CENTRE, None)
    return Target(centre, daemon, token, given.ca, given.certificate, given.key)


@contextlib.asynccontextmanager
async def connected(target: Target) -> AsyncIterator[Link]:
    """A link to who was chosen; closed at the end of the block.

    :raise UsageError: the address is none.
    :raise RefusalError: who is there does not let us in.
    :raise NobodyThereError: nobody is there.
    :raise MissingPackageError: it takes a Python package that is not installed.
    """
    async with _link_to(target) as link:
        with answers_of(link.address):
            yield link


def _link_to(target: Target) -> contextlib.AbstractAsyncContextManager[Link]:
    try:
        if target.daemon:
            from control_center.cli.daemon_side import daemon_link

            return daemon_link(target)
        from control_center.cli.rest_link import centre_link

        return centre_link(target)
    except ModuleNotFoundError as error:
        raise MissingPackageError(str(error.name)) from None
