/** Snapshots: what every processing element (PE) does at one moment, and the difference of two snapshots. */

/** @import { Change, PeState, Snapshot, SnapshotDiff, SnapshotSummary } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/** @typedef {"hung" | "silent" | "running" | "idle"} State */
/** @typedef {Omit<PeState, "hung"> & { host: string, state: State }} Row PE of a snapshot */
/**
 * @typedef {object} Shown
 * @property {SnapshotSummary[]} list all snapshots, newest first
 * @property {number | null} chosen
 * @property {number | null} other compared with `chosen`
 */
/** @typedef {(id: number, other?: number | null) => void} Choose */

import * as api from "../api.js";
import { empty, fill, h, pill } from "../dom.js";
import { FIGURES } from "../figures.js";
import { clock, count, percent, span } from "../format.js";
import { select } from "../forms.js";
import { button } from "../roles.js";
import { here, href, note } from "../router.js";
import { store } from "../store.js";
import { Table } from "../table.js";

/** @type {View} */
export const snapshots = { name: "snapshots", title: "Snapshots", group: "Watch", mount };

/** @param {{ host: string, vm: string, pe: number }} row */
const place = (row) => `${row.host}/${row.vm}/${row.pe}`;

/** @param {Stage} stage */
function mount(stage) {
  const body = h("div.stack");
  const deadline = select(
    "deadline_ms",
    [
      [50, "50 ms"],
      [100, "100 ms"],
      [500, "500 ms"],
      [2000, "2 s"],
    ],
    100,
    { "aria-label": "Deadline" },
  );
  const list = h("div.snapshot-list");
  /** @type {Shown} */
  const state = { list: [], chosen: null, other: null };
  /** @type {Choose} */
  const choose = (id, other = null) => stage.attempt(() => show(stage, body, state, id, other, draw));
  const draw = () =>
    fill(
      list,
      state.list.length ? state.list.map((each) => listItem(each, state, choose)) : h("p.faint", null, "none yet"),
    );
  const take = button(
    "Take snapshot",
    "view",
    () =>
      stage.attempt(async () => {
        take.disabled = true;
        try {
          const made = await api.post("snapshots", { selector: store.scope.text, deadline_ms: Number(deadline.value) });
          await refresh();
          await show(stage, body, state, made.id, null, draw);
        } finally {
          take.disabled = false;
        }
      }),
    "main",
  );
  const refresh = async () => {
    state.list = (await api.get("snapshots", {}, stage.signal)).sort((a, b) => b.id - a.id);
    draw();
  };
  stage.show(
    "Snapshots",
    "What every processing element (PE) does at one moment, all asked at once",
    [deadline, take],
    h(
      "div.snapshot-columns",
      null,
      h("section.panel", null, h("div.panel-head", null, h("h2", null, "Taken")), list),
      body,
    ),
  );
  fill(
    body,
    h(
      "section.panel",
      null,
      empty("No snapshot shown", "Take a snapshot, or choose one at the left; choose a second one to compare."),
    ),
  );
  stage.attempt(async () => {
    await refresh();
    const { id, with: other } = stage.params;
    if (id) await show(stage, body, state, Number(id), other ? Number(other) : null, draw);
  });
}

/**
 * @param {SnapshotSummary} snapshot
 * @param {Shown} state
 * @param {Choose} choose
 */
function listItem(snapshot, state, choose) {
  const { id } = snapshot;
  const [older, newer] = [id, state.chosen ?? id].sort((a, b) => a - b);
  const compare = h(
    "button.button.small",
    { type: "button", disabled: !state.chosen || state.chosen === id, onclick: () => choose(older, newer) },
    "Compare",
  );
  const title = `${snapshot.pes} PEs of ${snapshot.hosts} hosts, ${percent(snapshot.coverage, 1)} answered; ${snapshot.selector || "everything"}; by ${snapshot.owner}`;
  return h(
    "div.snapshot-item",
    { class: [state.chosen, state.other].includes(id) ? "chosen" : "", title },
    h(
      "button.plain-button.grow",
      { type: "button", onclick: () => choose(id) },
      h("b", null, `#${id}`),
      h("span.soft", null, clock(snapshot.time_ns, false)),
    ),
    compare,
  );
}

/**
 * @param {Stage} stage
 * @param {HTMLElement} body
 * @param {Shown} state
 * @param {number} id
 * @param {number | null} other
 * @param {() => void} draw
 */
async function show(stage, body, state, id, other, draw) {
  if (other)
    fill(
      body,
      diffPanel(
        id,
        other,
        await api.get(`snapshots/${encodeURIComponent(id)}/diff/${encodeURIComponent(other)}`, {}, stage.signal),
      ),
    );
  else fill(body, ...snapshotPanels(await api.get(`snapshots/${encodeURIComponent(id)}`, {}, stage.signal)));
  [state.chosen, state.other] = [id, other];
  if (here().view === "snapshots") note("snapshots", { id, with: other });
  draw();
}

/** @param {Snapshot} snapshot */
function snapshotPanels(snapshot) {
  const hosts = Object.entries(snapshot.hosts);
  const rows = hosts.flatMap(([host, info]) => [
    ...info.pes.map((pe) => ({ ...pe, host, state: stateOf(pe) })),
    ...info.silent.map((name) => silentRow(host, name)),
  ]);
  const silent = rows.filter((row) => row.state === "silent").length;
  const hung = rows.filter((row) => row.state === "hung").length;
  const coverage = rows.length ? (rows.length - silent) / rows.length : NaN;
  const skew = Math.max(0, ...hosts.map(([, info]) => info.skew_ns));
  const figures = [
    [count(rows.length), "PEs", ""],
    [percent(coverage, coverage < 1 ? 1 : 0), "answered", coverage < 1 ? "warn" : "ok"],
    [count(hung), "hung", hung ? "bad" : ""],
    [count(silent), "silent", silent ? "warn" : ""],
    [span(skew), "skew", ""],
  ];
  const table = new Table({
    label: "PEs",
    key: (row) => `${place(row)} ${row.state}`,
    columns: COLUMNS,
    sort: [1, 1],
    empty: empty("No PE", "The selector matched none."),
  });
  table.update(rows);
  return [
    h(
      "div.figures",
      null,
      figures.map(([value, label, tone]) =>
        h("div.figure", null, h("b", { class: tone }, value), h("span", null, label)),
      ),
    ),
    ...snapshot.failed.map(({ host, error }) => h("p.notice", null, `no snapshot of ${host}: ${error}`)),
    h(
      "section.panel",
      null,
      h(
        "div.panel-head",
        null,
        h("h2", null, `Snapshot #${snapshot.id}`),
        h("span.soft", null, clock(snapshot.time_ns)),
      ),
      table.element,
    ),
  ];
}

/**
 * @param {PeState} pe
 * @returns {State}
 */
const stateOf = (pe) => (pe.hung ? "hung" : pe.kernel ? "running" : "idle");

/**
 * @param {string} host
 * @param {string} name
 * @returns {Row}
 */
function silentRow(host, name) {
  const [vm, pe] = name.split("/");
  return {
    host,
    vm,
    pe: Number(pe),
    gpu: "",
    state: "silent",
    kernel: null,
    launch: 0,
    block: 0,
    warps: 0,
    since_ns: 0,
    last_record_ns: 0,
    at_ns: 0,
  };
}

const ORDER = { hung: "0", silent: "1", running: "2", idle: "3" };
const TONES = { hung: "bad", silent: "warn", running: "ok", idle: "" };
/** @type {Column<Row>[]} */
const COLUMNS = [
  {
    title: "PE",
    value: place,
    class: "mono",
    show: (row) => h("a", { href: href("console", { host: row.host, vm: row.vm, pe: row.pe }) }, place(row)),
  },
  { title: "State", value: (row) => `${ORDER[row.state]}`, show: (row) => pill(row.state, TONES[row.state], true) },
  {
    title: "Kernel",
    value: (row) => row.kernel ?? "",
    class: "mono",
    show: (row) => row.kernel ?? h("span.faint", null, "–"),
  },
  {
    title: "Launch",
    value: (row) => row.launch,
    show: (row) => (row.state === "silent" ? "–" : row.launch),
    number: true,
  },
  {
    title: "Block",
    value: (row) => row.block,
    show: (row) => (row.state === "silent" ? "–" : row.block),
    number: true,
  },
  {
    title: "Warps",
    value: (row) => row.warps,
    show: (row) => (row.state === "silent" ? "–" : row.warps),
    number: true,
  },
  {
    title: "Since",
    value: (row) => (row.since_ns && row.at_ns ? row.at_ns - row.since_ns : 0),
    show: (row) => (row.since_ns ? span(Math.max(0, row.at_ns - row.since_ns)) : "–"),
    number: true,
  },
  { title: "Last record", value: (row) => row.last_record_ns, show: (row) => clock(row.last_record_ns), number: true },
];

/**
 * Panel of the PEs that changed from snapshot `a` to `b`, and of busy PEs that are stuck.
 * @param {number} a
 * @param {number} b
 * @param {SnapshotDiff} diff
 */
function diffPanel(a, b, diff) {
  const table = new Table({
    label: "Changes",
    key: place,
    columns: DIFF,
    sort: [1, 1],
    empty: empty("No difference", "Every PE is idle in both."),
  });
  table.update(diff.changes);
  return h(
    "section.panel.diff",
    null,
    h(
      "div.panel-head",
      null,
      h("h2", null, `Changes from #${a} to #${b}`),
      h("span.soft", null, `${span(diff.elapsed_ns)} later`),
      h(
        "div.tools",
        null,
        h("span", { title: FIGURES.changed.text }, pill(`${diff.changed} ${FIGURES.changed.title}`, "info")),
        diff.stuck
          ? h("span", { title: FIGURES.stuck.text }, pill(`${diff.stuck} ${FIGURES.stuck.title}`, "bad"))
          : null,
        h("span", { title: FIGURES.same.text }, pill(`${diff.same} ${FIGURES.same.title}`)),
      ),
    ),
    table.element,
  );
}

/** @type {{ [K in Change["kind"]]?: string }} */
const CHANGES = { hung: "bad", stuck: "bad", silent: "warn", gone: "warn", appeared: "ok" };
/** @type {Change["kind"][]} */
const RANK = ["hung", "stuck", "silent", "gone", "appeared", "other kernel", "next launch", "further"];

/** @param {PeState | null} state */
const doing = (state) =>
  !state
    ? h("span.faint", null, "–")
    : state.kernel
      ? `${state.kernel} · launch ${state.launch} · block ${state.block}`
      : h("span.faint", null, "idle");
/** @type {Column<Change>[]} */
const DIFF = [
  { title: "PE", value: place, class: "mono" },
  {
    title: "Change",
    value: (row) => RANK.indexOf(row.kind),
    show: (row) => pill(row.kind, CHANGES[row.kind] ?? "info"),
  },
  { title: "Before", value: (row) => JSON.stringify(row.before), show: (row) => doing(row.before), class: "mono" },
  { title: "After", value: (row) => JSON.stringify(row.after), show: (row) => doing(row.after), class: "mono" },
];
