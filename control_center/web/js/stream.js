/** The WebSocket stream /api/v1/stream: one connection that comes back by itself. */

import { query, token } from "./api.js";

const FIRST_WAIT_MS = 300;
const LONGEST_WAIT_MS = 8000;

/** A stream of messages; `values` are query parameters (selector, events, replay_from_ns, speed). */
export class Stream {
  /**
   * @param {object} values query parameters
   * @param {{message: function(object), state: function(boolean), ended: function()?}} handlers
   *   with `ended`, a stream that the server ends normally is not opened again
   */
  constructor(values, handlers) {
    this.values = values;
    this.handlers = handlers;
    this.wait = FIRST_WAIT_MS;
    this.closed = false;
    this.wanted = null;
    this.connect();
  }

  connect() {
    const address = new URL(`api/v1/stream${query(this.values)}`, document.baseURI);
    address.protocol = address.protocol.replace("http", "ws");
    const secret = token();
    this.socket = new WebSocket(address, secret ? ["vgc", `token.${secret}`] : ["vgc"]);
    this.socket.onopen = () => {
      this.wait = FIRST_WAIT_MS;
      this.handlers.state(true);
      if (this.wanted) this.socket.send(JSON.stringify(this.wanted));
    };
    this.socket.onmessage = (event) => this.handlers.message(JSON.parse(event.data));
    this.socket.onclose = (event) => this.lost(event);
  }

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

  /** Says what is wanted; said again after a reconnect. */
  subscribe(wanted) {
    this.wanted = { subscribe: wanted };
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(this.wanted));
  }

  /** Steers a replay: pause, seek_ns, speed; said once the connection is there. */
  steer(wanted) {
    const text = JSON.stringify({ replay: wanted });
    if (this.socket.readyState === WebSocket.OPEN) this.socket.send(text);
    else this.socket.addEventListener("open", () => this.socket.send(text), { once: true });
  }

  /** Connects anew at once, with a new token or after the network came back. */
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
