/** Selectors as `virtio_proto.control.selector` has them, as far as the page itself filters by them. */

const KEYS = ["host", "gpu", "vm", "pe", "fn"];
export const FUNCTIONS = ["stdio", "perf", "log", "fault", "load", "firmware", "snapshot"];

/** A malformed selector; the text says what is allowed. */
export class SelectorError extends Error {}

const EVERYTHING = () => true;

function names(value) {
  const escaped = value
    .split("|")
    .map((part) => part.replace(/[.:]/g, "\\$&").replaceAll("*", ".*").replaceAll("?", "."));
  const pattern = new RegExp(`^(?:${escaped.join("|")})$`);
  return (name) => pattern.test(String(name));
}

function numbers(value) {
  if (value === "*") return EVERYTHING;
  const parts = value.split("|").map((part) => {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    if (!match) throw new SelectorError(`pe=${value}: numbers and ranges such as 0-3|8, or *`);
    return [Number(match[1]), Number(match[2] ?? match[1])];
  });
  return (pe) => pe === null || pe === undefined || parts.some(([first, last]) => first <= pe && pe <= last);
}

/**
 * What a selector chooses: a function per key, of a name or number.
 * @throws {SelectorError}
 */
export function parse(text) {
  const found = {};
  for (const part of text.trim() ? text.split(",") : []) {
    const at = part.indexOf("=");
    const key = part.slice(0, at).trim();
    const value = part.slice(at + 1).trim();
    if (at < 0 || !KEYS.includes(key))
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
  const matcher = (key) => (key in found ? names(found[key]) : EVERYTHING);
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

/** A selector's text from its keys; empty ones are left out. */
export function compose(values) {
  return KEYS.filter((key) => values[key] !== undefined && values[key] !== null && values[key] !== "")
    .map((key) => `${key}=${values[key]}`)
    .join(",");
}

/** `text` with some keys set anew. */
export function refine(text, values) {
  return compose({ ...parse(text).found, ...values });
}

/** Whether an object with host, gpu, vm, pe, fn (some of them) is chosen; what it lacks is not asked. */
export function matches(selector, object) {
  return KEYS.every((key) => object[key] === undefined || object[key] === null || selector[key](object[key]));
}
