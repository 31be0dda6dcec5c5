/** Faults with advice, and the policies that act on them. */

/** @import { EventMessage, HostedFault } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { View } from "./index.js" */

import * as api from "../api.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { ago, clock, count, describe, moment } from "../format.js";
import { attempt, errorPlace, select } from "../forms.js";
import { button } from "../roles.js";
import { href } from "../router.js";
import { matches } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";
import { policiesPanel } from "./policies.js";

/** @type {View} */
export const faults = { name: "faults", title: "Faults", group: "Watch", mount, badge: () => store.openFaults };

/** @type {{ [kind: string]: string | undefined }} */
const TONES = { user: "info", hung: "warn", deadline: "warn" };
/** @param {HostedFault} fault */
const where = (fault) =>
  [fault.host, fault.gpu, fault.vm, fault.pe]
    .filter((part) => part !== null && part !== undefined && part !== "")
    .join("/");

/** @param {Stage} stage */
function mount(stage) {
  const which = select(
    "cleared",
    [
      ["open", "open"],
      ["all", "open and cleared"],
    ],
    "open",
    { "aria-label": "Which" },
  );
  const list = h("div.fault-list");
  const counts = h("div.figures");
  const clearAll = button("Clear all shown", "operate", () =>
    stage.attempt(async () => clear(shown.filter((fault) => !fault.cleared))),
  );
  /** @type {HostedFault[]} */
  let shown = [];
  stage.show(
    "Faults",
    "Faults of processing elements and GPUs, how often each occurred, and advice",
    [which, clearAll],
    counts,
    h("section.panel", null, list),
    policiesPanel(stage),
    historyPanel(stage),
  );
  /** @param {HostedFault[]} chosen */
  const clear = async (chosen) => {
    if (!chosen.length) return;
    await api.post("faults/clear", { ids: chosen.map((fault) => fault.fault) });
    toast(`${chosen.length} fault${chosen.length === 1 ? "" : "s"} cleared`);
    await store.refreshFaults();
    await refresh();
  };
  let known = "";
  const refresh = async () => {
    const found = await api.get(
      "faults",
      { selector: store.scope.text, cleared: which.value === "all" ? 1 : 0 },
      stage.signal,
    );
    shown = found
      .filter((fault) => which.value === "all" || !fault.cleared)
      .sort((a, b) => Number(a.cleared) - Number(b.cleared) || b.last_ns - a.last_ns);
    clearAll.hidden = !shown.some((fault) => !fault.cleared);
    const now = JSON.stringify(shown);
    if (now === known) return;
    known = now;
    showCounts(counts, found);
    fill(
      list,
      shown.length
        ? shown.map((fault) => faultItem(fault, clear))
        : empty("No fault", which.value === "all" ? "No fault has occurred." : "No fault is open."),
    );
  };
  stage.on(which, "change", () => stage.attempt(refresh));
  stage.on(store, "scope", () => stage.attempt(refresh));
  stage.on(store, "faults", () => stage.attempt(refresh));
  stage.attempt(refresh);
}

/**
 * @param {HTMLElement} place
 * @param {HostedFault[]} found
 */
function showCounts(place, found) {
  /** @type {Map<string, number>} */
  const kinds = new Map();
  for (const fault of found) kinds.set(fault.kind, (kinds.get(fault.kind) ?? 0) + fault.count);
  const open = found.filter((fault) => !fault.cleared).length;
  /** @type {[label: string, value: number, tone: string][]} */
  const items = [["open", open, open ? "bad" : "ok"]];
  for (const [kind, times] of kinds) items.push([kind, times, ""]);
  fill(
    place,
    items.map(([label, value, tone]) =>
      h("div.figure", null, h("b", { class: tone }, count(value)), h("span", null, label)),
    ),
  );
}

/**
 * @param {HostedFault} fault
 * @param {(chosen: HostedFault[]) => Promise<void>} clear
 */
function faultItem(fault, clear) {
  const place = errorPlace();
  const end = button("Clear", "operate", () => attempt(place, () => clear([fault])), "small");
  const seen =
    fault.count > 1
      ? `${count(fault.count)} times, first ${moment(fault.time_ns)}, last ${ago(fault.last_ns)}`
      : `${moment(fault.time_ns)}, ${ago(fault.time_ns)}`;
  const open =
    fault.vm && fault.pe !== null
      ? h("a", { href: href("console", { host: fault.host, vm: fault.vm, pe: fault.pe }) }, where(fault))
      : where(fault);
  return h(
    "article.fault",
    { class: fault.cleared ? "cleared" : "", data: { fault: fault.fault } },
    h(
      "div.fault-kind",
      null,
      pill(fault.kind, fault.cleared ? "" : (TONES[fault.kind] ?? "bad"), true),
      fault.xid === null || fault.xid === undefined ? null : h("small.mono.soft", null, `Xid ${fault.xid}`),
    ),
    h(
      "div.grow",
      null,
      place.element,
      h("p.fault-text.wrap", null, fault.text),
      fault.advice ? h("p.advice.wrap", null, h("b", null, "Advice "), fault.advice) : null,
      h("small.faint", null, h("span.mono", null, open), " · ", seen),
    ),
    fault.cleared ? pill("cleared") : end,
  );
}

/** @param {Stage} stage */
function historyPanel(stage) {
  /** @type {Table<EventMessage>} */
  const table = new Table({
    label: "Fault history",
    key: (event) => `${event.time_ns} ${event.host} ${event.event} ${JSON.stringify(event.detail)}`,
    sort: [0, -1],
    empty: empty("Nothing yet", "New faults, cleared faults and actions of policies appear here as they happen."),
    columns: [
      { title: "Time", value: (event) => event.time_ns, show: (event) => clock(event.time_ns), class: "mono tight" },
      {
        title: "Event",
        value: (event) => event.event,
        show: (event) =>
          pill(
            event.event.replaceAll("_", " "),
            event.event === "fault" ? "bad" : event.event === "policy_acted" ? "warn" : "",
          ),
      },
      { title: "Where", value: (event) => [event.host, event.vm].filter(Boolean).join("/"), class: "mono" },
      {
        title: "What",
        value: textOf,
        show: (event) => h("span.wrap", null, textOf(event)),
      },
    ],
  });
  const update = () =>
    table.update(
      store.events
        .filter(
          (event) =>
            ["fault", "fault_cleared", "policy_acted", "worker_lost"].includes(event.event) &&
            matches(store.scope, { host: event.host, vm: event.vm }),
        )
        .slice(-100),
    );
  for (const topic of /** @type {const} */ (["event", "scope"])) stage.on(store, topic, update);
  update();
  return h("section.panel", null, h("div.panel-head", null, h("h2", null, "History")), table.element);
}

/** @param {EventMessage} event */
const textOf = (event) => String(event.detail.text ?? describe(event.detail));
