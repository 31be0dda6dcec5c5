/** Instances of control functions: opening, renewing and closing them. */

import * as api from "./api.js";
import { field, input, dialog, select } from "./forms.js";
import { LEVELS } from "./format.js";
import { FUNCTIONS, compose, parse } from "./selector.js";
import { store } from "./store.js";

const POLICIES = ["drop-new", "overwrite-oldest", "wait"];
const LEASE_S = 60;

/** "host/3", as the stream names it. */
export const idOf = (instance) => instance.instance;

const pathOf = (id) => `channels/${id.split("/").map(encodeURIComponent).join("/")}`;

/** Opens; where some hosts refuse and none does it, their refusals are thrown. */
export async function open(request) {
  const answer = await api.post("channels", request);
  store.refreshChannels().catch(() => {});
  if (!answer.instances.length && answer.failed.length) {
    throw new api.ApiError(502, "failed", answer.failed.map(({ host, error }) => `${host}: ${error}`).join("; "));
  }
  return answer;
}

/** Opens for as long as the stage stands: renewed while it does, closed when it ends. Returns the instances' ids. */
export async function borrow(stage, request) {
  const { instances } = await open({ ...request, ttl_s: LEASE_S });
  const ids = instances.map(idOf);
  const timer = setInterval(() => ids.forEach((id) => set(id, { ttl_s: LEASE_S }).catch(() => {})), LEASE_S * 333);
  const unwatch = store.watch(ids);
  stage.leave(() => {
    clearInterval(timer);
    unwatch();
    ids.forEach((id) => close(id).catch(() => {}));
  });
  return ids;
}

export const set = (id, changes) => api.patch(pathOf(id), changes);
export const send = (id, message) => api.post(`${pathOf(id)}/input`, message);

export async function close(id) {
  await api.remove(pathOf(id));
  store.refreshChannels().catch(() => {});
}

/** The dialog that opens channels; `preset` are selector keys and `fn`. Resolves to whether it did. */
export function openDialog(preset = {}) {
  const { fn = "log", ...rest } = preset;
  const scope = parse(store.scope.text).found;
  delete scope.fn;
  const levels = LEVELS.slice(1).map((name, at) => [at + 1, name]);
  return dialog({
    title: "Open channels",
    needs: "operate",
    action: "Open",
    text: "From one function to every processing element that the selector chooses, while its kernels run.",
    fields: [
      field(
        "Selector",
        input("selector", compose({ ...scope, ...rest }), { class: "mono", placeholder: "host=…,gpu=…,vm=…,pe=0-3" }),
        "What is left out matches everything.",
        true,
      ),
      field("Function", select("fn", FUNCTIONS, fn)),
      field("Level", select("level", levels, 4, { "data-number": "1" })),
      field("When full", select("policy", POLICIES, "drop-new")),
      field(
        "Keep one record of",
        select(
          "sample",
          [0, 1, 2, 3, 4, 6, 8, 10].map((bits) => [bits, String(2 ** bits)]),
          0,
          { "data-number": "1" },
        ),
      ),
      field("Time to live, seconds", input("ttl_s", "600", { type: "number", min: "1" })),
      field("Report every, ms", input("period_ms", "1000", { type: "number", min: "0" }), "perf and load"),
    ],
    submit: async ({ selector = "", fn: chosen, ...values }) => {
      const request = { ...values, selector: compose({ ...parse(selector).found, fn: chosen }) };
      if (request.ttl_s) request.keep = true;
      if (!["perf", "load"].includes(chosen)) delete request.period_ms;
      await open(request);
    },
  });
}
