/** Sparklines on canvases, and bars made of HTML elements. */

import { h } from "./dom.js";

/**
 * Colour of the page by its CSS name.
 * @param {string} name
 */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/**
 * Sets a canvas's size, in device pixels; returns its context, scaled to CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @param {number} width
 * @param {number} height
 */
export function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * Sparkline; `draw(values, top)` shows values, `top` is the value at the upper edge (default: their maximum).
 * @param {number | null} fixed width; null: that of its place
 */
export function sparkline(fixed = 120, height = 24, tone = "accent") {
  const canvas = h("canvas.spark", { role: "img", "aria-label": "values over time" });
  /**
   * @param {number[]} values
   * @param {number | null} top
   */
  const draw = (values, top = null) => {
    const width = fixed ?? room(canvas);
    const context = fit(canvas, width, height);
    if (values.length < 2) return;
    const high = top ?? Math.max(...values, 1e-9);
    const low = top === null ? Math.min(...values, 0) : 0;
    /** @param {number} at */
    const x = (at) => (at / (values.length - 1)) * (width - 2) + 1;
    /** @param {number} value */
    const y = (value) => height - 2 - ((Math.min(value, high) - low) / (high - low || 1)) * (height - 4);
    context.beginPath();
    for (const [at, value] of values.entries()) {
      if (at) context.lineTo(x(at), y(value));
      else context.moveTo(x(0), y(value));
    }
    context.strokeStyle = colour(tone);
    context.lineWidth = 1.4;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(x(values.length - 1), height);
    context.lineTo(x(0), height);
    context.globalAlpha = 0.14;
    context.fillStyle = colour(tone);
    context.fill();
    context.globalAlpha = 1;
  };
  return { canvas, draw };
}

/**
 * Width inside the parent of a canvas.
 * @param {HTMLCanvasElement} canvas
 */
function room(canvas) {
  const place = canvas.parentElement;
  if (!place) return 100;
  const style = getComputedStyle(place);
  return Math.max(40, place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

/**
 * Tone of a load: none, high, full.
 * @param {number | undefined} part
 */
export const loadTone = (part = 0) => (part > 0.95 ? "bad" : part > 0.8 ? "warn" : "");

/**
 * Bar; `set(part, tone)` sets its length, 0 to 1.
 * @param {string} label
 */
export function bar(label) {
  const inner = h("div.bar-fill");
  const element = h(
    "div.bar-track",
    { role: "meter", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" },
    inner,
  );
  /**
   * @param {number} part
   * @param {string} tone
   */
  const set = (part, tone = loadTone(part)) => {
    inner.style.width = `${(100 * Math.min(1, Math.max(0, part || 0))).toFixed(1)}%`;
    inner.className = `bar-fill ${tone}`;
    element.setAttribute("aria-valuenow", String(Math.round(100 * (part || 0))));
  };
  return { element, set };
}
