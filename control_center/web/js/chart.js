/** Small drawings on canvases: sparklines and bars; and bars made of elements. */

import { h } from "./dom.js";

/** A colour of the page by its CSS name. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Sizes a canvas to its place in device pixels; returns its context, scaled to CSS pixels. */
export function fit(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * A sparkline, without a width as wide as its place; `draw(values, top)` shows them, `top` is the value at the upper
 * edge (default: their maximum).
 */
export function sparkline(fixed = 120, height = 24, tone = "accent") {
  const canvas = h("canvas.spark", { role: "img", "aria-label": "course over time" });
  const draw = (values, top = null) => {
    const width = fixed ?? room(canvas);
    const context = fit(canvas, width, height);
    if (values.length < 2) return;
    const high = top ?? Math.max(...values, 1e-9);
    const low = top === null ? Math.min(...values, 0) : 0;
    const x = (at) => (at / (values.length - 1)) * (width - 2) + 1;
    const y = (value) => height - 2 - ((Math.min(value, high) - low) / (high - low || 1)) * (height - 4);
    context.beginPath();
    values.forEach((value, at) => (at ? context.lineTo(x(at), y(value)) : context.moveTo(x(0), y(value))));
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

/** Width inside the element that a canvas stands in. */
function room(canvas) {
  const place = canvas.parentElement;
  if (!place) return 100;
  const style = getComputedStyle(place);
  return Math.max(40, place.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
}

/** How a load looks: calm, high, full. */
export const loadTone = (part) => (part > 0.95 ? "bad" : part > 0.8 ? "warn" : "");

/** A bar; `set(part, tone)` moves it. */
export function bar(label) {
  const inner = h("div.bar-fill");
  const element = h(
    "div.bar-track",
    { role: "meter", "aria-label": label, "aria-valuemin": "0", "aria-valuemax": "100" },
    inner,
  );
  const set = (part, tone = loadTone(part)) => {
    inner.style.width = `${(100 * Math.min(1, Math.max(0, part || 0))).toFixed(1)}%`;
    inner.className = `bar-fill ${tone}`;
    element.setAttribute("aria-valuenow", String(Math.round(100 * (part || 0))));
  };
  return { element, set };
}
