/** Roles: disables the controls that the person's role may not use. */

/** @import { SelfAnswer } from "./messages.d.ts" */
/** @typedef {SelfAnswer["role"]} Role */

import { h } from "./dom.js";
import { store } from "./store.js";

/** @type {(Role | "")[]} */
const ROLES = ["view", "operate", "admin"];

/**
 * True if the person's role is at least `needed`, or unknown: the server decides in any case.
 * @param {Role} needed
 */
function allows(needed) {
  return !store.role || ROLES.indexOf(store.role) >= ROLES.indexOf(needed);
}

/**
 * Why the person's role may not do this; empty if it may.
 * @param {Role} needed
 */
export function reason(needed) {
  return allows(needed) ? "" : `needs the role ${needed}; yours is ${store.role}`;
}

/**
 * Disables a control that the role may not use; its title says why.
 * @template {HTMLButtonElement | HTMLSelectElement} E
 * @param {E} element
 * @param {Role} needed
 */
export function guard(element, needed) {
  const why = reason(needed);
  if (!why) return element;
  element.disabled = true;
  element.title = why;
  return element;
}

/**
 * Button that needs a role.
 * @param {string} label
 * @param {Role} needed
 * @param {() => void} onclick
 */
export function button(label, needed, onclick, classes = "") {
  return guard(h("button.button", { type: "button", class: classes, onclick }, label), needed);
}
