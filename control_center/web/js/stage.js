/** `Stage`: a view's place in the page, with listeners, timers and requests that end when the view is left. */

/** @import { Child } from "./dom.js" */
/** @import { Store, Topics } from "./store.js" */

import { fill, h } from "./dom.js";
import { attempt, errorPlace } from "./forms.js";

/**
 * Type of the events that a target's listeners get.
 * @template T, K
 * @typedef {T extends Store ? CustomEvent<K extends keyof Topics ? Topics[K] : never>
 *   : K extends keyof HTMLElementEventMap ? HTMLElementEventMap[K] : Event} Heard
 */

export class Stage {
  #ends = new AbortController();

  /**
   * @param {HTMLElement} root
   * @param {{ [key: string]: string | undefined }} params of the page's address
   */
  constructor(root, params) {
    this.root = root;
    this.params = params;
    this.polling = errorPlace();
    this.errors = errorPlace();
  }

  /** Signal for requests; aborted when the view is left. */
  get signal() {
    return this.#ends.signal;
  }

  /**
   * Shows the view's head and body.
   * @param {string} title
   * @param {string} text
   * @param {Child[]} tools
   * @param {...Child} body
   */
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

  /**
   * Listens until the view is left.
   * @template {EventTarget} T
   * @template {string & (T extends Store ? keyof Topics : keyof WindowEventMap)} K
   * @param {T} target
   * @param {K} type
   * @param {(event: Heard<T, K>) => void} work
   */
  on(target, type, work) {
    target.addEventListener(type, /** @type {EventListener} */ (work), { signal: this.signal });
  }

  /**
   * Calls `work` at once, and again `period` ms after each end; errors are shown in the view's head.
   * @param {number} period
   * @param {() => Promise<void>} work
   */
  every(period, work) {
    const turn = async () => {
      if (this.signal.aborted) return;
      if (!document.hidden) await attempt(this.polling, work);
      if (!this.signal.aborted) timer = setTimeout(turn, period);
    };
    let timer = setTimeout(turn, 0);
    this.leave(() => clearTimeout(timer));
  }

  /**
   * Calls `work` when the view is left, or at once if it was left before.
   * @param {() => void} work
   */
  leave(work) {
    if (this.signal.aborted) work();
    else this.signal.addEventListener("abort", work, { once: true });
  }

  /**
   * Runs `work`; shows its error in the view's head.
   * @param {() => Promise<unknown>} work
   */
  attempt(work) {
    return attempt(this.errors, work);
  }

  end() {
    this.#ends.abort();
  }
}
