/** `Store`: data that several views show (hosts, load, channels, events), from the REST API and the stream. */

/**
 * @import {
 *   EventMessage, HostInfo, HostMessage, HostedFault, HostedInstance, LoadAnswer, LoadInfo, RecordMessage,
 *   StreamMessage
 * } from "./messages.d.ts"
 */
/** @import { Role } from "./roles.js" */

import * as api from "./api.js";
import { toast } from "./dom.js";
import { parse } from "./selector.js";
import { Stream } from "./stream.js";

const HOSTS_MS = 4000;
const CHANNELS_MS = 2000;
const EVENTS_KEPT = 500;
const HISTORY = 90;

/** @typedef {Omit<LoadInfo, "pes"> & { pes: { [vm: string]: Uint8Array } }} Load of a host, with decoded bytes */
/**
 * Detail of the events of each topic.
 * @typedef {object} Topics
 * @property {undefined} link
 * @property {undefined} hosts
 * @property {undefined} channels
 * @property {HostedFault[]} faults
 * @property {undefined} role
 * @property {undefined} health
 * @property {undefined} scope
 * @property {undefined} load
 * @property {RecordMessage} record
 * @property {EventMessage} event
 * @property {number} dropped number of messages
 */

export class Store extends EventTarget {
  /** @type {HostInfo[]} */
  hosts = [];
  /** @type {Map<string, Load>} by host */
  load = new Map();
  /** @type {HostedInstance[]} */
  instances = [];
  /** @type {EventMessage[]} */
  events = [];
  openFaults = 0;
  /** Problems of the control system itself. */
  problems = 0;
  /** @type {Role | ""} */
  role = "";
  /** False if the control centre has said that it has no recorder. */
  recording = true;
  connected = false;
  reached = false;
  scope = parse(sessionStorage.getItem("vgc-scope") ?? "");
  /** @type {Map<string, number[]>} by "host", "host/gpu", "host//vm": the last values of the load, oldest first */
  history = new Map();
  /** @type {Map<symbol, string[]>} */
  #wanted = new Map();
  /** @type {Map<"refreshFaults" | "refreshChannels", boolean>} refreshes under way; true: to be repeated after */
  #refreshing = new Map();
  /** @type {Stream | null} */
  #stream = null;

  /** Starts polling and the stream; to be called once. */
  start() {
    this.#stream = new Stream(
      { events: 1 },
      {
        message: (message) => this.#take(message),
        state: (up) => {
          this.connected = up;
          this.#tell("link");
          if (up) this.refresh();
        },
      },
    );
    this.#subscribe();
    this.#poll(HOSTS_MS, () => this.refreshHosts());
    this.#poll(CHANNELS_MS, () => this.refreshChannels());
    this.#poll(HOSTS_MS, () => this.refreshFaults());
    this.#poll(HOSTS_MS, () => this.refreshRole());
    this.#poll(1000, () => (this.connected ? null : this.refreshLoad()));
  }

  /**
   * @param {number} period
   * @param {() => Promise<void> | null} work
   */
  #poll(period, work) {
    const turn = async () => {
      try {
        if (!document.hidden) await work();
      } catch (error) {
        if (error instanceof api.ApiError && error.status === 0) this.#reach(false);
      }
      setTimeout(turn, period);
    };
    turn();
  }

  /**
   * @template {keyof Topics} T
   * @param {T} topic
   * @param {Topics[T]} [detail]
   */
  #tell(topic, detail) {
    this.dispatchEvent(new CustomEvent(topic, { detail }));
  }

  /** @param {boolean} reached */
  #reach(reached) {
    if (this.reached === reached) return;
    this.reached = reached;
    this.#tell("link");
  }

  async refresh() {
    await Promise.allSettled([this.refreshHosts(), this.refreshChannels(), this.refreshLoad(), this.refreshRole()]);
  }

  async refreshHosts() {
    this.hosts = await api.get("hosts");
    this.#reach(true);
    this.#tell("hosts");
  }

  async refreshChannels() {
    this.instances = await api.get("channels", { totals: 1 });
    this.#tell("channels");
  }

  async refreshFaults() {
    const faults = await api.get("faults");
    this.openFaults = faults.filter((fault) => !fault.cleared).length;
    this.#tell("faults", faults);
  }

  async refreshRole() {
    const { role, recorder, vms, problems } = await api.get("self");
    this.problems = problems.length;
    this.#tell("health");
    this.recording = recorder !== null || vms !== null; // a token for some VMs is not told about the recorder
    if (role && role !== this.role) {
      this.role = role;
      this.#tell("role");
    }
  }

  async refreshLoad() {
    this.#takeLoad(await api.get("load"));
  }

  /** Reconnects the stream with the current token. */
  reconnect() {
    this.#stream?.restart();
    this.refresh();
  }

  /**
   * Sets the selector of what all views show.
   * @param {string} text
   * @throws {SelectorError}
   */
  setScope(text) {
    this.scope = parse(text);
    sessionStorage.setItem("vgc-scope", text);
    this.#tell("scope");
  }

  /**
   * Subscribes to the records of these instances; returns the function that ends it.
   * @param {string[]} instances each "host/number"
   */
  watch(instances) {
    const key = Symbol("watch");
    this.#wanted.set(key, instances);
    this.#subscribe();
    return () => {
      this.#wanted.delete(key);
      this.#subscribe();
    };
  }

  #subscribe() {
    const instances = [...new Set([...this.#wanted.values()].flat())];
    this.#stream?.subscribe({ instances, load: true, events: true });
  }

  /** @param {StreamMessage} message */
  #take(message) {
    switch (message.type) {
      case "record":
        this.#tell("record", message);
        break;
      case "load":
        this.#takeLoad(message);
        break;
      case "event":
        this.#takeEvent(message);
        break;
      case "host":
        this.#takeHost(message);
        break;
      case "error":
        toast(message.text, "bad");
        break;
      case "dropped":
        this.#tell("dropped", message.count);
        break;
      default:
        break; // a message of a newer server
    }
  }

  /** @param {HostMessage} message */
  #takeHost(message) {
    const at = this.hosts.findIndex((host) => host.host === message.host);
    if (at < 0) this.hosts.push(message);
    else this.hosts[at] = message;
    this.#tell("hosts");
  }

  /** @param {EventMessage} message */
  #takeEvent(message) {
    this.events.push(message);
    if (this.events.length > EVENTS_KEPT) this.events.shift();
    this.#tell("event", message);
    if (message.event?.startsWith("fault")) this.#again("refreshFaults");
    if (["opened", "closed", "expired", "governor"].includes(message.event)) this.#again("refreshChannels");
  }

  /**
   * Refreshes, one request at a time: any number of events meanwhile cause one more request.
   * @param {"refreshFaults" | "refreshChannels"} name
   */
  async #again(name) {
    const underway = this.#refreshing.has(name);
    this.#refreshing.set(name, underway);
    if (underway) return;
    do {
      this.#refreshing.set(name, false);
      await this[name]().catch(() => {});
    } while (this.#refreshing.get(name));
    this.#refreshing.delete(name);
  }

  /** @param {LoadAnswer} message */
  #takeLoad(message) {
    for (const [host, load] of Object.entries(message.hosts)) {
      /** @type {Load["pes"]} */
      const pes = {};
      for (const [vm, text] of Object.entries(load.pes ?? {})) pes[vm] = api.fromBase64(text);
      this.load.set(host, { ...load, pes });
      this.#remember(host, load.host);
      for (const [gpu, value] of Object.entries(load.gpus ?? {})) this.#remember(`${host}/${gpu}`, value);
      for (const [vm, value] of Object.entries(load.vms ?? {})) this.#remember(`${host}//${vm}`, value);
    }
    this.#tell("load");
  }

  /**
   * @param {string} key
   * @param {number} value
   */
  #remember(key, value) {
    const values = this.history.get(key) ?? [];
    values.push(value);
    if (values.length > HISTORY) values.shift();
    this.history.set(key, values);
  }

  /** @param {string} name */
  host(name) {
    return this.hosts.find((host) => host.host === name);
  }

  /** Hosts that the scope matches. */
  chosenHosts() {
    return this.hosts.filter((host) => this.scope.host(host.host));
  }

  /** VMs that the scope matches, each with its host's name. */
  chosenVms() {
    return this.chosenHosts().flatMap((host) =>
      host.vms
        .filter((vm) => this.scope.vm(vm.vm) && this.scope.gpu(vm.gpu))
        .map((vm) => ({ ...vm, host: host.host, hostState: host.state })),
    );
  }
}

export const store = new Store();
