/** Firmware: images of the control code on processing elements (PEs): staging, activation, rollback. */

/** @import { ActivateFirmwareRequest, FirmwareAnswer, GpuInfo, RollbackFirmwareRequest } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @import { View } from "./index.js" */
/**
 * Image on a host (`FirmwareInfo.images` in virtio_proto/control/api.py).
 * @typedef {object} Image
 * @property {string} host
 * @property {string} version
 * @property {string} key that signed it
 * @property {string} name
 * @property {string} sha256
 * @property {number} staged_ns
 * @property {"cpu" | "cuda"} engine
 */
/**
 * Versions on a PE (`FirmwareInfo.pes`).
 * @typedef {object} Running
 * @property {string} host
 * @property {string} vm
 * @property {string} gpu
 * @property {number} pe
 * @property {string} active
 * @property {string | null} other
 * @property {"active" | "staged" | "rolled back"} state
 * @property {string} text
 */
/** @typedef {Running & { key: string, numbers: number[], pes: string }} Group PEs in the same state */
/** @typedef {{ host?: string, vm?: string, pes?: string }} Where initial values of the selector field */
/** @typedef {(answer: FirmwareAnswer) => void} Done */

import * as api from "../api.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { moment, ranges } from "../format.js";
import { dialog, field, input, select } from "../forms.js";
import { button } from "../roles.js";
import { compose, matches, parse } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

/** @type {View} */
export const firmware = { name: "firmware", title: "Firmware", group: "Steer", mount };

const PERIOD_MS = 2000;
const TONES = { active: "ok", staged: "info", "rolled back": "bad" };
const LARGEST_BYTES = 8 << 20;

/** @param {Stage} stage */
function mount(stage) {
  const result = h("div");
  /**
   * Makes a function that opens a dialog and shows its answer in the view.
   * @template {unknown[]} Given
   * @param {(done: Done, ...given: Given) => void} dialogOf
   * @returns {(...given: Given) => void}
   */
  const ask =
    (dialogOf) =>
    (...given) =>
      dialogOf(
        (answer) => {
          showResult(result, answer);
          stage.attempt(refresh);
        },
        ...given,
      );
  const images = new Table({
    label: "Images",
    key: (row) => `${row.host}/${row.engine}/${row.version}/${row.sha256}`,
    columns: imageColumns(ask(activateDialog)),
    sort: [0, -1],
    empty: empty("No image", "All PEs run the version that their daemon was built with."),
  });
  const running = new Table({
    label: "Versions on PEs",
    key: (row) => row.key,
    columns: runColumns(ask(activateDialog), ask(rollbackDialog)),
    sort: [0, 1],
    empty: empty("No PE", "The selector matches none."),
  });
  stage.show(
    "Firmware",
    "Signed images of the control code on processing elements (PEs), changed while kernels run",
    [
      button("Roll back", "admin", () => ask(rollbackDialog)()),
      button("Activate", "admin", () => ask(activateDialog)()),
      button("Stage image", "admin", () => ask(stageDialog)(), "main"),
    ],
    result,
    panel("Versions on PEs", running.element),
    panel("Images", images.element),
    panel("Drivers and VBIOS", drivers(stage)),
  );
  const refresh = async () => {
    const answer = await api.get("firmware", { selector: store.scope.text }, stage.signal);
    const info = flat(answer);
    images.update(info.images);
    running.update(grouped(info.pes.filter((row) => matches(store.scope, row))));
  };
  stage.every(PERIOD_MS, refresh);
}

/**
 * @param {string} title
 * @param {HTMLElement} content
 */
const panel = (title, content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/**
 * Images and PEs of all hosts, each with its host.
 * @param {FirmwareAnswer} answer
 */
function flat(answer) {
  const all = Object.entries(answer.hosts);
  const images = all.flatMap(([host, info]) => info.images.map((image) => ({ host, ...image })));
  const pes = all.flatMap(([host, info]) => info.pes.map((pe) => ({ host, ...pe })));
  return { images: /** @type {Image[]} */ (images), pes: /** @type {Running[]} */ (pes) };
}

/**
 * Groups PEs of a VM that are in the same state into one row.
 * @param {Running[]} pes
 * @returns {Group[]}
 */
function grouped(pes) {
  /** @type {Map<string, Omit<Group, "pes">>} */
  const groups = new Map();
  for (const pe of pes) {
    const key = JSON.stringify([pe.host, pe.vm, pe.gpu, pe.active, pe.other, pe.state, pe.text]);
    const group = groups.get(key) ?? { ...pe, key, numbers: [] };
    group.numbers.push(pe.pe);
    groups.set(key, group);
  }
  return [...groups.values()].map((group) => ({ ...group, pes: ranges(group.numbers) }));
}

/**
 * @param {(where: Where, version: string) => void} activate
 * @param {(where: Where) => void} rollback
 * @returns {Column<Group>[]}
 */
function runColumns(activate, rollback) {
  return [
    { title: "VM", value: (row) => `${row.host}/${row.vm}`, class: "mono" },
    { title: "GPU", value: (row) => row.gpu },
    { title: "PEs", value: (row) => row.pes, class: "mono" },
    { title: "Active", value: (row) => row.active, class: "mono", show: (row) => h("b", null, row.active) },
    { title: "Other slot", value: (row) => row.other ?? "–", class: "mono" },
    { title: "State", value: (row) => row.state, show: (row) => pill(row.state, TONES[row.state], true) },
    { title: "Result", value: (row) => row.text, show: (row) => h("span.wrap.soft", null, row.text) },
    {
      title: "",
      value: (row) => row.other,
      sort: false,
      class: "tight",
      show: (row) => {
        const { other } = row;
        return h(
          "div.buttons",
          null,
          other ? button("Activate", "admin", () => activate(row, other), "small") : null,
          other ? button("Roll back", "admin", () => rollback(row), "small") : null,
        );
      },
    },
  ];
}

/**
 * @param {(where: Where, version: string) => void} activate
 * @returns {Column<Image>[]}
 */
function imageColumns(activate) {
  return [
    { title: "Version", value: (row) => row.version, class: "mono", show: (row) => h("b", null, row.version) },
    { title: "Host", value: (row) => row.host ?? "" },
    { title: "Engine", value: (row) => row.engine, show: (row) => pill(row.engine, "tag") },
    {
      title: "Signed by",
      value: (row) => row.key,
      class: "mono",
      show: (row) => h("span.cut", { title: row.key }, String(row.key).slice(0, 20)),
    },
    {
      title: "SHA-256",
      value: (row) => row.sha256,
      class: "mono",
      show: (row) => h("span.cut", { title: row.sha256 }, String(row.sha256).slice(0, 16)),
    },
    {
      title: "Staged",
      value: (row) => row.staged_ns,
      show: (row) => (row.staged_ns ? moment(row.staged_ns) : "built in"),
      number: true,
    },
    {
      title: "",
      value: () => 0,
      sort: false,
      class: "tight",
      show: (row) =>
        button("Activate", "admin", () => activate(row.host ? { host: row.host } : {}, row.version), "small"),
    },
  ];
}

/** @param {Stage} stage */
function drivers(stage) {
  /** @type {Table<GpuInfo & { host: string }>} */
  const table = new Table({
    label: "Drivers",
    key: (row) => `${row.host}/${row.gpu}`,
    sort: [0, 1],
    empty: empty("No GPU", ""),
    columns: [
      { title: "GPU", value: (row) => `${row.host}/${row.gpu}`, class: "mono" },
      { title: "Model", value: (row) => row.name },
      { title: "Architecture", value: (row) => row.arch ?? "–" },
      { title: "Driver", value: (row) => row.driver_version ?? "–", class: "mono" },
      { title: "VBIOS", value: (row) => row.vbios_version ?? "–", class: "mono" },
      { title: "PCI", value: (row) => row.pci_bus_id ?? "–", class: "mono" },
    ],
  });
  const update = () =>
    table.update(store.chosenHosts().flatMap((host) => host.gpus.map((gpu) => ({ ...gpu, host: host.host }))));
  for (const topic of /** @type {const} */ (["hosts", "scope"])) stage.on(store, topic, update);
  update();
  return table.element;
}

/** @param {Where | null} row */
const selectorField = (row) => {
  const keys = {
    ...parse(store.scope.text).found,
    ...(row?.host ? { host: row.host, vm: row.vm, pe: row.pes } : {}),
    fn: undefined,
  };
  return field(
    "PEs (selector)",
    input("selector", compose(keys), { class: "mono", placeholder: "everything" }),
    "",
    true,
  );
};

/** @param {Done} done */
function stageDialog(done) {
  const image = h("input", { type: "file", name: "image", required: true });
  return dialog({
    title: "Stage image",
    needs: "admin",
    action: "Stage",
    text: "Loads the image beside the running one. The daemon checks its signature.",
    fields: [selectorField(null), field("Signed image", image, "", true)],
    submit: async (/** @type {{ selector?: string }} */ { selector = "" }) => {
      const [file] = image.files ?? [];
      if (file.size > LARGEST_BYTES) throw new Error(`an image of ${file.size} bytes; allowed: ${LARGEST_BYTES}`);
      done(
        await api.post("firmware/stage", { selector, image: api.toBase64(new Uint8Array(await file.arrayBuffer())) }),
      );
      toast(`${file.name} is staged`);
    },
  });
}

/**
 * @param {Done} done
 * @param {Where | null} row
 */
function activateDialog(done, row = null, version = "") {
  return dialog({
    title: "Activate firmware",
    needs: "admin",
    action: "Activate",
    text: "One PE of each VM changes first and tests the new version. If the test passes, the others follow; if not, it goes back.",
    fields: [
      selectorField(row),
      field(
        "Version",
        version ? select("version", [version], version) : input("version", "", { required: true, class: "mono" }),
        "",
        true,
      ),
    ],
    submit: async (/** @type {ActivateFirmwareRequest} */ { selector = "", version: chosen }) =>
      done(await api.post("firmware/activate", { selector, version: chosen })),
  });
}

/**
 * @param {Done} done
 * @param {Where | null} row
 */
function rollbackDialog(done, row = null) {
  return dialog({
    title: "Roll back firmware",
    needs: "admin",
    action: "Roll back",
    text: "Each PE runs the version in its other slot again.",
    fields: [selectorField(row)],
    submit: async (/** @type {RollbackFirmwareRequest} */ { selector = "" }) =>
      done(await api.post("firmware/rollback", { selector })),
  });
}

/**
 * Shows the result of a change, host by host.
 * @param {HTMLElement} place
 * @param {FirmwareAnswer} answer
 */
function showResult(place, answer) {
  const { pes } = flat(answer);
  const done = Object.keys(answer.hosts).map((host) => {
    /** @type {Map<string, number>} */
    const states = new Map();
    for (const pe of pes.filter((each) => each.host === host)) states.set(pe.state, (states.get(pe.state) ?? 0) + 1);
    return h(
      "li",
      null,
      pill(host, "ok", true),
      h("span.wrap", null, [...states].map(([state, number]) => `${number} ${state}`).join(", ") || "done"),
    );
  });
  const refused = answer.failed.map(({ host, error }) =>
    h("li", null, pill(host, "bad", true), h("span.wrap", null, error)),
  );
  const drop = h("button.button.small.plain", { type: "button", onclick: () => fill(place) }, "Dismiss");
  fill(
    place,
    h(
      "section.panel.proposal",
      null,
      h("div.panel-head", null, h("h2", null, "Result"), h("div.tools", null, drop)),
      h("ul.event-list.panel-body", null, refused, done),
    ),
  );
}
