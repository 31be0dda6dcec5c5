/** All views, in the order of the rail. */

/** @import { ICONS } from "../icons.js" */
/** @import { Stage } from "../stage.js" */
/**
 * @typedef {object} View
 * @property {keyof typeof ICONS} name in the page's address
 * @property {string} title
 * @property {string} group in the rail
 * @property {(stage: Stage) => void} mount
 * @property {() => number} [badge] number shown at the view's link unless it is 0
 */

import { channels } from "./channels.js";
import { cluster } from "./cluster.js";
import { console_ } from "./console.js";
import { counters } from "./counters.js";
import { faults } from "./faults.js";
import { firmware } from "./firmware.js";
import { gpus } from "./gpus.js";
import { log } from "./log.js";
import { migrations } from "./migrations.js";
import { self } from "./self.js";
import { snapshots } from "./snapshots.js";
import { timeline } from "./timeline.js";
import { vms } from "./vms.js";

/** @type {View[]} */
export const VIEWS = [
  cluster,
  gpus,
  vms,
  counters,
  log,
  faults,
  snapshots,
  timeline,
  console_,
  channels,
  migrations,
  firmware,
  self,
];
