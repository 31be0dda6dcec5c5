/** Counters, gauges and thresholds of processing elements (PEs), from perf channels. */

/** @import { HostedStat, ThresholdRequest } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/** @typedef {Map<string, number[]>} Courses last values of each counter and gauge, oldest first */
/** @typedef {HostedStat & { key: string, kind: string, name: string, value: number, turn: number }} ValueRow */

import * as api from "../api.js";
import { bar, sparkline } from "../chart.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { FIGURES } from "../figures.js";
import { clock, count, describe, percent, span } from "../format.js";
import { dialog, field, input } from "../forms.js";
import { openDialog } from "../instances.js";
import { button } from "../roles.js";
import { href } from "../router.js";
import { compose, parse } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

const KEPT = 60;
const PERIOD_MS = 1000;

/** @type {View} */
export const counters = { name: "counters", title: "Counters", group: "Watch", mount };

/** @param {{ host: string, vm: string, pe: number }} row */
const place = (row) => `${row.host}/${row.vm}/${row.pe}`;

/** @param {Stage} stage */
function mount(stage) {
  /** @type {Courses} */
  const courses = new Map();
  const table = new Table({
    label: "PEs",
    key: place,
    columns: columns(),
    sort: [0, 1],
    empty: empty(
      "No counters",
      "PEs count while a perf channel is open on them.",
      button("Open perf channels", "operate", () => openDialog({ fn: "perf" }), "main"),
    ),
  });
  const values = new Table({
    label: "Counters and gauges",
    key: (row) => row.key,
    columns: valueColumns(courses),
    sort: [0, 1],
    empty: empty("No counters or gauges of kernels", "Kernels make them with vgc_count and vgc_gauge."),
  });
  const crossings = h("ul.event-list");
  stage.show(
    "Counters",
    "Counters of processing elements (PEs), and counters and gauges of their kernels",
    [
      button("Set threshold", "operate", () => thresholdDialog()),
      button("Open perf channels", "operate", () => openDialog({ fn: "perf" }), "main"),
    ],
    h("section.panel", null, h("div.panel-head", null, h("h2", null, "PEs")), table.element),
    h(
      "section.panel",
      null,
      h("div.panel-head", null, h("h2", null, "Counters and gauges of the kernels")),
      values.element,
    ),
    h(
      "section.panel",
      null,
      h("div.panel-head", null, h("h2", null, "Thresholds crossed")),
      h("div.panel-body", null, crossings),
    ),
  );
  stage.every(PERIOD_MS, async () => {
    const rows = await api.get("stats", { selector: store.scope.text }, stage.signal);
    table.update(rows);
    values.update(rows.flatMap((row) => valuesOf(row, courses)));
  });
  const cross = () => showCrossings(crossings);
  stage.on(store, "event", cross);
  cross();
}

/** @returns {Column<HostedStat>[]} */
function columns() {
  /** @param {HostedStat} row */
  const share = (row) => {
    const meter = bar(`${FIGURES.busy_share.title} of ${place(row)}`);
    meter.set(row.busy_share, "");
    return h("span.meter-cell", null, meter.element, percent(row.busy_share, 1));
  };
  return [
    {
      title: "PE",
      value: place,
      class: "mono",
      show: (row) => h("a", { href: href("console", { host: row.host, vm: row.vm, pe: row.pe }) }, place(row)),
    },
    { title: "GPU", value: (row) => row.gpu },
    { title: "Busy share", help: FIGURES.busy_share.text, value: (row) => row.busy_share, show: share },
    { title: "Blocks", value: (row) => row.blocks, show: (row) => count(row.blocks), number: true },
    { title: "Warps", value: (row) => row.warps, show: (row) => count(row.warps), number: true },
    { title: "Launches", value: (row) => row.launches, show: (row) => count(row.launches), number: true },
    {
      title: "Busy",
      help: FIGURES.busy.text,
      value: (row) => row.busy_ns,
      show: (row) => span(row.busy_ns),
      number: true,
    },
    {
      title: "Stall",
      help: FIGURES.stall.text,
      value: (row) => row.stall_ns,
      show: (row) => span(row.stall_ns),
      number: true,
    },
    {
      title: "Faults",
      value: (row) => row.faults,
      show: (row) => h("span", { class: row.faults ? "bad" : "faint" }, count(row.faults)),
      number: true,
    },
  ];
}

/**
 * One row per counter and gauge of a PE; appends their values to `courses`.
 * @param {HostedStat} row
 * @param {Courses} courses
 * @returns {ValueRow[]}
 */
function valuesOf(row, courses) {
  /** @type {[kind: string, found: HostedStat["gauges"]][]} */
  const kinds = [
    ["counter", row.counters],
    ["gauge", row.gauges],
  ];
  return kinds.flatMap(([kind, found]) =>
    Object.entries(found ?? {}).map(([name, value]) => {
      const key = `${place(row)} ${kind} ${name}`;
      const course = courses.get(key) ?? [];
      course.push(value);
      if (course.length > KEPT) course.shift();
      courses.set(key, course);
      return { ...row, key, kind, name, value, turn: courseTurn() };
    }),
  );
}

let turns = 0;
/** Value that differs at each call: makes the table draw a course again. */
function courseTurn() {
  turns += 1;
  return turns;
}

/**
 * @param {Courses} courses
 * @returns {Column<ValueRow>[]}
 */
function valueColumns(courses) {
  /** @type {Map<string, ReturnType<typeof sparkline>>} */
  const lines = new Map();
  /** @param {ValueRow} row */
  const course = (row) => {
    const line = lines.get(row.key) ?? sparkline(150, 22, row.kind === "gauge" ? "warn" : "accent");
    lines.set(row.key, line);
    const values = courses.get(row.key) ?? [];
    line.draw(row.kind === "gauge" ? values : steps(values));
    return line.canvas;
  };
  return [
    { title: "Name", value: (row) => row.name, class: "mono" },
    { title: "Kind", value: (row) => row.kind, show: (row) => pill(row.kind, "tag") },
    { title: "PE", value: place, class: "mono" },
    { title: "Value", value: (row) => row.value, show: (row) => count(row.value), number: true },
    { title: "Last minute", value: (row) => row.turn, show: course, sort: false, class: "tight" },
    {
      title: "",
      value: () => 0,
      sort: false,
      class: "tight",
      show: (row) => button("Threshold", "operate", () => thresholdDialog(row), "small"),
    },
  ];
}

/**
 * Differences between successive values of a counter.
 * @param {number[]} course
 */
function steps(course) {
  return course.slice(1).map((value, at) => Math.max(0, value - course[at]));
}

/** @param {ValueRow | null} row */
function thresholdDialog(row = null) {
  const scope = {
    ...parse(store.scope.text).found,
    ...(row ? { host: row.host, vm: row.vm, pe: row.pe } : {}),
    fn: undefined,
  };
  return dialog({
    title: "Threshold",
    needs: "operate",
    action: "Set",
    text: "A PE makes a record as soon as the gauge leaves this range. The threshold applies to the PEs that the selector matches.",
    fields: [
      field("Selector", input("selector", compose(scope), { class: "mono" }), "", true),
      field("Gauge", input("name", row?.name ?? "", { required: true, class: "mono" }), "", true),
      field("Low", input("low", "", { type: "number", step: "any" }), "empty: no bound"),
      field("High", input("high", "", { type: "number", step: "any" }), "empty: no bound"),
    ],
    submit: async (/** @type {ThresholdRequest} */ { selector = "", name, low, high }) => {
      await api.post("thresholds", { selector, name, low: low ?? null, high: high ?? null });
      toast(`Threshold of ${name} is set`);
    },
  });
}

/** @param {HTMLElement} list */
function showCrossings(list) {
  const found = store.events
    .filter((event) => event.event === "threshold" || event.event === "gauge")
    .slice(-20)
    .reverse();
  fill(
    list,
    found.length
      ? found.map((event) =>
          h(
            "li",
            null,
            h("time", null, clock(event.time_ns)),
            pill(event.event, "warn"),
            h(
              "span.mono",
              null,
              [event.host, event.vm, event.detail?.pe].filter((part) => part !== null && part !== undefined).join("/"),
            ),
            h("span.wrap", null, describe(event.detail)),
          ),
        )
      : h("li.faint", null, "none since this page was opened"),
  );
}
