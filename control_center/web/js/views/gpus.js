/** GPUs: heat grids of all processing elements (PEs), coloured by VM or by heat. */

/** @import { Cell } from "../heat.js" */
/** @import { GpuInfo, HostInfo, VmInfo } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Load } from "../store.js" */
/** @import { View } from "./index.js" */
/** @typedef {(cell: Cell | null, event: MouseEvent | null) => void} Hover */
/**
 * Cells of a VM, or of a GPU that no VM uses.
 * @typedef {object} Section
 * @property {HTMLElement} element
 * @property {HeatGrid} grid
 * @property {(loads: Load | null | undefined, byHeat: boolean, width: number) => void} update
 */

import { empty, fill, h, pill, setText } from "../dom.js";
import { FIGURES } from "../figures.js";
import { percent } from "../format.js";
import { select } from "../forms.js";
import { HeatGrid, cellColour, vmHue } from "../heat.js";
import { go } from "../router.js";
import { store } from "../store.js";

/** @type {View} */
export const gpus = { name: "gpus", title: "GPUs", group: "Watch", mount };

/** @param {Stage} stage */
function mount(stage) {
  const tip = h("div.tip", { role: "tooltip", hidden: true });
  const grid = h("div.gpu-grid");
  /** @type {Map<string, ReturnType<typeof gpuPanel>>} */
  const panels = new Map();
  /** @type {WeakMap<Element, (visible: boolean) => void>} by the panels' elements */
  const shows = new WeakMap();
  const colours = select(
    "colours",
    [
      ["vm", "colours: VM"],
      ["heat", "colours: heat"],
    ],
    "vm",
    { "aria-label": "Colours" },
  );
  const said = h("span.sr", { "aria-live": "polite" });
  const watcher = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) shows.get(entry.target)?.(entry.isIntersecting);
    },
    { root: stage.root, rootMargin: "200px" },
  );
  const nothing = empty("No GPU", "The selector above matches none.");
  stage.show(
    "GPUs",
    "Each cell is a processing element (PE); click a cell to open its console",
    [legend(), colours],
    grid,
    nothing,
    tip,
    said,
  );

  /** @type {Hover} */
  const hover = (cell, event) => showTip(tip, said, cell, event);
  const chosen = () =>
    store
      .chosenHosts()
      .flatMap((host) =>
        host.gpus
          .filter(
            (gpu) =>
              store.scope.gpu(gpu.gpu) &&
              (!stage.params.host || (stage.params.host === host.host && stage.params.gpu === gpu.gpu)),
          )
          .map((gpu) => ({ host, gpu })),
      );
  const build = () => {
    const wanted = chosen();
    const keys = new Set(wanted.map(({ host, gpu }) => `${host.host}/${gpu.gpu}`));
    for (const [key, panel] of panels)
      if (!keys.has(key)) {
        watcher.unobserve(panel.element);
        panel.element.remove();
        panels.delete(key);
      }
    for (const { host, gpu } of wanted) {
      const key = `${host.host}/${gpu.gpu}`;
      const panel = panels.get(key) ?? gpuPanel(key, hover);
      if (!panels.has(key)) {
        panels.set(key, panel);
        shows.set(panel.element, panel.show);
        grid.append(panel.element);
        watcher.observe(panel.element);
      }
      panel.update(host, gpu, colours.value === "heat");
    }
    nothing.hidden = wanted.length > 0;
  };
  const load = () => {
    for (const panel of panels.values()) panel.load();
  };
  for (const topic of /** @type {const} */ (["hosts", "scope"])) stage.on(store, topic, build);
  stage.on(store, "load", load);
  stage.on(colours, "change", build);
  stage.on(window, "resize", load);
  stage.leave(() => watcher.disconnect());
  build();
}

/**
 * Load, and the PEs used that make it.
 * @param {number | undefined} part
 * @param {number | undefined} used
 * @param {number} pes
 */
const loadText = (part, used, pes) =>
  used === undefined ? percent(part) : `${percent(part)} · ${used.toFixed(1)} of ${pes} PEs`;

function legend() {
  const steps = [0, 0.25, 0.5, 0.75, 1].map((part) => {
    const swatch = h("i");
    swatch.style.background = cellColour(part, vmHue(0), false);
    return swatch;
  });
  return h("span.legend", { "aria-hidden": "true" }, "idle", steps, "busy");
}

/**
 * @param {HTMLElement} tip
 * @param {HTMLElement} said
 * @param {Cell | null} cell
 * @param {MouseEvent | null} event
 */
function showTip(tip, said, cell, event) {
  tip.hidden = !cell || !event;
  if (!cell) return;
  const text = cell.vm === null ? "no VM" : `VM ${cell.vm}`;
  setText(said, `PE ${cell.pe}, ${text}, ${percent(cell.load)}`);
  if (!event) return;
  fill(
    tip,
    h("b", null, `PE ${cell.pe}`),
    `${text} · busy ${percent(cell.load)}`,
    cell.outside ? " · its VM is confined to other PEs" : "",
  );
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)}px`;
}

/**
 * @param {string} key
 * @param {Hover} hover
 */
function gpuPanel(key, hover) {
  const title = h("h2");
  const kind = h("small.faint.cut");
  const load = h("b.gpu-load", { title: `${FIGURES.gpu_load.text} ${FIGURES.gpu_pes_used.text}` });
  const parts = h("div.gpu-vms");
  const element = h(
    "section.panel.gpu-panel",
    { data: { gpu: key } },
    h("header", null, h("div.grow", null, title, kind), load),
    parts,
  );
  /** @type {{ host: HostInfo, gpu: GpuInfo, byHeat: boolean } | null} */
  let shown = null;
  /** @type {Section[]} */
  let sections = [];
  let known = "";

  /**
   * @param {HostInfo} host
   * @param {GpuInfo} gpu
   */
  const lay = (host, gpu) => {
    const vms = host.vms.filter((vm) => vm.gpu === gpu.gpu);
    const now = JSON.stringify([vms.map((vm) => [vm.vm, vm.pes, vm.confined_to, vm.state]), gpu.pes]);
    if (now === known) return;
    known = now;
    const all = host.vms.map((vm) => vm.vm).sort();
    const chosen = vms.filter((vm) => store.scope.vm(vm.vm));
    sections = chosen.length
      ? chosen.map((vm) => vmSection(host, gpu, vm, vmHue(all.indexOf(vm.vm)), hover))
      : [idleSection(gpu, hover)];
    fill(
      parts,
      sections.map((section) => section.element),
    );
  };
  const refresh = () => {
    if (!shown) return;
    const { host, gpu, byHeat } = shown;
    const loads = host.state === "up" ? store.load.get(host.host) : null;
    setText(load, loads ? loadText(loads.gpus?.[gpu.gpu], loads.gpu_pes_used?.[gpu.gpu], gpu.pes) : host.state);
    for (const section of sections) section.update(loads, byHeat, parts.clientWidth);
  };
  /** @param {boolean} visible */
  const show = (visible) => {
    for (const section of sections) section.grid.visible = visible;
    if (visible) refresh();
  };
  return {
    element,
    show,
    load: refresh,
    /**
     * @param {HostInfo} host
     * @param {GpuInfo} gpu
     * @param {boolean} byHeat
     */
    update(host, gpu, byHeat) {
      shown = { host, gpu, byHeat };
      element.dataset.state = host.state;
      setText(title, key);
      setText(kind, ` ${gpu.name} · ${gpu.pes} PEs`);
      lay(host, gpu);
      refresh();
    },
  };
}

/**
 * @param {HostInfo} host
 * @param {GpuInfo} gpu
 * @param {VmInfo} vm
 * @param {number} hue
 * @param {Hover} hover
 * @returns {Section}
 */
function vmSection(host, gpu, vm, hue, hover) {
  const swatch = h("i.swatch");
  swatch.style.background = cellColour(0.85, hue, false);
  const value = h("span.soft", { title: `${FIGURES.vm_load.text} ${FIGURES.vm_pes_used.text}` });
  const canvas = h("canvas", {
    role: "application",
    "aria-label": `${vm.pes} PEs of VM ${vm.vm} on ${host.host}, GPU ${gpu.gpu}; arrow keys move, Enter opens`,
    data: { vm: vm.vm },
  });
  const grid = new HeatGrid(canvas, {
    hover,
    open: (cell) => go("console", { host: host.host, vm: cell.vm, pe: cell.pe }),
  });
  const state = vm.state === "ready" ? null : pill(vm.state, "warn");
  const confined = vm.confined_to ? new Set(vm.confined_to) : null;
  const element = h("div", null, h("div.gpu-vm", null, swatch, h("span.cut", null, vm.vm), state, value), canvas);
  /** @type {Section["update"]} */
  const update = (loads, byHeat, width) => {
    const pes = loads?.pes?.[vm.vm];
    const cells = Array.from({ length: vm.pes }, (_, pe) => ({
      vm: vm.vm,
      pe,
      hue,
      load: (pes?.[pe] ?? 0) / 255,
      outside: confined !== null && !confined.has(pe),
    })).filter((cell) => store.scope.pe(cell.pe));
    grid.byHeat = byHeat;
    grid.update(cells, width);
    setText(value, loadText(loads?.vms?.[vm.vm], loads?.vm_pes_used?.[vm.vm], vm.pes));
  };
  return { element, grid, update };
}

/**
 * @param {GpuInfo} gpu
 * @param {Hover} hover
 * @returns {Section}
 */
function idleSection(gpu, hover) {
  const grid = new HeatGrid(h("canvas", { "aria-label": "PEs of a GPU that no VM uses" }), { hover, open: () => {} });
  const cells = Array.from({ length: gpu.pes }, (_, pe) => ({ vm: null, pe, load: 0, hue: 0 }));
  return {
    element: h("div", null, h("div.gpu-vm", null, h("span.faint", null, "no VM")), grid.canvas),
    grid,
    update: (_loads, _heat, width) => grid.update(cells, width),
  };
}
