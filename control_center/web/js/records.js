/** Lines of records: bounded scrollback, losses shown where they happened. */

import { h, setText } from "./dom.js";
import { LEVEL_TONES, clock, count, levelName, span } from "./format.js";

const REMEMBERED = 4096;
const CHANNEL = (record) => [record.host, record.vm, record.pe, record.fn].join("\n");

/** Finds what is missing between records of a channel, from the count of losses that comes with each. */
export class Gaps {
  #lost = new Map();

  /** `fresh`: channels that were opened for this, so that losses before the first record count too. */
  constructor(fresh = false) {
    this.fresh = fresh;
  }

  /** How many were lost just before this record. */
  before(record) {
    const key = CHANNEL(record);
    const known = this.#lost.get(key) ?? (this.fresh ? 0 : (record.lost ?? 0));
    const lost = record.lost ?? 0;
    this.#lost.set(key, lost);
    return lost < known ? lost : lost - known; // fewer than before: the channel is a new one
  }
}

/** Knows records again: two instances of one function on an element each send the same record. */
export class Seen {
  #keys = new Set();

  /** Whether this record was here before; remembered for a while. */
  again(record) {
    const key = `${CHANNEL(record)}\n${record.sequence}\n${record.time_ns}`;
    if (this.#keys.has(key)) return true;
    this.#keys.add(key);
    if (this.#keys.size > REMEMBERED) this.#keys.delete(this.#keys.values().next().value);
    return false;
  }
}

/** A list of lines at whose end one stays, unless one has scrolled up. */
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

  /** Adds a line, an element; the oldest ones go when there are too many. */
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

  /** Shows that records are missing here. */
  gap(lost, where = "") {
    this.add(h("div.line.gap", null, `${lost} record${lost === 1 ? "" : "s"} lost${where}`));
  }

  /** Shows that the stream left out messages, as this page was too slow for them. */
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
const SAMPLES = {
  perf: ["blocks", "warps", "busy_ns", "stall_ns"],
  load: ["busy_ns", "blocks", "launches", "since_ns"],
};

/** Whether a record is one of the figures that elements report again and again; there are views for those. */
export const isSample = (record) => record.kind === "sample" && record.fn in SAMPLES;

/** Whether a record says that a kernel waits for input or took some of it: the console shows that, byte by byte. */
export const isInput = (record) => record.fn === "stdio" && ["wants", "took"].includes(record.kind);

function textOf(record) {
  if (!isSample(record)) return record.text;
  const words = record.text.split(" ").map(Number);
  return SAMPLES[record.fn]
    .map((name, at) =>
      name.endsWith("_ns") ? `${name.slice(0, -3)} ${span(words[at])}` : `${name} ${count(words[at])}`,
    )
    .join(" · ");
}

/** What kind of record it is, in a word or two: a log's is its level. */
function what(record) {
  if (record.fn === "log") return levelName(record.level);
  return ["format", "text"].includes(record.kind) ? record.fn : `${record.fn} ${record.kind.replaceAll("_", " ")}`;
}

/** A record as a line of a log. */
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
