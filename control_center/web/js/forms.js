/** Fields, dialogs, and places where errors show. */

import { append, fill, h } from "./dom.js";
import { guard } from "./roles.js";

let lastList = 0;

/** A labelled control. */
export function field(label, control, hint = "", wide = false) {
  return h(
    "label.field",
    { class: wide ? "wide" : "" },
    h("span", null, label),
    control,
    hint ? h("small", null, hint) : null,
  );
}

/** An input; `suggestions` become a list to choose from. */
export function input(name, value = "", props = {}, suggestions = null) {
  const control = h("input", { name, value, autocomplete: "off", spellcheck: "false", ...props });
  if (!suggestions) return control;
  lastList += 1;
  control.setAttribute("list", `list-${lastList}`);
  const list = h(
    "datalist",
    { id: `list-${lastList}` },
    suggestions.map((text) => h("option", { value: text })),
  );
  return h("span.grow", null, append(h("span.with-list"), [control, list]));
}

/** A drop-down; options are texts or [value, text]. */
export function select(name, options, value, props = {}) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const control = h(
    "select",
    { name, ...props },
    pairs.map(([key, text]) => h("option", { value: key }, text)),
  );
  control.value = String(value ?? pairs[0]?.[0] ?? "");
  return control;
}

/** A place for one error; hidden while there is none. */
export function errorPlace() {
  const element = h("div.error", { role: "alert", hidden: true });
  return {
    element,
    show(error) {
      element.hidden = false;
      fill(element, h("b", null, error.kind ?? "error"), h("span.wrap", null, error.message));
    },
    clear() {
      element.hidden = true;
    },
  };
}

/** Runs `work`; what it throws shows at `place`. Returns whether it was done. */
export async function attempt(place, work) {
  try {
    await work();
    place.clear();
    return true;
  } catch (error) {
    if (error.name !== "AbortError") place.show(error);
    return false;
  }
}

/** The values of a form by name: text trimmed, numbers as numbers, empty ones absent, check boxes as booleans. */
export function values(form) {
  const found = {};
  for (const control of form.elements) {
    if (!control.name) continue;
    if (control.type === "checkbox") found[control.name] = control.checked;
    else if (control.value.trim() !== "") {
      found[control.name] =
        control.type === "number" || control.dataset.number ? Number(control.value) : control.value.trim();
    }
  }
  return found;
}

/**
 * A dialog with a form.
 * @param {object} options title, text, fields: Nodes, action: label, needs: role,
 *   submit(values, form) -> promise; what it throws shows in the dialog, which stays open
 * @returns {Promise<boolean>} whether it was submitted
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
          done = await attempt(place, () => submit(values(form), form));
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
    (form.querySelector(".content input, .content select, .content textarea") ?? go).focus();
  });
}

/** Asks before something that cannot be taken back. */
export function confirm(title, text, action, needs, work) {
  return dialog({ title, text, fields: [], action, needs, submit: work });
}
