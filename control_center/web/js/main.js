/** Entry of the page: builds the frame, then shows the view that the address names. */

import * as api from "./api.js";
import { byId, h } from "./dom.js";
import { dialog, field } from "./forms.js";
import { here } from "./router.js";
import { buildBar, buildFoot, buildNav, markNav } from "./shell.js";
import { Stage } from "./stage.js";
import { store } from "./store.js";
import { VIEWS } from "./views/index.js";

/** @type {Stage | null} */
let stage = null;

function mount() {
  const { view: name, params } = here();
  const view = VIEWS.find((candidate) => candidate.name === name) ?? VIEWS[0];
  stage?.end();
  const root = byId("view");
  stage = new Stage(root, params);
  root.scrollTop = 0;
  root.dataset.view = view.name;
  document.title = `${view.title} · virtio-gpu-compute`;
  markNav(view.name);
  view.mount(stage);
}

/**
 * Asks the person for a token; null if they cancel.
 * @param {string} text
 */
async function askForToken(text) {
  /** @type {string | null} */
  let given = null;
  const secret = h("input", { name: "token", type: "password", required: true, autocomplete: "current-password" });
  await dialog({
    title: "Token",
    text: `${text}. It is kept until this tab is closed.`,
    action: "Use it",
    fields: [field("Token", secret, "", true)],
    submit: async (/** @type {{ token: string }} */ { token }) => {
      given = token;
    },
  });
  if (given === null) return null;
  api.setToken(given);
  setTimeout(() => store.reconnect());
  return given;
}

buildNav(VIEWS);
buildBar();
buildFoot();
api.onUnauthorized(askForToken);
window.addEventListener("hashchange", mount);
await store.refreshRole().catch(() => {});
store.addEventListener("role", mount);
store.start();
mount();
