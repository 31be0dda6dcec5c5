/** Policies: what a host does by itself about faults; a table and a form. */

import * as api from "../api.js";
import { empty, h, pill, toast } from "../dom.js";
import { attempt, dialog, errorPlace, field, input, select } from "../forms.js";
import { button } from "../roles.js";
import { store } from "../store.js";
import { Table } from "../table.js";

const KINDS = ["kernel", "assert", "trap", "deadline", "deadlock", "hung", "device", "user"];
const TRIGGERS = [
  ["edge", "at each"],
  ["sustained", "while it goes on"],
  ["aggregate", "after so many"],
];
const ACTIONS = ["alert", "quiesce", "reset", "migrate"];

/** The panel, with a host to choose. */
export function policiesPanel(stage) {
  const place = errorPlace();
  const hosts = select("policy-host", ["–"], "–", { "aria-label": "Host of the policies", class: "small" });
  let policies = [];
  const save = async (wanted) => {
    await api.put(`policies/${encodeURIComponent(hosts.value)}`, { policies: wanted });
    await refresh();
    toast(`Policies of ${hosts.value} are in force`);
  };
  const edit = (name) =>
    policyDialog(
      policies.find((policy) => policy.name === name),
      (policy) => save([...policies.filter((each) => each.name !== (name ?? policy.name)), policy]),
    );
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
  for (const topic of ["hosts", "scope"]) stage.on(store, topic, offer);
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

function columns(edit, drop) {
  return [
    { title: "Name", value: (policy) => policy.name },
    {
      title: "Elements",
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
        [
          pill(policy.action, policy.action === "alert" ? "info" : "warn"),
          policy.target ? ` to ${policy.target}` : null,
        ]
          .filter(Boolean)
          .reduce((all, part) => {
            all.append(part);
            return all;
          }, h("span")),
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

function policyDialog(policy, save) {
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
        "Elements (selector)",
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
        input("target", chosen.target ?? "", { placeholder: "the least loaded" }),
        "a GPU, or elements such as 0-3",
        true,
      ),
    ],
    submit: (values) => {
      const wanted = { selector: "", ...values, kinds: KINDS.filter((kind) => values[`kind-${kind}`]) };
      for (const kind of KINDS) delete wanted[`kind-${kind}`];
      if (!wanted.kinds.length) throw new Error("choose at least one kind of fault");
      return save(wanted);
    },
  });
}
