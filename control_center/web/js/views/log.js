/** Log: what kernels log, print and report, live and recorded. */

/** @import { RecordRow } from "../messages.d.ts" */
/** @import { Stage } from "../stage.js" */
/** @import { View } from "./index.js" */

import * as api from "../api.js";
import { h, pill } from "../dom.js";
import { LEVELS } from "../format.js";
import { input, select } from "../forms.js";
import { idOf, openDialog } from "../instances.js";
import { Gaps, Lines, Seen, isInput, isSample, recordLine } from "../records.js";
import { button } from "../roles.js";
import { matches } from "../selector.js";
import { store } from "../store.js";

const SHOWN = 1500;
const EARLIER = 300;

/** @type {View} */
export const log = { name: "log", title: "Log", group: "Watch", mount };

/** @param {Stage} stage */
function mount(stage) {
  const lines = new Lines(SHOWN, "log");
  /** @type {RecordRow[]} */
  let kept = [];
  let gaps = new Gaps();
  let paused = false;
  const level = select(
    "level",
    LEVELS.slice(1).map((name, at) => [at + 1, `up to ${name}`]),
    5,
    { "aria-label": "Level" },
  );
  const functions = select("fn", [["", "all functions"], "log", "stdio", "fault", "perf"], "", {
    "aria-label": "Function",
  });
  const text = input("text", "", { placeholder: "text", type: "search", "aria-label": "Text" });
  const pause = h("button.button", { type: "button", "aria-pressed": "false", onclick: () => hold(!paused) }, "Pause");
  const watched = h("span");
  /** @param {RecordRow} record */
  const concerns = (record) => (!functions.value || record.fn === functions.value) && matches(store.scope, record);
  /** @param {RecordRow} record */
  const shows = (record) =>
    !isInput(record) &&
    record.level <= Number(level.value) &&
    concerns(record) &&
    record.text.toLowerCase().includes(text.value.toLowerCase());
  /** @param {RecordRow} record */
  const put = (record) => {
    const lost = gaps.before(record);
    if (lost && concerns(record) && !text.value)
      lines.gap(lost, ` of ${record.host}/${record.vm}/${record.pe} ${record.fn}`);
    if (shows(record)) lines.add(recordLine(record));
  };
  const again = () => {
    lines.clear();
    gaps = new Gaps();
    kept.forEach(put);
  };
  const seen = new Seen();
  /** @param {RecordRow} record */
  const take = (record) => {
    if (isSample(record) || seen.again(record)) return;
    kept.push(record);
    if (kept.length > 2 * SHOWN) kept = kept.slice(-SHOWN);
    if (!paused) put(record);
  };
  /** @param {boolean} wanted */
  const hold = (wanted) => {
    paused = wanted;
    pause.setAttribute("aria-pressed", String(paused));
    pause.textContent = paused ? "Resume" : "Pause";
    if (!paused) again();
  };
  stage.show(
    "Log",
    "What kernels log and print",
    [
      watched,
      level,
      functions,
      text,
      pause,
      button("Open log channels", "operate", () => openDialog({ fn: "log" }), "main"),
    ],
    h("section.panel.log-panel", null, lines.element),
  );
  for (const control of [level, functions, text]) stage.on(control, "input", again);
  stage.on(store, "scope", again);
  follow(stage, watched);
  stage.attempt(async () => {
    if (!store.recording) return;
    const earlier = await api.get("records", { selector: store.scope.text, limit: EARLIER }, stage.signal);
    kept = [...earlier, ...kept];
    again();
  });
  stage.on(store, "dropped", (event) => lines.missed(event.detail));
  stage.on(store, "record", (event) => take(event.detail));
}

/**
 * Keeps the stream subscribed to all instances whose records are text.
 * @param {Stage} stage
 * @param {HTMLElement} watched
 */
function follow(stage, watched) {
  let unwatch = () => {};
  let known = "";
  const update = () => {
    const ids = store.instances.filter((each) => ["log", "stdio", "fault", "perf"].includes(each.function)).map(idOf);
    watched.replaceChildren(
      pill(
        ids.length ? `${ids.length} instance${ids.length === 1 ? "" : "s"} live` : "no channel open",
        ids.length ? "ok" : "",
        true,
      ),
    );
    if (ids.join() === known) return;
    known = ids.join();
    unwatch();
    unwatch = store.watch(ids);
  };
  stage.on(store, "channels", update);
  stage.leave(() => unwatch());
  update();
}
