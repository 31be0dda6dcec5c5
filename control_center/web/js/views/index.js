/** All views, in the order of the rail. */

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

export const VIEWS = [
  cluster,
  gpus,
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
