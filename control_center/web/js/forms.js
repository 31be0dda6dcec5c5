/** Fields, dialogs, and places for errors. */

/** @import { Child, Props } from "./dom.js" */
/** @import { Role } from "./roles.js" */
/** @typedef {ReturnType<typeof errorPlace>} ErrorPlace */
/** @typedef {string | [value: string | number, text: string]} Choice of a drop-down */

import { fill, h } from "./dom.js";
import { guard } from "./roles.js";

/**
 * Control with a label.
 * @param {string} label
 * @param {HTMLElement} control
 */
export function field(label, control, hint = "", wide = false) {
  return h(
    "label.field",
    { class: wide ? "wide" : "" },
    h("span", null, label),
    control,
    hint ? h("small", null, hint) : null,
  );
}

/**
 * Input field.
 * @param {string} name
 * @param {string | number} value
 * @param {Props} props
 */
export function input(name, value = "", props = {}) {
  return h("input", { name, value, autocomplete: "off", spellcheck: "false", ...props });
}

/**
 * Drop-down; options are texts or [value, text].
 * @param {string} name
 * @param {Choice[]} options
 * @param {string | number} value
 * @param {Props} props
 */
export function select(name, options, value, props = {}) {
  /** @type {[string | number, string][]} */
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const control = h(
    "select",
    { name, ...props },
    pairs.map(([key, text]) => h("option", { value: key }, text)),
  );
  control.value = String(value ?? pairs[0]?.[0] ?? "");
  return control;
}

/** Place for one error; hidden while empty. */
export function errorPlace() {
  const element = h("div.error", { role: "alert", hidden: true });
  return {
    element,
    /** @param {Error & { kind?: string }} error */
    show(error) {
      element.hidden = false;
      fill(element, h("b", null, error.kind ?? "error"), h("span.wrap", null, error.message));
    },
    clear() {
      element.hidden = true;
    },
  };
}

/**
 * Runs `work` and shows its error at `place`; returns true if it succeeded.
 * @param {ErrorPlace} place
 * @param {() => Promise<unknown>} work
 */
export async function attempt(place, work) {
  try {
    await work();
    place.clear();
    return true;
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    if (error.name !== "AbortError") place.show(error);
    return false;
  }
}

/**
 * Values of a form by name: text trimmed, numbers as numbers, empty ones left out, check boxes as booleans.
 * @param {HTMLFormElement} form
 */
export function values(form) {
  /** @type {{ [name: string]: string | number | boolean }} */
  const found = {};
  for (const control of form.elements) {
    if (!(control instanceof HTMLInputElement || control instanceof HTMLSelectElement) || !control.name) continue;
    if (control instanceof HTMLInputElement && control.type === "checkbox") found[control.name] = control.checked;
    else if (control.value.trim() !== "") {
      found[control.name] =
        control.type === "number" || control.dataset.number ? Number(control.value) : control.value.trim();
    }
  }
  return found;
}

/**
 * Shows a dialog with a form.
 * @template {object} [V=object] what `values` finds in the fields
 * @param {object} options
 * @param {string} options.title
 * @param {string} [options.text]
 * @param {Child[]} options.fields
 * @param {string} options.action label of the button that submits
 * @param {Role} [options.needs]
 * @param {(values: V) => Promise<unknown>} options.submit its errors are shown in the dialog, which stays open
 * @returns {Promise<boolean>} true if it was submitted
 */
export function dialog({ title, text, fields, action, needs = "view", submit }) {
  return new Promise((resolve) => {
    const place = errorPlace();
    const go = guard(h("button.button.main", { type: "submit" }, action), needs);
    const box = h("dialog", { "aria-label": title });
    let done = false;
    const form = h(
      "form",
      {
        method: "dialog",
        onsubmit: async (event) => {
          event.preventDefault();
          if (go.disabled) return;
          go.disabled = true;
          done = await attempt(place, () => submit(/** @type {V} */ (values(form))));
          go.disabled = false;
          if (done) box.close();
        },
      },
      h(
        "header",
        null,
        h("h2", null, title),
        h("button.button.plain.small", { type: "button", "aria-label": "Close", onclick: () => box.close() }, "✕"),
      ),
      h("div.content", null, place.element, text ? h("p", null, text) : null, h("div.fields", null, fields)),
      h("footer", null, h("button.button", { type: "button", onclick: () => box.close() }, "Cancel"), go),
    );
    box.append(form);
    box.addEventListener("close", () => {
      box.remove();
      resolve(done);
    });
    document.body.append(box);
    box.showModal();
    /** @type {HTMLElement | null} */
    const first = form.querySelector(".content input, .content select, .content textarea");
    (first ?? go).focus();
  });
}

/**
 * Asks the person to confirm an action that cannot be undone.
 * @param {string} title
 * @param {string} text
 * @param {string} action
 * @param {Role} needs
 * @param {() => Promise<unknown>} work
 */
export function confirm(title, text, action, needs, work) {
  return dialog({ title, text, fields: [], action, needs, submit: work });
}
