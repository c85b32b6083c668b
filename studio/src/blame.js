// Who is to blame, and where: arcs and cells by what they cost.

import { fill, h } from "./dom.js";
import { arcOf, belief, hasTable, scope } from "./model.js";
import { nats, number, probability } from "./numbers.js";

/** @typedef {import("./store.js").Store} Store */

const MOST_ARCS = 60;
const MOST_CELLS = 12;

/** The arcs, most to blame first: by contribution, then by what dropping them saves, as `dissonance score` lists them. @param {Store} store */
export function ranked(store) {
  const rows = new Map(store.score?.arcs.map((r) => [r.name, r]));
  const size = (/** @type {any} */ x) => (Number.isNaN(number(x)) ? -Infinity : Number.isFinite(number(x)) ? Math.round(number(x) * 1e9) / 1e9 : number(x));
  const key = (/** @type {string} */ name) => [size(rows.get(name)?.contribution), size(rows.get(name)?.saved_if_dropped)];
  return store.model.arcs
    .map((arc) => ({ arc, row: rows.get(arc.name), key: key(arc.name) }))
    .sort((a, b) => (b.key[0] === a.key[0] ? (b.key[1] === a.key[1] ? 0 : b.key[1] - a.key[1]) : b.key[0] - a.key[0]));
}

/** @param {Store} store @param {(selection: import("./types.js").Selection) => void} choose */
export function blameList(store, choose) {
  const list = h("ul", { class: "blame-list" });
  const where = h("ul", { class: "cell-list" });
  const more = h("p", { class: "quiet" });

  function update() {
    const all = ranked(store).filter(({ arc }) => store.lists(arc.name) || scope(arc).some((n) => store.lists(n)));
    const most = Math.max(1e-12, ...all.map(({ key }) => key[0]).filter(Number.isFinite));
    fill(list, all.slice(0, MOST_ARCS).map(({ arc, row, key }) => {
      const share = key[0] === Infinity ? 1 : Math.max(0, key[0]) / most;
      const bar = h("span", { class: "blame-bar" });
      bar.style.width = `${100 * (Number.isFinite(share) ? share : 0)}%`;
      bar.style.background = store.colours.get(arc.name) ?? "var(--role-muted)";
      const chosen = store.selection?.kind === "arc" && store.selection.name === arc.name;
      const saved = row && row.saved_if_dropped !== null ? `without it ${nats(row.saved_if_dropped, 4)} nats less` : "";
      const weightless = number(arc.beta ?? 1) === 0;
      return h("li", {}, h("button", { type: "button", class: `blame-row${weightless ? " weightless" : ""}`, "aria-pressed": String(chosen), "data-arc": arc.name, title: saved || false, on: { click: () => choose({ kind: "arc", name: arc.name }) } },
        h("span", { class: "blame-name", text: arc.name }),
        h("span", { class: "blame-number", text: weightless ? "ignored" : row ? nats(row.contribution, 4) : "" }),
        h("span", { class: "blame-belief", text: belief(arc) }),
        h("span", { class: "blame-track" }, bar)));
    }));
    more.textContent = all.length > MOST_ARCS ? `${all.length - MOST_ARCS} more arcs are not shown.` : "";
    const costly = (store.score?.cells ?? []).filter((c) => c.contribution > 1e-9 && arcOf(store.model, c.arc)).slice(0, MOST_CELLS);
    const said = (/** @type {Record<string, string>} */ event) => Object.entries(event).map(([n, x]) => `${n}=${x}`).join(", ");
    fill(where, costly.map((c) => h("li", {}, h("button", { type: "button", class: "cell-row", on: { click: () => choose({ kind: "arc", name: c.arc }) } },
      h("span", { class: "cell-event" }, h("b", { text: c.arc }), ` ${said(c.value)}`, Object.keys(c.given).length > 0 && h("span", { class: "cell-given", text: ` given ${said(c.given)}` })),
      h("span", { class: "cell-numbers" }, h("span", { text: probability(c.claimed) }), h("span", { class: "arrow", "aria-label": "reconciled", text: "→" }), h("span", { text: probability(c.reconciled) })),
      h("span", { class: "cell-cost", text: nats(c.contribution, 4) })))),
      costly.length === 0 && h("li", { class: "quiet", text: store.score ? "No cell costs anything." : "" }));
    cells.hidden = !store.model.arcs.some(hasTable);
    element.classList.toggle("stale", !store.fresh);
  }

  const cells = h("details", { open: true, class: "section" }, h("summary", {}, h("h2", { text: "Where" }), h("span", { class: "quiet", text: "claimed → reconciled, nats" })), where);
  const element = h("div", { class: "blame" },
    h("details", { open: true, class: "section" }, h("summary", {}, h("h2", { text: "Who is to blame" }), h("span", { class: "quiet", text: "nats" })), list, more), cells);
  store.subscribe((change) => change !== "frame" && update());
  update();
  return element;
}
