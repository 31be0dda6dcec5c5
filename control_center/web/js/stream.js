/** Client of the WebSocket stream /api/v1/stream; reconnects by itself. */

/** @import { Steered, Steering, StreamMessage, StreamQuery, Subscribe, Wanted } from "./messages.d.ts" */

import { query, token } from "./api.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 8000;

/**
 * Callbacks of a stream. With `ended`, a stream that the server closes normally is not opened again.
 * @typedef {object} Handlers
 * @property {(message: StreamMessage) => void} message
 * @property {(up: boolean) => void} state
 * @property {() => void} [ended]
 */

/** Stream of messages over a WebSocket. */
export class Stream {
  /** @type {Wanted | null} */
  wanted = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  timer;

  /**
   * @param {StreamQuery} values
   * @param {Handlers} handlers
   */
  constructor(values, handlers) {
    this.values = values;
    this.handlers = handlers;
    this.wait = FIRST_WAIT_MS;
    this.closed = false;
    this.socket = this.#open();
  }

  #open() {
    const address = new URL(`api/v1/stream${query(this.values)}`, document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    const secret = token();
    const socket = new WebSocket(address, secret ? ["vgc", `token.${secret}`] : ["vgc"]);
    socket.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.handlers.state(true);
      if (this.wanted) socket.send(JSON.stringify(this.wanted));
    };
    socket.onmessage = (event) => this.handlers.message(JSON.parse(event.data));
    socket.onclose = (event) => this.lost(event);
    return socket;
  }

  connect() {
    this.socket = this.#open();
  }

  /** @param {CloseEvent} event */
  lost(event) {
    if (this.closed) return;
    this.handlers.state(false);
    if (this.handlers.ended && event.code === 1000) {
      this.handlers.ended();
      return;
    }
    this.timer = setTimeout(() => this.connect(), this.wait);
    this.wait = Math.min(2 * this.wait, LONGEST_WAIT_MS);
  }

  /**
   * Subscribes; sent again after a reconnect.
   * @param {Subscribe} wanted
   */
  subscribe(wanted) {
    this.wanted = { subscribe: wanted };
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.wanted));
  }

  /**
   * Steers a replay; sent once the connection is open.
   * @param {Steering} wanted
   */
  steer(wanted) {
    /** @type {Steered} */
    const message = { replay: wanted };
    const text = JSON.stringify(message);
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.socket.addEventListener("open", () => this.socket.send(text), { once: true });
  }

  /** Reconnects at once, with the current token. */
  restart() {
    clearTimeout(this.timer);
    this.socket.onclose = null;
    this.socket.close();
    this.connect();
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.socket.close();
  }
}
