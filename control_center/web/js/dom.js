/** Elements without markup: text always becomes text nodes, so nothing that a guest says is ever parsed. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element.
 * @param {string} tag name, with classes: "div.panel.wide"
 * @param {object|null} props `on*` are listeners, `data` is the dataset, true/false set/omit an attribute
 * @param {...(Node|string|number|null|false|Array)} children
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) setProp(element, key, value);
  append(element, children);
  return element;
}

function setProp(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
  else if (key === "data") Object.assign(element.dataset, value);
  else if (key === "class") element.className += ` ${value}`;
  else if (key === "value" || key === "checked" || key === "disabled") element[key] = value;
  else element.setAttribute(key, value === true ? "" : value);
}

/** Adds children; strings and numbers as text, null and false not at all, arrays flat. */
export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/** Replaces all children. */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/** Sets text only if it is another one: a selection inside stays as it is. */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

/** One of the page's icons, drawn with strokes in the colour of the text. */
export function icon(paths) {
  const svg = document.createElementNS(SVG, "svg");
  const attributes = {
    viewBox: "0 0 16 16",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.4",
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", paths);
  svg.append(path);
  return svg;
}

/** What a place shows that has nothing to show. */
export function empty(title, text, ...buttons) {
  return h("div.empty", null, h("b", null, title), text, buttons.length ? h("div.buttons", null, buttons) : null);
}

/** A pill: `tone` is ok, warn, bad, info or nothing. */
export function pill(text, tone = "", dot = false) {
  return h("span.pill", { class: `${tone}${dot ? " dot" : ""}` }, text);
}

/** A message in the corner that goes away by itself. */
export function toast(text, tone = "ok") {
  const note = h("div.toast", { class: tone }, text);
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), 6000);
}
