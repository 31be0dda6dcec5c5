/** A VM: its limits and what it uses of them, latency, requests, functions, those that are registered; changes its limits, removes it. */

/** @import { Child } from "../dom.js" */
/** @import { HostedWork, LimitFigures, LimitsInfo, SetLimitsRequest, VmInfo } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/** @typedef {VmInfo & { host: string, hostState: string }} Vm */
/** @typedef {{ limit: keyof LimitFigures, info: LimitsInfo, most: number | null }} LimitRow `most`: what its host has */
/** @typedef {{ name: string, launches: number, busy: number, part: number, rate: number, mean: number | null }} FunctionRow */
/**
 * Work of a VM since the looks before.
 * @typedef {object} Course
 * @property {number[]} requests per second
 * @property {number[]} latency operations since the look before, by class
 * @property {Vm | null} before
 * @property {Map<string, HostedWork>} work
 * @property {number} at
 * @property {number} told when the host told the VM's figures, in nanoseconds
 * @property {string} vm
 */

import * as api from "../api.js";
import { bar, sparkline } from "../chart.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { bytes, count, percent, span } from "../format.js";
import { confirm, dialog, field, input, select } from "../forms.js";
import { button } from "../roles.js";
import { note } from "../router.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { registeredRows, registeredTable } from "./registered.js";

/** @type {View} */
export const vms = { name: "vms", title: "VMs", group: "Watch", mount };

const PERIOD_MS = 2000;
const KEPT = 60;
const MIB = 1 << 20;
const ALLOTMENT_TONES = { taken: "ok", pending: "warn", wrong: "bad", "never acknowledged": "warn", unused: "" };
/** @type {{ [K in keyof LimitFigures]: string }} */
const LIMITS = {
  pes: "PEs",
  memory_bytes: "Memory",
  queue_depth: "Requests in flight",
  contexts: "Contexts",
  streams: "Streams of a context",
  weight: "Weight",
  deadline_ns: "Longest launch",
};
const NAMES = /** @type {(keyof LimitFigures)[]} */ (Object.keys(LIMITS));

/** @param {Stage} stage */
function mount(stage) {
  const choice = select("vm", [["", "choose a VM"]], "", { "aria-label": "VM" });
  const figures = h("div.figures");
  const facts = h("dl.facts");
  const rate = sparkline(null, 96);
  const limits = new Table({
    label: "Limits",
    key: (row) => row.limit,
    columns: LIMIT_COLUMNS,
    empty: empty("No limits", "The host does not say."),
  });
  const functions = new Table({
    label: "Functions",
    key: (row) => row.name,
    columns: FUNCTION_COLUMNS,
    sort: [2, -1],
    empty: empty("No launches", "Functions appear here while the VM launches them."),
  });
  const registered = registeredTable();
  const change = button("Change limits", "admin", () => changeDialog(stage, chosen()), "main");
  const remove = button("Remove", "admin", () => removeDialog(chosen()), "danger");
  stage.show(
    "VMs",
    "What a VM is allotted, and what it uses of it",
    [choice, change, remove],
    figures,
    h(
      "div.columns",
      null,
      panel("Requests per second", h("div.panel-body", null, rate.canvas)),
      panel("Guest and limits", h("div.panel-body", null, facts)),
    ),
    panel("Limits", limits.element),
    panel("Functions", functions.element),
    panel("Registered functions", registered.element),
  );
  /** @type {Course} */
  let course = fresh("");
  let wanted = `${stage.params.host ?? ""}/${stage.params.vm ?? ""}`;
  /** @returns {Vm | undefined} */
  const chosen = () => store.chosenVms().find((vm) => `${vm.host}/${vm.vm}` === wanted);
  const list = () => {
    const names = store.chosenVms().map((vm) => `${vm.host}/${vm.vm}`);
    if (!names.includes(wanted) && names.length > 0 && wanted === "/") wanted = names[0];
    const known = [...choice.options].map((option) => option.value);
    if (names.join("\n") !== known.join("\n"))
      fill(
        choice,
        names.map((name) => h("option", { value: name }, name)),
      );
    choice.value = wanted;
    change.hidden = remove.hidden = chosen() === undefined;
  };
  choice.addEventListener("change", () => {
    wanted = choice.value;
    const vm = chosen();
    if (vm) note("vms", { host: vm.host, vm: vm.vm });
    course = fresh(wanted);
    list();
    void look();
  });
  const look = async () => {
    const vm = chosen();
    if (vm === undefined) {
      fill(figures, empty("No VM", "No VM is chosen, or the selector above leaves it out."));
      return;
    }
    const name = `${vm.host}/${vm.vm}`;
    if (course.vm !== name) course = fresh(name);
    const path = /** @type {const} */ (`vms/${encodeURIComponent(vm.host)}/${encodeURIComponent(vm.vm)}/limits`);
    const selector = `host=${vm.host},vm=${vm.vm}`;
    const [info, work, programs] = await Promise.all([
      api.get(path, {}, stage.signal),
      api.get("functions", { selector }, stage.signal),
      api.get("programs", { selector }, stage.signal),
    ]);
    if (course.vm !== name) return;
    const rows = step(course, vm, work);
    showFigures(figures, vm, course);
    showFacts(facts, vm, info);
    rate.draw(course.requests);
    limits.update(NAMES.map((limit) => ({ limit, info, most: mostOf(vm, limit) })));
    functions.update(rows);
    registered.update(registeredRows(programs, work));
  };
  for (const topic of /** @type {const} */ (["hosts", "scope", "role"])) stage.on(store, topic, list);
  list();
  stage.every(PERIOD_MS, async () => {
    await store.refreshHosts();
    await look();
  });
}

/**
 * @param {string} title
 * @param {...Child} content
 */
const panel = (title, ...content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/**
 * @param {string} vm
 * @returns {Course}
 */
const fresh = (vm) => ({ requests: [], latency: [], before: null, work: new Map(), at: 0, told: 0, vm });

/**
 * Amount that the host has of what a limit is about; null: it is not about a thing of the host.
 * @param {Vm} vm
 * @param {keyof LimitFigures} limit
 */
function mostOf(vm, limit) {
  const gpu = store.host(vm.host)?.gpus.find((one) => one.gpu === vm.gpu);
  if (gpu === undefined) return null;
  if (limit === "pes") return gpu.pes;
  return limit === "memory_bytes" ? gpu.memory_bytes : null;
}

/**
 * Notes what the VM has done since the look before; returns the rows of its functions.
 * @param {Course} course
 * @param {Vm} vm
 * @param {HostedWork[]} work
 * @returns {FunctionRow[]}
 */
function step(course, vm, work) {
  const at = performance.now();
  const seconds = (at - course.at) / 1000;
  const isFirst = course.before === null;
  const told = store.host(vm.host)?.told_ns ?? Date.now() * 1e6;
  if (course.before !== null && told > course.told) {
    const done = vm.requests_done - course.before.requests_done;
    course.requests.push((done < 0 ? vm.requests_done : done) / ((told - course.told) / 1e9));
    if (course.requests.length > KEPT) course.requests.shift();
    const then = course.before.latency ?? [];
    const counts = (vm.latency ?? []).map((now, at) => now - (then[at] ?? 0));
    course.latency = counts.some((one) => one < 0) ? (vm.latency ?? []) : counts;
  }
  const rows = isFirst ? [] : work.map((now) => since(course.work.get(now.function), now, seconds));
  if (told !== course.told) course.before = vm;
  course.told = told;
  course.work = new Map(work.map((one) => [one.function, one]));
  course.at = at;
  return rows.filter((row) => row.launches > 0);
}

/**
 * @param {HostedWork | undefined} before undefined: the function has got its place since
 * @param {HostedWork} now
 * @param {number} seconds
 * @returns {FunctionRow}
 */
function since(before, now, seconds) {
  const counted = before !== undefined && before.launches <= now.launches && before.busy_ns <= now.busy_ns;
  const launches = now.launches - (counted ? before.launches : 0);
  const busy = now.busy_ns - (counted ? before.busy_ns : 0);
  return {
    name: now.function,
    launches,
    busy,
    part: busy / (seconds * 1e9),
    rate: launches / seconds,
    mean: launches ? busy / launches : null,
  };
}

/**
 * Latency that `part` of the operations do not exceed, as the end of its class; null: no operation was counted.
 * Classes are those of virtio_proto/control/latency.py: four for each doubling from 256 ns on.
 * @param {number[]} counts
 * @param {number} part
 */
function quantile(counts, part) {
  let left = part * counts.reduce((sum, one) => sum + one, 0);
  if (left <= 0) return null;
  const at = counts.findIndex((one) => {
    left -= one;
    return left <= 0;
  });
  const doubling = Math.floor(at / 4);
  return at < 4 ? (at + 1) * 256 : (4 + (at % 4) + 1) * 256 * 2 ** (doubling - 1);
}

/**
 * @param {HTMLElement} place
 * @param {Vm} vm
 * @param {Course} course
 */
function showFigures(place, vm, course) {
  const used = store.load.get(vm.host)?.vm_pes_used?.[vm.vm];
  const p50 = quantile(course.latency, 0.5);
  const p99 = quantile(course.latency, 0.99);
  const items = [
    [vm.quiesced ? "held" : vm.state, "state"],
    [used === undefined ? "–" : `${used.toFixed(1)} of ${vm.usable_pes ?? vm.pes}`, "PEs used"],
    [count(Math.round(course.requests.at(-1) ?? 0)), "requests/s"],
    [p50 === null ? "–" : span(p50), "p50"],
    [p99 === null ? "–" : span(p99), "p99"],
    [count(vm.compiling ?? 0), "compiling"],
    [bytes(vm.memory_peak_bytes ?? vm.memory_used_bytes), "peak of memory"],
  ];
  fill(
    place,
    items.map(([value, label]) => h("div.figure", null, h("b", null, value), h("span", null, label))),
  );
}

/**
 * @param {HTMLElement} place
 * @param {Vm} vm
 * @param {LimitsInfo} info
 */
function showFacts(place, vm, info) {
  /** @param {string[]} names */
  const named = (names) => names.map((name) => LIMITS[/** @type {keyof LimitFigures} */ (name)] ?? name).join(", ");
  /** @type {[string, Child][]} */
  const rows = [
    ["Allotment", `number ${info.allotment}`],
    ["The guest has", pill(info.allotment_state, ALLOTMENT_TONES[info.allotment_state] ?? "", true)],
    ["Do not hold yet", named(info.pending) || "none"],
    ["From the next QEMU on", named(info.later) || "none"],
    ["Exceeded", named(info.exceeded) || "none"],
    ["Comes from", vm.origin ?? "–"],
  ];
  if (vm.ring_problem) rows.push(["Not served", h("span.bad.wrap", null, vm.ring_problem)]);
  if (vm.problem) rows.push(["Problem", h("span.bad.wrap", null, vm.problem)]);
  fill(
    place,
    rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
  );
}

/**
 * @param {keyof LimitFigures} limit
 * @param {number | null | undefined} value
 */
function shown(limit, value) {
  if (value === null || value === undefined) return limit === "pes" ? "all" : "–";
  if (limit === "memory_bytes") return bytes(value);
  return limit === "deadline_ns" ? span(value) : count(value);
}

/** @param {LimitRow} row */
function useOf({ limit, info }) {
  const used = /** @type {{ [name: string]: number | undefined }} */ (info.used)[limit];
  const quota = info.enforced[limit];
  if (used === undefined || quota === null) return h("span.faint", null, "–");
  const meter = bar(`${LIMITS[limit]}: used part of the limit`);
  meter.set(quota ? used / quota : 0);
  return h("span.meter-cell", null, meter.element, `${shown(limit, used)} of ${shown(limit, quota)}`);
}

/** @param {LimitRow} row */
function standing({ limit, info }) {
  if (info.exceeded.includes(limit)) return pill("exceeded: gets no more", "bad", true);
  if (info.pending.includes(limit)) return pill("does not hold yet", "warn", true);
  return info.later.includes(limit) ? pill("from the next QEMU on", "warn", true) : "";
}

/** @type {Column<LimitRow>[]} */
const LIMIT_COLUMNS = [
  { title: "Limit", value: (row) => LIMITS[row.limit] },
  {
    title: "Used",
    value: (row) => `${JSON.stringify(row.info.used)} ${row.info.enforced[row.limit]}`,
    show: useOf,
    sort: false,
  },
  { title: "Enforced", value: (row) => shown(row.limit, row.info.enforced[row.limit]), number: true, sort: false },
  { title: "Configured", value: (row) => shown(row.limit, row.info.configured[row.limit]), number: true, sort: false },
  {
    title: "Host has",
    value: (row) => (row.most === null ? "–" : shown(row.limit, row.most)),
    number: true,
    sort: false,
  },
  {
    title: "",
    value: (row) => `${row.info.exceeded} ${row.info.pending} ${row.info.later}`,
    show: standing,
    sort: false,
  },
];

/** @type {Column<FunctionRow>[]} */
const FUNCTION_COLUMNS = [
  { title: "Function", value: (row) => row.name, class: "mono" },
  { title: "Launches/s", value: (row) => row.rate, show: (row) => row.rate.toFixed(1), number: true },
  { title: "Of the time", value: (row) => row.part, show: (row) => percent(row.part, 1), number: true },
  { title: "Mean", value: (row) => row.mean ?? 0, show: (row) => (row.mean ? span(row.mean) : "–"), number: true },
];

/**
 * @param {Stage} stage
 * @param {Vm | undefined} vm
 */
async function changeDialog(stage, vm) {
  if (vm === undefined) return;
  const path = /** @type {const} */ (`vms/${encodeURIComponent(vm.host)}/${encodeURIComponent(vm.vm)}/limits`);
  await stage.attempt(async () => {
    const { configured } = await api.get(path, {}, stage.signal);
    /** @param {string} name @param {number | null} value */
    const number = (name, value) => input(name, "", { type: "number", min: 1, placeholder: value ?? "all" });
    await dialog({
      title: `Limits of ${vm.vm}`,
      needs: "admin",
      action: "Change",
      text: "They count at once, or once the guest has acknowledged lower ones, until the host's configuration is read again if the VM stands there. Empty: unchanged.",
      fields: [
        field("PEs", number("pes", configured.pes)),
        field("Memory, MiB", number("memory", configured.memory_bytes / MIB)),
        field("Requests in flight", number("queue_depth", configured.queue_depth)),
        field("Contexts", number("contexts", configured.contexts)),
        field("Streams of a context", number("streams", configured.streams)),
        field("Weight", number("weight", configured.weight)),
        field("Longest launch, ms", number("deadline", configured.deadline_ns / 1e6)),
      ],
      submit: async (/** @type {{ [name: string]: number | undefined }} */ values) => {
        const { memory, deadline, ...rest } = values;
        /** @type {SetLimitsRequest} */
        const asked = rest;
        if (memory !== undefined) asked.memory_bytes = memory * MIB;
        if (deadline !== undefined) asked.deadline_ns = deadline * 1e6;
        await api.post(path, asked);
        toast(`limits of ${vm.vm} changed`);
      },
    });
  });
}

/** @param {Vm | undefined} vm */
function removeDialog(vm) {
  if (vm === undefined) return;
  return confirm(
    `Remove ${vm.vm}`,
    `${vm.host} serves ${vm.vm} no more once its QEMU has ended; a reload brings it back if the configuration still has it.`,
    "Remove",
    "admin",
    () => api.post(`vms/${encodeURIComponent(vm.host)}/${encodeURIComponent(vm.vm)}/remove`, {}),
  );
}
