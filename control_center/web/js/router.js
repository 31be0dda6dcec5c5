/** Addresses within the page: #/view?key=value. */

import { query } from "./api.js";

/**
 * Parameters of a view; unset ones are left out.
 * @typedef {{ [key: string]: string | number | null | undefined }} Given
 */

/**
 * Address of a view.
 * @param {string} view
 * @param {Given} params
 */
export function href(view, params = {}) {
  return `#/${view}${query(params)}`;
}

/**
 * View and parameters in the page's address.
 * @returns {{ view: string, params: { [key: string]: string | undefined } }}
 */
export function here() {
  const [view, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view, params: Object.fromEntries(new URLSearchParams(text)) };
}

/**
 * Goes to a view.
 * @param {string} view
 * @param {Given} params
 */
export function go(view, params) {
  location.hash = href(view, params);
}

/**
 * Changes the address without mounting the view again.
 * @param {string} view
 * @param {Given} params
 */
export function note(view, params) {
  history.replaceState(null, "", href(view, params));
}
