/** What a view stands on: its place, and listeners, timers and requests that end with it. */

import { fill, h } from "./dom.js";
import { attempt, errorPlace } from "./forms.js";

export class Stage {
  #ends = new AbortController();

  constructor(root, params) {
    this.root = root;
    this.params = params;
    this.polling = errorPlace();
    this.errors = errorPlace();
  }

  /** For requests: aborted when the view is left. */
  get signal() {
    return this.#ends.signal;
  }

  /** The view's head and body. */
  show(title, text, tools, ...body) {
    const head = h(
      "div.view-head",
      null,
      h("h1", null, title),
      text ? h("p", null, text) : null,
      h("div.tools", null, tools),
    );
    fill(this.root, head, this.errors.element, this.polling.element, ...body);
  }

  /** Listens for as long as the view stands. */
  on(target, type, work) {
    target.addEventListener(type, work, { signal: this.signal });
  }

  /** Calls `work` at once and `period` ms after it ended, again and again; errors show in the view's head. */
  every(period, work) {
    const turn = async () => {
      if (this.signal.aborted) return;
      if (!document.hidden) await attempt(this.polling, work);
      if (!this.signal.aborted) timer = setTimeout(turn, period);
    };
    let timer = setTimeout(turn, 0);
    this.leave(() => clearTimeout(timer));
  }

  /** Calls `work` when the view is left; at once if it has been. */
  leave(work) {
    if (this.signal.aborted) work();
    else this.signal.addEventListener("abort", work, { once: true });
  }

  /** Runs `work` and shows its error in the view's head. */
  attempt(work) {
    return attempt(this.errors, work);
  }

  end() {
    this.#ends.abort();
  }
}
