/** Tables that are updated in place: rows and cells that did not change are left alone. */

/** @import { Child } from "./dom.js" */

import { append, empty, fill, h } from "./dom.js";

const PAGE = 200;

/**
 * Value of a cell, by which a table sorts; a cell whose value is unchanged is not drawn again.
 * @typedef {string | number | boolean | null | undefined} Value
 */
/**
 * @template Row
 * @typedef {object} Column
 * @property {string} title
 * @property {string} [help] definition of the column's figure, shown over its title
 * @property {(row: Row) => Value} value
 * @property {(row: Row) => Child} [show] content of the cell (default: the value)
 * @property {boolean} [number]
 * @property {string} [class]
 * @property {boolean} [sort] false: not sortable by this column
 */
/**
 * @template Row
 * @typedef {object} Options
 * @property {string} label name for screen readers
 * @property {Column<Row>[]} columns
 * @property {(row: Row) => string} key
 * @property {[column: number, direction: number]} [sort]
 * @property {HTMLElement} [empty]
 * @property {(row: Row) => boolean} [chosen]
 */
/** @typedef {{ element: HTMLTableRowElement, values: Value[] }} Line */

/**
 * Sortable table.
 * @template Row
 */
export class Table {
  /** @param {Options<Row>} options */
  constructor(options) {
    this.options = options;
    /** @type {[column: number, direction: number] | null} */
    this.sort = options.sort ?? null;
    /** @type {Row[]} */
    this.rows = [];
    this.shown = PAGE;
    /** @type {Map<string, Line>} */
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

  /**
   * @param {Column<Row>} column
   * @param {number} at
   */
  #heading(column, at) {
    const classes = `${column.number ? "number" : ""} ${column.class ?? ""}`;
    if (column.sort === false) return h("th", { class: classes, title: column.help }, column.title);
    const choose = () => {
      const turned = this.sort?.[0] === at ? -this.sort[1] : column.number ? -1 : 1;
      this.sort = [at, turned];
      this.#render();
    };
    return h(
      "th",
      { class: classes, title: column.help },
      h("button", { type: "button", onclick: choose }, column.title),
    );
  }

  /**
   * Shows these rows.
   * @param {Row[]} rows
   */
  update(rows) {
    this.rows = rows;
    this.#render();
  }

  /**
   * Key of the row that a line shows.
   * @param {Element} line
   */
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
    /** @type {Map<string, Line>} */
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

  /** @param {HTMLTableRowElement[]} elements */
  #order(elements) {
    let at = this.body.firstChild;
    for (const element of elements) {
      if (element === at) at = element.nextSibling;
      else this.body.insertBefore(element, at);
    }
  }

  /**
   * @param {Row} row
   * @param {Line | undefined} old
   */
  #line(row, old) {
    /** @type {Line} */
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

/**
 * @param {Value} a
 * @param {Value} b
 */
function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a ?? "").localeCompare(String(b ?? ""), undefined, { numeric: true });
}
