/** Selectors, with the syntax of `virtio_proto.control.selector`, for what the page itself filters. */

/** @typedef {"host" | "gpu" | "vm" | "pe" | "fn"} Key */
/** @typedef {{ [K in Key]?: string | number | null }} Keys values by key; unset ones are left out */
/**
 * Parsed selector: for each key a function that says if a name or number matches.
 * @typedef {object} Selector
 * @property {string} text as given
 * @property {{ [K in Key]?: string }} found values by key
 * @property {(name: string | number) => boolean} host
 * @property {(name: string | number) => boolean} gpu
 * @property {(name: string | number) => boolean} vm
 * @property {(name: string | number) => boolean} fn
 * @property {(pe: string | number | null | undefined) => boolean} pe
 */

/** @type {Key[]} */
const KEYS = ["host", "gpu", "vm", "pe", "fn"];
export const FUNCTIONS = ["stdio", "perf", "log", "fault", "load", "firmware", "snapshot"];

/** Error of a malformed selector; the text says what is allowed. */
export class SelectorError extends Error {}

const EVERYTHING = () => true;

/**
 * @param {string} value
 * @returns {Selector["fn"]}
 */
function names(value) {
  const escaped = value
    .split("|")
    .map((part) => part.replace(/[.:]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", "."));
  const pattern = new RegExp(`^(?:${escaped.join("|")})$`);
  return (name) => pattern.test(String(name));
}

/**
 * @param {string} value
 * @returns {Selector["pe"]}
 */
function numbers(value) {
  if (value === "*") return EVERYTHING;
  const parts = value.split("|").map((part) => {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (!match) throw new SelectorError(`pe=${value}: numbers and ranges such as 0-3|8, or *`);
    return [Number(match[1]), Number(match[2] ?? match[1])];
  });
  return (pe) =>
    pe === null || pe === undefined || parts.some(([first, last]) => first <= Number(pe) && Number(pe) <= last);
}

/**
 * @param {string} text
 * @returns {text is Key}
 */
function isKey(text) {
  return KEYS.some((key) => key === text);
}

/**
 * Parses a selector.
 * @param {string} text
 * @returns {Selector}
 * @throws {SelectorError}
 */
export function parse(text) {
  /** @type {{ [K in Key]?: string }} */
  const found = {};
  for (const part of text.trim() ? text.split(",") : []) {
    const at = part.indexOf("=");
    const key = part.slice(0, at).trim();
    const value = part.slice(at + 1).trim();
    if (at < 0 || !isKey(key))
      throw new SelectorError(`${part.trim() || "nothing"}: key=value with ${KEYS.join(", ")}`);
    if (key in found) throw new SelectorError(`${key} twice: once, with alternatives as a|b`);
    if (key === "fn" && value !== "*" && !value.split("|").every((name) => FUNCTIONS.includes(name))) {
      throw new SelectorError(`fn=${value}: ${FUNCTIONS.join(", ")}`);
    }
    if (key !== "pe" && !/^[A-Za-z0-9_.:*?|-]+$/.test(value)) {
      throw new SelectorError(`${key}=${value}: letters, digits, _ . : - and * ? |`);
    }
    found[key] = value;
  }
  /** @param {Key} key */
  const matcher = (key) => (found[key] === undefined ? EVERYTHING : names(found[key]));
  return {
    text,
    found,
    host: matcher("host"),
    gpu: matcher("gpu"),
    vm: matcher("vm"),
    fn: matcher("fn"),
    pe: numbers(found.pe ?? "*"),
  };
}

/**
 * Text of a selector from its values; empty ones are left out.
 * @param {Keys} values
 */
export function compose(values) {
  return KEYS.filter((key) => values[key] !== undefined && values[key] !== null && values[key] !== "")
    .map((key) => `${key}=${values[key]}`)
    .join(",");
}

/**
 * Selector `text` with some keys replaced.
 * @param {string} text
 * @param {Keys} values
 */
export function refine(text, values) {
  return compose({ ...parse(text).found, ...values });
}

/**
 * True if the selector matches all keys that an object has.
 * @param {Selector} selector
 * @param {Keys} object
 */
export function matches(selector, object) {
  return KEYS.every((key) => {
    const value = object[key];
    return value === undefined || value === null || selector[key](value);
  });
}
