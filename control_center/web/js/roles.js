/** Which role may do what, as `virtio_proto.control.api.VERBS` has it. */

import { h } from "./dom.js";
import { store } from "./store.js";

const ROLES = ["view", "operate", "admin"];

/** Whether the person's role is at least `needed`; unknown roles are not held back here, the server decides. */
function allows(needed) {
  return !store.role || ROLES.indexOf(store.role) >= ROLES.indexOf(needed);
}

/** Why not, or nothing. */
export function reason(needed) {
  return allows(needed) ? "" : `needs the role ${needed}; yours is ${store.role}`;
}

/** Disables a control where the role does not allow it, and says why. */
export function guard(element, needed) {
  const why = reason(needed);
  if (!why) return element;
  element.disabled = true;
  element.title = why;
  return element;
}

/** A button that needs a role. */
export function button(label, needed, onclick, classes = "") {
  return guard(h("button.button", { type: "button", class: classes, onclick }, label), needed);
}
