/** Cluster: hosts as cards, GPUs as bars; stale and lost hosts are marked. */

/** @import { GpuInfo, HostInfo, VmInfo } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { View } from "./index.js" */
/** @typedef {Map<string, { meter: ReturnType<typeof bar>, value: HTMLElement }>} Meters by GPU */

import { bar, loadTone, sparkline } from "../chart.js";
import { empty, fill, h, pill, setText } from "../dom.js";
import { ago, bytes, count, percent } from "../format.js";
import { href } from "../router.js";
import { store } from "../store.js";

const STATES = { up: "ok", stale: "warn", down: "bad" };
const VM_TONES = {
  ready: "",
  starting: "info",
  stopped: "",
  recovering: "warn",
  unresponsive: "bad",
  migrating: "info",
  failed: "bad",
};

/** @type {View} */
export const cluster = { name: "cluster", title: "Cluster", group: "Watch", mount };

/** @param {Stage} stage */
function mount(stage) {
  const figures = h("div.figures");
  const grid = h("div.hosts");
  /** @type {Map<string, ReturnType<typeof hostCard>>} */
  const cards = new Map();
  stage.show("Cluster", "Hosts, their GPUs and the VMs that use them", [], figures, grid);
  const build = () => {
    const hosts = store.chosenHosts();
    for (const [name, card] of cards)
      if (!hosts.some((host) => host.host === name)) {
        card.element.remove();
        cards.delete(name);
      }
    for (const host of hosts) {
      const card = cards.get(host.host) ?? hostCard();
      if (!cards.has(host.host)) {
        cards.set(host.host, card);
        grid.append(card.element);
      }
      card.update(host);
    }
    showFigures(figures, hosts);
    nothing.hidden = hosts.length > 0 || !store.reached;
    load();
  };
  const load = () => {
    for (const card of cards.values()) card.load();
  };
  const nothing = empty("No host", "No host is registered, or the selector above matches none.");
  stage.root.append(nothing);
  for (const topic of /** @type {const} */ (["hosts", "scope", "link"])) stage.on(store, topic, build);
  stage.on(store, "load", load);
  build();
}

/**
 * @param {HTMLElement} place
 * @param {HostInfo[]} hosts
 */
function showFigures(place, hosts) {
  /** @param {HostInfo["state"]} state */
  const by = (state) => hosts.filter((host) => host.state === state).length;
  const gpus = hosts.flatMap((host) => host.gpus);
  const vms = hosts.flatMap((host) => host.vms);
  const loads = hosts.map((host) => store.load.get(host.host)?.host).filter((load) => load !== undefined);
  const mean = loads.length ? loads.reduce((sum, load) => sum + load, 0) / loads.length : NaN;
  const items = [
    [by("up"), "hosts up", ""],
    [by("stale"), "stale", by("stale") ? "warn" : ""],
    [by("down"), "down", by("down") ? "bad" : ""],
    [gpus.length, "GPUs", ""],
    [gpus.reduce((sum, gpu) => sum + gpu.pes, 0), "PEs", ""],
    [vms.length, "VMs", ""],
    [vms.reduce((sum, vm) => sum + vm.channels, 0), "channels", ""],
    [percent(mean), "mean load", ""],
  ];
  fill(
    place,
    items.map(([value, label, tone]) =>
      h(
        "div.figure",
        null,
        h("b", { class: tone }, typeof value === "number" ? count(value) : value),
        h("span", null, label),
      ),
    ),
  );
}

function hostCard() {
  const name = h("h2");
  const state = h("span");
  const since = h("small.faint");
  const labels = h("div.labels");
  const gpus = h("div.gpus");
  const vms = h("div.vms");
  const line = sparkline(86, 22);
  const element = h(
    "article.host.panel",
    null,
    h("header", null, h("div.grow", null, name, since), line.canvas, state),
    labels,
    gpus,
    vms,
  );
  /** @type {Meters} */
  const meters = new Map();
  /** @type {HostInfo | null} */
  let shown = null;
  let known = "";

  /** @param {HostInfo} host */
  const update = (host) => {
    shown = host;
    element.dataset.host = host.host;
    element.dataset.state = host.state;
    setText(name, host.host);
    setText(
      since,
      host.state === "up"
        ? `${host.daemon ? `vgcd ${host.daemon}` : host.url} · up ${ago(host.since_ns).replace(" ago", "")}`
        : `${host.state}, ${ago(host.since_ns)}${host.reason ? `: ${host.reason}` : ""}`,
    );
    fill(state, pill(host.state, STATES[host.state], true));
    const now = JSON.stringify([
      host.labels,
      host.gpus,
      host.vms.map((vm) => [vm.vm, vm.gpu, vm.state, vm.quiesced, vm.unseen, vm.pes]),
      host.state,
    ]);
    if (now === known) return;
    known = now;
    fill(
      labels,
      Object.entries(host.labels ?? {}).map(([key, value]) => pill(`${key}=${value}`, "tag")),
    );
    meters.clear();
    fill(
      gpus,
      host.gpus.map((gpu) => gpuRow(host, gpu, meters)),
    );
    fill(vms, host.vms.length ? host.vms.map((vm) => vmChip(host, vm)) : h("span.faint", null, "no VM"));
  };
  const load = () => {
    if (!shown) return;
    const loads = shown.state === "up" ? store.load.get(shown.host) : null;
    line.draw(shown.state === "up" ? (store.history.get(shown.host) ?? []) : [], 1);
    for (const [gpu, { meter, value }] of meters) {
      const part = loads?.gpus?.[gpu];
      meter.set(part ?? 0);
      setText(value, percent(part));
      value.className = `number ${loadTone(part)}`;
    }
  };
  return { element, update, load };
}

/**
 * @param {HostInfo} host
 * @param {GpuInfo} gpu
 * @param {Meters} meters
 */
function gpuRow(host, gpu, meters) {
  const meter = bar(`load of GPU ${gpu.gpu} of ${host.host}`);
  const value = h("span.number");
  meters.set(gpu.gpu, { meter, value });
  const details = [
    gpu.name,
    gpu.arch,
    `${gpu.pes} PEs`,
    bytes(gpu.memory_bytes),
    gpu.driver_version && `driver ${gpu.driver_version}`,
    gpu.vbios_version && `VBIOS ${gpu.vbios_version}`,
    gpu.uuid,
  ];
  return h(
    "a.gpu",
    { href: href("gpus", { host: host.host, gpu: gpu.gpu }), title: details.filter(Boolean).join("\n") },
    h("span.mono", null, gpu.gpu),
    h("span.cut.soft", null, gpu.name),
    meter.element,
    value,
  );
}

/**
 * @param {HostInfo} host
 * @param {VmInfo} vm
 */
function vmChip(host, vm) {
  const title = `${vm.vm}: ${vm.state}, ${vm.pes} PEs of GPU ${vm.gpu}, ${count(vm.requests_done)} requests done, ${vm.channels} channels${vm.unseen ? `\nno hooks: ${vm.unseen}` : ""}`;
  return h(
    "a.pill",
    { class: `${VM_TONES[vm.state] ?? ""} tag`, title, href: href("console", { host: host.host, vm: vm.vm, pe: 0 }) },
    vm.vm,
    vm.quiesced ? h("b.warn", null, "quiesced") : null,
    vm.unseen ? h("b.warn", null, "no hooks") : null,
    vm.state === "ready" ? null : h("b", null, vm.state),
  );
}
