/** Addresses within the page: #/view?key=value. */

/** The address of a view. */
export function href(view, params = {}) {
  const set = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const text = new URLSearchParams(set.map(([key, value]) => [key, String(value)])).toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/** Where the page is: {view, params}. */
export function here() {
  const [view, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { view, params: Object.fromEntries(new URLSearchParams(text)) };
}

/** Goes to a view. */
export function go(view, params) {
  location.hash = href(view, params);
}

/** Changes the address without mounting the view again. */
export function note(view, params) {
  history.replaceState(null, "", href(view, params));
}
