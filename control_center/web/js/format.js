/** Formats numbers, times and sizes for people. */

const UNITS = ["", "k", "M", "G", "T", "P"];

/** @typedef {number | null | undefined} Figure a number, if it is known */

/**
 * Number with a decimal unit: 12 345 678 -> "12.3 M".
 * @param {Figure} value
 */
export function count(value) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 10000 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  if (unit === 0) return Number.isInteger(value) ? String(value) : value.toPrecision(3);
  return `${value < 0 ? "−" : ""}${size >= 100 ? size.toFixed(0) : size.toFixed(1)} ${UNITS[unit]}`;
}

/**
 * Number of bytes with a binary unit.
 * @param {Figure} value
 */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = value;
  let unit = 0;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 100 || Number.isInteger(size) ? 0 : 1;
  return `${size.toFixed(digits)} ${unit ? `${UNITS[unit].toUpperCase()}i` : ""}B`;
}

/**
 * Percentage of a part of 1: 0.4213 -> "42 %".
 * @param {Figure} part
 */
export function percent(part, digits = 0) {
  return part === null || part === undefined || Number.isNaN(part) ? "–" : `${(100 * part).toFixed(digits)} %`;
}

/**
 * Length of time from nanoseconds: "830 ns", "1.2 ms", "3 m 20 s".
 * @param {Figure} ns
 */
export function span(ns) {
  if (ns === null || ns === undefined) return "–";
  if (ns < 1e3) return `${Math.round(ns)} ns`;
  if (ns < 1e6) return `${(ns / 1e3).toPrecision(3)} µs`;
  if (ns < 1e9) return `${(ns / 1e6).toPrecision(3)} ms`;
  const seconds = ns / 1e9;
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${Math.floor(seconds % 60)} s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
}

/** @param {number} number */
const two = (number) => String(number).padStart(2, "0");

/**
 * Time of day of CLOCK_REALTIME nanoseconds, with milliseconds.
 * @param {Figure} ns
 */
export function clock(ns, milliseconds = true) {
  if (!ns) return "–";
  const date = new Date(ns / 1e6);
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return milliseconds ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

/**
 * Date and time of day.
 * @param {Figure} ns
 */
export function moment(ns) {
  if (!ns) return "–";
  const date = new Date(ns / 1e6);
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${clock(ns, false)}`;
}

/**
 * Time since a moment, by this machine's clock: "3 m 20 s ago".
 * @param {Figure} ns
 */
export function ago(ns) {
  if (!ns) return "–";
  const passed = Date.now() * 1e6 - ns;
  return passed < 1e9 ? "now" : `${span(passed)} ago`;
}

/** Current time in CLOCK_REALTIME nanoseconds. */
export const now = () => Date.now() * 1e6;

/** Names of `records.Level`. */
export const LEVELS = ["off", "critical", "error", "warning", "info", "debug"];
/** @param {number} level */
export const levelName = (level) => LEVELS[level] ?? String(level);
export const LEVEL_TONES = ["", "bad", "bad", "warn", "", "soft"];

/**
 * Numbers in the syntax of selectors: [0,1,2,8] -> "0-2|8".
 * @param {number[]} numbers
 */
export function ranges(numbers) {
  /** @type {[number, number][]} */
  const parts = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = parts[parts.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)).join("|");
}

/**
 * Detail of an event in one line.
 * @param {{ [key: string]: unknown } | null | undefined} detail
 */
export function describe(detail) {
  return Object.entries(detail ?? {})
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}
