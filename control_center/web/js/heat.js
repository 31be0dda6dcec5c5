/** Heat grid: a canvas with a cell per processing element (PE), whose colours ease towards the current load. */

/**
 * Processing element as it is drawn.
 * @typedef {object} Cell
 * @property {string | null} vm null: no VM uses it
 * @property {number} pe
 * @property {number} load 0..1
 * @property {number} hue
 * @property {boolean} [outside] true if its VM is confined to other PEs
 */
/**
 * @typedef {object} Handlers
 * @property {(cell: Cell | null, event: MouseEvent | null) => void} hover
 * @property {(cell: Cell) => void} open
 */

import { colour, fit } from "./chart.js";

const CELL = 13;
const GAP = 2;
const EASE = 0.22;
const HUES = [205, 32, 145, 285, 60, 340, 175, 255, 95, 15];

/**
 * Hue of a VM, by its place among the VMs.
 * @param {number} index
 */
export function vmHue(index) {
  return HUES[index % HUES.length];
}

const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
const still = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

/**
 * Colour of a cell: the VM's hue, more saturated for more load; with `byHeat`, from cold to hot.
 * @param {number} load
 * @param {number} hue
 * @param {boolean} byHeat
 */
export function cellColour(load, hue, byHeat) {
  const part = Math.min(1, Math.max(0, load));
  if (byHeat) return `hsl(${215 - 210 * part} ${25 + 60 * part}% ${dark() ? 17 + 38 * part : 90 - 38 * part}%)`;
  return `hsl(${hue} ${18 + 62 * part}% ${dark() ? 16 + 46 * part : 91 - 45 * part}%)`;
}

/** Grid of the cells of one VM, or of a GPU that no VM uses. */
export class HeatGrid {
  /** @type {Cell[]} */
  cells = [];
  shown = new Float32Array(0);
  columns = 1;
  step = CELL + GAP;
  cursor = -1;
  byHeat = false;
  visible = true;
  frame = 0;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {Handlers} handlers
   */
  constructor(canvas, handlers) {
    this.canvas = canvas;
    this.handlers = handlers;
    canvas.tabIndex = 0;
    canvas.addEventListener("mousemove", (event) => this.#move(this.#at(event.offsetX, event.offsetY), event));
    canvas.addEventListener("mouseleave", () => this.#move(-1, null));
    canvas.addEventListener("click", () => this.#open());
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Shows these cells.
   * @param {Cell[]} cells
   * @param {number} width available, in CSS pixels
   */
  update(cells, width) {
    if (cells.length !== this.cells.length) this.shown = Float32Array.from(cells, (cell) => cell.load);
    this.cells = cells;
    this.columns = Math.max(4, Math.min(Math.floor((width + GAP) / (CELL + GAP)), cells.length));
    this.step = Math.min((width + GAP) / this.columns, 1.5 * CELL + GAP);
    this.start();
  }

  /** Starts the animation towards the current load, unless it runs; it ends by itself. */
  start() {
    if (!this.frame && this.visible) this.frame = requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.frame = 0;
    if (!this.canvas.isConnected || !this.visible) return;
    const rows = Math.ceil(this.cells.length / this.columns);
    const context = fit(this.canvas, this.columns * this.step - GAP, Math.max(1, rows * this.step - GAP));
    const ease = still() ? 1 : EASE;
    const idle = colour("track");
    const cellSize = this.step - GAP;
    let moving = false;
    this.cells.forEach((cell, at) => {
      const left = cell.load - this.shown[at];
      this.shown[at] += Math.abs(left) < 0.004 ? left : left * ease;
      moving ||= Math.abs(left) >= 0.004;
      context.fillStyle = cell.vm === null ? idle : cellColour(this.shown[at], cell.hue, this.byHeat);
      context.beginPath();
      context.roundRect(
        (at % this.columns) * this.step,
        Math.floor(at / this.columns) * this.step,
        cellSize,
        cellSize,
        2.5,
      );
      context.fill();
    });
    this.#drawCursor(context);
    if (moving) this.start();
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawCursor(context) {
    if (this.cursor < 0 || this.cursor >= this.cells.length) return;
    context.strokeStyle = colour("text");
    context.lineWidth = 1.5;
    context.beginPath();
    const [column, row] = [this.cursor % this.columns, Math.floor(this.cursor / this.columns)];
    const size = this.step - GAP - 1.5;
    context.roundRect(column * this.step + 0.75, row * this.step + 0.75, size, size, 2);
    context.stroke();
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  #at(x, y) {
    const column = Math.floor(x / this.step);
    const at = Math.floor(y / this.step) * this.columns + column;
    return column < this.columns && at < this.cells.length ? at : -1;
  }

  /**
   * @param {number} at
   * @param {MouseEvent | null} event
   */
  #move(at, event) {
    this.cursor = at;
    this.handlers.hover(at < 0 ? null : this.cells[at], event);
    this.start();
  }

  #open() {
    const cell = this.cells[this.cursor];
    if (cell?.vm) this.handlers.open(cell);
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    /** @type {{ [key: string]: number | undefined }} */
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns };
    const step = steps[event.key];
    if (event.key === "Enter") this.#open();
    if (event.key === "Escape") this.#move(-1, null);
    if (step === undefined) return;
    event.preventDefault();
    this.#move(Math.min(this.cells.length - 1, Math.max(0, this.cursor + step)), null);
  }
}
