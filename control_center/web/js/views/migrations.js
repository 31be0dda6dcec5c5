/** Load of the whole system, and migrations: proposals, progress, confinement. */

/** @import { Child } from "../dom.js" */
/** @import { Choice } from "../forms.js" */
/** @import { ConfineRequest, GpuInfo, HostInfo, HostedMigration, HostedProposal, VmInfo } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/** @typedef {VmInfo & { host: string, load: number }} VmRow */

import * as api from "../api.js";
import { bar } from "../chart.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { bytes, clock, count, percent, span } from "../format.js";
import { confirm, dialog, field, input, select } from "../forms.js";
import { button } from "../roles.js";
import { matches } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

/** @type {View} */
export const migrations = { name: "migrations", title: "Load & migrations", group: "Steer", mount };

const PERIOD_MS = 1000;
const PATIENCE_MS = 1500;
const DONE = ["done", "failed"];
/** @type {{ [K in HostedMigration["state"]]: number }} progress of a migration in each state */
const STAGES = { starting: 0.05, quiescing: 0.15, copying: 0.5, restoring: 0.85, done: 1, failed: 1 };

/** @param {Stage} stage */
function mount(stage) {
  const loads = h("div.load-list");
  const proposal = h("div");
  const vms = new Table({
    label: "VMs",
    key: (row) => `${row.host}/${row.vm}`,
    columns: vmColumns(stage),
    sort: [3, -1],
    empty: empty("No VM", "The selector matches none."),
  });
  const history = new Table({
    label: "Migrations",
    key: (row) => `${row.host}/${row.migration}`,
    columns: HISTORY,
    sort: [0, -1],
    empty: empty("No migrations", "Migrations appear here with their progress."),
  });
  const propose = button(
    "Propose migrations",
    "operate",
    () => stage.attempt(() => balance(stage, proposal, false)),
    "main",
  );
  stage.show(
    "Load & migrations",
    "Load of the whole system, and migrations of VMs; guests notice nothing but a short pause",
    [propose],
    proposal,
    h("div.columns.snug.loads", null, panel("Load by GPU", loads), panel("Migrations", history.element)),
    panel("VMs", vms.element),
  );
  const show = () => {
    showLoads(loads);
    vms.update(store.chosenVms().map((vm) => ({ ...vm, load: store.load.get(vm.host)?.vms?.[vm.vm] ?? 0 })));
  };
  for (const topic of /** @type {const} */ (["hosts", "load", "scope", "role"])) stage.on(store, topic, show);
  show();
  stage.every(PERIOD_MS, async () => {
    const rows = await api.get("migrations", {}, stage.signal);
    history.update(rows.filter((row) => matches(store.scope, { host: row.host, vm: row.vm })));
  });
}

/**
 * @param {string} title
 * @param {...Child} content
 */
const panel = (title, ...content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/**
 * Busy part of a GPU now; undefined if its host does not answer.
 * @param {HostInfo} host
 * @param {GpuInfo} gpu
 */
function loadOf(host, gpu) {
  return host.state === "up" ? store.load.get(host.host)?.gpus?.[gpu.gpu] : undefined;
}

/** @param {HTMLElement} place */
function showLoads(place) {
  const rows = store
    .chosenHosts()
    .flatMap((host) => host.gpus.map((gpu) => ({ host: host.host, gpu: gpu.gpu, part: loadOf(host, gpu) })))
    .filter((row) => store.scope.gpu(row.gpu))
    .sort((a, b) => (b.part ?? -1) - (a.part ?? -1));
  const shown = rows.slice(0, 16);
  fill(
    place,
    shown.map((row) => {
      const meter = bar(`load of ${row.host}/${row.gpu}`);
      meter.set(row.part ?? 0);
      return h(
        "div.load-row",
        null,
        h("span.mono.cut", null, `${row.host}/${row.gpu}`),
        meter.element,
        h("span.number", null, percent(row.part)),
      );
    }),
    rows.length > shown.length ? h("p.faint", null, `and ${rows.length - shown.length} with less load`) : null,
    rows.length ? null : h("p.faint", null, "no GPU"),
  );
}

/**
 * @param {Stage} stage
 * @returns {Column<VmRow>[]}
 */
function vmColumns(stage) {
  /** @param {VmRow} row */
  const load = (row) => {
    const meter = bar(`load of ${row.vm}`);
    meter.set(row.load);
    return h("span.meter-cell", null, meter.element, percent(row.load));
  };
  /** @param {VmRow} row */
  const actions = (row) =>
    h(
      "div.buttons",
      null,
      migrateButton(row),
      button("Confine", "operate", () => confineDialog(row), "small"),
      button(
        row.quiesced ? "Resume" : "Quiesce",
        "operate",
        () =>
          stage.attempt(async () => {
            await api.post(`${workerOf(row)}/${row.quiesced ? "resume" : "quiesce"}`);
            await store.refreshHosts();
          }),
        "small",
      ),
      button(
        "Reset worker",
        "operate",
        () =>
          confirm(
            "Reset worker",
            `The worker of ${row.host}/${row.vm} is replaced; its kernels in flight fail.`,
            "Reset",
            "operate",
            () => api.post(`${workerOf(row)}/reset`),
          ),
        "small danger",
      ),
    );
  return [
    { title: "Host", value: (row) => row.host },
    { title: "VM", value: (row) => row.vm },
    { title: "GPU", value: (row) => row.gpu },
    { title: "Load", value: (row) => row.load, show: load },
    {
      title: "PEs",
      value: (row) => (row.confined_to ? `${row.confined_to.length} of ${row.pes}` : String(row.pes)),
      number: true,
    },
    {
      title: "Memory",
      value: (row) => row.memory_used_bytes,
      show: (row) => `${bytes(row.memory_used_bytes)} of ${bytes(row.memory_quota_bytes)}`,
      number: true,
    },
    { title: "Requests", value: (row) => row.requests_done, show: (row) => count(row.requests_done), number: true },
    {
      title: "State",
      value: vmState,
      show: (row) => pill(vmState(row), VM_TONES[vmState(row)] ?? "warn", true),
    },
    {
      title: "",
      value: (row) => `${Boolean(row.quiesced)} ${row.stays ?? ""}`,
      show: actions,
      sort: false,
      class: "tight",
    },
  ];
}

/**
 * @param {VmRow} row
 * @returns {`workers/${string}/${string}`}
 */
const workerOf = (row) => `workers/${encodeURIComponent(row.host)}/${encodeURIComponent(row.vm)}`;
/** @param {VmRow} row */
const vmState = (row) => (row.quiesced ? "quiesced" : row.state);
/** @type {{ [state: string]: string | undefined }} */
const VM_TONES = { ready: "ok", failed: "bad" };

/** @type {Column<HostedMigration>[]} */
const HISTORY = [
  { title: "Started", value: (row) => row.started_ns, show: (row) => clock(row.started_ns, false), class: "mono" },
  { title: "VM", value: (row) => `${row.host}/${row.vm}`, class: "mono" },
  { title: "From → to", value: (row) => `${row.source} → ${row.target}`, class: "mono" },
  { title: "State", value: (row) => `${row.state} ${row.text}`, show: stateOf },
  { title: "Copied", value: (row) => row.bytes, show: (row) => bytes(row.bytes), number: true },
  { title: "Paused", value: (row) => row.paused_ns, show: (row) => span(row.paused_ns), number: true },
];

/** @param {HostedMigration} row */
function stateOf(row) {
  if (DONE.includes(row.state))
    return h(
      "span",
      null,
      pill(row.state, row.state === "done" ? "ok" : "bad", true),
      row.state === "failed" ? h("span.soft.wrap", null, ` ${row.text}`) : null,
    );
  const meter = bar("progress");
  meter.set(STAGES[row.state] ?? 0, "");
  return h("span.meter-cell", null, meter.element, row.state);
}

/**
 * Button that asks where to migrate a VM; if it can never be migrated, it is disabled and its title says why.
 * @param {VmRow} row
 */
function migrateButton(row) {
  const made = button("Migrate", "operate", () => migrateDialog(row), "small");
  if (row.stays) {
    made.disabled = true;
    made.title = row.stays;
  }
  return made;
}

/**
 * GPUs of its host to which a VM can be migrated: it goes on with its engine.
 * @param {VmRow} row
 */
function targetsOf(row) {
  const gpus = store.host(row.host)?.gpus ?? [];
  const kind = gpus.find((gpu) => gpu.gpu === row.gpu)?.kind;
  return gpus.filter((gpu) => gpu.kind === kind);
}

/** @param {VmRow} row */
function migrateDialog(row) {
  const targets = targetsOf(row);
  const others = (store.host(row.host)?.gpus ?? []).filter((gpu) => !targets.includes(gpu)).map((gpu) => gpu.gpu);
  /** @type {Choice[]} */
  const gpus = targets.map((gpu) => [
    gpu.gpu,
    `${gpu.gpu} · ${gpu.name} · ${percent(store.load.get(row.host)?.gpus?.[gpu.gpu] ?? 0)}`,
  ]);
  const why = others.length ? `not to ${others.join(", ")}: the VM goes on with its engine` : "";
  return dialog({
    title: `Migrate ${row.vm}`,
    needs: "operate",
    action: "Migrate",
    text: `The VM goes on with its memory, programs and streams on other PEs of ${row.host}, at the same addresses.`,
    fields: [
      field("To GPU", select("gpu", [["", "the least loaded"], ...gpus], ""), why, true),
      field("PEs there", input("pes", "", { class: "mono", placeholder: "all; or 0-3|8" }), "", true),
    ],
    submit: async (/** @type {{ gpu?: string, pes?: string }} */ values) => {
      await soon(api.post("migrations", { host: row.host, vm: row.vm, ...values }), `Migration of ${row.vm}`);
    },
  });
}

/** @param {VmRow} row */
function confineDialog(row) {
  return dialog({
    title: `Confine ${row.vm}`,
    needs: "operate",
    action: "Confine",
    text: "From the next block on, the VM's blocks run only on these PEs. Empty: on all again.",
    fields: [field("PEs", input("pes", "", { class: "mono", placeholder: `0-${row.pes - 1}` }), "", true)],
    submit: async (/** @type {Pick<ConfineRequest, "pes">} */ { pes }) => {
      await soon(api.post("confine", { host: row.host, vm: row.vm, pes: pes ?? null }), `Confinement of ${row.vm}`);
      await store.refreshHosts();
    },
  });
}

/**
 * Waits briefly for a migration, so that refusals, most of which come at once, show in the dialog; a later end is shown
 * in the corner.
 * @param {Promise<HostedMigration>} work
 * @param {string} what
 */
async function soon(work, what) {
  const told = work.then((migration) =>
    toast(
      migration.state === "failed" ? `${what} failed: ${migration.text}` : `${what}: ${migration.state}`,
      migration.state === "failed" ? "bad" : "ok",
    ),
  );
  const late = new Promise((resolve) => setTimeout(() => resolve("late"), PATIENCE_MS));
  if ((await Promise.race([told, late])) === "late") told.catch((error) => toast(`${what}: ${error.message}`, "bad"));
}

/**
 * Asks for proposed migrations and shows them; with `apply`, starts them.
 * @param {Stage} stage
 * @param {HTMLElement} place
 * @param {boolean} apply
 */
async function balance(stage, place, apply) {
  const { moves, failed } = await api.post("balance", { apply });
  if (apply) {
    toast(`${moves.length} migration${moves.length === 1 ? "" : "s"} started`);
    fill(place);
    return;
  }
  /** @type {Table<HostedProposal>} */
  const table = new Table({
    label: "Proposed migrations",
    key: (move) => `${move.host}/${move.vm}`,
    empty: empty("Nothing to migrate", "Migrating whole VMs cannot make the load more even."),
    columns: [
      { title: "VM", value: (move) => `${move.host}/${move.vm}` },
      { title: "From → to", value: (move) => `${move.source} → ${move.target}` },
      { title: "Why", value: (move) => move.reason, show: (move) => h("span.wrap.soft", null, move.reason) },
    ],
  });
  table.update(moves);
  const start = button("Apply all", "operate", () => stage.attempt(() => balance(stage, place, true)), "main small");
  const drop = h("button.button.small", { type: "button", onclick: () => fill(place) }, "Dismiss");
  fill(
    place,
    h(
      "section.panel.proposal",
      null,
      h(
        "div.panel-head",
        null,
        h("h2", null, "Proposed migrations"),
        h("div.tools", null, drop, moves.length ? start : null),
      ),
      failed.map(({ host, error }) => h("p.notice", null, `${host}: ${error}`)),
      table.element,
    ),
  );
}
