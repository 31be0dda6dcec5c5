/** Types of the messages between the page and the control centre. Made by `python -m tools.web.messages`; do not edit. */

type Empty = Record<string, never>;
type Routes = { GET: Get; POST: Post; PUT: Put; PATCH: Patch; DELETE: Delete };
type Find<List, Given> = List extends [infer First extends { path: string }, ...infer Rest]
  ? Given extends First["path"]
    ? First
    : Find<Rest, Given>
  : never;

export type Method = keyof Routes;
/** Paths under /api/v1 that a method has. */
export type Path<M extends Method> = Routes[M][number]["path"];
/** Query parameters of a path. */
export type Query<M extends Method, P extends string> = Find<Routes[M], P>["query"];
/** Request body of a path. */
export type Body<M extends Method, P extends string> = Find<Routes[M], P>["body"];
/** Answer of a path. */
export type Answer<M extends Method, P extends string> = Find<Routes[M], P>["answer"];

/** Query parameters of the stream. */
export type StreamQuery = {
  selector?: string | null;
  events?: 0 | 1 | null;
  load?: 0 | 1 | null;
  replay_from_ns?: number | null;
  replay_to_ns?: number | null;
  speed?: number | null;
};

/** Messages from the stream. */
export type StreamMessage =
  | RecordMessage
  | EventMessage
  | LoadMessage
  | HostMessage
  | DroppedMessage
  | ErrorMessage
  | EndMessage;

/** Messages to a live stream. */
export type Wanted = { subscribe: Subscribe };

/** Messages to a replay. */
export type Steered = { replay: Steering };

type Get = [
  { path: `vms/${string}/${string}/limits`; query: Empty; body: Empty; answer: LimitsInfo },
  { path: `snapshots/${string}/diff/${string}`; query: Empty; body: Empty; answer: SnapshotDiff },
  { path: `policies/${string}`; query: Empty; body: Empty; answer: PolicyInfo[] },
  { path: `snapshots/${string}`; query: Empty; body: Empty; answer: Snapshot },
  { path: "hosts"; query: { selector?: string | null }; body: Empty; answer: HostInfo[] },
  { path: "load"; query: { selector?: string | null }; body: Empty; answer: LoadAnswer },
  { path: "stats"; query: { selector?: string | null }; body: Empty; answer: HostedStat[] },
  { path: "self"; query: { selector?: string | null }; body: Empty; answer: SelfAnswer },
  { path: "status"; query: { selector?: string | null }; body: Empty; answer: Statuses },
  { path: "functions"; query: { selector?: string | null }; body: Empty; answer: HostedWork[] },
  { path: "programs"; query: { selector?: string | null }; body: Empty; answer: HostedProgram[] },
  {
    path: "channels";
    query: { selector?: string | null; totals?: 0 | 1 | null };
    body: Empty;
    answer: HostedInstance[];
  },
  { path: "faults"; query: { selector?: string | null; cleared?: 0 | 1 | null }; body: Empty; answer: HostedFault[] },
  { path: "migrations"; query: { selector?: string | null }; body: Empty; answer: HostedMigration[] },
  { path: "firmware"; query: { selector?: string | null }; body: Empty; answer: FirmwareAnswer },
  { path: "snapshots"; query: Empty; body: Empty; answer: SnapshotSummary[] },
  {
    path: "records";
    query: { selector?: string | null; from_ns?: number | null; to_ns?: number | null; limit?: number | null };
    body: Empty;
    answer: RecordRow[];
  },
  { path: "accounts"; query: Empty; body: Empty; answer: RecordAccount[] },
  {
    path: "timeline";
    query: { selector?: string | null; from_ns?: number | null; to_ns?: number | null; bins?: number | null };
    body: Empty;
    answer: TimelineBin[];
  },
  {
    path: "export";
    query: { selector?: string | null; from_ns?: number | null; to_ns?: number | null; format?: string | null };
    body: Empty;
    answer: { [key: string]: unknown };
  },
];

type Post = [
  { path: `workers/${string}/${string}/reset`; query: Empty; body: Empty; answer: Nothing },
  { path: `workers/${string}/${string}/quiesce`; query: Empty; body: Empty; answer: Nothing },
  { path: `workers/${string}/${string}/resume`; query: Empty; body: Empty; answer: Nothing },
  { path: `vms/${string}/${string}/remove`; query: Empty; body: RemoveVmRequest; answer: VmChanges },
  { path: `vms/${string}/${string}/limits`; query: Empty; body: SetLimitsRequest; answer: LimitsInfo },
  { path: `channels/${string}/${string}/input`; query: Empty; body: SendRequest; answer: InputAnswer },
  { path: `vms/${string}/add`; query: Empty; body: AddVmRequest; answer: VmChanges },
  { path: "vms/reload"; query: Empty; body: ReloadVmsRequest; answer: Changes },
  { path: "faults/clear"; query: Empty; body: ClearFaultsRequest; answer: ClearAnswer },
  { path: "firmware/stage"; query: Empty; body: StageFirmwareRequest; answer: FirmwareAnswer },
  { path: "firmware/activate"; query: Empty; body: ActivateFirmwareRequest; answer: FirmwareAnswer },
  { path: "firmware/rollback"; query: Empty; body: RollbackFirmwareRequest; answer: FirmwareAnswer },
  { path: "channels"; query: Empty; body: OpenRequest; answer: OpenAnswer },
  { path: "thresholds"; query: Empty; body: ThresholdRequest; answer: ElementsAnswer },
  { path: "snapshots"; query: Empty; body: TakeSnapshotRequest; answer: Snapshot },
  { path: "migrations"; query: Empty; body: MigrateRequest; answer: HostedMigration },
  { path: "confine"; query: Empty; body: ConfineRequest; answer: HostedMigration },
  { path: "balance"; query: Empty; body: BalanceRequest; answer: BalanceAnswer },
];

type Put = [
  { path: `policies/${string}`; query: Empty; body: SetPoliciesRequest; answer: PolicyInfo[] },
];

type Patch = [
  { path: `channels/${string}/${string}`; query: Empty; body: SetRequest; answer: HostedInstance },
];

type Delete = [
  { path: `channels/${string}/${string}`; query: Empty; body: Empty; answer: CloseAnswer },
];

export type ActivateFirmwareRequest = {
  selector?: string;
  version: string;
};

export type AddVmRequest = {
  vm: string;
  socket: string;
  uuid?: string | null;
  region?: string | null;
  region_file?: string | null;
  engine?: string | null;
  pes?: number | null;
  memory?: string | null;
  queue_depth?: number | null;
  contexts?: number | null;
  streams?: number | null;
  weight?: number | null;
  cores?: string | null;
  deadline?: string | null;
  num_queues?: number | null;
  sandbox?: string | null;
  cache_domain?: string | null;
  persist?: boolean;
};

export type BalanceAnswer = {
  failed: HostError[];
  moves: HostedProposal[];
};

export type BalanceRequest = {
  host?: string;
  apply?: boolean;
};

/** Version and cost of the control centre itself. */
export type CentreInfo = {
  cpu_percent: number;
  dropped: number;
  dropped_ns: number | null;
  hosts: number;
  hosts_up: number;
  memory_bytes: number;
  streams: number;
  time_ns: number;
  version: string;
};

/** A PE that does something else, or is stuck; `before` or `after` is null where the PE was not in that snapshot. */
export type Change = {
  after: PeState | null;
  before: PeState | null;
  changed: string[];
  host: string;
  kind: "appeared" | "further" | "gone" | "hung" | "next launch" | "other kernel" | "silent" | "stuck";
  pe: number;
  vm: string;
};

export type Changes = {
  failed: HostError[];
  hosts: { [key: string]: VmChanges };
};

export type ChannelInfo = {
  channel: number;
  cost_ns: number;
  forged: number;
  gpu: string;
  lost: number;
  pe: number;
  records: number;
  sample: number;
  skipped: number;
  vm: string;
};

export type ClearAnswer = {
  cleared: number;
  failed: HostError[];
};

/** Faults to clear: a selector, or ids. */
export type ClearFaultsRequest = {
  selector?: string | null;
  ids?: string[] | null;
};

export type CloseAnswer = {
  closed: string[];
};

/** VM, and the processing elements that it may use. */
export type ConfineRequest = {
  host: string;
  vm: string;
  pes?: string | null;
};

/** Number of messages that were dropped because the client reads too slowly. */
export type DroppedMessage = {
  count: number;
  type: "dropped";
};

export type ElementsAnswer = {
  elements: number;
  failed: HostError[];
};

/** End of the replay. */
export type EndMessage = {
  type: "end";
};

export type Error = {
  kind: string;
  text: string;
};

/** Body of every refusal. */
export type ErrorAnswer = {
  error: Error;
};

/** Refusal of a client's message; the stream goes on. */
export type ErrorMessage = {
  kind: string;
  text: string;
  type: "error";
};

/** An event of a host. */
export type EventMessage = {
  detail: { [key: string]: unknown };
  event: string;
  host: string;
  time_ns: number;
  type: "event";
  vm: string | null;
};

export type FirmwareAnswer = {
  failed: HostError[];
  hosts: { [key: string]: FirmwareInfo };
};

export type FirmwareImage = {
  engine: string;
  key: string;
  name: string;
  sha256: string;
  staged_ns: number;
  version: string;
};

/** Staged images and the firmware of each processing element; after a change also its outcome. */
export type FirmwareInfo = {
  images: FirmwareImage[];
  pes: PeFirmware[];
  problems?: FirmwareProblem[];
  state?: "active" | "rolled back";
};

/** Processing element that did not take a change, and the reason. */
export type FirmwareProblem = {
  pe: number;
  text: string;
  vm: string;
};

/** Allotment of a GPU to VMs, as configured; the software GPU is ``cpu``. */
export type GpuAllotment = {
  gpu: string;
  memory_allotted_bytes: number;
  memory_bytes: number;
  pes: number;
  pes_allotted: number;
  sharing: number;
  vms: number;
};

/** A GPU; the software GPU is ``cpu``. Unknown properties are absent. */
export type GpuInfo = {
  arch?: string;
  driver_version?: string;
  gpu: string;
  kind: "cpu" | "cuda" | "null";
  memory_bytes: number;
  name: string;
  pci_bus_id?: string;
  pes: number;
  uuid: string;
  vbios_version?: string;
};

/** A host that refused or did not answer, and why. */
export type HostError = {
  error: string;
  host: string;
};

/** A registered host. GPUs and VMs of a host that is not *up* are those last known. */
export type HostInfo = {
  clock_skew_ns?: number;
  daemon: string;
  gpus: GpuInfo[];
  host: string;
  labels: { [key: string]: string };
  reason: string;
  since_ns: number;
  state: "down" | "stale" | "up";
  told_ns?: number;
  url: string;
  vms: VmInfo[];
};

/** State and topology of a host after a change. */
export type HostMessage = {
  clock_skew_ns?: number;
  daemon: string;
  gpus: GpuInfo[];
  host: string;
  labels: { [key: string]: string };
  reason: string;
  since_ns: number;
  state: "down" | "stale" | "up";
  told_ns?: number;
  type: "host";
  url: string;
  vms: VmInfo[];
};

export type HostStatus = {
  cgroups: number;
  cgroups_missing?: string;
  channels: number;
  daemon: string;
  gpus: GpuAllotment[];
  left_out?: { [key: string]: string };
  memory_allotted_bytes: number;
  memory_bytes: number;
  overcommit: boolean;
  reload_refused?: string;
  started_ns: number;
  time_ns: number;
  undecided: string[];
};

/** Fault and its host. */
export type HostedFault = {
  advice: string;
  cleared: boolean;
  count: number;
  fault: string;
  gpu: string;
  host: string;
  kind: string;
  last_ns: number;
  pe: number | null;
  text: string;
  time_ns: number;
  vm: string;
  xid: number | null;
};

/** Instance and its host; `totals` sum up all its channels, even if these are not listed. */
export type HostedInstance = {
  channels: ChannelInfo[];
  expires_ns: number | null;
  function: string;
  host: string;
  instance: string;
  level: number;
  opened_ns: number;
  owner: string;
  policy: string;
  selector: string;
  totals: Totals;
};

export type HostedMigration = {
  bytes: number;
  ended_ns: number | null;
  host: string;
  migration: number;
  paused_ns: number;
  source: string;
  started_ns: number;
  state: "copying" | "done" | "failed" | "quiescing" | "restoring" | "starting";
  target: string;
  text: string;
  vm: string;
};

export type HostedProgram = {
  functions: string[];
  host: string;
  kept: boolean;
  num_functions: number;
  problem: string;
  program: number;
  size_bytes: number;
  vm: string;
};

export type HostedProposal = {
  host: string;
  migration: number | null;
  reason: string;
  source: string;
  target: string;
  vm: string;
};

export type HostedStat = {
  blocks: number;
  busy_ns: number;
  busy_share: number;
  counters: { [key: string]: number };
  faults: number;
  gauges: { [key: string]: number };
  gpu: string;
  host: string;
  launches: number;
  pe: number;
  stall_ns: number;
  vm: string;
  warps: number;
};

export type HostedWork = {
  busy_ns: number;
  function: string;
  gpu: string;
  host: string;
  launches: number;
  times: number[];
  vm: string;
};

export type InputAnswer = {
  elements: number;
};

/** Limits of a VM, by names of the configuration's keys. */
export type LimitFigures = {
  contexts: number;
  deadline_ns: number;
  memory_bytes: number;
  pes: number | null;
  queue_depth: number;
  streams: number;
  weight: number;
};

/** Limits of a VM on their way from the configuration to its worker. */
export type LimitsInfo = {
  acknowledged: number | null;
  allotment: number;
  allotment_state: "never acknowledged" | "pending" | "taken" | "unused" | "wrong";
  configured: LimitFigures;
  enforced: LimitFigures;
  exceeded: string[];
  later: string[];
  pending: string[];
  told: LimitFigures;
  used: UseFigures;
  vm: string;
};

/** Link of a VM that the daemon left unread for a while, as the VM's worker took more of its time than it may. */
export type LinkPauses = {
  last_ns: number;
  link: "messages" | "records";
  pauses: number;
  vm: string;
};

/** Load of hosts. Bytes of `pes`: one per processing element, busy part of the last second in 1/255. */
export type LoadAnswer = {
  hosts: { [key: string]: LoadInfo };
  time_ns: number;
};

/** Load of a host. Bytes instead of maps, as thousands of processing elements are polled each second. */
export type LoadInfo = {
  gpu_pes_used: { [key: string]: number };
  gpus: { [key: string]: number };
  host: number;
  pes: { [key: string]: string };
  time_ns: number;
  vm_pes_used: { [key: string]: number };
  vms: { [key: string]: number };
};

/** Load of all hosts; in a replay, of one host. */
export type LoadMessage = {
  hosts: { [key: string]: LoadInfo };
  time_ns: number;
  type: "load";
};

export type MigrateRequest = {
  host: string;
  vm: string;
  pes?: string | null;
  gpu?: string | null;
};

/** Empty answer: the request was carried out. */
export type Nothing = Empty;

export type OpenAnswer = {
  failed: HostError[];
  instances: HostedInstance[];
};

export type OpenRequest = {
  selector: string;
  level?: number | null;
  policy?: "drop-new" | "overwrite-oldest" | "wait" | null;
  sample?: number;
  slots?: number | null;
  period_ms?: number | null;
  ttl_s?: number | null;
  owner?: string | null;
  keep?: boolean;
};

/** Firmware of a processing element. */
export type PeFirmware = {
  active: string;
  gpu: string;
  other: string | null;
  pe: number;
  state: "active" | "rolled back" | "staged";
  text: string;
  vm: string;
};

export type PeState = {
  at_ns: number;
  block: number;
  gpu: string;
  hung: boolean;
  kernel: string | null;
  last_record_ns: number;
  launch: number;
  pe: number;
  since_ns: number;
  vm: string;
  warps: number;
};

/** Fault policy of a request; see `PolicyInfo`. */
export type PolicyFields = {
  name: string;
  selector?: string;
  kinds?: ("assert" | "deadline" | "deadlock" | "death" | "device" | "hung" | "kernel" | "trap" | "user" | "worker")[];
  trigger?: "aggregate" | "edge" | "sustained";
  count?: number;
  window_s?: number;
  action?: "alert" | "migrate" | "quiesce" | "reset";
  target?: string;
};

/** Fault policy: an action that a daemon takes by itself when matching faults occur. */
export type PolicyInfo = {
  action: "alert" | "migrate" | "quiesce" | "reset";
  count: number;
  kinds: string[];
  name: string;
  selector: string;
  target?: string;
  trigger: "aggregate" | "edge" | "sustained";
  window_s: number;
};

/** Numbers of a VM's records since the recorder's start: `made` is the sum of the others. */
export type RecordAccount = {
  host: string;
  kept: number;
  left_out: number;
  lost: number;
  made: number;
  vm: string;
};

/** A record of an instance that the client listens to, or of the recording. */
export type RecordMessage = {
  block: number;
  fn: string;
  gpu: string;
  host: string;
  instance?: string;
  kind: string;
  level: number;
  lost: number;
  pe: number;
  sequence: number;
  taken?: number;
  text: string;
  time_ns: number;
  type: "record";
  vm: string;
  warp: number;
};

/** Record as clients see it in ``GET /api/v1/records`` and in the stream. */
export type RecordRow = {
  block: number;
  fn: string;
  gpu: string;
  host: string;
  kind: string;
  level: number;
  lost: number;
  pe: number;
  sequence: number;
  taken?: number;
  text: string;
  time_ns: number;
  vm: string;
  warp: number;
};

/** End of a recorder before its time. */
export type RecorderEnd = {
  at_ns: number;
  error: string;
};

/** Time in which a recorder could not write, such as while its disk was full. */
export type RecorderFailure = {
  error: string;
  from_ns: number;
  to_ns: number | null;
};

/** Extent of the recording, and the recorder's health. */
export type RecorderStatus = {
  bytes: number;
  ended: RecorderEnd | null;
  failure: RecorderFailure | null;
  failures: number;
  first_ns: number | null;
  free_bytes: number | null;
  lag_ns: number;
  last_ns: number | null;
  left_out: number;
  queue_bytes: number;
  queued_bytes: number;
  records: number;
  url: string;
};

export type ReloadVmsRequest = {
  host?: string;
  now?: boolean;
};

export type RemoveVmRequest = {
  now?: boolean;
};

/** Processing elements to roll back. */
export type RollbackFirmwareRequest = {
  selector?: string;
};

export type SelfAnswer = {
  centre: CentreInfo;
  failed: HostError[];
  hosts: { [key: string]: SelfInfo };
  name: string;
  problems: SelfProblem[];
  recorder: RecorderStatus | null;
  role: "admin" | "operate" | "view";
  vms: string[] | null;
};

/** Cost of the control system itself on a host, and the daemon's health. */
export type SelfInfo = {
  budget_percent: number;
  channels: number;
  cost_percent: { [key: string]: number };
  cpu_percent: number;
  link_pauses: LinkPauses[];
  loop_delay_ns: number;
  lost: number;
  memory_bytes: number;
  records_per_s: number;
  time_ns: number;
};

/** Problem of the control system itself, with its remedy. */
export type SelfProblem = {
  host: string;
  remedy: string;
  what: string;
};

/** Standard input: text or base64, or eof alone. */
export type SendRequest = {
  text?: string | null;
  base64?: string | null;
  pe?: number | null;
  vm?: string | null;
  eof?: boolean;
};

/** Limits that are left out stay as they are. */
export type SetLimitsRequest = {
  pes?: number | null;
  memory_bytes?: number | null;
  queue_depth?: number | null;
  contexts?: number | null;
  streams?: number | null;
  weight?: number | null;
  deadline_ns?: number | null;
};

export type SetPoliciesRequest = {
  policies: PolicyFields[];
};

export type SetRequest = {
  level?: number | null;
  sample?: number | null;
  ttl_s?: number | null;
};

/** Snapshot of all hosts that a selector names, taken in parallel. */
export type Snapshot = {
  failed: HostError[];
  hosts: { [key: string]: SnapshotInfo };
  id: number;
  owner: string;
  selector: string;
  time_ns: number;
};

/** Difference of two snapshots. Each PE of either counts once: as changed, stuck, or idle as before. */
export type SnapshotDiff = {
  a: number;
  b: number;
  changed: number;
  changes: Change[];
  elapsed_ns: number;
  same: number;
  stuck: number;
};

/** Snapshot of processing elements: what each did at one moment. */
export type SnapshotInfo = {
  coverage: number;
  pes: PeState[];
  silent: string[];
  skew_ns: number;
  time_ns: number;
};

export type SnapshotSummary = {
  coverage: number;
  hosts: number;
  id: number;
  owner: string;
  pes: number;
  selector: string;
  silent: number;
  skew_ns: number;
  time_ns: number;
};

export type StageFirmwareRequest = {
  selector?: string;
  image: string;
  force?: boolean;
};

export type Statuses = {
  failed: HostError[];
  hosts: { [key: string]: HostStatus };
};

/** Changes to a running replay; fields that are left out change nothing. */
export type Steering = {
  pause?: boolean | null;
  seek_ns?: number | null;
  speed?: number | null;
};

/** Changes to a stream's subscriptions; fields that are left out change nothing. */
export type Subscribe = {
  instances?: string[] | null;
  load?: boolean | null;
  events?: boolean | null;
};

export type TakeSnapshotRequest = {
  selector?: string;
  deadline_ms?: number;
};

export type ThresholdRequest = {
  selector?: string;
  name: string;
  low?: number | null;
  high?: number | null;
};

/** Piece of the time line, with the numbers of records, events and commands in it. */
export type TimelineBin = {
  commands: number;
  end_ns: number;
  events: { [key: string]: number };
  lost: number;
  records: { [key: string]: number };
  start_ns: number;
};

/** Sums over an instance's channels. */
export type Totals = {
  channels: number;
  cost_ns: number;
  forged: number;
  lost: number;
  records: number;
  sample?: number;
  skipped: number;
};

/** Use of a VM, as its worker has told last; at most a second old while it computes. */
export type UseFigures = {
  contexts: number;
  memory_bytes: number;
  queue_depth: number;
};

/** Names of VMs that a daemon serves in another way than before. */
export type VmChanges = {
  added: string[];
  changed: string[];
  later?: { [key: string]: string[] };
  live?: string[];
  removed: string[];
  waiting: string[];
};

export type VmInfo = {
  acknowledged?: number | null;
  allotment?: number;
  allotment_state?: "never acknowledged" | "pending" | "taken" | "unused" | "wrong";
  channels: number;
  clock_error_ns?: number | null;
  compilations?: { [key: string]: number };
  compile_ns?: number;
  compiling?: number;
  confined_to: number[] | null;
  cores?: string;
  cpu_ns?: number;
  exceeded?: string[];
  failures?: { [key: string]: number };
  firmware: string;
  generation: number;
  gpu: string;
  gpu_held_ns?: number;
  gpu_ns?: number;
  gpu_shared_ns?: number;
  gpu_shared_of_ns?: number;
  in_flight: number;
  latency?: number[];
  memory_peak_bytes?: number;
  memory_quota_bytes: number;
  memory_used_bytes: number;
  origin?: "added" | "command line" | "file" | "leaving" | "persisted";
  own_cores?: boolean;
  pending?: string[];
  pes: number;
  problem?: string;
  quiesced?: boolean;
  requests_done: number;
  requests_failed: number;
  ring_problem?: string;
  socket?: string;
  state: "failed" | "migrating" | "ready" | "recovering" | "starting" | "stopped" | "unresponsive";
  stays?: string;
  stray_cpu_ns?: number;
  unseen?: string;
  usable_pes?: number;
  uuid: string;
  vm: string;
  weight?: number;
  weight_of?: "cgroup1" | "cgroup2" | "session" | "thread";
};
