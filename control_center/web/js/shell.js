/** The frame around the views: rail, bar and foot. */

import { append, fill, h, icon, pill, setText } from "./dom.js";
import { count } from "./format.js";
import { ICONS } from "./icons.js";
import { href } from "./router.js";
import { store } from "./store.js";

/** The rail's links; a view may have a `badge()` that is shown when it is not 0. */
export function buildNav(views) {
  const nav = document.getElementById("nav");
  let group = "";
  for (const view of views) {
    if (view.group !== group) append(nav, [h("h3", null, view.group)]);
    group = view.group;
    const badge = h("span.badge", { hidden: true });
    append(nav, [
      h(
        "a",
        { href: href(view.name), data: { view: view.name }, title: view.title },
        icon(ICONS[view.name]),
        h("span", null, view.title),
        badge,
      ),
    ]);
    if (view.badge)
      store.addEventListener("faults", () => {
        badge.hidden = !view.badge();
        setText(badge, view.badge() > 99 ? "99+" : view.badge());
      });
  }
}

/** Marks the view that is shown. */
export function markNav(name) {
  for (const link of document.querySelectorAll("#nav a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const TYPING_MS = 150;

/** The bar: the scope of all views, counts, the state of the connection, the role. */
export function buildBar() {
  const error = h("div.scope-error", { role: "alert", hidden: true });
  let pause = 0;
  const take = () => {
    clearTimeout(pause);
    pause = setTimeout(set, TYPING_MS);
  };
  const set = () => {
    try {
      store.setScope(scope.value.trim());
      error.hidden = true;
    } catch (problem) {
      error.hidden = false;
      setText(error, problem.message);
    }
  };
  const scope = h("input", {
    id: "scope",
    value: store.scope.text,
    placeholder: "everything; or host=…,gpu=…,vm=…,pe=0-3",
    spellcheck: "false",
    "aria-label": "Selector: what all views show",
    autocomplete: "off",
    oninput: take,
    onchange: () => set(),
  });
  const counts = h("div.counts");
  const link = h("span", { id: "link" });
  const role = h("span", { id: "role" });
  append(document.getElementById("bar"), [h("div.scope", null, icon(ICONS.search), scope, error), counts, link, role]);
  const tell = () => {
    const [text, tone] = store.connected
      ? ["live", "ok"]
      : store.reached
        ? ["polling", "warn"]
        : ["no connection", "bad"];
    fill(link, pill(text, tone, true));
    fill(role, store.role ? pill(store.role, "info tag") : null);
  };
  const tally = () => {
    const hosts = store.chosenHosts();
    const up = hosts.filter((host) => host.state === "up");
    const gpus = hosts.flatMap((host) => host.gpus);
    const pes = gpus.reduce((sum, gpu) => sum + gpu.pes, 0);
    fill(
      counts,
      `${up.length}/${hosts.length} hosts`,
      h("span", null, `${count(gpus.length)} GPUs`),
      h("span", null, `${count(pes)} PEs`),
    );
  };
  for (const topic of ["link", "role"]) store.addEventListener(topic, tell);
  for (const topic of ["hosts", "scope"]) store.addEventListener(topic, tally);
  tell();
}

/** The foot of the rail: which versions the hosts run. */
export function buildFoot() {
  store.addEventListener("hosts", () => {
    const versions = [...new Set(store.hosts.map((host) => host.daemon).filter(Boolean))];
    setText(document.getElementById("foot"), versions.length ? `vgcd ${versions.join(", ")}` : "no daemon yet");
  });
}
