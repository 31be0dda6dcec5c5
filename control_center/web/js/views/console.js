/** Console of processing elements (PEs): shows what kernels print, sends typed lines as their standard input. */

/** @import { HostedInstance, SendRequest, RecordMessage, RecordRow } from "../messages.d.ts" */
/** @import { Selector } from "../selector.js" */
/** @import { Stage } from "../stage.js" */
/** @import { View } from "./index.js" */
/** @typedef {{ host: string, vm: string, pe: string }} Place `pe`: a number, several, or empty for all */

import * as api from "../api.js";
import { sparkline } from "../chart.js";
import { empty, fill, h, pill, setText } from "../dom.js";
import { LEVELS, clock, count, percent } from "../format.js";
import { field, input, select } from "../forms.js";
import { borrow, send } from "../instances.js";
import { Gaps, Lines } from "../records.js";
import { button, guard, reason } from "../roles.js";
import { go } from "../router.js";
import { compose, matches, parse } from "../selector.js";
import { store } from "../store.js";

const SCROLLBACK = 2000;
const EARLIER = 200;
const CHANNELS_MS = 2000;

/** @type {View} */
export const console_ = { name: "console", title: "Console", group: "Steer", mount };

/** @param {Stage} stage */
function mount(stage) {
  const { host = "", vm = "", pe = "" } = stage.params;
  stage.show("Console", "Standard input and output of processing elements", [], chooser(stage, host, vm, pe));
  if (!host || !vm) {
    stage.root.append(empty("No PE chosen", "Choose a host, a VM and PEs above, or click a cell of the heat grid."));
    return;
  }
  const terminal = new Terminal(stage, { host, vm, pe });
  const side = elementSide(stage, host, vm, pe);
  stage.root.append(h("div.console-columns", null, terminal.element, side));
  stage.attempt(() => terminal.connect());
}

/**
 * @param {Stage} stage
 * @param {string} host
 * @param {string} vm
 * @param {string} pe
 */
function chooser(stage, host, vm, pe) {
  const hosts = select("host", [], host, { "aria-label": "Host" });
  const vms = select("vm", [], vm, { "aria-label": "VM" });
  const element = input("pe", pe, { "aria-label": "PEs", placeholder: "all PEs; or 0-3|8", class: "mono" });
  /**
   * @param {HTMLSelectElement} control
   * @param {string[]} names
   * @param {string} chosen
   */
  const options = (control, names, chosen) => {
    const wanted = names.length ? names : [chosen || "–"];
    fill(
      control,
      wanted.map((name) => h("option", { value: name }, name)),
    );
    control.value = wanted.includes(chosen) ? chosen : wanted[0];
  };
  const update = () => {
    const chosen = hosts.value || host;
    options(
      hosts,
      store.hosts.filter((each) => each.vms.length).map((each) => each.host),
      chosen,
    );
    options(vms, store.host(hosts.value)?.vms.map((each) => each.vm) ?? [], vms.value || vm);
  };
  stage.on(hosts, "change", update);
  store.addEventListener("hosts", update, { once: true, signal: stage.signal });
  update();
  /** @param {Event} event */
  const connect = (event) => {
    event.preventDefault();
    go("console", { host: hosts.value, vm: vms.value, pe: element.value.trim() });
  };
  return h(
    "form.panel.chooser",
    { onsubmit: connect },
    field("Host", hosts),
    field("VM", vms),
    field("Processing elements", element),
    guard(h("button.button.main", { type: "submit" }, "Connect"), "operate"),
  );
}

class Terminal {
  /**
   * @param {Stage} stage
   * @param {Place} place
   */
  constructor(stage, place) {
    this.stage = stage;
    this.place = place;
    this.text = compose({ ...place, fn: "stdio" });
    this.selector = parse(this.text);
    this.lines = new Lines(SCROLLBACK, "output");
    this.gaps = new Gaps(true);
    /** @type {Map<number, HTMLElement>} unfinished lines, by PE */
    this.open = new Map();
    /** @type {string[]} */
    this.typed = [];
    this.recalled = 0;
    /** @type {string[]} */
    this.ids = [];
    this.many = !/^\d+$/.test(place.pe);
    this.state = h("span", null, pill("connecting", "info", true));
    this.wants = h("span");
    this.input = h("input.mono", {
      name: "line",
      autocomplete: "off",
      spellcheck: "false",
      disabled: true,
      "aria-label": "Line to send",
      placeholder: "type a line for standard input, Enter sends it",
      onkeydown: (event) => this.#recall(event),
    });
    this.eof = button("EOF", "operate", () => stage.attempt(() => this.#send({ eof: true })), "small");
    this.eof.disabled = true;
    this.element = this.#build();
  }

  #build() {
    const title = `${this.place.host} / ${this.place.vm} / ${this.place.pe === "" ? "all PEs" : `PE ${this.place.pe}`}`;
    const form = h(
      "form.prompt",
      { onsubmit: (event) => this.#submit(event) },
      h("span.mono", { "aria-hidden": "true" }, ">"),
      this.input,
      this.eof,
    );
    const clear = h("button.button.small.plain", { type: "button", onclick: () => this.lines.clear() }, "Clear");
    return h(
      "section.panel.terminal",
      null,
      h("div.panel-head", null, h("h2", null, title), this.state, this.wants, h("div.tools", null, clear)),
      this.lines.element,
      form,
    );
  }

  async connect() {
    this.stage.on(store, "record", (event) => this.#take(event.detail));
    this.stage.on(store, "dropped", (event) => this.lines.missed(event.detail));
    await this.#earlier();
    if (reason("operate")) {
      fill(this.state, pill(`reading only: ${reason("operate")}`, "warn"));
      return;
    }
    try {
      this.ids = await borrow(this.stage, { selector: this.text, policy: "wait", level: 5 });
    } catch (error) {
      fill(this.state, pill("not connected", "bad", true));
      throw error;
    }
    fill(this.state, pill("connected", "ok", true));
    this.input.disabled = false;
    this.eof.disabled = false;
    this.input.focus();
  }

  /** Shows the last recorded output of these PEs, if the centre has a recorder. */
  async #earlier() {
    if (!store.recording) return;
    const records = await api
      .get("records", { selector: this.text, limit: EARLIER }, this.stage.signal)
      .catch(() => []);
    const last = records.at(-1);
    if (!last) return;
    for (const record of records) this.#take(record);
    this.lines.add(h("div.line.mark", null, `recorded until ${clock(last.time_ns, false)}; live from here`));
    this.open.clear();
  }

  /** @param {RecordRow & Partial<RecordMessage>} record */
  #take(record) {
    if (!matches(this.selector, record) || (record.instance && !this.ids.includes(record.instance))) return;
    const lost = this.gaps.before(record);
    if (lost) {
      this.lines.gap(lost, this.many ? ` of PE ${record.pe}` : "");
      this.open.delete(record.pe);
    }
    if (record.kind === "wants") fill(this.wants, pill(`PE ${record.pe} waits for input`, "info"));
    else if (record.kind === "took") fill(this.wants);
    else this.#print(record);
  }

  /** @param {RecordRow} record */
  #print(record) {
    record.text.split("\n").forEach((piece, at, pieces) => {
      const last = at === pieces.length - 1;
      if (last && !piece) return;
      const line = this.open.get(record.pe) ?? this.#newLine(record);
      line.append(piece);
      if (last) this.open.set(record.pe, line);
      else this.open.delete(record.pe);
    });
  }

  /** @param {RecordRow} record */
  #newLine(record) {
    const text = h("span.text");
    this.lines.add(
      h(
        "div.line",
        null,
        h("time", null, clock(record.time_ns)),
        this.many ? h("span.where", null, `PE ${record.pe}`) : null,
        text,
      ),
    );
    return text;
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    const line = this.input.value;
    if (await this.stage.attempt(() => this.#send({ text: `${line}\n` }))) {
      this.typed.push(line);
      this.recalled = this.typed.length;
      this.input.value = "";
    }
  }

  /** @param {SendRequest} message */
  async #send(message) {
    const pe = this.many ? {} : { pe: Number(this.place.pe) };
    for (const id of this.ids) await send(id, { ...message, ...pe, vm: this.place.vm });
    this.open.clear();
    this.lines.add(
      h(
        "div.line.typed",
        null,
        h("time", null, clock(Date.now() * 1e6)),
        h("span.text", null, message.eof ? "end of file" : `> ${(message.text ?? "").trimEnd()}`),
      ),
    );
    fill(this.wants);
  }

  /** @param {KeyboardEvent} event */
  #recall(event) {
    /** @type {{ [key: string]: number | undefined }} */
    const steps = { ArrowUp: -1, ArrowDown: 1 };
    const step = steps[event.key];
    if (!step || !this.typed.length) return;
    event.preventDefault();
    this.recalled = Math.min(this.typed.length, Math.max(0, this.recalled + step));
    this.input.value = this.typed[this.recalled] ?? "";
  }
}

/**
 * Panels beside the console: load, VM and open channels of the PEs.
 * @param {Stage} stage
 * @param {string} host
 * @param {string} vm
 * @param {string} pe
 */
function elementSide(stage, host, vm, pe) {
  const selector = parse(compose({ host, vm, pe }));
  const facts = h("dl.facts");
  const line = sparkline(null, 56);
  const busy = h("b");
  /** @type {number[]} */
  const history = [];
  const channels = h("ul.channel-list");
  const load = () => {
    const part = partOf(store.load.get(host)?.pes?.[vm], selector);
    if (part === null) return;
    history.push(part);
    if (history.length > 90) history.shift();
    line.draw(history, 1);
    setText(busy, percent(part));
  };
  const build = () => {
    const info = store.host(host)?.vms.find((each) => each.vm === vm);
    const rows = info
      ? [
          ["VM", pill(info.state, info.state === "ready" ? "ok" : "warn", true)],
          ["GPU", info.gpu],
          ["PEs", info.confined_to ? `${info.confined_to.length} of ${info.pes}` : info.pes],
          ["Requests", count(info.requests_done)],
          ["Firmware", info.firmware],
        ]
      : [["VM", "unknown"]];
    fill(
      facts,
      rows.map(([name, value]) => [h("dt", null, name), h("dd", null, value)]),
    );
  };
  stage.on(store, "hosts", build);
  stage.every(CHANNELS_MS, async () => {
    const open = await api.get("channels", { selector: selector.text, totals: 1 }, stage.signal);
    fill(channels, open.length ? open.map(channelItem) : h("li.faint", null, "none open"));
  });
  stage.on(store, "load", load);
  build();
  load();
  return h(
    "aside.stack",
    null,
    h(
      "section.panel",
      null,
      h("div.panel-head", null, h("h2", null, "Busy"), h("div.tools", null, busy)),
      h("div.panel-body", null, line.canvas),
    ),
    h("section.panel", null, h("div.panel-head", null, h("h2", null, "VM")), h("div.panel-body", null, facts)),
    h(
      "section.panel",
      null,
      h("div.panel-head", null, h("h2", null, "Open channels")),
      h("div.panel-body", null, channels),
    ),
  );
}

/** @param {HostedInstance} instance */
function channelItem(instance) {
  return h(
    "li",
    null,
    h("span.mono", null, instance.function),
    h("span.soft", null, LEVELS[instance.level]),
    h("span.faint.cut", null, instance.owner),
  );
}

/**
 * @param {Uint8Array | undefined} pes
 * @param {Selector} selector
 */
function partOf(pes, selector) {
  if (!pes) return null;
  const chosen = [...pes].filter((_, pe) => selector.pe(pe));
  return chosen.length ? chosen.reduce((sum, value) => sum + value, 0) / chosen.length / 255 : null;
}
