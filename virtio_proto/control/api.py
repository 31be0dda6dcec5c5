"""The control API of a daemon: what can be asked (`VERBS`), and the shapes of requests, answers and pushes.

Frames are those of `virtio_proto.control.frames`. The first request must be ``hello``. All times are ns of the host's
CLOCK_REALTIME unless a name says otherwise; sizes are bytes. A refusal is ``{"kind": ..., "text": ...}`` with a kind
of `ERROR_KINDS` and a text that names what is wrong and what is allowed.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict

API_VERSION: Final = 1

Role: TypeAlias = Literal["view", "operate", "admin"]
ROLES: Final[tuple[Role, ...]] = ("view", "operate", "admin")
"""Each may do what those before it may."""

VERBS: Final[dict[str, Role]] = {
    "hello": "view",
    "topology": "view",
    "ls": "view",
    "stat": "view",
    "load": "view",
    "snapshot": "view",
    "faults": "view",
    "policies": "view",
    "firmware": "view",
    "migrations": "view",
    "self": "view",
    "subscribe": "view",
    "unsubscribe": "view",
    "open": "operate",
    "close": "operate",
    "set": "operate",
    "send": "operate",
    "threshold": "operate",
    "clear_faults": "operate",
    "confine": "operate",
    "migrate": "operate",
    "balance": "operate",
    "reset_worker": "operate",
    "quiesce": "operate",
    "resume": "operate",
    "set_policies": "admin",
    "stage_firmware": "admin",
    "activate_firmware": "admin",
    "rollback_firmware": "admin",
}
"""What can be asked, and the role that it takes."""

ERROR_KINDS: Final = (
    "malformed",  # the request itself: a missing or wrong field, a bad selector
    "unknown",  # a GPU, VM, processing element, function, instance, image that is not there
    "denied",  # the role or the token does not allow it
    "quota",  # channels, memory, rate
    "busy",  # it cannot be done now: the VM has no worker, a migration runs
    "failed",  # it was tried, and did not work
)

# Fields of each verb and what it answers, where no class below says so. Lists are answered in a map, by name.
#   hello {version, token?} -> Hello               topology {} -> Topology            self {} -> SelfInfo
#   ls {selector?, totals?} -> {instances: [InstanceInfo]}; with totals: no channels, but `totals` of them
#   stat {selector?} -> {pes: [PeStat]}            load {selector?} -> LoadInfo
#   snapshot {selector?, deadline_ms?} -> SnapshotInfo
#   faults {selector?, cleared?} -> {faults: [FaultInfo]}; with cleared: those as well
#   clear_faults {selector?|faults?: [number]} -> {cleared: number of them}
#   policies {} -> {policies: [PolicyInfo]}        set_policies {policies} -> {policies: [PolicyInfo]}
#   migrations {} -> {migrations: [MigrationInfo]}
#   migrate {vm, gpu?, pes?} and confine {vm, pes} -> MigrationInfo
#   balance {apply?} -> {moves: [MoveInfo]}        reset_worker {vm} -> {}
#   subscribe and unsubscribe {records?: [instance], events?: bool} -> {}
#   open OpenRequest -> InstanceInfo               set {instance, level?, sample?, ttl_s?} -> InstanceInfo
#   close {instance} -> InstanceInfo, its last; close {selector} -> {closed: [instance]}
#   quiesce {vm} -> {}                             resume {vm} -> {}
#   send SendRequest -> {elements: to how many it went}
#   threshold {selector, name, low?, high?} -> {elements: to how many it applies}
#   firmware {}, stage_firmware {image, selector?}, activate_firmware {selector?, version},
#   rollback_firmware {selector?} -> FirmwareInfo


class Error(TypedDict):
    kind: str
    text: str


# ---- what there is -------------------------------------------------------------------------------


class Hello(TypedDict):
    """``hello {"version": 1, "token": "..."?}``; the token is not asked for on the UNIX socket."""

    version: int
    host: str
    uuid: str
    """Of this run of the daemon: numbers of instances and channels are of one run."""
    daemon: str
    """Its version."""
    role: Role
    vms: list[str] | None
    """VMs that this peer may see; None: all."""
    time_ns: int


class GpuInfo(TypedDict):
    """One GPU; the software GPU is ``cpu``. What is not known is absent."""

    gpu: str
    """``cpu``, or the CUDA device's number as text."""
    uuid: str
    name: str
    kind: Literal["cpu", "cuda", "null"]
    pes: int
    memory_bytes: int
    arch: NotRequired[str]
    pci_bus_id: NotRequired[str]
    driver_version: NotRequired[str]
    vbios_version: NotRequired[str]


class VmInfo(TypedDict):
    vm: str
    uuid: str
    gpu: str
    pes: int
    """Its processing elements are numbered 0..pes-1 on the CPU engine, and as the device numbers its SMs on CUDA."""
    confined_to: list[int] | None
    state: Literal["stopped", "starting", "ready", "recovering", "failed", "migrating"]
    quiesced: NotRequired[bool]
    """It takes no new requests: ``quiesce {"vm": ...}`` or a policy had it so, until ``resume {"vm": ...}``."""
    generation: int
    """Of its worker: rises when a worker is replaced."""
    memory_quota_bytes: int
    memory_used_bytes: int
    requests_done: int
    requests_failed: int
    in_flight: int
    channels: int
    firmware: str
    """Version that is active on its elements, or ``mixed``."""


class Topology(TypedDict):
    """``topology {}``"""

    host: str
    gpus: list[GpuInfo]
    vms: list[VmInfo]


# ---- channels ------------------------------------------------------------------------------------


class OpenRequest(TypedDict):
    """``open``: channels from one function to all elements that the selector chooses, as one instance.

    A VM without a worker is no error: its channels are opened when a worker is ready, and again in every worker after
    that (`InstanceInfo.channels` is empty for it until then). Records that nobody has subscribed to yet are kept for
    the first who does, within bounds. Instances of one function share an element's channel, at the highest level, the
    least sampling and the shortest period of all, with the policy of whoever was first. ``close {"instance": ...}`` or
    ``close {"selector": ...}`` ends instances; that selector names vm and fn alone, as an instance ends whole.
    """

    selector: str
    """Must name one function; ``host`` in it is ignored."""
    level: NotRequired[int]
    """Of `records.Level`, default INFO."""
    policy: NotRequired[Literal["drop-new", "overwrite-oldest", "wait"]]
    sample: NotRequired[int]
    """Keep one record of 2**sample, default 0."""
    slots: NotRequired[int]
    """Of 64 bytes, per channel; rounded up to a power of two, default 256."""
    period_ms: NotRequired[int]
    """perf, load: how often counters are reported; 0: once. Default 1000."""
    ttl_s: NotRequired[float]
    """Closed when so long nobody has renewed it by ``set``. Default: none while the connection stands."""
    owner: NotRequired[str]
    """For people; the default is the token's name."""
    keep: NotRequired[bool]
    """Stays open when the connection ends (needs ttl_s)."""


class ChannelInfo(TypedDict):
    channel: int
    gpu: str
    vm: str
    pe: int
    records: int
    """Taken from the device."""
    lost: int
    """Made on the device and found no room."""
    skipped: int
    """Left out by sampling."""
    forged: int
    """Slots that were no records."""
    cost_ns: int
    """What making its records has cost the element, as far as known."""
    sample: int
    """In force now: the governor raises it when the channel costs more than its budget."""


class Totals(TypedDict):
    """Of an instance's channels together."""

    channels: int
    records: int
    lost: int
    skipped: int
    forged: int
    cost_ns: int
    sample: NotRequired[int]
    """The highest in force on any of them."""


class InstanceInfo(TypedDict):
    instance: int
    function: str
    selector: str
    owner: str
    level: int
    policy: str
    opened_ns: int
    expires_ns: int | None
    channels: list[ChannelInfo]
    totals: NotRequired[Totals]


MAX_INPUT_BYTES: Final = 4096
"""Of one ``send``; as much as an element's link has room for, so that what it has not read is in the way."""


class SendRequest(TypedDict):
    """``send``: standard input for the elements of a stdio instance, at most `MAX_INPUT_BYTES`.

    An element gets all of it or nothing. "busy": one has no room until its kernel reads; others may have got theirs.
    """

    instance: int
    data: bytes
    pe: NotRequired[int]
    vm: NotRequired[str]
    eof: NotRequired[bool]


# ---- figures -------------------------------------------------------------------------------------


class PeStat(TypedDict):
    gpu: str
    vm: str
    pe: int
    blocks: int
    warps: int
    launches: int
    busy_ns: int
    stall_ns: int
    faults: int
    occupancy: float
    """Busy part of the last 2 to 4 seconds, or of the time since perf was last opened on the element; 0..1."""
    counters: dict[str, int]
    gauges: dict[str, float]


class LoadInfo(TypedDict):
    """``load {"selector": ...}``: arrays, an entry per element, as thousands of them are asked for each second."""

    time_ns: int
    host: float
    gpus: dict[str, float]
    """0..1"""
    vms: dict[str, float]
    pes: dict[str, bytes]
    """By VM: a byte per element, busy part of the last second in 1/255."""


class PeState(TypedDict):
    gpu: str
    vm: str
    pe: int
    kernel: str | None
    launch: int
    block: int
    warps: int
    since_ns: int
    last_record_ns: int
    at_ns: int
    """When this element was looked at."""
    hung: bool


class SnapshotInfo(TypedDict):
    """``snapshot {"selector": ..., "deadline_ms": 100}``"""

    time_ns: int
    skew_ns: int
    """Between the first and the last element."""
    coverage: float
    silent: list[str]
    """Elements that did not answer, as ``vm/pe``."""
    pes: list[PeState]


class FaultInfo(TypedDict):
    fault: int
    time_ns: int
    last_ns: int
    count: int
    gpu: str
    vm: str
    pe: int | None
    kind: str
    """kernel, assert, trap, deadline, deadlock, hung, device, user"""
    xid: int | None
    text: str
    advice: str
    cleared: bool


class PolicyInfo(TypedDict):
    """What is done about faults: ``set_policies {"policies": [...]}`` replaces all."""

    name: str
    selector: str
    kinds: list[str]
    trigger: Literal["edge", "sustained", "aggregate"]
    count: int
    window_s: float
    action: Literal["alert", "quiesce", "reset", "migrate"]
    target: NotRequired[str]
    """migrate: to which GPU or elements; default: the least loaded."""


class MigrationInfo(TypedDict):
    """``migrate {"vm": ..., "gpu": ...?, "pes": "0-3"?}``, ``confine {"vm": ..., "pes": "0-3"|null}``"""

    migration: int
    vm: str
    source: str
    target: str
    state: Literal["starting", "quiescing", "copying", "restoring", "done", "failed"]
    started_ns: int
    ended_ns: int | None
    bytes: int
    paused_ns: int
    text: str


class MoveInfo(TypedDict):
    """What the load strategy proposes, or with ``apply`` has started."""

    vm: str
    source: str
    target: str
    reason: str
    migration: int | None
    """Its number, if it was started."""


class FirmwareInfo(TypedDict):
    """``firmware {}`` lists images and what runs where; ``stage_firmware {"image": bytes, "selector": ...}``"""

    images: list[dict[str, Any]]
    """{"version": str, "key": str, "name": str, "sha256": str, "staged_ns": int, "engine": "cpu"|"cuda"}"""
    pes: list[dict[str, Any]]
    """{"vm", "gpu", "pe", "active": str, "other": str|None, "state": "active"|"staged"|"rolled back", "text": str}"""
    state: NotRequired[Literal["active", "rolled back"]]
    """How a change of elements went: ``rolled back`` if any of them did not take it. All that it lists is final."""
    problems: NotRequired[list[dict[str, Any]]]
    """Why it was: {"vm", "pe", "text"}"""


class SelfInfo(TypedDict):
    """``self {}``: what the control system itself costs."""

    cpu_percent: float
    memory_bytes: int
    channels: int
    records_per_s: float
    lost: int
    budget_percent: float
    cost_percent: dict[str, float]
    """By VM: part of its elements' time that making records takes."""


# ---- pushes --------------------------------------------------------------------------------------


class RecordsPush(TypedDict):
    """Of ``subscribe {"records": [instance, ...]}``."""

    push: Literal["records"]
    instance: int
    channel: int
    gpu: str
    vm: str
    pe: int
    clock_ns: int
    """To add to a record's time_ns to have CLOCK_REALTIME."""
    lost: int
    """Of this channel so far."""
    data: bytes
    """A batch of `virtio_proto.control.records`."""
    dictionary: dict[str, str]
    """Formats and names of this VM that are new to this connection's pushes of this instance: address in hexadecimal ->
    text. An address that comes again has another text from then on."""
    dropped: NotRequired[int]
    """Pushes to this peer that were dropped since the last one that it got: it reads too slowly."""


class EventPush(TypedDict):
    """Of ``subscribe {"events": true}``: things that happen on the host."""

    push: Literal["event"]
    time_ns: int
    event: str
    """worker_ready, worker_lost, fault, fault_cleared, policy_acted, opened, closed, expired, migration, firmware,
    threshold, governor, input, wants_input, vm_connected, vm_disconnected, command"""
    vm: str | None
    detail: dict[str, Any]
