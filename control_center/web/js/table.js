/** Tables that are brought up to date in place: rows and cells that did not change are left alone. */

import { append, empty, fill, h } from "./dom.js";

const PAGE = 200;

/**
 * A sortable table.
 * @param {object} options
 *   columns: [{title, value(row) -> what is sorted and compared by, show(row) -> text or Node (default: the value),
 *   number: bool, class: string, sort: false}]; key(row) -> string; sort: [column index, 1 | -1];
 *   empty: Node; chosen(row) -> bool; label: name for screen readers
 */
export class Table {
  constructor(options) {
    this.options = options;
    this.sort = options.sort ?? null;
    this.rows = [];
    this.shown = PAGE;
    this.lines = new Map();
    this.head = h(
      "tr",
      null,
      options.columns.map((column, at) => this.#heading(column, at)),
    );
    this.body = h("tbody");
    this.table = h("table", { "aria-label": options.label }, h("thead", null, this.head), this.body);
    this.more = h("div.table-foot", { hidden: true });
    this.nothing = h("div", { hidden: true });
    fill(this.nothing, options.empty ?? empty("Nothing here", ""));
    this.element = h("div", null, h("div.scroll", null, this.table), this.more, this.nothing);
  }

  #heading(column, at) {
    const classes = `${column.number ? "number" : ""} ${column.class ?? ""}`;
    if (column.sort === false) return h("th", { class: classes }, column.title);
    const choose = () => {
      const turned = this.sort?.[0] === at ? -this.sort[1] : column.number ? -1 : 1;
      this.sort = [at, turned];
      this.#render();
    };
    return h("th", { class: classes }, h("button", { type: "button", onclick: choose }, column.title));
  }

  /** Shows these rows. */
  update(rows) {
    this.rows = rows;
    this.#render();
  }

  /** The key of the row that a line shows. */
  keyOf(line) {
    return [...this.lines].find(([, each]) => each.element === line)?.[0] ?? null;
  }

  #sorted() {
    if (!this.sort) return this.rows;
    const [at, direction] = this.sort;
    const { value } = this.options.columns[at];
    return [...this.rows].sort((a, b) => direction * compare(value(a), value(b)));
  }

  #render() {
    [...this.head.children].forEach((heading, at) => {
      if (this.sort?.[0] !== at) heading.removeAttribute("aria-sort");
      else heading.setAttribute("aria-sort", this.sort[1] > 0 ? "ascending" : "descending");
    });
    const rows = this.#sorted().slice(0, this.shown);
    const lines = new Map(
      rows.map((row) => {
        const key = this.options.key(row);
        return [key, this.#line(row, this.lines.get(key))];
      }),
    );
    for (const [key, line] of this.lines) if (!lines.has(key)) line.element.remove();
    this.lines = lines;
    this.#order([...lines.values()].map((line) => line.element));
    this.table.hidden = !rows.length;
    this.nothing.hidden = Boolean(rows.length);
    this.#foot();
  }

  #order(elements) {
    let at = this.body.firstChild;
    for (const element of elements) {
      if (element === at) at = at.nextSibling;
      else this.body.insertBefore(element, at);
    }
  }

  #line(row, old) {
    const line = old ?? { element: h("tr"), values: [] };
    this.options.columns.forEach((column, at) => {
      const value = column.value(row);
      if (old && Object.is(line.values[at], value)) return;
      line.values[at] = value;
      const cell =
        line.element.children[at] ??
        line.element.appendChild(h("td", { class: `${column.number ? "number" : ""} ${column.class ?? ""}` }));
      fill(cell, column.show ? column.show(row) : value);
    });
    line.element.classList.toggle("chosen", Boolean(this.options.chosen?.(row)));
    return line;
  }

  #foot() {
    const left = this.rows.length - this.shown;
    this.more.hidden = left <= 0;
    if (left <= 0) return;
    const show = () => {
      this.shown += 5 * PAGE;
      this.#render();
    };
    fill(this.more, `${this.shown} of ${this.rows.length} rows; narrow the selector, or`);
    append(this.more, [h("button.button.small", { type: "button", onclick: show }, "show more")]);
  }
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true });
}
