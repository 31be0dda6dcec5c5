/** Counters, gauges and thresholds of elements, from perf channels. */

import * as api from "../api.js";
import { bar, sparkline } from "../chart.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { dialog, field, input } from "../forms.js";
import { clock, count, describe, percent, span } from "../format.js";
import { openDialog } from "../instances.js";
import { button } from "../roles.js";
import { href } from "../router.js";
import { compose, parse } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

const KEPT = 60;
const PERIOD_MS = 1000;

export const counters = { name: "counters", title: "Counters", group: "Watch", mount };

const place = (row) => `${row.host}/${row.vm}/${row.pe}`;

function mount(stage) {
  const courses = new Map();
  const table = new Table({
    label: "Elements",
    key: place,
    columns: columns(),
    sort: [0, 1],
    empty: empty(
      "No element is counted",
      "Counters come from perf channels.",
      button("Open perf channels", "operate", () => openDialog({ fn: "perf" }), "main"),
    ),
  });
  const values = new Table({
    label: "Counters and gauges",
    key: (row) => row.key,
    columns: valueColumns(courses),
    sort: [0, 1],
    empty: empty("No counter, no gauge", "Kernels make them with vgc_count and vgc_gauge."),
  });
  const crossings = h("ul.event-list");
  stage.show(
    "Counters",
    "What the elements count, and the gauges of their kernels",
    [
      button("Set threshold", "operate", () => thresholdDialog()),
      button("Open perf channels", "operate", () => openDialog({ fn: "perf" }), "main"),
    ],
    h("section.panel", null, h("div.panel-head", null, h("h2", null, "Elements")), table.element),
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

function columns() {
  const occupancy = (row) => {
    const meter = bar(`occupancy of ${place(row)}`);
    meter.set(row.occupancy, "");
    return h("span.meter-cell", null, meter.element, percent(row.occupancy, 1));
  };
  return [
    {
      title: "Element",
      value: place,
      class: "mono",
      show: (row) => h("a", { href: href("console", { host: row.host, vm: row.vm, pe: row.pe }) }, place(row)),
    },
    { title: "GPU", value: (row) => row.gpu },
    { title: "Occupancy", value: (row) => row.occupancy, show: occupancy },
    { title: "Blocks", value: (row) => row.blocks, show: (row) => count(row.blocks), number: true },
    { title: "Warps", value: (row) => row.warps, show: (row) => count(row.warps), number: true },
    { title: "Launches", value: (row) => row.launches, show: (row) => count(row.launches), number: true },
    { title: "Busy", value: (row) => row.busy_ns, show: (row) => span(row.busy_ns), number: true },
    { title: "Stalled", value: (row) => row.stall_ns, show: (row) => span(row.stall_ns), number: true },
    {
      title: "Faults",
      value: (row) => row.faults,
      show: (row) => h("span", { class: row.faults ? "bad" : "faint" }, count(row.faults)),
      number: true,
    },
  ];
}

/** One row per counter and gauge of an element; their courses are remembered. */
function valuesOf(row, courses) {
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
      return { ...row, key, kind, name, value, turn: courseTurn(course) };
    }),
  );
}

let turns = 0;
/** A value that differs each time a course got longer, so that its drawing is brought up to date. */
function courseTurn() {
  turns += 1;
  return turns;
}

function valueColumns(courses) {
  const lines = new Map();
  const course = (row) => {
    if (!lines.has(row.key)) lines.set(row.key, sparkline(150, 22, row.kind === "gauge" ? "warn" : "accent"));
    const line = lines.get(row.key);
    line.draw(row.kind === "gauge" ? courses.get(row.key) : steps(courses.get(row.key)));
    return line.canvas;
  };
  return [
    { title: "Name", value: (row) => row.name, class: "mono" },
    { title: "Kind", value: (row) => row.kind, show: (row) => pill(row.kind, "tag") },
    { title: "Element", value: place, class: "mono" },
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

/** What a counter gained from one time to the next. */
function steps(course) {
  return course.slice(1).map((value, at) => Math.max(0, value - course[at]));
}

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
    text: "When the gauge leaves the range the element makes a record at once; the threshold holds for the elements that the selector chooses.",
    fields: [
      field("Selector", input("selector", compose(scope), { class: "mono" }), "", true),
      field("Gauge", input("name", row?.name ?? "", { required: true, class: "mono" }), "", true),
      field("Low", input("low", "", { type: "number", step: "any" }), "empty: none"),
      field("High", input("high", "", { type: "number", step: "any" }), "empty: none"),
    ],
    submit: async ({ selector = "", name, low, high }) => {
      await api.post("thresholds", { selector, name, low: low ?? null, high: high ?? null });
      toast(`Threshold of ${name} is set`);
    },
  });
}

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
