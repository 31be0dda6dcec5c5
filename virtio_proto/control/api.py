"""Messages of a daemon's control API: shapes of answers and pushes. `virtio_proto.control.verbs` declares the requests.

Frames are those of `virtio_proto.control.frames`. The first request must be ``hello``. All times are ns of the host's
CLOCK_REALTIME unless a name says otherwise; sizes are bytes. A refusal is ``{"kind": ..., "text": ...}`` with a kind
of `ERROR_KINDS` and a text that names what is wrong and what is allowed.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict, get_args

API_VERSION: Final = 2

Role: TypeAlias = Literal["view", "operate", "admin"]
VmState: TypeAlias = Literal["stopped", "starting", "ready", "unresponsive", "recovering", "failed", "migrating"]
"""State of a VM; "stopped": no frontend is connected."""
ROLES: Final[tuple[Role, ...]] = ("view", "operate", "admin")
"""In ascending order: a role may do all that those before it may."""

Policy: TypeAlias = Literal["drop-new", "overwrite-oldest", "wait"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
"""Policies of full channels, by number [enum vgc_ctl_policy]."""

ERROR_KINDS: Final = (
    "malformed",  # the request itself: a missing or wrong field, a bad selector
    "unknown",  # a GPU, VM, processing element, function, instance, image that is not there
    "denied",  # the role or the token does not allow it
    "quota",  # channels, memory, rate
    "busy",  # it cannot be done now: the VM has no worker, a migration runs
    "failed",  # it was tried, and did not work
)

FaultKind: TypeAlias = Literal[
    "kernel", "assert", "trap", "deadline", "deadlock", "hung", "device", "worker", "death", "user"
]
FAULT_KINDS: Final[tuple[FaultKind, ...]] = get_args(FaultKind)
Trigger: TypeAlias = Literal["edge", "sustained", "aggregate"]
TRIGGERS: Final[tuple[Trigger, ...]] = get_args(Trigger)
PolicyAction: TypeAlias = Literal["alert", "quiesce", "reset", "migrate"]
POLICY_ACTIONS: Final[tuple[PolicyAction, ...]] = get_args(PolicyAction)
MAX_POLICIES: Final = 256


class Nothing(TypedDict):
    """Empty answer: the request was carried out."""


class Error(TypedDict):
    kind: str
    text: str


# ---- hosts, GPUs, VMs -------------------------------------------------------------------------------


class HelloInfo(TypedDict):
    """Identity of the daemon, and rights of the peer."""

    version: int
    host: str
    uuid: str
    """New at each start of the daemon, which numbers instances and channels from 1 again."""
    daemon: str
    """Version of the daemon."""
    role: Role
    vms: list[str] | None
    """VMs that the peer may see; None: all."""
    time_ns: int


class GpuInfo(TypedDict):
    """A GPU; the software GPU is ``cpu``. Unknown properties are absent."""

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


VmOrigin: TypeAlias = Literal["file", "command line", "added", "persisted", "leaving"]
AllotmentState: TypeAlias = Literal["unused", "never acknowledged", "taken", "pending", "wrong"]
"""How a guest stands to its allotment: it uses no ring and has acknowledged none; it uses rings without having acknowledged
any; it has acknowledged the present one; an earlier one; one that it never got."""


class VmInfo(TypedDict):
    vm: str
    uuid: str
    origin: NotRequired[VmOrigin]
    """Place from which the VM comes: the daemon's configuration file or command line; ``add_vm`` (added), also for the
    daemon's next runs (persisted); or no place any more: it leaves with its QEMU."""
    socket: NotRequired[str]
    """Path at which the VM's QEMU connects; absent if the daemon was given the socket itself."""
    gpu: str
    pes: int
    """Number of processing elements; 0: its engine is chosen when its QEMU connects. They are numbered 0..pes-1 on the CPU engine, by the hardware's SM number on CUDA."""
    usable_pes: NotRequired[int]
    """Number of them that the VM's limits let it use now; absent if all."""
    confined_to: list[int] | None
    state: VmState
    quiesced: NotRequired[bool]
    """True from ``quiesce``, or a policy that quiesces, until ``resume``: the VM takes no new requests."""
    stays: NotRequired[str]
    """Reason why the VM can never be migrated; absent if it can."""
    unseen: NotRequired[str]
    """Reason why the VM's programs have no hooks and its kernels cannot be watched; absent if they have hooks."""
    problem: NotRequired[str]
    """Reason why the host cannot serve the VM with its settings now; it is tried again. Absent if the host can."""
    ring_problem: NotRequired[str]
    """Reason why rings of the VM's guest are not served: QEMU shares no region, or another; absent if they are."""
    weight: NotRequired[int]
    """Share of the host's processors, and of its GPU's time, beside other VMs that have work: `quota.weight` of the
    configuration."""
    weight_of: NotRequired[Literal["cgroup1", "cgroup2", "session", "thread"]]
    """Unit that the weight counts for: the VM's control group, or a session of processes or each thread, by nice values."""
    cores: NotRequired[str]
    """Processors of the host on which the elements run, such as 2-5, if they are not those of a GPU: absent on a host that
    does not tell."""
    own_cores: NotRequired[bool]
    """True if no other VM of the daemon runs on them, `quota.cores` of the configuration."""
    generation: int
    """Generation of the worker: rises whenever the worker is replaced."""
    allotment: NotRequired[int]
    """Number of the limits that the guest is told: rises whenever they change."""
    acknowledged: NotRequired[int | None]
    """Allotment that the guest says it has taken; None: it has said nothing."""
    allotment_state: NotRequired[AllotmentState]
    pending: NotRequired[list[str]]
    """Limits that were changed and are not enforced yet, or of which the guest was not told yet. Absent if all are."""
    exceeded: NotRequired[list[str]]
    """Limits that were lowered below the VM's use, of which it gets no more until it uses less. Absent if all are above."""
    memory_quota_bytes: int
    memory_used_bytes: int
    requests_done: int
    requests_failed: int
    in_flight: int
    latency: NotRequired[list[int]]
    """Operations of the present worker (launches, graphs, and copies that are not done at once) by latency class: four of
    equal width for each doubling, from 256 ns on. A guest may have made them up, as its other counts."""
    memory_peak_bytes: NotRequired[int]
    """Most memory that the VM has held since its worker's start."""
    failures: NotRequired[dict[str, int]]
    """Requests that were not answered with OK, by status, since the worker's start."""
    compiling: NotRequired[int]
    """Number of programs that compile, or wait for a compiler."""
    compilations: NotRequired[dict[str, int]]
    """Programs that the VM asked for since the daemon's start, by their end: compiled, cached, failed."""
    compile_ns: NotRequired[int]
    """Time that these took, from request to answer, in the queue for a compiler as well."""
    cpu_ns: NotRequired[int]
    """CPU time of all workers of the VM since the daemon's start, by the host's clock."""
    stray_cpu_ns: NotRequired[int]
    """Part of `cpu_ns` that no request of the guest explains: threads that a kernel has left behind, mostly."""
    gpu_ns: NotRequired[int]
    """GPU time that the VM was charged since the daemon's start, as its workers tell; absent without a GPU, like the next
    three."""
    gpu_held_ns: NotRequired[int]
    """Time for which launches of the VM were held because it was not its turn."""
    gpu_shared_ns: NotRequired[int]
    """Part of `gpu_ns` while other VMs of the GPU had work, too."""
    gpu_shared_of_ns: NotRequired[int]
    """GPU time of all VMs of the GPU in the same time. The VM's share is `gpu_shared_ns` divided by this."""
    channels: int
    """Channels that instances of clients hold on the VM's PEs, without those that the control system opens to measure load."""
    firmware: str
    """Version that is active on the VM's processing elements, or ``mixed``."""
    clock_error_ns: NotRequired[int | None]
    """Largest error of the times of the VM's records against the host's clock; None: not measured yet."""


class TopologyInfo(TypedDict):
    """A host's GPUs and VMs."""

    host: str
    gpus: list[GpuInfo]
    vms: list[VmInfo]


# ---- channels ------------------------------------------------------------------------------------


class ChannelInfo(TypedDict):
    channel: int
    gpu: str
    vm: str
    pe: int
    records: int
    """Records taken from the device."""
    lost: int
    """Records made on the device that found no room in the ring."""
    skipped: int
    """Records left out by sampling."""
    forged: int
    """Ring slots that held no valid record."""
    cost_ns: int
    """Time that the processing element has spent on making records, where the engine measures it."""
    sample: int
    """Sampling in force: one record of 2**sample is kept. The governor raises it for channels above their budget."""


class Totals(TypedDict):
    """Sums over an instance's channels."""

    channels: int
    records: int
    lost: int
    skipped: int
    forged: int
    cost_ns: int
    sample: NotRequired[int]
    """Highest value in force on any of the channels."""


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
"""Most input of one ``send``: the size of a processing element's input ring, so input not read yet leaves less room."""


# ---- measurements -------------------------------------------------------------------------------------


class PeStat(TypedDict):
    gpu: str
    vm: str
    pe: int
    blocks: int
    warps: int
    launches: int
    busy_ns: int
    """Time in which the PE ran blocks, as far as perf or load was open on it, since its worker's start."""
    stall_ns: int
    """Time between two blocks of one launch, in which the PE ran none, counted as busy is."""
    faults: int
    busy_share: float
    """Part of the last 2 to 4 seconds, or of the time since perf was opened if that is shorter, in which the PE ran
    blocks."""
    counters: dict[str, int]
    gauges: dict[str, float]


class LoadInfo(TypedDict):
    """Load of a host. Bytes instead of maps, as thousands of processing elements are polled each second."""

    time_ns: int
    host: float
    """PEs used of all GPUs of the host, divided by the PEs that they have; 1 at most."""
    gpus: dict[str, float]
    """PEs used of the GPU, divided by the PEs that it has; 1 at most."""
    vms: dict[str, float]
    """Mean busy part of the VM's own PEs in the last second. VMs' loads do not add up to that of their GPU: PEs used do."""
    gpu_pes_used: dict[str, float]
    """Sum of the PEs used by the GPU's VMs. On the software GPU that may be more than it has, as VMs' PEs share processors."""
    vm_pes_used: dict[str, float]
    """Sum of the busy parts of the VM's PEs in the last second. Those of a GPU's VMs add up to the GPU's."""
    pes: dict[str, bytes]
    """Bytes by VM: one per processing element, busy part of the last second in 1/255."""


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
    """When this processing element was looked at."""
    hung: bool


class SnapshotInfo(TypedDict):
    """Snapshot of processing elements: what each did at one moment."""

    time_ns: int
    skew_ns: int
    """Time between looking at the first and at the last processing element."""
    coverage: float
    """Part of the selected processing elements that answered; 0..1."""
    silent: list[str]
    """Processing elements that did not answer, as ``vm/pe``."""
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
    """One of `FAULT_KINDS`."""
    xid: int | None
    text: str
    advice: str
    cleared: bool


class PolicyInfo(TypedDict):
    """Fault policy: an action that a daemon takes by itself when matching faults occur."""

    name: str
    selector: str
    kinds: list[str]
    trigger: Trigger
    count: int
    window_s: float
    action: PolicyAction
    target: NotRequired[str]
    """Target of ``migrate``: processing elements such as ``pes:0-3``, or ``cpu``; absent: as many elements as the VM has."""


class MigrationInfo(TypedDict):
    """Migration of a VM, or its confinement to some processing elements."""

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


class ProposalInfo(TypedDict):
    """Migration that the load strategy proposes, or with ``apply`` has started."""

    vm: str
    source: str
    target: str
    reason: str
    migration: int | None
    """Number of the migration; None: it was not started."""


class FirmwareImage(TypedDict):
    version: str
    key: str
    name: str
    sha256: str
    staged_ns: int
    engine: str
    """cpu, cuda or cpu|cuda"""


FirmwareState: TypeAlias = Literal["active", "staged", "rolled back"]


class PeFirmware(TypedDict):
    """Firmware of a processing element."""

    vm: str
    gpu: str
    pe: int
    active: str
    other: str | None
    """Version in the slot that does not run."""
    state: FirmwareState
    text: str


class FirmwareProblem(TypedDict):
    """Processing element that did not take a change, and the reason."""

    vm: str
    pe: int
    text: str


class FirmwareInfo(TypedDict):
    """Staged images and the firmware of each processing element; after a change also its outcome."""

    images: list[FirmwareImage]
    pes: list[PeFirmware]
    state: NotRequired[Literal["active", "rolled back"]]
    """Outcome of a change: ``rolled back`` if any processing element did not take it; its VM went back, others run the
    version. The states in `pes` are final."""
    problems: NotRequired[list[FirmwareProblem]]
    """Reasons why the change failed on VMs, by element."""


class LinkPauses(TypedDict):
    """Link of a VM that the daemon left unread for a while, as the VM's worker took more of its time than it may."""

    vm: str
    link: Literal["messages", "records"]
    pauses: int
    """Pauses since the VM is served."""
    last_ns: int
    """When the last one began."""


class SelfInfo(TypedDict):
    """Cost of the control system itself on a host, and the daemon's health."""

    time_ns: int
    """Time of the answer, by the host's clock."""
    loop_delay_ns: int
    """Longest time in the last minute for which something held the daemon's loop, while all VMs waited."""
    link_pauses: list[LinkPauses]
    """Links that were left unread at least once."""
    cpu_percent: float
    memory_bytes: int
    channels: int
    """Channels on the PEs of the host's VMs, with those that the control system opens to measure load."""
    records_per_s: float
    lost: int
    budget_percent: float
    cost_percent: dict[str, float]
    """Cost of making records, in percent of the processing elements' time, by VM."""


# ---- the control centre --------------------------------------------------------------------------


class HostInfo(TypedDict):
    """A registered host. GPUs and VMs of a host that is not *up* are those last known."""

    host: str
    url: str
    """Address of the host's daemon."""
    state: Literal["up", "stale", "down"]
    """up: the daemon answers; stale: it has been silent for a few seconds; down: it cannot be reached."""
    since_ns: int
    """When the host entered this state."""
    reason: str
    """Reason why the host is not up; "" if it is."""
    told_ns: NotRequired[int]
    """When the host told what is here of its GPUs and VMs; absent if it never has. Rates are by differences of it: a control
    centre asks less often than it is asked."""
    clock_skew_ns: NotRequired[int]
    """Difference of the host's clock to the centre's, without what the time of an answer may account for; absent if the host
    has not answered yet."""
    labels: dict[str, str]
    daemon: str
    """The daemon's version."""
    gpus: list[GpuInfo]
    vms: list[VmInfo]


class CentreInfo(TypedDict):
    """Version and cost of the control centre itself."""

    version: str
    time_ns: int
    cpu_percent: float
    """Percent of one CPU since this was last asked for."""
    memory_bytes: int
    hosts: int
    hosts_up: int
    streams: int
    dropped: int
    """Messages of streams that were dropped since the centre's start, as clients read too slowly."""
    dropped_ns: int | None
    """When the last was dropped, within a second; null: none was."""


class RecordAccount(TypedDict):
    """Numbers of a VM's records since the recorder's start: `made` is the sum of the others."""

    host: str
    vm: str
    made: int
    kept: int
    """Records that were put into the store; retention may have deleted them since."""
    lost: int
    """Records that found no room in their channel."""
    left_out: int
    """Records that were dropped between the daemon and the store: by a daemon whose centre read too slowly, while they were
    disconnected, or by the recorder."""


class RecorderFailure(TypedDict):
    """Time in which a recorder could not write, such as while its disk was full."""

    error: str
    """Reason, as the store last told it."""
    from_ns: int
    to_ns: int | None
    """When the recorder wrote again; null: it still cannot."""


class RecorderEnd(TypedDict):
    """End of a recorder before its time."""

    error: str
    at_ns: int


class RecorderStatus(TypedDict):
    """Extent of the recording, and the recorder's health."""

    url: str
    """Address of the store, without its password."""
    bytes: int
    first_ns: int | None
    last_ns: int | None
    records: int
    """Number of records in the store now."""
    left_out: int
    """Batches and events dropped since the recorder's start, as its queue was full."""
    queued_bytes: int
    """Size of what waits in memory to be written."""
    queue_bytes: int
    """Most bytes that may wait; what comes beyond that is left out."""
    lag_ns: int
    """Age of the oldest batch, event or command that is not in the store yet; 0: all are."""
    free_bytes: int | None
    """Free space on the store's disk as of the last flush; null: the store is not on a disk of this machine."""
    failures: int
    """Times since the recorder's start at which it could not write."""
    failure: RecorderFailure | None
    """The last of them; null: there was none."""
    ended: RecorderEnd | None
    """End of the recorder by an error that nobody expected: nothing is recorded any more; null: it runs."""


# ---- pushes --------------------------------------------------------------------------------------


class RecordsPush(TypedDict):
    """Records of a subscribed instance."""

    push: Literal["records"]
    instance: int
    channel: int
    gpu: str
    vm: str
    pe: int
    clock_ns: int
    """Offset from a record's time_ns to CLOCK_REALTIME."""
    lost: int
    """Records that this channel has lost so far."""
    fn: str
    """Function of the instance."""
    opened_ns: int
    """When the daemon opened the channel, CLOCK_REALTIME: `lost` and `records` count from then on, over all workers of the
    VM."""
    records: int
    """Records of this channel that the instance was to get so far, those in `data` included. What a peer has not got of
    them was dropped on the way."""
    data: bytes
    """A batch of `virtio_proto.control.records`."""
    dictionary: dict[str, str]
    """Formats and names that earlier pushes of this instance on this connection did not have: address in hexadecimal ->
    text. An address that is sent again has the new text from then on."""
    dropped: NotRequired[int]
    """Pushes dropped since the previous push to this peer, because it reads too slowly."""


class EventPush(TypedDict):
    """Event of the host."""

    push: Literal["event"]
    time_ns: int
    event: str
    """worker_ready, worker_lost, fault, fault_cleared, policy_acted, opened, closed, expired, migration, firmware,
    threshold, governor, input, wants_input, marks, vm_added, vm_left, vm_connected, vm_disconnected, command"""
    vm: str | None
    detail: dict[str, Any]
