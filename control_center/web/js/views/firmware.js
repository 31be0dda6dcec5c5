/** Firmware: images of the device-resident code, what runs where, staging, activation, rollback. */

import * as api from "../api.js";
import { empty, fill, h, pill, toast } from "../dom.js";
import { dialog, field, input, select } from "../forms.js";
import { moment, ranges } from "../format.js";
import { button } from "../roles.js";
import { compose, matches, parse } from "../selector.js";
import { store } from "../store.js";
import { Table } from "../table.js";

export const firmware = { name: "firmware", title: "Firmware", group: "Steer", mount };

const PERIOD_MS = 2000;
const TONES = { active: "ok", staged: "info", "rolled back": "bad" };
const LARGEST_BYTES = 8 << 20;

function mount(stage) {
  const result = h("div");
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
    empty: empty("No image", "Only what the daemons were built with runs."),
  });
  const running = new Table({
    label: "What runs where",
    key: (row) => row.key,
    columns: runColumns(ask(activateDialog), ask(rollbackDialog)),
    sort: [0, 1],
    empty: empty("No element", "The selector chooses none."),
  });
  stage.show(
    "Firmware",
    "The code of the control system on the devices: signed, staged, activated while work runs",
    [
      button("Roll back", "admin", () => ask(rollbackDialog)()),
      button("Activate", "admin", () => ask(activateDialog)()),
      button("Stage image", "admin", () => ask(stageDialog)(), "main"),
    ],
    result,
    panel("What runs where", running.element),
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

const panel = (title, content) => h("section.panel", null, h("div.panel-head", null, h("h2", null, title)), content);

/** Images and elements of all hosts, each with its host. */
function flat(answer) {
  const all = Object.entries(answer.hosts);
  return {
    images: all.flatMap(([host, info]) => info.images.map((image) => ({ host, ...image }))),
    pes: all.flatMap(([host, info]) => info.pes.map((pe) => ({ host, ...pe }))),
  };
}

/** Elements of a VM that are in the same state, as one row. */
function grouped(pes) {
  const groups = new Map();
  for (const pe of pes) {
    const key = JSON.stringify([pe.host, pe.vm, pe.gpu, pe.active, pe.other, pe.state, pe.text]);
    if (!groups.has(key)) groups.set(key, { ...pe, key, numbers: [] });
    groups.get(key).numbers.push(pe.pe);
  }
  return [...groups.values()].map((group) => ({ ...group, pes: ranges(group.numbers) }));
}

function runColumns(activate, rollback) {
  return [
    { title: "VM", value: (row) => `${row.host}/${row.vm}`, class: "mono" },
    { title: "GPU", value: (row) => row.gpu },
    { title: "Elements", value: (row) => row.pes, class: "mono" },
    { title: "Active", value: (row) => row.active, class: "mono", show: (row) => h("b", null, row.active) },
    { title: "Other slot", value: (row) => row.other ?? "–", class: "mono" },
    { title: "State", value: (row) => row.state, show: (row) => pill(row.state, TONES[row.state], true) },
    { title: "Result", value: (row) => row.text, show: (row) => h("span.wrap.soft", null, row.text) },
    {
      title: "",
      value: (row) => row.other,
      sort: false,
      class: "tight",
      show: (row) =>
        h(
          "div.buttons",
          null,
          row.other ? button("Activate", "admin", () => activate(row, row.other), "small") : null,
          row.other ? button("Roll back", "admin", () => rollback(row), "small") : null,
        ),
    },
  ];
}

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

function drivers(stage) {
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
  for (const topic of ["hosts", "scope"]) stage.on(store, topic, update);
  update();
  return table.element;
}

const selectorField = (row) => {
  const keys = {
    ...parse(store.scope.text).found,
    ...(row?.host ? { host: row.host, vm: row.vm, pe: row.pes } : {}),
    fn: undefined,
  };
  return field(
    "Elements (selector)",
    input("selector", compose(keys), { class: "mono", placeholder: "everything" }),
    "",
    true,
  );
};

function stageDialog(done) {
  return dialog({
    title: "Stage image",
    needs: "admin",
    action: "Stage",
    text: "The image lies ready beside the running one. Its signature is checked by the daemon.",
    fields: [
      selectorField(null),
      field("Signed image", h("input", { type: "file", name: "image", required: true }), "", true),
    ],
    submit: async ({ selector = "" }, form) => {
      const [file] = form.elements.image.files;
      if (file.size > LARGEST_BYTES) throw new Error(`an image of ${file.size} bytes; allowed: ${LARGEST_BYTES}`);
      done(
        await api.post("firmware/stage", { selector, image: api.toBase64(new Uint8Array(await file.arrayBuffer())) }),
      );
      toast(`${file.name} is staged`);
    },
  });
}

function activateDialog(done, row = null, version = "") {
  return dialog({
    title: "Activate firmware",
    needs: "admin",
    action: "Activate",
    text: "Each element changes at its next block, tests itself, and goes back by itself if that fails.",
    fields: [
      selectorField(row),
      field(
        "Version",
        version ? select("version", [version], version) : input("version", "", { required: true, class: "mono" }),
        "",
        true,
      ),
    ],
    submit: async ({ selector = "", version: chosen }) =>
      done(await api.post("firmware/activate", { selector, version: chosen })),
  });
}

function rollbackDialog(done, row = null) {
  return dialog({
    title: "Roll back firmware",
    needs: "admin",
    action: "Roll back",
    text: "Each element goes back to what its other slot holds.",
    fields: [selectorField(row)],
    submit: async ({ selector = "" }) => done(await api.post("firmware/rollback", { selector })),
  });
}

/** What came of it, host by host. */
function showResult(place, { hosts, failed }) {
  const done = Object.entries(hosts).map(([host, info]) => {
    const states = new Map();
    for (const pe of info.pes) states.set(pe.state, (states.get(pe.state) ?? 0) + 1);
    return h(
      "li",
      null,
      pill(host, "ok", true),
      h("span.wrap", null, [...states].map(([state, number]) => `${number} ${state}`).join(", ") || "done"),
    );
  });
  const refused = failed.map(({ host, error }) => h("li", null, pill(host, "bad", true), h("span.wrap", null, error)));
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
