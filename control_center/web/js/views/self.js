/** Cost of the control system itself: the centre, each daemon, and actions of the governor. */

/** @import { Child } from "../dom.js" */
/** @import { RecorderStatus, SelfAnswer, SelfInfo, SelfProblem } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/** @typedef {SelfInfo & { host: string }} Daemon */
/** @typedef {{ host: string, vm: string, cost: number, budget: number }} Cost of a VM's PEs, in percent of their time */

import * as api from "../api.js";
import { bar, sparkline } from "../chart.js";
import { empty, fill, h, pill } from "../dom.js";
import { FIGURES } from "../figures.js";
import { bytes, clock, count, describe, moment, span } from "../format.js";
import { store } from "../store.js";
import { Table } from "../table.js";

/** @type {View} */
export const self = { name: "self", title: "Self-cost", group: "Steer", mount };

const PERIOD_MS = 2000;
const KEPT = 60;

/** @param {Stage} stage */
function mount(stage) {
  const figures = h("div.figures");
  const recorder = h("dl.facts");
  const problems = h("ul.event-list", { role: "status" });
  const governor = h("ul.event-list");
  /** @type {{ records: number[], cpu: number[] }} */
  const courses = { records: [], cpu: [] };
  const lines = { records: sparkline(null, 96), cpu: sparkline(null, 96, "warn") };
  const daemons = new Table({
    label: "Daemons",
    key: (row) => row.host,
    columns: DAEMONS,
    sort: [1, -1],
    empty: empty("No daemon", "No daemon answers."),
  });
  const vms = new Table({
    label: "Cost by VM",
    key: (row) => `${row.host}/${row.vm}`,
    columns: VMS,
    sort: [1, -1],
    empty: empty("No cost", "No channel is open."),
  });
  stage.show(
    "Self-cost",
    "Health of the control system, the CPU and memory that it uses, and its share of the processing elements' time",
    [],
    figures,
    panel("Health", h("div.panel-body", null, problems)),
    h(
      "div.columns.three",
      null,
      panel("Records per second", h("div.panel-body", null, lines.records.canvas)),
      panel("CPU of all daemons", h("div.panel-body", null, lines.cpu.canvas)),
      panel("Recorder", h("div.panel-body", null, recorder)),
    ),
    h("div.columns.later", null, panel("Daemons", daemons.element), panel("Cost on the PEs, by VM", vms.element)),
    panel("Governor", h("div.panel-body", null, governor)),
  );
  stage.every(PERIOD_MS, async () => {
    const answer = await api.get("self", {}, stage.signal);
    const rows = hostsOf(answer);
    daemons.update(rows);
    vms.update(
      rows.flatMap((row) =>
        Object.entries(row.cost_percent ?? {}).map(([vm, cost]) => ({
          host: row.host,
          vm,
          cost,
          budget: row.budget_percent,
        })),
      ),
    );
    showFigures(figures, answer, rows);
    showRecorder(recorder, answer.recorder);
    showProblems(problems, answer.problems);
    push(
      courses.records,
      rows.reduce((sum, row) => sum + row.records_per_s, 0),
    );
    push(
      courses.cpu,
      rows.reduce((sum, row) => sum + row.cpu_percent, 0),
    );
    lines.records.draw(courses.records);
    lines.cpu.draw(courses.cpu);
  });
  const govern = () => {
    const found = store.events
      .filter((event) => event.event === "governor")
      .slice(-20)
      .reverse();
    fill(
      governor,
      found.length
        ? found.map((event) =>
            h(
              "li",
              null,
              h("time", null, clock(event.time_ns)),
              pill([event.host, event.vm].filter(Boolean).join("/")),
              h("span.wrap", null, describe(event.detail)),
            ),
          )
        : h("li.faint", null, "no action since this page was opened"),
    );
  };
  stage.on(store, "event", govern);
  govern();
}

/**
 * @param {string} title
 * @param {...Child} content
 */
const panel = (title, ...content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/**
 * @param {number[]} course
 * @param {number} value
 */
function push(course, value) {
  course.push(value);
  if (course.length > KEPT) course.shift();
}

/**
 * Figures of each host that answered.
 * @param {SelfAnswer} answer
 * @returns {Daemon[]}
 */
function hostsOf(answer) {
  return Object.entries(answer.hosts)
    .filter(([host]) => store.scope.host(host))
    .map(([host, info]) => ({ host, ...info }));
}

/**
 * @param {HTMLElement} place
 * @param {SelfAnswer} answer
 * @param {Daemon[]} rows
 */
function showFigures(place, answer, rows) {
  /** @param {"channels" | "cpu_percent" | "lost" | "memory_bytes" | "records_per_s"} key */
  const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
  const { centre } = answer;
  const items = [
    [count(sum("channels")), "channels"],
    [count(Math.round(sum("records_per_s"))), "records/s"],
    [count(sum("lost")), "records lost"],
    [`${sum("cpu_percent").toFixed(1)} %`, "CPU, daemons"],
    [bytes(sum("memory_bytes")), "memory, daemons"],
    [`${centre.cpu_percent.toFixed(1)} %`, "CPU, centre"],
    [bytes(centre.memory_bytes), "memory, centre"],
    [count(centre.dropped), "messages dropped"],
  ];
  fill(
    place,
    items.map(([value, label]) => h("div.figure", null, h("b", null, value), h("span", null, label))),
  );
}

/**
 * @param {HTMLElement} place
 * @param {RecorderStatus | null} recorder
 */
function showRecorder(place, recorder) {
  const rows = recorder
    ? [
        ["Store", recorder.url],
        ["Size", bytes(recorder.bytes)],
        ["Records", count(recorder.records)],
        ["Since", moment(recorder.first_ns)],
        ["Left out", count(recorder.left_out)],
        ["Behind", span(recorder.lag_ns)],
        ["In memory", `${bytes(recorder.queued_bytes)} of ${bytes(recorder.queue_bytes)}`],
        ["Disk free", recorder.free_bytes === null ? "-" : bytes(recorder.free_bytes)],
        ["State", stateOf(recorder)],
      ]
    : [["Recorder", "none"]];
  fill(
    place,
    rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/**
 * @param {RecorderStatus} recorder
 * @returns {Child}
 */
function stateOf({ failure, ended }) {
  if (ended !== null) return h("span.bad.wrap", null, `ended ${moment(ended.at_ns)}: ${ended.error}`);
  if (failure === null) return "writes";
  if (failure.to_ns === null)
    return h("span.bad.wrap", null, `cannot write since ${moment(failure.from_ns)}: ${failure.error}`);
  return h("span.wrap", null, `writes again since ${moment(failure.to_ns)}, after: ${failure.error}`);
}

/**
 * @param {HTMLElement} place
 * @param {SelfProblem[]} problems
 */
function showProblems(place, problems) {
  fill(
    place,
    problems.length
      ? problems.map((one) => h("li", null, pill(one.host, "bad"), h("span.wrap", null, `${one.what}; ${one.remedy}`)))
      : h("li.faint", null, "all is well"),
  );
}

/** @type {Column<Daemon>[]} */
const DAEMONS = [
  { title: "Host", value: (row) => row.host },
  { title: "CPU", value: (row) => row.cpu_percent, show: (row) => `${row.cpu_percent.toFixed(1)} %`, number: true },
  { title: "Memory", value: (row) => row.memory_bytes, show: (row) => bytes(row.memory_bytes), number: true },
  { title: "Channels", help: FIGURES.all_channels.text, value: (row) => row.channels, number: true },
  {
    title: "Records/s",
    value: (row) => row.records_per_s,
    show: (row) => count(Math.round(row.records_per_s)),
    number: true,
  },
  {
    title: "Loop held",
    value: (row) => row.loop_delay_ns,
    show: (row) => span(row.loop_delay_ns),
    number: true,
  },
  {
    title: "Links read late",
    value: (row) => row.link_pauses.reduce((sum, link) => sum + link.pauses, 0),
    number: true,
  },
  {
    title: "Lost",
    value: (row) => row.lost,
    show: (row) => h("span", { class: row.lost ? "warn" : "faint" }, count(row.lost)),
    number: true,
  },
];

/** @param {Cost} row */
function budgetBar(row) {
  const meter = bar(`cost of ${row.vm}`);
  const part = row.budget ? row.cost / row.budget : 0;
  meter.set(part, part > 1 ? "bad" : part > 0.8 ? "warn" : "ok");
  return h("span.meter-cell", null, meter.element, `of ${row.budget} %`);
}

/** @type {Column<Cost>[]} */
const VMS = [
  { title: "VM", value: (row) => `${row.host}/${row.vm}` },
  { title: "Cost", value: (row) => row.cost, show: (row) => `${row.cost.toFixed(3)} %`, number: true },
  { title: "Budget used", value: (row) => row.cost / (row.budget || 1), show: budgetBar },
];
