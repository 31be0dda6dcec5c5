"""Verbs about channels: open, change, close instances, and send input, while kernels run."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeAlias, TypedDict

from msgspec import Meta

from virtio_proto.control.api import MAX_INPUT_BYTES, ChannelInfo, InstanceInfo, Policy, Totals
from virtio_proto.control.records import Level
from virtio_proto.control.selector import MAX_PES, Selector, SelectorError, parse
from virtio_proto.control.verbs import base
from virtio_proto.control.verbs.base import (
    LOOK_S,
    Answers,
    HostError,
    InstanceRequest,
    Merged,
    Name,
    Reach,
    Rest,
    Selecting,
    Verb,
    one,
    rows,
    total,
)

MAX_SAMPLE = 31
MAX_PERIOD_MS = 3_600_000
_Level: TypeAlias = Annotated[
    int, Meta(ge=int(Level.CRITICAL), le=int(Level.DEBUG), description="Records up to this level; 4, info, by default.")
]
_Sample: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SAMPLE, description="One record of 2**sample is kept.")]
_Ttl: TypeAlias = Annotated[
    float,
    Meta(
        ge=0.1,
        le=30 * 24 * 3600.0,
        description="Seconds until the instance is closed unless `set` renews it. "
        "Default: open while the connection is.",
    ),
]
_ONE = "/channels/{host}/{instance}"


class HostedInstance(TypedDict):
    """Instance and its host; `totals` sum up all its channels, even if these are not listed."""

    instance: str
    """``host/number``"""
    host: str
    function: str
    selector: str
    owner: str
    level: int
    policy: str
    opened_ns: int
    expires_ns: int | None
    channels: list[ChannelInfo]
    totals: Totals


def totals_of(channels: Sequence[ChannelInfo]) -> Totals:
    """Sums up channels; `sample` is the highest in force on any of them."""
    return {
        "channels": len(channels),
        "records": sum(channel["records"] for channel in channels),
        "lost": sum(channel["lost"] for channel in channels),
        "skipped": sum(channel["skipped"] for channel in channels),
        "forged": sum(channel["forged"] for channel in channels),
        "cost_ns": sum(channel["cost_ns"] for channel in channels),
        "sample": max((channel["sample"] for channel in channels), default=0),
    }


def hosted(host: str, info: InstanceInfo) -> HostedInstance:
    """Adds the host to a daemon's description of an instance, which is then named ``host/number``."""
    totals = info.get("totals") or totals_of(info["channels"])
    return {**info, "instance": f"{host}/{info['instance']}", "host": host, "totals": totals}


def vms_of(info: InstanceInfo, there: Iterable[str]) -> set[str]:
    """VMs that an instance watches, among those `there`, including VMs without a worker, which have no channels."""
    try:
        selector = parse(info["selector"])
    except SelectorError:  # a faulty daemon; the instance may be about any VM, so it counts as about all
        selector = Selector()
    return {vm for vm in there if selector.matches_vm(vm)} | {channel["vm"] for channel in info["channels"]}


class Instances(TypedDict):
    instances: list[InstanceInfo]


class Ls(Verb):
    """Lists open instances, their channels, and each channel's counts of records.

    With `totals` the channels are summed up, not listed, for callers with thousands of channels.
    """

    name = "ls"
    timeout_s = LOOK_S
    rest = Rest("GET", "/channels", "channels")
    Answer = Instances
    merged = rows(HostedInstance, "instances", convert=hosted)

    class Request(Selecting, kw_only=True, frozen=True):
        totals: Annotated[bool, Meta(description="Sum channels up for each instance, do not list them.")] = False


class OpenAnswer(TypedDict):
    instances: list[HostedInstance]
    failed: list[HostError]


def _opened(answers: Answers, failed: Sequence[HostError]) -> OpenAnswer:
    return {"instances": [hosted(host, info) for host, info in sorted(answers.items())], "failed": list(failed)}


class Open(Verb):
    """Opens channels on all processing elements that the selector names: one instance per host.

    Instances belong to the caller. Without `ttl_s` and `keep` they close with the connection on which a daemon was
    asked for them. A VM without a worker is not an error: its channels are opened when its worker is ready (until then
    `channels` lists none of them), and again in every later worker. Until the first subscription, records are kept for
    it, within bounds. Instances of one function share a processing element's channel, at the highest level, the lowest
    `sample` and the shortest period of all of them, with the policy of the first.
    """

    name = "open"
    role = "operate"
    reach = Reach.ELEMENTS
    rest = Rest("POST", "/channels", "channels")
    Answer = InstanceInfo
    merged = Merged(OpenAnswer, _opened)

    class Request(Selecting, kw_only=True, frozen=True):
        selector: Annotated[str, Meta(max_length=1024, description="Names one function, as in `vm=web1,fn=log`.")]
        level: _Level | None = None
        policy: Annotated[Policy, Meta(description="What a full channel does.")] | None = None
        sample: _Sample = 0
        slots: (
            Annotated[int, Meta(ge=1, le=1 << 16, description="Slots of 64 bytes per channel; default 256.")] | None
        ) = None
        period_ms: (
            Annotated[
                int,
                Meta(
                    ge=0, le=MAX_PERIOD_MS, description="Period of perf and load reports; 0: one report; default 1000."
                ),
            ]
            | None
        ) = None
        ttl_s: _Ttl | None = None
        owner: Annotated[str, Meta(min_length=1, max_length=64, description="Name shown as the owner.")] | None = None
        keep: Annotated[bool, Meta(description="Stay open when the connection ends; needs ttl_s.")] = False

        def __post_init__(self) -> None:
            Selecting.__post_init__(self)
            self.chosen.one_fn()
            if self.keep and self.ttl_s is None:
                raise ValueError("keep without ttl_s; allowed: keep with a ttl_s, so that it ends")


class Closed(TypedDict):
    closed: list[int]


class CloseAnswer(TypedDict):
    closed: list[str]
    """Instances as ``host/number``."""


def _closed(host: str, answer: Mapping[str, Any]) -> CloseAnswer:
    numbers = answer["closed"] if "closed" in answer else [answer["instance"]]
    return {"closed": [f"{host}/{number}" for number in numbers]}


class Close(Verb):
    """Closes an instance; its channels are released while kernels run.

    A daemon also closes all instances of a selector. Such a selector has only vm and fn, as instances are closed whole.
    The daemon answers the last state of the instance, or the numbers of the selector's instances.
    """

    name = "close"
    role = "operate"
    reach = Reach.INSTANCE
    rest = Rest("DELETE", _ONE, "channels")
    Answer = InstanceInfo | Closed
    merged = one(CloseAnswer, _closed)

    class Request(base.Request, kw_only=True, frozen=True):
        instance: Annotated[int, Meta(ge=1, le=1 << 53)] | None = None
        selector: Annotated[str, Meta(max_length=1024)] | None = None

        def __post_init__(self) -> None:
            if (self.instance is None) == (self.selector is None):
                raise ValueError("instance and selector are both given, or both missing; allowed: one of them")
            chosen = self.chosen
            if chosen.gpu != "*" or chosen.pe is not None:
                raise ValueError(f"selector is {self.selector!r:.80}; allowed: vm and fn: an instance is closed whole")

        @property
        def chosen(self) -> Selector:
            return parse(self.selector or "")


class Set(Verb):
    """Changes an instance's level or sampling, or gives it more time."""

    name = "set"
    role = "operate"
    reach = Reach.INSTANCE
    rest = Rest("PATCH", _ONE, "channels")
    Answer = InstanceInfo
    merged = one(HostedInstance, hosted)

    class Request(InstanceRequest, kw_only=True, frozen=True):
        level: _Level | None = None
        sample: _Sample | None = None
        ttl_s: _Ttl | None = None


class InputAnswer(TypedDict):
    elements: int
    """Number of processing elements that got the input."""


class Send(Verb):
    """Sends standard input to the processing elements of a stdio instance.

    A processing element gets all of it or nothing. Error "busy": a processing element has no room until its kernel
    reads; others may already have got the input.
    """

    name = "send"
    role = "operate"
    reach = Reach.INSTANCE
    rest = Rest("POST", _ONE + "/input", "channels")
    Answer = InputAnswer
    merged = one(InputAnswer, lambda _host, answer: answer)

    class Request(InstanceRequest, kw_only=True, frozen=True):
        data: Annotated[bytes, Meta(max_length=MAX_INPUT_BYTES)]
        pe: Annotated[int, Meta(ge=0, lt=MAX_PES)] | None = None
        vm: Name | None = None
        eof: bool = False

    class Body(base.Body, kw_only=True, frozen=True):
        """Standard input: text or base64, or eof alone."""

        text: str | None = None
        base64: str | None = None
        pe: Annotated[int, Meta(ge=0, lt=MAX_PES)] | None = None
        vm: Name | None = None
        eof: bool = False

        def __post_init__(self) -> None:
            is_eof = self.eof and self.text is None
            if (self.text is None) == (self.base64 is None) and not is_eof:
                raise ValueError("input has both text and base64, or neither; allowed: one of them, or eof alone")
            if len(self.data) > MAX_INPUT_BYTES:
                raise ValueError(f"input of {len(self.data)} bytes; allowed: {MAX_INPUT_BYTES} at once")

        @property
        def data(self) -> bytes:
            if self.base64 is None:
                return (self.text or "").encode()
            try:
                return b64decode(self.base64, validate=True)
            except ValueError:
                raise ValueError(f"base64 is {self.base64!r:.40}; allowed: base64") from None

        @classmethod
        def of(cls, request: Any, host: str | None) -> base.Body:  # noqa: ARG003  the path has it
            text = b64encode(request.data).decode()
            return cls(base64=text, pe=request.pe, vm=request.vm, eof=request.eof)

        def request(self, of_path: Mapping[str, Any]) -> base.Request:
            return Send.Request(**of_path, data=self.data, pe=self.pe, vm=self.vm, eof=self.eof)


class ElementsAnswer(TypedDict):
    elements: int
    failed: list[HostError]


class Elements(TypedDict):
    elements: int


_Bound: TypeAlias = Annotated[float, Meta(ge=-1e300, le=1e300)]


class Threshold(Verb):
    """Sets the range of a gauge; leaving it makes an event and a record of perf."""

    name = "threshold"
    role = "operate"
    reach = Reach.ELEMENTS
    rest = Rest("POST", "/thresholds", "figures")
    Answer = Elements
    merged = total(ElementsAnswer, "elements")

    class Request(Selecting, kw_only=True, frozen=True):
        name: Annotated[str, Meta(min_length=1, max_length=63)]
        low: _Bound | None = None
        high: _Bound | None = None

        def __post_init__(self) -> None:
            Selecting.__post_init__(self)
            if self.low is not None and self.high is not None and self.low > self.high:
                raise ValueError(f"low is {self.low:g}, high is {self.high:g}; allowed: low up to high")
