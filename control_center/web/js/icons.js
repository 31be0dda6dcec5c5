/** Icons of the page. */

const SVG = "http://www.w3.org/2000/svg";

/** Paths of the icons, in a field of 16 x 16. */
export const ICONS = {
  cluster: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01M8 5h3M8 11h3",
  gpus: "M2.5 2.5h3v3h-3zM6.5 2.5h3v3h-3zM10.5 2.5h3v3h-3zM2.5 6.5h3v3h-3zM6.5 6.5h3v3h-3zM10.5 6.5h3v3h-3zM2.5 10.5h3v3h-3zM6.5 10.5h3v3h-3zM10.5 10.5h3v3h-3z",
  vms: "M2.5 3h11v10h-11zM2.5 6h11M5 9h6M5 11h3",
  console: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
  channels: "M3 4h3l4 8h3M3 12h3l1.5-3M13 4h-3L8.7 6.5M11.5 2.5L13 4l-1.5 1.5M11.5 10.5L13 12l-1.5 1.5",
  counters: "M2 13h12M3 10l3-4 3 2.5 4-5.5",
  log: "M3 3.5h10M3 6.5h7M3 9.5h10M3 12.5h5",
  faults: "M8 2.5l6 10.5H2zM8 6.5v3M8 11.3h.01",
  snapshots: "M2.5 5h2.3l1-1.5h4.4l1 1.5h2.3v8h-11zM8 11a2.2 2.2 0 1 0 0-4.4A2.2 2.2 0 0 0 8 11z",
  timeline: "M2 8h12M4 5.5v5M8 3.5v9M12 6.5v3",
  migrations: "M2 5.5h10M9.5 3l2.5 2.5L9.5 8M14 10.5H4M6.5 8L4 10.5 6.5 13",
  firmware: "M5 5h6v6H5zM6.5 5V2.5M9.5 5V2.5M6.5 13.5V11M9.5 13.5V11M5 6.5H2.5M5 9.5H2.5M13.5 6.5H11M13.5 9.5H11",
  self: "M8 8l3-3M2.8 12a6.2 6.2 0 1 1 10.4 0zM8 8.9a.9.9 0 1 0 0-1.8.9.9 0 0 0 0 1.8z",
  search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.3 10.3L14 14",
  play: "M4.5 3v10l8-5z",
  pause: "M5 3.5v9M11 3.5v9",
};

/**
 * Draws an icon with strokes in the colour of the text.
 * @param {string} paths
 */
export function icon(paths) {
  const svg = document.createElementNS(SVG, "svg");
  const attributes = {
    viewBox: "0 0 16 16",
    fill: "none",
    stroke: "currentColor",
    "stroke-width": "1.4",
    "stroke-linecap": "round",
    "stroke-linejoin": "round",
    "aria-hidden": "true",
  };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", paths);
  svg.append(path);
  return svg;
}
