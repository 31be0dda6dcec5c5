/** Policies: automatic actions of a host on faults; a table and a form. */

/** @import { Child } from "../dom.js" */
/** @import { PolicyFields, PolicyInfo } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { Column } from "../table.js" */
/** @typedef {PolicyInfo & { [kind: `kind-${string}`]: boolean }} Filled values of the form */

import * as api from "../api.js";
import { empty, h, pill, toast } from "../dom.js";
import { attempt, dialog, errorPlace, field, input, select } from "../forms.js";
import { button } from "../roles.js";
import { store } from "../store.js";
import { Table } from "../table.js";

const KINDS = ["kernel", "assert", "trap", "deadline", "deadlock", "hung", "device", "worker", "death", "user"];
/** @type {[PolicyInfo["trigger"], string][]} */
const TRIGGERS = [
  ["edge", "at each fault"],
  ["sustained", "while faults go on"],
  ["aggregate", "after a number of faults"],
];
const ACTIONS = ["alert", "quiesce", "reset", "migrate"];

/**
 * Panel of the policies of one host, with a drop-down for the host.
 * @param {Stage} stage
 */
export function policiesPanel(stage) {
  const place = errorPlace();
  const hosts = select("policy-host", ["–"], "–", { "aria-label": "Host of the policies", class: "small" });
  /** @type {PolicyInfo[]} */
  let policies = [];
  /** @param {PolicyInfo[]} wanted */
  const save = async (wanted) => {
    // kinds and actions of the dialog, or what the host itself has said
    const fields = /** @type {PolicyFields[]} */ (wanted);
    await api.put(`policies/${encodeURIComponent(hosts.value)}`, { policies: fields });
    await refresh();
    toast(`Policies of ${hosts.value} are in force`);
  };
  /** @param {string | null} name null: a new policy */
  const edit = (name) =>
    policyDialog(
      policies.find((policy) => policy.name === name),
      (policy) => save([...policies.filter((each) => each.name !== (name ?? policy.name)), policy]),
    );
  /** @param {string} name */
  const drop = (name) => attempt(place, () => save(policies.filter((policy) => policy.name !== name)));
  const table = new Table({
    label: "Policies",
    key: (policy) => policy.name,
    columns: columns(edit, drop),
    sort: [0, 1],
    empty: empty("No policy", "Faults are only counted and shown."),
  });
  const refresh = async () => {
    if (hosts.value === "–") return;
    policies = await api.get(`policies/${encodeURIComponent(hosts.value)}`, {}, stage.signal);
    table.update(policies);
  };
  const offer = () => {
    const names = store
      .chosenHosts()
      .filter((host) => host.state === "up")
      .map((host) => host.host);
    const now = [...hosts.options].map((option) => option.value).join();
    if (!names.length || names.join() === now) return;
    const chosen = hosts.value;
    hosts.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
    hosts.value = names.includes(chosen) ? chosen : names[0];
    attempt(place, refresh);
  };
  for (const topic of /** @type {const} */ (["hosts", "scope"])) stage.on(store, topic, offer);
  stage.on(hosts, "change", () => attempt(place, refresh));
  offer();
  return h(
    "section.panel.policies",
    null,
    h(
      "div.panel-head",
      null,
      h("h2", null, "Policies"),
      h(
        "div.tools",
        null,
        hosts,
        button("Add policy", "admin", () => edit(null), "small"),
      ),
    ),
    place.element,
    table.element,
  );
}

/**
 * @param {(name: string) => void} edit
 * @param {(name: string) => void} drop
 * @returns {Column<PolicyInfo>[]}
 */
function columns(edit, drop) {
  return [
    { title: "Name", value: (policy) => policy.name },
    {
      title: "PEs",
      value: (policy) => policy.selector,
      class: "mono",
      show: (policy) => policy.selector || "everything",
    },
    { title: "Faults", value: (policy) => policy.kinds.join(", ") },
    {
      title: "Acts",
      value: (policy) => `${policy.trigger} ${policy.count} ${policy.window_s}`,
      show: (policy) =>
        `${TRIGGERS.find(([name]) => name === policy.trigger)?.[1] ?? policy.trigger}: ${policy.count} in ${policy.window_s} s`,
    },
    {
      title: "Action",
      value: (policy) => `${policy.action} ${policy.target ?? ""}`,
      show: (policy) =>
        h(
          "span",
          null,
          pill(policy.action, policy.action === "alert" ? "info" : "warn"),
          policy.target ? ` to ${policy.target}` : null,
        ),
    },
    {
      title: "",
      sort: false,
      class: "tight",
      value: (policy) => JSON.stringify(policy),
      show: (policy) =>
        h(
          "div.buttons",
          null,
          button("Edit", "admin", () => edit(policy.name), "small"),
          button("Remove", "admin", () => drop(policy.name), "small danger"),
        ),
    },
  ];
}

/**
 * @param {PolicyInfo | undefined} policy
 * @param {(policy: PolicyInfo) => Promise<void>} save
 */
function policyDialog(policy, save) {
  /** @type {PolicyInfo} */
  const chosen = policy ?? {
    name: "",
    selector: "",
    kinds: ["kernel"],
    trigger: "edge",
    count: 1,
    window_s: 60,
    action: "alert",
  };
  const kinds = KINDS.map((kind) =>
    h(
      "label.check",
      null,
      h("input", { type: "checkbox", name: `kind-${kind}`, checked: chosen.kinds.includes(kind) }),
      kind,
    ),
  );
  return dialog({
    title: policy ? `Policy ${policy.name}` : "New policy",
    needs: "admin",
    action: "Put in force",
    fields: [
      field("Name", input("name", chosen.name, { required: true }), "", true),
      field(
        "PEs (selector)",
        input("selector", chosen.selector, { class: "mono", placeholder: "everything" }),
        "",
        true,
      ),
      h("fieldset.kinds.wide", null, h("legend", null, "Faults"), kinds),
      field("Acts", select("trigger", TRIGGERS, chosen.trigger)),
      field("Action", select("action", ACTIONS, chosen.action)),
      field("Faults", input("count", chosen.count, { type: "number", min: "1" })),
      field("In seconds", input("window_s", chosen.window_s, { type: "number", min: "0", step: "any" })),
      field(
        "Target of migrate",
        input("target", chosen.target ?? "", { placeholder: "as many PEs as now" }),
        "PEs such as pes:0-3; VMs on NVIDIA's GPUs cannot be migrated yet, and are refused",
        true,
      ),
    ],
    submit: (/** @type {Filled} */ values) => {
      const { name, selector = "", trigger, count, window_s, action, target } = values;
      const chosenKinds = KINDS.filter((kind) => values[`kind-${kind}`]);
      if (!chosenKinds.length) throw new Error("choose at least one kind of fault");
      return save({ name, selector, trigger, count, window_s, action, target, kinds: chosenKinds });
    },
  });
}
