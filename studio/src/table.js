// A table of probabilities: claimed beside reconciled, edited by typing, dragging or pasting; its rows always sum to 1.

import { fill, h } from "./dom.js";
import { arcOf, rebalanced, rowsOf, settings, withArc, withRows } from "./model.js";
import { fixed, general, parsed, probability } from "./numbers.js";

/** @typedef {import("./store.js").Store} Store */

const SHOWN = 24; // rows at first; more on demand

/** @param {Store} store @param {string} name @param {import("./studio.js").Studio} studio */
export function tableEditor(store, name, studio) {
  const arc = arcOf(store.model, name);
  const body = h("div", { class: "rows" });
  const sort = h("select", { class: "small", "aria-label": "Order of the rows", on: { change: () => build() } },
    h("option", { value: "table", text: "in the table's order" }), h("option", { value: "gap", text: "largest disagreement first" }));
  const more = h("button", { type: "button", class: "text-button", hidden: true, on: { click: () => { limit += 4 * SHOWN; build(); } } });
  const legend = h("p", { class: "table-legend" }, h("span", { class: "key claimed" }), "claimed", h("span", { class: "key reconciled" }), "reconciled", h("span", { class: "spacer" }), sort);
  const element = h("section", { class: "table", "aria-label": "Table" },
    h("header", { class: "table-head" }, h("h3", { text: "Table" }), h("button", { type: "button", class: "text-button", text: "Paste or count…", on: { click: () => studio.pasteTable(name) } })),
    legend, body, more);
  element.addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!/[\t\n;]/.test(text.trim())) return; // one number: into the box, as usual
    event.preventDefault();
    studio.pasteTable(name, text);
  });
  if (!arc || arc.table === undefined) return { element, update: () => {} };
  const givens = settings(store.model, arc.sources ?? []);
  const values = settings(store.model, arc.targets);
  let limit = SHOWN;
  /** @type {{row: number, cells: ReturnType<typeof cell>[], node: HTMLElement}[]} */
  let shown = [];

  /** Claimed (or, in a run, moved) probabilities. */
  function claimed() {
    const now = arcOf(store.model, name);
    if (!now) return [];
    return rowsOf(store.model, now, store.frame?.tables?.[name] ?? now.table);
  }

  /** @returns {(number | null)[][]} what the best compromise makes of each row; null where it has no opinion or it is not known */
  function reconciled() {
    const found = givens.map(() => values.map(() => /** @type {number | null} */ (null)));
    const place = (/** @type {string[][]} */ list) => new Map(list.map((s, i) => [JSON.stringify(s), i]));
    const [rowAt, columnAt] = [place(givens), place(values)];
    for (const c of store.score?.cells ?? []) {
      if (c.arc !== name || !arc) continue;
      const row = rowAt.get(JSON.stringify((arc.sources ?? []).map((n) => String(c.given[n]))));
      const column = columnAt.get(JSON.stringify(arc.targets.map((n) => String(c.value[n]))));
      if (row !== undefined && column !== undefined) found[row][column] = c.reconciled;
    }
    return found;
  }

  /** @param {number} row @param {number} column @param {number} p */
  function set(row, column, p) {
    const now = arcOf(store.model, name);
    if (!now) return;
    const rows = rowsOf(store.model, now).map((r, i) => (i === row ? rebalanced(r, column, p) : r));
    store.edit(`table ${name} ${row}`, { model: withArc(store.model, name, { table: withRows(store.model, now, rows) }) });
  }

  /** @param {number} row @param {number} column */
  function cell(row, column) {
    const what = `${values[column].join(", ")}${givens[row].length ? ` given ${givens[row].join(", ")}` : ""}`;
    const bar = h("span", { class: "bar-fill" });
    const mark = h("span", { class: "bar-mark" });
    const track = h("div", { class: "probability", role: "slider", tabindex: "0", "aria-label": `Probability of ${what}`, "aria-valuemin": 0, "aria-valuemax": 1 }, bar, mark);
    const box = h("input", { type: "text", inputmode: "decimal", class: "number-box", "aria-label": `Probability of ${what}, as a number`, autocomplete: "off", spellcheck: "false" });
    const other = h("span", { class: "reconciled-number" });
    let p = 0;

    const fromPointer = (/** @type {PointerEvent} */ event) => {
      const r = track.getBoundingClientRect();
      set(row, column, Number(fixed(Math.min(1, Math.max(0, (event.clientX - r.left) / r.width)), 2)));
    };
    track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      track.setPointerCapture(event.pointerId);
      track.focus();
      fromPointer(event);
    });
    track.addEventListener("pointermove", (event) => track.hasPointerCapture(event.pointerId) && fromPointer(event));
    track.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 0.1 : 0.01;
      const to = { ArrowRight: p + step, ArrowUp: p + step, ArrowLeft: p - step, ArrowDown: p - step, Home: 0, End: 1, PageUp: p + 0.1, PageDown: p - 0.1 }[event.key];
      if (to === undefined) return;
      event.preventDefault();
      set(row, column, Number(fixed(Math.min(1, Math.max(0, to)), 4)));
    });
    box.addEventListener("change", () => {
      const typed = parsed(box.value);
      if (typed === null || typed < 0 || typed > 1) return box.setAttribute("aria-invalid", "true");
      box.removeAttribute("aria-invalid");
      set(row, column, typed);
    });
    box.addEventListener("keydown", (event) => event.key === "Enter" && box.blur());
    box.addEventListener("blur", () => {
      box.removeAttribute("aria-invalid");
      box.value = general(p, 6);
    });

    return {
      nodes: [h("span", { class: "cell-label", text: values[column].join(", "), title: values[column].join(", ") }), track, box, other],
      /** @param {number} now @param {number | null} compromise */
      show(now, compromise) {
        p = now;
        bar.style.width = `${100 * now}%`;
        mark.hidden = compromise === null || compromise === undefined;
        mark.style.left = `${100 * (compromise ?? 0)}%`;
        if (document.activeElement !== box) box.value = general(now, 6);
        other.textContent = compromise === null || compromise === undefined ? "" : probability(compromise);
        track.setAttribute("aria-valuenow", String(now));
        track.setAttribute("aria-valuetext", `${general(now, 4)}${other.textContent ? `, reconciled ${other.textContent}` : ""}`);
      },
    };
  }

  function order() {
    const rows = givens.map((_, i) => i);
    if (sort.value !== "gap") return rows;
    const [mine, theirs] = [claimed(), reconciled()];
    const cost = new Map();
    for (const c of store.score?.cells ?? []) {
      if (c.arc === name && arc) {
        const key = JSON.stringify((arc.sources ?? []).map((n) => String(c.given[n])));
        cost.set(key, (cost.get(key) ?? 0) + Math.abs(c.contribution));
      }
    }
    const gap = (/** @type {number} */ i) => Math.max(...mine[i].map((p, j) => Math.abs(p - (theirs[i][j] ?? p))));
    return rows.sort((a, b) => (cost.get(JSON.stringify(givens[b])) ?? 0) - (cost.get(JSON.stringify(givens[a])) ?? 0) || gap(b) - gap(a));
  }

  function build() {
    shown = order().slice(0, limit).map((row) => {
      const cells = values.map((_, column) => cell(row, column));
      const given = givens[row].map((x, i) => `${/** @type {string[]} */ (arc?.sources)[i]}=${x}`).join(", ");
      const node = h("div", { class: "table-row", role: "group", "aria-label": given || "the only row" }, given && h("div", { class: "given", text: given }), h("div", { class: "cells" }, cells.flatMap((c) => c.nodes)));
      return { row, cells, node };
    });
    fill(body, shown.map((s) => s.node));
    more.hidden = shown.length >= givens.length;
    more.textContent = `${givens.length - shown.length} more rows`;
    update();
  }

  function update() {
    const [mine, theirs] = [claimed(), reconciled()];
    for (const { row, cells } of shown) cells.forEach((c, j) => c.show(mine[row]?.[j] ?? 0, theirs[row]?.[j] ?? null));
    element.classList.toggle("stale", !store.fresh);
    element.classList.toggle("in-run", Boolean(store.frame?.tables?.[name]));
  }

  sort.hidden = givens.length < 2;
  build();
  return { element, update };
}
