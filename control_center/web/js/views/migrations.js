/** Load of the whole system, and moving work: proposals, migrations, confinement. */

import * as api from "../api.js";
import { bar } from "../chart.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { confirm, dialog, field, input, select } from "../forms.js";
import { bytes, clock, count, percent, span } from "../format.js";
import { button } from "../roles.js";
import { matches } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

export const migrations = { name: "migrations", title: "Load & moves", group: "Steer", mount };

const PERIOD_MS = 1000;
const PATIENCE_MS = 1500;
const DONE = ["done", "failed"];
const STAGES = { starting: 0.05, quiescing: 0.15, copying: 0.5, restoring: 0.85, done: 1, failed: 1 };

function mount(stage) {
  const loads = h("div.load-list");
  const proposal = h("div");
  const vms = new Table({
    label: "VMs",
    key: (row) => `${row.host}/${row.vm}`,
    columns: vmColumns(stage),
    sort: [3, -1],
    empty: empty("No VM", "The selector chooses none."),
  });
  const history = new Table({
    label: "Migrations",
    key: (row) => `${row.host}/${row.migration}`,
    columns: HISTORY,
    sort: [0, -1],
    empty: empty("Nothing was moved", "Migrations appear here with their progress."),
  });
  const propose = button(
    "Propose moves",
    "operate",
    () => stage.attempt(() => balance(stage, proposal, false)),
    "main",
  );
  stage.show(
    "Load & moves",
    "The whole system's load, and where work goes; guests notice nothing",
    [propose],
    proposal,
    h("div.columns.snug.loads", null, panel("Load by GPU", loads), panel("Migrations", history.element)),
    panel("VMs", vms.element),
  );
  const show = () => {
    showLoads(loads);
    vms.update(store.chosenVms().map((vm) => ({ ...vm, load: store.load.get(vm.host)?.vms?.[vm.vm] ?? 0 })));
  };
  for (const topic of ["hosts", "load", "scope", "role"]) stage.on(store, topic, show);
  show();
  stage.every(PERIOD_MS, async () => {
    const rows = await api.get("migrations", {}, stage.signal);
    history.update(rows.filter((row) => matches(store.scope, { host: row.host, vm: row.vm })));
  });
}

const panel = (title, ...content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/** Busy part of a GPU now; what was last known of a host that does not answer is no load. */
function loadOf(host, gpu) {
  return host.state === "up" ? store.load.get(host.host)?.gpus?.[gpu.gpu] : undefined;
}

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

function vmColumns(stage) {
  const load = (row) => {
    const meter = bar(`load of ${row.vm}`);
    meter.set(row.load);
    return h("span.meter-cell", null, meter.element, percent(row.load));
  };
  const actions = (row) =>
    h(
      "div.buttons",
      null,
      button("Migrate", "operate", () => migrateDialog(row), "small"),
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
      title: "Elements",
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
      show: (row) => pill(vmState(row), { ready: "ok", failed: "bad" }[vmState(row)] ?? "warn", true),
    },
    { title: "", value: (row) => Boolean(row.quiesced), show: actions, sort: false, class: "tight" },
  ];
}

const workerOf = (row) => `workers/${encodeURIComponent(row.host)}/${encodeURIComponent(row.vm)}`;
const vmState = (row) => (row.quiesced ? "quiesced" : row.state);

const HISTORY = [
  { title: "Started", value: (row) => row.started_ns, show: (row) => clock(row.started_ns, false), class: "mono" },
  { title: "VM", value: (row) => `${row.host}/${row.vm}`, class: "mono" },
  { title: "Way", value: (row) => `${row.source} → ${row.target}`, class: "mono" },
  { title: "State", value: (row) => `${row.state} ${row.text}`, show: stateOf },
  { title: "Moved", value: (row) => row.bytes, show: (row) => bytes(row.bytes), number: true },
  { title: "Paused", value: (row) => row.paused_ns, show: (row) => span(row.paused_ns), number: true },
];

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

function migrateDialog(row) {
  const gpus = (store.host(row.host)?.gpus ?? []).map((gpu) => [
    gpu.gpu,
    `${gpu.gpu} · ${gpu.name} · ${percent(store.load.get(row.host)?.gpus?.[gpu.gpu] ?? 0)}`,
  ]);
  return dialog({
    title: `Migrate ${row.vm}`,
    needs: "operate",
    action: "Migrate",
    text: `Its memory, programs and streams go to another GPU of ${row.host} and go on there, at the same addresses.`,
    fields: [
      field("To GPU", select("gpu", [["", "the least loaded"], ...gpus], ""), "", true),
      field("Elements there", input("pes", "", { class: "mono", placeholder: "all; or 0-3|8" }), "", true),
    ],
    submit: async (values) => {
      await soon(api.post("migrations", { host: row.host, vm: row.vm, ...values }), `Migration of ${row.vm}`);
    },
  });
}

function confineDialog(row) {
  return dialog({
    title: `Confine ${row.vm}`,
    needs: "operate",
    action: "Confine",
    text: "Its blocks run only on these elements from the next block on. Empty: on all again.",
    fields: [field("Elements", input("pes", "", { class: "mono", placeholder: `0-${row.pes - 1}` }), "", true)],
    submit: async ({ pes }) => {
      await soon(api.post("confine", { host: row.host, vm: row.vm, pes: pes ?? null }), `Confinement of ${row.vm}`);
      await store.refreshHosts();
    },
  });
}

/** Waits for a move for a moment, in which most refusals come; what becomes of it later is told in the corner. */
async function soon(work, what) {
  const told = work.then((move) =>
    toast(
      move.state === "failed" ? `${what} failed: ${move.text}` : `${what}: ${move.state}`,
      move.state === "failed" ? "bad" : "ok",
    ),
  );
  const late = new Promise((resolve) => setTimeout(() => resolve("late"), PATIENCE_MS));
  if ((await Promise.race([told, late])) === "late") told.catch((error) => toast(`${what}: ${error.message}`, "bad"));
}

/** Asks for moves, or starts them. */
async function balance(stage, place, apply) {
  const { moves, failed } = await api.post("balance", { apply });
  if (apply) {
    toast(`${moves.length} move${moves.length === 1 ? "" : "s"} started`);
    fill(place);
    return;
  }
  const table = new Table({
    label: "Proposed moves",
    key: (move) => `${move.host}/${move.vm}`,
    empty: empty("Nothing to move", "The load is as even as moving whole VMs can make it."),
    columns: [
      { title: "VM", value: (move) => `${move.host}/${move.vm}` },
      { title: "Way", value: (move) => `${move.source} → ${move.target}` },
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
        h("h2", null, "Proposed moves"),
        h("div.tools", null, drop, moves.length ? start : null),
      ),
      failed.map(({ host, error }) => h("p.notice", null, `${host}: ${error}`)),
      table.element,
    ),
  );
}
