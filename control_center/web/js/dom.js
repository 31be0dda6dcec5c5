/** Makes HTML elements without markup: text always becomes text nodes, so a guest's text is never parsed. */

/** @typedef {Node | string | number | boolean | null | undefined | Child[]} Child content of an element */
/** @typedef {string | number | boolean | null | undefined} Attribute */
/** @typedef {{ [K in keyof HTMLElementEventMap as `on${K}`]?: (event: HTMLElementEventMap[K]) => void }} Listeners */
/** @typedef {{ data?: { [name: string]: string | number } } & Listeners & Attributes} Props */
/**
 * @typedef {{ [K in "class" | "id" | "title" | "role" | "tabindex" | "hidden" | "href" | "name" | "type" | "value"
 *   | "checked" | "disabled" | "required" | "placeholder" | "autocomplete" | "spellcheck" | "min" | "step" | "method"
 *   | `aria-${string}` | `data-${string}`]?: Attribute }} Attributes
 */
/**
 * Type of the element that `h` makes of a tag.
 * @template {string} T
 * @typedef {T extends `${infer Name}.${string}` ? Named<Name> : Named<T>} Tagged
 */
/**
 * @template {string} T
 * @typedef {T extends keyof HTMLElementTagNameMap ? HTMLElementTagNameMap[T] : HTMLElement} Named
 */

/**
 * Makes an element.
 * @template {string} T
 * @param {T} tag name, with classes: "div.panel.wide"
 * @param {Props | null} [props] `on*` are listeners, `data` is the dataset, true/false set/omit an attribute
 * @param {...Child} children
 * @returns {Tagged<T>}
 */
export function h(tag, props, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  if (classes.length) element.className = classes.join(" ");
  for (const [key, value] of Object.entries(props ?? {})) setProp(element, key, value);
  append(element, children);
  return /** @type {Tagged<T>} */ (element);
}

/**
 * @param {HTMLElement} element
 * @param {string} key
 * @param {unknown} value
 */
function setProp(element, key, value) {
  if (value === null || value === undefined || value === false) return;
  if (key.startsWith("on")) element.addEventListener(key.slice(2), /** @type {EventListener} */ (value));
  else if (key === "data") Object.assign(element.dataset, value);
  else if (key === "class") element.className += ` ${value}`;
  else if (key === "value" || key === "checked" || key === "disabled") Object.assign(element, { [key]: value });
  else element.setAttribute(key, value === true ? "" : String(value));
}

/**
 * Finds an element of index.html.
 * @param {string} id
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element;
}

/**
 * Adds children: strings and numbers as text, arrays flattened, null and false left out.
 * @template {Element} E
 * @param {E} element
 * @param {Child[]} children
 */
export function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

/**
 * Replaces all children.
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren();
  return append(element, children);
}

/**
 * Sets text only if it differs: an unchanged text keeps the person's selection.
 * @param {Element} element
 * @param {string | number} text
 */
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

/**
 * Message in place of empty content.
 * @param {string} title
 * @param {string} text
 * @param {...HTMLElement} buttons
 */
export function empty(title, text, ...buttons) {
  return h("div.empty", null, h("b", null, title), text, buttons.length ? h("div.buttons", null, buttons) : null);
}

/**
 * Pill: a short text in a coloured frame.
 * @param {string} text
 * @param {string} tone ok, warn, bad, info or nothing
 */
export function pill(text, tone = "", dot = false) {
  return h("span.pill", { class: `${tone}${dot ? " dot" : ""}` }, text);
}

/**
 * Shows a message in the corner, which disappears after 6 s.
 * @param {string} text
 */
export function toast(text, tone = "ok") {
  const note = h("div.toast", { class: tone }, text);
  byId("toasts").append(note);
  setTimeout(() => note.remove(), 6000);
}
