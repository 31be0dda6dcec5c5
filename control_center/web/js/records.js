/** Lines of records, with bounded scrollback; losses are shown where they happened. */

/** @import { RecordRow } from "./messages.d.ts" */

import { h, setText } from "./dom.js";
import { LEVEL_TONES, clock, count, levelName, span } from "./format.js";

const REMEMBERED = 4096;
/** @param {RecordRow} record */
const CHANNEL = (record) => [record.host, record.vm, record.pe, record.fn].join("\n");

/** Finds gaps between records of a channel, from the number of lost records that comes with each. */
export class Gaps {
  /** @type {Map<string, number>} */
  #lost = new Map();

  /** `fresh`: the channels were opened for this view, so losses before the first record count, too. */
  constructor(fresh = false) {
    this.fresh = fresh;
  }

  /**
   * Number of records lost just before this one.
   * @param {RecordRow} record
   */
  before(record) {
    const key = CHANNEL(record);
    const known = this.#lost.get(key) ?? (this.fresh ? 0 : (record.lost ?? 0));
    const lost = record.lost ?? 0;
    this.#lost.set(key, lost);
    return lost < known ? lost : lost - known; // a lower count than before: the channel is new
  }
}

/** Recognises repeated records: two instances of one function on a PE both send the same record. */
export class Seen {
  /** @type {Set<string>} */
  #keys = new Set();

  /**
   * True if this record came before, among the last `REMEMBERED` ones.
   * @param {RecordRow} record
   */
  again(record) {
    const key = `${CHANNEL(record)}\n${record.sequence}\n${record.time_ns}`;
    if (this.#keys.has(key)) return true;
    this.#keys.add(key);
    if (this.#keys.size > REMEMBERED) {
      const [oldest] = this.#keys;
      this.#keys.delete(oldest);
    }
    return false;
  }
}

/** List of lines that stays scrolled to its end unless the person has scrolled up. */
export class Lines {
  constructor(limit = 2000, label = "records") {
    this.limit = limit;
    this.dropped = 0;
    this.element = h("div.lines", { role: "log", "aria-label": label, tabindex: "0" });
    this.top = h("div.line.faint", { hidden: true });
    this.element.append(this.top);
  }

  get count() {
    return this.element.childElementCount - 1;
  }

  /**
   * Adds a line; drops the oldest ones above the limit.
   * @param {HTMLElement} line
   */
  add(line) {
    const atEnd = this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < 40;
    this.element.append(line);
    while (this.count > this.limit) {
      this.element.children[1].remove();
      this.dropped += 1;
      this.top.hidden = false;
      setText(this.top, `${this.dropped} older lines are no longer shown`);
    }
    if (atEnd) this.element.scrollTop = this.element.scrollHeight;
  }

  /**
   * Shows that records are missing here.
   * @param {number} lost
   */
  gap(lost, where = "") {
    this.add(h("div.line.gap", null, `${lost} record${lost === 1 ? "" : "s"} lost${where}`));
  }

  /**
   * Shows that the stream left out messages because this page read too slowly.
   * @param {number} count
   */
  missed(count) {
    this.add(h("div.line.gap", null, `${count} message${count === 1 ? "" : "s"} left out: this page reads too slowly`));
  }

  clear() {
    this.element.replaceChildren(this.top);
    this.top.hidden = true;
    this.dropped = 0;
  }
}

const TEXTS = ["log", "stdio", "fault"];
/** @type {{ [fn: string]: string[] | undefined }} names of the numbers in a sample's text */
const SAMPLES = {
  perf: ["blocks", "warps", "busy_ns", "stall_ns"],
  load: ["busy_ns", "blocks", "launches", "since_ns"],
};

/**
 * True if a record is a periodic sample of counters, which other views show.
 * @param {RecordRow} record
 */
export const isSample = (record) => record.kind === "sample" && record.fn in SAMPLES;

/**
 * True if a record says that a kernel waits for input or took some; the console shows that.
 * @param {RecordRow} record
 */
export const isInput = (record) => record.fn === "stdio" && ["wants", "took"].includes(record.kind);

/** @param {RecordRow} record */
function textOf(record) {
  const names = SAMPLES[record.fn];
  if (!isSample(record) || !names) return record.text;
  const words = record.text.split(" ").map(Number);
  return names
    .map((name, at) =>
      name.endsWith("_ns") ? `${name.slice(0, -3)} ${span(words[at])}` : `${name} ${count(words[at])}`,
    )
    .join(" · ");
}

/**
 * Kind of a record in a word or two; for a log, its level.
 * @param {RecordRow} record
 */
function what(record) {
  if (record.fn === "log") return levelName(record.level);
  return ["format", "text"].includes(record.kind) ? record.fn : `${record.fn} ${record.kind.replaceAll("_", " ")}`;
}

/**
 * Line of a log for a record.
 * @param {RecordRow} record
 */
export function recordLine(record) {
  const place = `block ${record.block}, warp ${record.warp}, sequence ${record.sequence}`;
  return h(
    "div.line",
    { class: TEXTS.includes(record.fn) ? LEVEL_TONES[record.level] : "soft" },
    h("time", { title: String(record.time_ns) }, clock(record.time_ns)),
    h("span.where", { title: place }, `${record.host}/${record.vm}/${record.pe}`),
    h("span.what", null, what(record)),
    h("span.text", null, textOf(record)),
  );
}
