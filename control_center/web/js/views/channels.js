/** Channels: open instances of functions, their records, losses and cost. */

/** @import { ChannelInfo, HostedInstance, Totals } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */

import * as api from "../api.js";
import { empty, h, pill, setText } from "../dom.js";
import { LEVELS, count, percent, span } from "../format.js";
import { confirm, select } from "../forms.js";
import { close, idOf, openDialog, set } from "../instances.js";
import { button, guard } from "../roles.js";
import { refine } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

/** @type {View} */
export const channels = { name: "channels", title: "Channels", group: "Steer", mount };

/** @param {HostedInstance} instance */
const size = (instance) => instance.totals.channels;
/**
 * @param {HostedInstance} instance
 * @param {Exclude<keyof Totals, "sample">} key
 */
const sum = (instance, key) => instance.totals[key];
/** @param {number} value */
const tone = (value) => h("span", { class: value ? "warn" : "faint" }, count(value));

/** @param {Stage} stage */
function mount(stage) {
  /** @type {string | null} */
  let chosen = null;
  const table = new Table({
    label: "Instances",
    key: idOf,
    columns: columns(stage),
    chosen: (row) => idOf(row) === chosen,
    sort: [0, 1],
    empty: empty(
      "No channel is open",
      "Nothing is watched now.",
      button("Open channels", "operate", () => openDialog(), "main"),
    ),
  });
  const name = h("span.mono");
  const details = new Table({
    label: "Channels of the instance",
    key: (row) => String(row.channel),
    columns: DETAILS,
    sort: [3, 1],
  });
  const below = h(
    "section.panel",
    { hidden: true },
    h("div.panel-head", null, h("h2", null, "Channels of "), name),
    details.element,
  );
  stage.show(
    "Channels",
    "An instance is a function that was opened; it has one channel per processing element (PE)",
    [button("Open channels", "operate", () => openDialog(), "main")],
    h("section.panel.snug", null, table.element),
    below,
  );
  const refresh = async () => {
    const rows = await api.get("channels", { selector: store.scope.text, totals: 1 }, stage.signal);
    table.update(rows);
    const instance = rows.find((row) => idOf(row) === chosen);
    below.hidden = !instance;
    if (instance) await showChannels(instance);
  };
  /** @param {HostedInstance} instance */
  const showChannels = async ({ host, function: fn }) => {
    const found = await api.get("channels", { selector: refine(store.scope.text, { host, fn }) }, stage.signal);
    setText(name, chosen ?? "");
    details.update(found.find((each) => idOf(each) === chosen)?.channels ?? []);
  };
  stage.on(table.body, "click", (event) => {
    if (!(event.target instanceof Element)) return;
    const line = event.target.closest("tr");
    if (!line || event.target.closest("button, select")) return;
    const id = table.keyOf(line);
    chosen = id === chosen ? null : id;
    stage.attempt(refresh);
  });
  for (const topic of /** @type {const} */ (["channels", "scope"]))
    stage.on(store, topic, () => stage.attempt(refresh));
  stage.attempt(refresh);
}

/**
 * @param {Stage} stage
 * @returns {Column<HostedInstance>[]}
 */
function columns(stage) {
  /** @param {HostedInstance} row */
  const change = (row) => {
    const id = idOf(row);
    const control = select(
      "level",
      LEVELS.map((name, at) => [at, name]),
      row.level,
      { class: "small", "aria-label": `Level of ${id}` },
    );
    control.addEventListener("change", () =>
      stage.attempt(async () => {
        await set(id, { level: Number(control.value) });
        await store.refreshChannels();
      }),
    );
    return guard(control, "operate");
  };
  /** @param {HostedInstance} row */
  const end = (row) => {
    const id = idOf(row);
    const ask = () =>
      confirm(
        "Close channels",
        `${id}: ${row.function} on ${size(row)} PEs, opened by ${row.owner}.`,
        "Close it",
        "operate",
        () => close(id),
      );
    return button("Close", "operate", ask, "small danger");
  };
  return [
    { title: "Instance", value: idOf, class: "mono" },
    { title: "Function", value: (row) => row.function, show: (row) => pill(row.function, "tag") },
    {
      title: "Selector",
      value: (row) => row.selector,
      class: "mono",
      show: (row) => h("span.selector-cell.cut", { title: row.selector }, row.selector || "everything"),
    },
    { title: "Owner, when full", value: (row) => `${row.owner} ${row.policy}`, show: ownerCell },
    { title: "Level", value: (row) => row.level, show: change },
    { title: "Ch.", value: size, number: true },
    { title: "Records", value: (row) => sum(row, "records"), show: (row) => count(sum(row, "records")), number: true },
    {
      title: "Kept",
      value: (row) => row.totals?.sample ?? 0,
      show: (row) => (row.totals?.sample ? `1 of ${2 ** row.totals.sample}` : "all"),
      number: true,
    },
    { title: "Lost", value: (row) => sum(row, "lost"), show: (row) => tone(sum(row, "lost")), number: true },
    { title: "Skipped", value: (row) => sum(row, "skipped"), show: (row) => count(sum(row, "skipped")), number: true },
    { title: "Forged", value: (row) => sum(row, "forged"), show: (row) => tone(sum(row, "forged")), number: true },
    { title: "Cost", value: cost, show: (row) => percent(cost(row), 2), number: true },
    { title: "Ends in", value: left, show: (row) => (row.expires_ns ? span(1e9 * left(row)) : "–"), number: true },
    { title: "", value: () => 0, show: end, sort: false, class: "tight" },
  ];
}

/** @param {HostedInstance} row */
const ownerCell = (row) =>
  h("span.owner-cell", { title: row.owner }, h("span.cut", null, row.owner), h("small.faint", null, row.policy));

/**
 * Seconds that the instance has left to live.
 * @param {HostedInstance} instance
 */
const left = (instance) =>
  instance.expires_ns ? Math.max(0, Math.round((instance.expires_ns - Date.now() * 1e6) / 1e9)) : Infinity;

/**
 * Part of the PEs' time, since the instance was opened, that making records took.
 * @param {HostedInstance} instance
 */
function cost(instance) {
  const passed = Date.now() * 1e6 - instance.opened_ns;
  return size(instance) && passed > 0 ? sum(instance, "cost_ns") / size(instance) / passed : 0;
}

/** @type {Column<ChannelInfo>[]} */
const DETAILS = [
  { title: "Channel", value: (row) => row.channel },
  { title: "GPU", value: (row) => row.gpu },
  { title: "VM", value: (row) => row.vm },
  { title: "PE", value: (row) => row.pe },
  { title: "Records", value: (row) => row.records, show: (row) => count(row.records), number: true },
  { title: "Lost", value: (row) => row.lost, show: (row) => tone(row.lost), number: true },
  { title: "Skipped", value: (row) => row.skipped, show: (row) => count(row.skipped), number: true },
  { title: "Forged", value: (row) => row.forged, show: (row) => tone(row.forged), number: true },
  { title: "Cost", value: (row) => row.cost_ns, show: (row) => span(row.cost_ns), number: true },
  {
    title: "Sample",
    value: (row) => row.sample,
    show: (row) => (row.sample ? `1 of ${2 ** row.sample}` : "all"),
    number: true,
  },
];
