/** What several views show: hosts, load, channels, events; fed by REST and by the stream. */

import * as api from "./api.js";
import { toast } from "./dom.js";
import { parse } from "./selector.js";
import { Stream } from "./stream.js";

const HOSTS_MS = 4000;
const CHANNELS_MS = 2000;
const EVENTS_KEPT = 500;
const HISTORY = 90;

class Store extends EventTarget {
  hosts = [];
  /** By host: {host, gpus, vms, pes: {vm: Uint8Array}, time_ns} */
  load = new Map();
  instances = [];
  events = [];
  openFaults = 0;
  role = "";
  /** Whether the control centre records, as far as it says. */
  recording = true;
  connected = false;
  reached = false;
  scope = parse(sessionStorage.getItem("vgc-scope") ?? "");
  /** By "host", "host/gpu", "host/vm": the last values of the load, oldest first. */
  history = new Map();
  #wanted = new Map();
  /** Refreshes under way by name, and whether to do them again. */
  #refreshing = new Map();
  #stream = null;

  /** Starts polling and the stream; once. */
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

  #poll(period, work) {
    const turn = async () => {
      try {
        if (!document.hidden) await work();
      } catch (error) {
        if (error.status === 0) this.#reach(false);
      }
      setTimeout(turn, period);
    };
    turn();
  }

  #tell(topic, detail) {
    this.dispatchEvent(new CustomEvent(topic, { detail }));
  }

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
    const { role, recorder, vms } = await api.get("self");
    this.recording = recorder !== null || vms !== null; // who sees some VMs only is not told about the recorder
    if (role && role !== this.role) {
      this.role = role;
      this.#tell("role");
    }
  }

  async refreshLoad() {
    this.#takeLoad(await api.get("load"));
  }

  /** The same connection with the token that there is now. */
  reconnect() {
    this.#stream?.restart();
    this.refresh();
  }

  /** Which part of the system all views show. Throws a SelectorError. */
  setScope(text) {
    this.scope = parse(text);
    sessionStorage.setItem("vgc-scope", text);
    this.#tell("scope");
  }

  /** Records of these instances ("host/number") are wanted until the function that is returned is called. */
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
        break; // of a server that knows more
    }
  }

  #takeHost(message) {
    const at = this.hosts.findIndex((host) => host.host === message.host);
    if (at < 0) this.hosts.push(message);
    else this.hosts[at] = message;
    this.#tell("hosts");
  }

  #takeEvent(message) {
    this.events.push(message);
    if (this.events.length > EVENTS_KEPT) this.events.shift();
    this.#tell("event", message);
    if (message.event?.startsWith("fault")) this.#again("refreshFaults");
    if (["opened", "closed", "expired", "governor"].includes(message.event)) this.#again("refreshChannels");
  }

  /** Refreshes, one request at a time: events that come meanwhile are one more, however many they are. */
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

  #takeLoad(message) {
    for (const [host, load] of Object.entries(message.hosts)) {
      const pes = {};
      for (const [vm, text] of Object.entries(load.pes ?? {})) pes[vm] = api.fromBase64(text);
      this.load.set(host, { ...load, pes });
      this.#remember(host, load.host);
      for (const [gpu, value] of Object.entries(load.gpus ?? {})) this.#remember(`${host}/${gpu}`, value);
      for (const [vm, value] of Object.entries(load.vms ?? {})) this.#remember(`${host}//${vm}`, value);
    }
    this.#tell("load");
  }

  #remember(key, value) {
    const values = this.history.get(key) ?? [];
    values.push(value);
    if (values.length > HISTORY) values.shift();
    this.history.set(key, values);
  }

  host(name) {
    return this.hosts.find((host) => host.host === name);
  }

  /** Hosts that the scope chooses. */
  chosenHosts() {
    return this.hosts.filter((host) => this.scope.host(host.host));
  }

  /** All VMs that the scope chooses, each with its host's name. */
  chosenVms() {
    return this.chosenHosts().flatMap((host) =>
      host.vms
        .filter((vm) => this.scope.vm(vm.vm) && this.scope.gpu(vm.gpu))
        .map((vm) => ({ ...vm, host: host.host, hostState: host.state })),
    );
  }
}

export const store = new Store();
