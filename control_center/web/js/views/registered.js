/** Functions that a guest has registered for its VM: parameters, state, and what was launched how often. */

/** @import { HostedProgram, HostedWork } from "../messages.d.ts" */
/** @import { Column } from "../table.js" */
/**
 * @typedef {object} Registered
 * @property {string} signature
 * @property {number} program
 * @property {string} state
 * @property {string} problem
 * @property {number} launches
 * @property {number | null} mean
 */

import { empty, h, pill } from "../dom.js";
import { count, span } from "../format.js";
import { Table } from "../table.js";

const TONES = { kept: "ok", registered: "ok", broken: "bad" };

/** @type {Column<Registered>[]} */
const COLUMNS = [
  { title: "Function", value: (row) => row.signature, class: "mono" },
  { title: "Program", value: (row) => row.program, number: true },
  { title: "State", value: (row) => row.state, show: stateOf },
  { title: "Launches", value: (row) => row.launches, show: (row) => count(row.launches), number: true },
  { title: "Mean", value: (row) => row.mean ?? 0, show: (row) => (row.mean ? span(row.mean) : "–"), number: true },
];

/** @param {Registered} row */
function stateOf(row) {
  const shown = pill(row.state, TONES[/** @type {keyof typeof TONES} */ (row.state)] ?? "", true);
  return row.problem ? h("span", null, shown, " ", h("span.bad.wrap", null, row.problem)) : shown;
}

export function registeredTable() {
  return new Table({
    label: "Registered functions",
    key: (row) => `${row.program} ${row.signature}`,
    columns: COLUMNS,
    empty: empty("No registered functions", "Guests register them with vgc register."),
  });
}

/**
 * Rows of a VM's programs.
 * @param {HostedProgram[]} programs
 * @param {HostedWork[]} work
 * @returns {Registered[]}
 */
export function registeredRows(programs, work) {
  const done = new Map(work.map((one) => [one.function, one]));
  return programs.flatMap((program) => {
    const state = program.problem ? "broken" : program.kept ? "kept" : "registered";
    const rows = program.functions.map((signature) => row(program, state, signature, done.get(nameIn(signature))));
    const more = program.num_functions - program.functions.length;
    if (more > 0) rows.push(row(program, state, `(and ${more} more)`, undefined));
    return rows;
  });
}

/** @param {string} signature */
const nameIn = (signature) => signature.split("(", 1)[0];

/**
 * @param {HostedProgram} program
 * @param {string} state
 * @param {string} signature
 * @param {HostedWork | undefined} work undefined: it was not launched of late
 * @returns {Registered}
 */
function row(program, state, signature, work) {
  const timed = work?.times.reduce((sum, one) => sum + one, 0) ?? 0;
  return {
    signature,
    program: program.program,
    state,
    problem: program.problem,
    launches: work?.launches ?? 0,
    mean: work && timed ? work.busy_ns / timed : null,
  };
}
