/** Time line of a recording on a canvas: bars by function, marks of events and losses, a range and a playhead. */

/** @import { TimelineBin } from "./messages.d.ts" */
/** @typedef {[from: number, to: number]} Range */
/** @typedef {{ range: Range | null, head: number, dragged: boolean }} Change what the person changed */

import { colour, fit } from "./chart.js";
import { clock, moment } from "./format.js";

export const TONES = {
  stdio: "hsl(205 75% 58%)",
  log: "hsl(160 55% 48%)",
  perf: "hsl(265 60% 68%)",
  fault: "hsl(4 80% 64%)",
  load: "hsl(40 80% 58%)",
  firmware: "hsl(320 55% 62%)",
  snapshot: "hsl(90 40% 52%)",
};
const HEIGHT = 168;
const AXIS = 20;
const MARKS = 14;
const STEP = 0.01;

/** Time line on a canvas; `changed` is called when the person has changed the range or the playhead. */
export class Brush {
  /** @type {TimelineBin[]} */
  bins = [];
  /** @type {Range | null} */
  range = null;
  /** @type {number | null} */
  head = null;
  /** @type {number | null} x of the pointer's press */
  from = null;
  width = 0;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {(change: Change) => void} changed
   */
  constructor(canvas, changed) {
    this.canvas = canvas;
    this.changed = changed;
    canvas.tabIndex = 0;
    canvas.addEventListener("pointerdown", (event) => this.#down(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#up(event));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  get start() {
    return this.bins[0]?.start_ns ?? 0;
  }

  get end() {
    return this.bins.at(-1)?.end_ns ?? 1;
  }

  /** @param {TimelineBin[]} bins */
  show(bins) {
    this.bins = bins;
    this.draw();
  }

  /** @param {number} ns */
  setHead(ns) {
    this.head = ns;
    this.draw();
  }

  /** @param {number} x */
  #timeAt(x) {
    return this.start + Math.min(1, Math.max(0, x / this.width)) * (this.end - this.start);
  }

  /** @param {number} ns */
  #x(ns) {
    return ((ns - this.start) / (this.end - this.start)) * this.width;
  }

  /** @param {PointerEvent} event */
  #down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.from = event.offsetX;
  }

  /** @param {PointerEvent} event */
  #move(event) {
    if (this.from === null || Math.abs(event.offsetX - this.from) < 4) return;
    const [a, b] = [this.from, event.offsetX].sort((one, two) => one - two);
    this.range = [this.#timeAt(a), this.#timeAt(b)];
    this.draw();
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (this.from === null) return;
    const dragged = Math.abs(event.offsetX - this.from) >= 4;
    this.from = null;
    const head = dragged && this.range ? this.range[0] : this.#timeAt(event.offsetX);
    this.head = head;
    this.draw();
    this.changed({ range: this.range, head, dragged });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    /** @type {{ [key: string]: number | undefined }} */
    const steps = { ArrowLeft: -STEP, ArrowRight: STEP, PageUp: -10 * STEP, PageDown: 10 * STEP };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    const moved = (this.head ?? this.start) + step * (this.end - this.start);
    this.head = Math.min(this.end, Math.max(this.start, moved));
    this.draw();
    this.changed({ range: this.range, head: this.head, dragged: false });
  }

  draw() {
    this.width = this.canvas.parentElement?.clientWidth ?? 600;
    const context = fit(this.canvas, this.width, HEIGHT);
    if (!this.bins.length) return;
    this.#drawBars(context);
    this.#drawAxis(context);
    if (this.range) {
      const [a, b] = this.range.map((ns) => this.#x(ns));
      context.fillStyle = colour("accent");
      context.globalAlpha = 0.14;
      context.fillRect(a, 0, b - a, HEIGHT - AXIS);
      context.globalAlpha = 1;
      for (const edge of [a, b]) context.fillRect(edge - 0.5, 0, 1, HEIGHT - AXIS);
    }
    if (this.head !== null) {
      context.fillStyle = colour("text");
      context.fillRect(this.#x(this.head) - 0.75, 0, 1.5, HEIGHT - AXIS);
    }
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawBars(context) {
    const wide = this.width / this.bins.length;
    const most = Math.max(1, ...this.bins.map((bin) => total(bin.records)));
    const scale = (HEIGHT - AXIS - MARKS - 6) / Math.sqrt(most);
    this.bins.forEach((bin, at) => {
      const all = total(bin.records);
      let base = HEIGHT - AXIS;
      for (const [name, tone] of Object.entries(TONES)) {
        const high = all ? (Math.sqrt(all) * scale * (bin.records[name] ?? 0)) / all : 0;
        context.fillStyle = tone;
        context.fillRect(at * wide + 0.5, base - high, Math.max(1, wide - 1), high);
        base -= high;
      }
      if (total(bin.events)) this.#mark(context, (at + 0.5) * wide, bin.events.fault ? "bad" : "soft");
      if (bin.lost) {
        context.fillStyle = colour("bad");
        context.fillRect(at * wide, HEIGHT - AXIS, wide, 3);
      }
    });
  }

  /**
   * @param {CanvasRenderingContext2D} context
   * @param {number} x
   * @param {string} tone
   */
  #mark(context, x, tone) {
    context.fillStyle = colour(tone);
    context.beginPath();
    context.arc(x, MARKS / 2, 2.4, 0, 2 * Math.PI);
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawAxis(context) {
    context.fillStyle = colour("line");
    context.fillRect(0, HEIGHT - AXIS, this.width, 1);
    context.fillStyle = colour("faint");
    context.font = `11px ${getComputedStyle(this.canvas).fontFamily}`;
    const marks = Math.max(2, Math.floor(this.width / 170));
    const long = this.end - this.start > 20 * 3600e9;
    for (let at = 0; at <= marks; at += 1) {
      context.textAlign = at === 0 ? "left" : at === marks ? "right" : "center";
      const ns = this.start + (at / marks) * (this.end - this.start);
      context.fillText(
        long ? moment(ns) : clock(ns, this.end - this.start < 5e9),
        (at / marks) * this.width,
        HEIGHT - 6,
      );
    }
  }
}

/**
 * Sum of the values of a map.
 * @param {{ [name: string]: number }} counts
 */
export function total(counts) {
  return Object.values(counts ?? {}).reduce((sum, value) => sum + value, 0);
}
