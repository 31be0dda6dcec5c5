/** Frame around the views: rail, bar and foot. */

/** @import { View } from "./views/index.js" */

import { append, byId, fill, h, pill, setText } from "./dom.js";
import { count } from "./format.js";
import { ICONS, icon } from "./icons.js";
import { href } from "./router.js";
import { store } from "./store.js";

/**
 * Builds the rail's links; a view's `badge()` is shown while it is not 0.
 * @param {View[]} views
 */
export function buildNav(views) {
  const nav = byId("nav");
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
    const { badge: tally } = view;
    if (tally)
      store.addEventListener("faults", () => {
        badge.hidden = !tally();
        setText(badge, tally() > 99 ? "99+" : tally());
      });
  }
}

/**
 * Marks the link of the view that is shown.
 * @param {string} name
 */
export function markNav(name) {
  for (const link of byId("nav").querySelectorAll("a")) {
    if (link.dataset.view === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

const TYPING_MS = 150;

/** Builds the bar: the scope of all views, counts, the state of the connection, the role. */
export function buildBar() {
  const error = h("div.scope-error", { role: "alert", hidden: true });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let pause;
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
      setText(error, problem instanceof Error ? problem.message : String(problem));
    }
  };
  const scope = h("input", {
    id: "scope",
    value: store.scope.text,
    placeholder: "everything; or host=…,gpu=…,vm=…,pe=0-3",
    spellcheck: "false",
    "aria-label": "Selector for all views",
    autocomplete: "off",
    oninput: take,
    onchange: () => set(),
  });
  const counts = h("div.counts");
  const link = h("span", { id: "link" });
  const role = h("span", { id: "role" });
  const health = h("a", { id: "health", href: href("self"), title: "Health of the control system" });
  append(byId("bar"), [h("div.scope", null, icon(ICONS.search), scope, error), counts, health, link, role]);
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
  store.addEventListener("health", () => {
    const { problems } = store;
    fill(health, problems ? pill(`${problems} ${problems === 1 ? "problem" : "problems"}`, "bad", true) : null);
  });
  for (const topic of ["link", "role"]) store.addEventListener(topic, tell);
  for (const topic of ["hosts", "scope"]) store.addEventListener(topic, tally);
  tell();
}

/** Builds the foot of the rail: the versions of the hosts' daemons. */
export function buildFoot() {
  store.addEventListener("hosts", () => {
    const versions = [...new Set(store.hosts.map((host) => host.daemon).filter(Boolean))];
    setText(byId("foot"), versions.length ? `vgcd ${versions.join(", ")}` : "no daemon yet");
  });
}
