/** Time line: the recording, replayed at any speed, exported. */

/** @import { Change, Range } from "../brush.js" */
/** @import { Choice } from "../forms.js" */
/** @import { LoadInfo, LoadMessage, StreamMessage, TimelineBin } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { View } from "./index.js" */

import * as api from "../api.js";
import { Brush, TONES, total } from "../brush.js";
import { empty, fill, h, pill, setText } from "../dom.js";
import { clock, count, describe, moment, now, span } from "../format.js";
import { select } from "../forms.js";
import { HeatGrid, vmHue } from "../heat.js";
import { ICONS, icon } from "../icons.js";
import { Gaps, Lines, recordLine } from "../records.js";
import { store } from "../store.js";
import { Stream } from "../stream.js";

const BINS = 160;
const SHOWN = 1500;
/** @type {Choice[]} */
const SPANS = [
  ["300", "last 5 minutes"],
  ["3600", "last hour"],
  ["86400", "last day"],
  ["", "everything"],
];
/** @type {Choice[]} */
const SPEEDS = [
  ["0.1", "0.1 ×"],
  ["1", "1 ×"],
  ["10", "10 ×"],
  ["100", "100 ×"],
  ["1000", "1000 ×"],
];

/** @type {View} */
export const timeline = { name: "timeline", title: "Time line", group: "Watch", mount };

/** @param {Stage} stage */
function mount(stage) {
  const view = new Timeline(stage);
  view.build();
  stage.attempt(() => view.load());
}

class Timeline {
  /** @type {Stream | null} */
  stream = null;
  paused = false;
  /** End of the replay. */
  to = 0;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  timer;
  /** @type {Map<string, LoadInfo["pes"]>} by host */
  loads = new Map();

  /** @param {Stage} stage */
  constructor(stage) {
    this.stage = stage;
    this.heatCanvas = h("canvas.heat", { "aria-label": "replayed load: a cell per processing element" });
    this.heat = new HeatGrid(this.heatCanvas, { hover: () => {}, open: () => {} });
    this.heatBox = h("div.panel-body", { hidden: true }, this.heatCanvas);
    this.gaps = new Gaps();
    this.lines = new Lines(SHOWN, "replayed records");
    this.canvas = h("canvas.timeline", { role: "slider", "aria-label": "recorded time; arrow keys move the playhead" });
    this.brush = new Brush(this.canvas, (change) => this.#moved(change));
    this.spans = select("span", SPANS, "300", { "aria-label": "Time shown" });
    this.speeds = select("speed", SPEEDS, "1", { "aria-label": "Speed" });
    this.at = h("b.mono");
    this.range = h("span.soft");
    this.sums = h("div.legend-row");
    this.playing = h("span");
    this.play = h("button.button.main", { type: "button", onclick: () => this.toggle() });
    this.whole = h(
      "button.button.small",
      { type: "button", hidden: true, onclick: () => this.#select(null) },
      "Clear selection",
    );
    this.zoom = h(
      "button.button.small",
      { type: "button", hidden: true, onclick: () => stage.attempt(() => this.load(this.brush.range)) },
      "Zoom in",
    );
  }

  build() {
    const exports = [
      ["perfetto", "Perfetto trace", "trace.json"],
      ["csv", "CSV", "records.csv"],
    ].map(([format, label, name]) =>
      h(
        "button.button",
        { type: "button", onclick: () => this.stage.attempt(() => this.#export(format, name)) },
        `Export ${label}`,
      ),
    );
    const chart = h("div.timeline-box", null, this.canvas);
    const panel = h(
      "section.panel",
      null,
      h("div.panel-head", null, this.range, this.whole, this.zoom, h("div.tools", null, this.sums)),
      h("div.panel-body", null, chart),
    );
    const player = h(
      "section.panel.player",
      null,
      h("div.panel-head", null, this.play, this.speeds, this.at, this.playing),
      this.heatBox,
      this.lines.element,
    );
    this.stage.show(
      "Time line",
      "The recording; drag to select, click to seek, play to see it again",
      [this.spans, exports],
      panel,
      player,
    );
    this.stage.on(this.spans, "change", () => this.stage.attempt(() => this.load()));
    this.stage.on(this.speeds, "change", () => {
      if (!this.stream) return;
      this.stream.steer({ speed: Number(this.speeds.value) });
      this.#run();
    });
    this.stage.on(store, "scope", () => this.stage.attempt(() => this.load()));
    this.stage.on(window, "resize", () => this.brush.draw());
    this.stage.leave(() => this.stop());
    this.#buttons();
  }

  /** @param {Range | null} range */
  async load(range = null) {
    if (!store.recording) {
      fill(this.lines.element, empty("Nothing is recorded here", "The control centre has no recorder configured."));
      return;
    }
    const length = Number(this.spans.value) * 1e9;
    const [from, to] = range ?? (length ? [now() - length, now()] : [null, null]);
    /** @param {number | null} value */
    const whole = (value) => (value === null ? null : Math.round(value));
    const bins = await api.get(
      "timeline",
      { selector: store.scope.text, from_ns: whole(from), to_ns: whole(to), bins: BINS },
      this.stage.signal,
    );
    this.brush.head = null;
    this.brush.show(bins);
    this.#select(null);
    this.#sums(bins);
    if (!bins.some((bin) => total(bin.records) + total(bin.events)))
      this.lines.element.replaceChildren(
        empty(
          "Nothing was recorded in this time",
          "Records of all open channels and all events are recorded as they come.",
        ),
      );
    else this.lines.clear();
  }

  /** @param {TimelineBin[]} bins */
  #sums(bins) {
    const sums = Object.entries(TONES)
      .map(([name, tone]) => ({ name, tone, sum: bins.reduce((sum, bin) => sum + (bin.records[name] ?? 0), 0) }))
      .filter(({ sum }) => sum);
    const lost = bins.reduce((sum, bin) => sum + bin.lost, 0);
    fill(
      this.sums,
      sums.map(({ name, tone, sum }) => {
        const swatch = h("i.swatch");
        swatch.style.background = tone;
        return h("span", null, swatch, `${name} ${count(sum)}`);
      }),
      lost ? h("span.bad", null, `${count(lost)} lost`) : null,
    );
  }

  /** @param {Change} change */
  #moved({ range, head, dragged }) {
    if (dragged) this.#select(range);
    setText(this.at, clock(head));
    if (!this.stream) return;
    if (dragged) this.start();
    else this.#seek(head);
  }

  /** @param {number} head */
  #seek(head) {
    this.gaps = new Gaps();
    this.lines.clear();
    this.loads.clear();
    this.stream?.steer({ seek_ns: Math.round(head) });
    this.#run();
  }

  /** @param {Range | null} range */
  #select(range) {
    this.brush.range = range;
    this.brush.draw();
    this.whole.hidden = this.zoom.hidden = !range;
    const [from, to] = range ?? [this.brush.start, this.brush.end];
    setText(this.range, to > 1 ? `${moment(from)} – ${clock(to, false)} · ${span(to - from)}` : "nothing recorded");
  }

  toggle() {
    if (!this.stream) this.start();
    else {
      this.paused = !this.paused;
      this.stream.steer({ pause: this.paused });
      this.#run();
      this.#buttons();
    }
  }

  /** Plays from the playhead, or from the beginning of the selection. */
  start() {
    this.stop();
    const [from, to] = this.brush.range ?? [this.brush.start, this.brush.end];
    let head = this.brush.head ?? from;
    if (head >= to) head = from;
    this.gaps = new Gaps();
    this.lines.clear();
    this.stream = new Stream(
      {
        selector: store.scope.text,
        events: 1,
        load: 1,
        replay_from_ns: Math.round(head),
        replay_to_ns: Math.round(to),
        speed: Number(this.speeds.value),
      },
      {
        message: (message) => this.#take(message, to),
        state: () => {},
        ended: () => this.stop(),
      },
    );
    this.brush.head = head;
    this.to = to;
    this.#run();
    this.#buttons();
  }

  stop() {
    this.stream?.close();
    this.stream = null;
    this.paused = false;
    clearInterval(this.timer);
    this.#buttons();
  }

  /** Moves the playhead as time passes. */
  #run() {
    const head = this.brush.head ?? this.brush.start;
    const { to } = this;
    const began = performance.now();
    const speed = Number(this.speeds.value);
    clearInterval(this.timer);
    if (this.paused) return;
    this.timer = setInterval(() => {
      const at = Math.min(to, head + (performance.now() - began) * 1e6 * speed);
      this.brush.setHead(at);
      setText(this.at, clock(at));
    }, 80);
  }

  /**
   * @param {StreamMessage} message
   * @param {number} to
   */
  #take(message, to) {
    if ("time_ns" in message && message.time_ns > to) return;
    if (message.type === "load") this.#showLoad(message);
    if (message.type === "record") {
      const lost = this.gaps.before(message);
      if (lost) this.lines.gap(lost, ` of ${message.host}/${message.vm}/${message.pe}`);
      this.lines.add(recordLine(message));
    } else if (message.type === "event") {
      this.lines.add(
        h(
          "div.line.event",
          null,
          h("time", null, clock(message.time_ns)),
          h("span.where", null, [message.host, message.vm].filter(Boolean).join("/")),
          h("span.what", null, message.event),
          h("span.text", null, describe(message.detail)),
        ),
      );
    }
  }

  /**
   * Shows the recorded load of all hosts' PEs at that time.
   * @param {LoadMessage} message
   */
  #showLoad(message) {
    for (const [host, load] of Object.entries(message.hosts)) this.loads.set(host, load.pes);
    const vms = [...this.loads].flatMap(([host, pes]) =>
      Object.entries(pes).map(([vm, text]) => ({ vm: `${host}/${vm}`, loads: api.fromBase64(text) })),
    );
    const cells = vms.flatMap(({ vm, loads }, at) =>
      Array.from(loads, (load, pe) => ({ vm, pe, load: load / 255, hue: vmHue(at) })),
    );
    this.heatBox.hidden = cells.length === 0;
    if (cells.length) this.heat.update(cells, this.heatBox.clientWidth - 24);
  }

  #buttons() {
    const plays = this.stream !== null && !this.paused;
    fill(this.play, icon(plays ? ICONS.pause : ICONS.play), plays ? "Pause" : "Play");
    fill(this.playing, this.stream ? pill(plays ? "replaying" : "paused", "info", plays) : null);
  }

  /**
   * @param {string} format
   * @param {string} name
   */
  #export(format, name) {
    const [from, to] = this.brush.range ?? [this.brush.start, this.brush.end];
    return api.download(
      "export",
      { format, selector: store.scope.text, from_ns: Math.round(from), to_ns: Math.round(to) },
      name,
    );
  }
}
