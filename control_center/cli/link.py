"""Port between the verbs of ``vgcctl`` and a control centre (`rest_link`) or a daemon (`daemon_side`).

Both answer in the types of the control centre's REST API, which each verb declares as `Verb.merged`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from virtio_proto.control.verbs.base import Request

Object: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Subscriptions of a stream."""

    instances: Sequence[str] = ()
    """Instances whose records are wanted, as ``host/number``."""
    events: bool = False
    load: bool = False


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a recording."""

    selector: str = ""
    from_ns: int | None = None
    to_ns: int | None = None

    def parameters(self) -> dict[str, str]:
        bounds = {"from_ns": self.from_ns, "to_ns": self.to_ns}
        return {"selector": self.selector, **{key: str(value) for key, value in bounds.items() if value is not None}}


class Recordings(Protocol):
    """Recording of a control centre."""

    async def recorder(self) -> Object | None:
        """Extent of the recording, as `virtio_proto.control.api.RecorderStatus`; None: not told to callers that see some
        VMs, whose part of the recording they can read all the same.
        """

    async def visible(self) -> list[str] | None:
        """VMs whose part of the recording the caller may read, each ``vm`` or ``host/vm``; None: all."""

    async def timeline(self, span: Span, bins: int) -> list[Object]: ...
    def export(self, span: Span, form: str) -> AsyncIterator[bytes]: ...
    def recorded(self, span: Span) -> AsyncIterator[Object]:
        """Yields recorded messages in the order of time, as fast as they are read."""


class Link(Protocol):
    """Link to a control centre or a daemon. All methods raise `RefusalError` or `NobodyThereError`."""

    address: str

    @property
    def recordings(self) -> Recordings | None:
        """Recordings of the control centre; None: the link is to a daemon, which keeps none."""

    async def ask(self, request: Request, host: str | None = None) -> Any:
        """Sends a verb's request; returns an answer of the type of `Verb.merged`, whoever gives it.

        `host`: host of the instance or the VM, for verbs that need it.
        """

    def stream(self, wanted: Wanted) -> AsyncIterator[Object]:
        """Yields messages as they arrive, with a ``type`` of record, event, load or host."""

    async def snapshots(self) -> list[Object]:
        """Lists the snapshots that the control centre keeps."""

    async def snapshot_of(self, number: str) -> Object: ...


@dataclass(frozen=True, slots=True)
class Target:
    """Address and credentials of the control centre or daemon to ask."""

    centre: str | None = None
    daemon: str | None = None
    token: str | None = None
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    is_guess: bool = False
    """True: nobody has named it, and no daemon's socket is at a usual place."""
