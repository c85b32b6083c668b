// Edits of a model, each a new model; nothing is changed in place.

/** @typedef {import("./types.js").Model} Model */
/** @typedef {import("./types.js").Arc} Arc */
/** @typedef {import("./types.js").Variable} Variable */
/** @typedef {import("./types.js").Document} Document */

/** @param {Model} model @param {string} name */
export const arcOf = (model, name) => model.arcs.find((a) => a.name === name);
/** @param {Model} model @param {string} name */
export const variableOf = (model, name) => model.variables.find((v) => v.name === name);
/** @param {Arc} arc */
export const scope = (arc) => [...(arc.sources ?? []), ...arc.targets];
/** The labels of a variable; null for a real vector. @param {Variable} v @returns {string[] | null} */
export const labels = (v) => (v.values ? v.values.map(String) : v.size !== undefined ? Array.from({ length: v.size }, (_, i) => String(i)) : null);
/** @param {Arc} arc "Smokes, Tar → Cancer" */
export const belief = (arc) => `${(arc.sources ?? []).join(", ")}${arc.sources?.length ? " " : ""}→ ${arc.targets.join(", ")}`;
/** @param {Arc} arc */
export const hasTable = (arc) => arc.table !== undefined;

/** What decides which names and cells there are. @param {Model} model */
export const structure = (model) => JSON.stringify([model.variables, model.arcs.map((a) => [a.name, a.sources ?? [], a.targets])]);

/** @param {Model} model @param {string} name @param {Partial<Arc>} changes @returns {Model} */
export const withArc = (model, name, changes) => ({ ...model, arcs: model.arcs.map((a) => (a.name === name ? { ...a, ...changes } : a)) });

/** @param {Model} model @param {string} name @returns {Model} */
export const withoutArc = (model, name) => ({ ...model, arcs: model.arcs.filter((a) => a.name !== name) });

/** A name that no one has yet. @param {string} stem @param {string[]} taken */
export function freshName(stem, taken) {
  if (!taken.includes(stem)) return stem;
  let i = 2;
  while (taken.includes(`${stem} ${i}`)) i++;
  return `${stem} ${i}`;
}

/** @param {Model} model @param {string} was @param {string} is @returns {Model} */
export function renamedVariable(model, was, is) {
  const swap = (/** @type {string} */ n) => (n === was ? is : n);
  return {
    ...model,
    variables: model.variables.map((v) => (v.name === was ? { ...v, name: is } : v)),
    arcs: model.arcs.map((a) => ({ ...a, ...(a.sources && { sources: a.sources.map(swap) }), targets: a.targets.map(swap) })),
  };
}

/** Without a variable and the arcs that mention it. @param {Model} model @param {string} name @returns {Model} */
export const withoutVariable = (model, name) => ({
  ...model,
  variables: model.variables.filter((v) => v.name !== name),
  arcs: model.arcs.filter((a) => !scope(a).includes(name)),
});

/** @param {Model} model @param {string} name @param {number} i @param {string} label @returns {Model} */
export function relabelled(model, name, i, label) {
  return withVariable(model, name, (v) => ({ name: v.name, values: (labels(v) ?? []).map((x, j) => (i === j ? label : x)) }));
}

/** With one more value: impossible where the variable is a target, and with an even row where it is a source. @param {Model} model @param {string} name @param {string} label @returns {Model} */
export function withValue(model, name, label) {
  const grown = withVariable(model, name, (v) => ({ name: v.name, values: [...(labels(v) ?? []), label] }));
  return reshaped(grown, name, (arc, part, depth) => [...part, depth < (arc.sources ?? []).length ? evenBelow(grown, arc, depth + 1) : zerosBelow(part[0])]);
}

/** Without a value: what is left of each row is scaled to sum to 1. @param {Model} model @param {string} name @param {number} i @returns {Model} */
export function withoutValue(model, name, i) {
  const shrunk = withVariable(model, name, (v) => ({ name: v.name, values: (labels(v) ?? []).filter((_, j) => j !== i) }));
  return reshaped(shrunk, name, (_, part) => part.filter((/** @type {any} */ __, /** @type {number} */ j) => j !== i));
}

/** @param {Model} model @param {string} name @param {(v: Variable) => Variable} change @returns {Model} */
function withVariable(model, name, change) {
  return { ...model, variables: model.variables.map((v) => (v.name === name ? change(v) : v)) };
}

/**
 * Tables with their axis of a variable changed, and rows that sum to 1.
 * @param {Model} model @param {string} name @param {(arc: Arc, part: any[], depth: number) => any[]} change
 * @returns {Model}
 */
function reshaped(model, name, change) {
  /** @param {Arc} arc @param {any} part @param {number} depth @param {number} axis @returns {any} */
  const walk = (arc, part, depth, axis) => (depth === axis ? change(arc, part, depth) : part.map((/** @type {any} */ p) => walk(arc, p, depth + 1, axis)));
  const arcs = model.arcs.map((arc) => {
    const axis = scope(arc).indexOf(name);
    if (axis < 0 || !(arc.table ?? arc.factor)) return arc;
    if (arc.factor) return { ...arc, factor: walk(arc, arc.factor, 0, axis) };
    const table = walk(arc, arc.table, 0, axis);
    return { ...arc, table: withRows(model, arc, rowsOf(model, arc, table).map(normalised)) };
  });
  return { ...model, arcs };
}

/** @param {any} part @returns {any} */
const zerosBelow = (part) => (Array.isArray(part) ? part.map(zerosBelow) : 0);

/** An even table from a depth on. @param {Model} model @param {Arc} arc @param {number} depth @returns {any} */
function evenBelow(model, arc, depth) {
  const sizes = scope(arc).map((n) => (labels(/** @type {Variable} */ (variableOf(model, n))) ?? []).length);
  const share = 1 / sizes.slice((arc.sources ?? []).length).reduce((a, b) => a * b, 1);
  /** @param {number} d @returns {any} */
  const make = (d) => (d === sizes.length ? share : Array.from({ length: sizes[d] }, () => make(d + 1)));
  return make(depth);
}

/** A belief that says nothing: every row even. @param {Model} model @param {string} name @param {string[]} sources @param {string[]} targets @returns {Model} */
export function withNewArc(model, name, sources, targets) {
  const arc = { name, sources, targets };
  return { ...model, arcs: [...model.arcs, { ...arc, table: evenBelow(model, arc, 0) }] };
}

/** @param {Model} model @param {string} name @param {string[]} values @returns {Model} */
export const withNewVariable = (model, name, values) => ({ ...model, variables: [...model.variables, { name, values }] });

/** How many rows, and how many columns, a table has. @param {Model} model @param {Arc} arc @returns {[number, number]} */
function shape(model, arc) {
  const size = (/** @type {string[]} */ names) => names.reduce((n, v) => n * (labels(/** @type {Variable} */ (variableOf(model, v))) ?? []).length, 1);
  return [size(arc.sources ?? []), size(arc.targets)];
}

/** A table as a list of rows, one for each setting of the sources. @param {Model} model @param {Arc} arc @param {any} [table] @returns {number[][]} */
export function rowsOf(model, arc, table = arc.table) {
  const flat = /** @type {number[]} */ ([table].flat(Infinity));
  const columns = shape(model, { ...arc })[1];
  return Array.from({ length: flat.length / columns }, (_, i) => flat.slice(i * columns, (i + 1) * columns));
}

/** The nested table of a list of rows. @param {Model} model @param {Arc} arc @param {number[][]} rows @returns {any} */
export function withRows(model, arc, rows) {
  const sizes = scope(arc).map((n) => (labels(/** @type {Variable} */ (variableOf(model, n))) ?? []).length);
  const flat = rows.flat();
  let at = 0;
  /** @param {number} depth @returns {any} */
  const nest = (depth) => (depth === sizes.length ? flat[at++] : Array.from({ length: sizes[depth] }, () => nest(depth + 1)));
  return nest(0);
}

/** The settings of some variables in the order of a table. @param {Model} model @param {string[]} names @returns {string[][]} */
export function settings(model, names) {
  return names.reduce((found, n) => found.flatMap((s) => (labels(/** @type {Variable} */ (variableOf(model, n))) ?? []).map((x) => [...s, x])), /** @type {string[][]} */ ([[]]));
}

/** A row scaled to sum to 1; even if it is all zeros. @param {number[]} row */
function normalised(row) {
  const total = row.reduce((a, b) => a + b, 0);
  return total > 0 ? row.map((p) => p / total) : row.map(() => 1 / row.length);
}

/** The row with one entry set and the others scaled, in their proportions, to the rest. @param {number[]} row @param {number} i @param {number} p */
export function rebalanced(row, i, p) {
  const value = Math.min(1, Math.max(0, p));
  if (row.length === 1) return [1];
  const others = row.reduce((sum, q, j) => (j === i ? sum : sum + q), 0);
  const rest = 1 - value;
  return row.map((q, j) => (j === i ? value : others > 0 ? (q * rest) / others : rest / (row.length - 1)));
}
