/** Opens, renews and closes instances of control functions. */

/** @import { HostedInstance, SendRequest, OpenRequest, SetRequest } from "./messages.d.ts" */
/** @import { Keys } from "./selector.js" */
/** @import { Stage } from "./stage.js" */

import * as api from "./api.js";
import { LEVELS } from "./format.js";
import { dialog, field, input, select } from "./forms.js";
import { FUNCTIONS, compose, parse } from "./selector.js";
import { store } from "./store.js";

const POLICIES = ["drop-new", "overwrite-oldest", "wait"];
const LEASE_S = 60;

/**
 * Name of an instance in the stream: "host/3".
 * @param {HostedInstance} instance
 */
export const idOf = (instance) => instance.instance;

/**
 * @param {string} id
 * @returns {`channels/${string}/${string}`}
 */
function pathOf(id) {
  const [host, number] = id.split("/").map(encodeURIComponent);
  return `channels/${host}/${number}`;
}

/**
 * Opens instances; throws the hosts' refusals if no host opened one.
 * @param {OpenRequest} request
 */
export async function open(request) {
  const answer = await api.post("channels", request);
  store.refreshChannels().catch(() => {});
  if (!answer.instances.length && answer.failed.length) {
    throw new api.ApiError(502, "failed", answer.failed.map(({ host, error }) => `${host}: ${error}`).join("; "));
  }
  return answer;
}

/**
 * Opens instances and watches their records while a view is shown: renews them, and closes them when the view is left.
 * Returns the instances' ids.
 * @param {Stage} stage
 * @param {OpenRequest} request
 */
export async function borrow(stage, request) {
  const { instances } = await open({ ...request, ttl_s: LEASE_S });
  const ids = instances.map(idOf);
  const timer = setInterval(() => {
    for (const id of ids) set(id, { ttl_s: LEASE_S }).catch(() => {});
  }, LEASE_S * 333);
  const unwatch = store.watch(ids);
  stage.leave(() => {
    clearInterval(timer);
    unwatch();
    for (const id of ids) close(id).catch(() => {});
  });
  return ids;
}

/**
 * @param {string} id
 * @param {SetRequest} changes
 */
export const set = (id, changes) => api.patch(pathOf(id), changes);
/**
 * @param {string} id
 * @param {SendRequest} message
 */
export const send = (id, message) => api.post(`${pathOf(id)}/input`, message);

/** @param {string} id */
export async function close(id) {
  await api.remove(pathOf(id));
  store.refreshChannels().catch(() => {});
}

/**
 * Shows the dialog that opens channels; resolves to true if it did.
 * @param {Keys & { fn?: string }} preset initial values of the fields
 */
export function openDialog(preset = {}) {
  const { fn = "log", ...rest } = preset;
  const scope = parse(store.scope.text).found;
  delete scope.fn;
  /** @type {[number, string][]} */
  const levels = LEVELS.slice(1).map((name, at) => [at + 1, name]);
  return dialog({
    title: "Open channels",
    needs: "operate",
    action: "Open",
    text: "Opens a channel of the function on every processing element that the selector chooses; kernels keep running.",
    fields: [
      field(
        "Selector",
        input("selector", compose({ ...scope, ...rest }), { class: "mono", placeholder: "host=…,gpu=…,vm=…,pe=0-3" }),
        "Keys that are left out match everything.",
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
    submit: async (/** @type {Partial<OpenRequest> & { fn: string }} */ { selector = "", fn: chosen, ...values }) => {
      /** @type {OpenRequest} */
      const request = { ...values, selector: compose({ ...parse(selector).found, fn: chosen }) };
      if (request.ttl_s) request.keep = true;
      if (!["perf", "load"].includes(chosen)) delete request.period_ms;
      await open(request);
    },
  });
}
