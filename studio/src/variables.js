// What to believe: every variable with the probabilities of its values; a click on a value observes it.

import { fill, h } from "./dom.js";
import { labels } from "./model.js";
import { general, number, probability } from "./numbers.js";

/** @typedef {import("./store.js").Store} Store */

const MOST = 40;
const MOST_VALUES = 8;

/** Observes a value for certain, or takes the observation back. @param {Store} store @param {string} name @param {string} value */
export function toggleObserved(store, name, value) {
  const { [name]: before, ...others } = store.document.evidence;
  const same = before?.value === value;
  store.edit(`evidence ${name}`, { evidence: same ? others : { ...others, [name]: { value, confidence: before?.confidence ?? "inf" } } });
}

/**
 * The values of a variable as buttons with bars.
 * @param {Store} store @param {import("./types.js").Variable} v @param {number} [most]
 */
export function valueBars(store, v, most = Infinity) {
  const all = labels(v) ?? [];
  const marginal = store.score?.marginals?.[v.name];
  const seen = store.document.evidence[v.name];
  const rows = all.slice(0, most).map((x) => {
    const p = marginal?.[x];
    const bar = h("span", { class: "value-fill" });
    bar.style.width = `${100 * (p ?? 0)}%`;
    const observed = seen?.value === x;
    return h("button", { type: "button", class: `value-row${observed ? " observed" : ""}`, "aria-pressed": String(observed), "data-value": x, title: observed ? "Take the observation back" : `Observe ${v.name} = ${x}`, on: { click: () => toggleObserved(store, v.name, x) } },
      h("span", { class: "value-label", text: x }), h("span", { class: "value-bar" }, bar),
      h("span", { class: "value-p", text: p === undefined ? "" : probability(p) }), h("span", { class: "value-pin", "aria-hidden": "true", text: observed ? "●" : "" }));
  });
  return all.length > most ? [...rows, h("p", { class: "quiet", text: `${all.length - most} more values` })] : rows;
}

/** The mean and spread of a real vector. @param {any} marginal */
export function moments(marginal) {
  if (!marginal || !("mean" in marginal)) return h("p", { class: "quiet", text: "" });
  const each = [marginal.mean].flat().map((/** @type {any} */ m, /** @type {number} */ i) => `${general(number(m), 4)} ± ${general(Math.sqrt(Math.max(0, number(marginal.covariance[i][i]))), 3)}`);
  return h("p", { class: "moments", text: each.join(",  ") });
}

/** @param {Store} store @param {(selection: import("./types.js").Selection) => void} choose */
export function variableList(store, choose) {
  const list = h("div", { class: "variable-list" });
  const clear = h("button", { type: "button", class: "text-button", text: "Forget observations", on: { click: () => store.edit("evidence", { evidence: {} }) } });
  const note = h("span", { class: "quiet" });

  function update() {
    const focused = document.activeElement instanceof HTMLElement && list.contains(document.activeElement) ? { variable: document.activeElement.closest("[data-variable]")?.getAttribute("data-variable"), value: document.activeElement.dataset.value } : null;
    const all = store.model.variables.filter((v) => store.lists(v.name));
    fill(list, all.slice(0, MOST).map((v) => h("div", { class: "variable", "data-variable": v.name },
      h("button", { type: "button", class: "variable-name", on: { click: () => choose({ kind: "variable", name: v.name }) } }, h("span", { text: v.name }), v.name in store.document.evidence && h("span", { class: "badge", text: "observed" })),
      labels(v) ? valueBars(store, v, MOST_VALUES) : moments(store.score?.marginals?.[v.name]))),
      all.length > MOST && h("p", { class: "quiet", text: `${all.length - MOST} more variables: find them by name, or in the picture.` }));
    clear.hidden = Object.keys(store.document.evidence).length === 0;
    const chance = store.score?.probability;
    note.textContent = clear.hidden ? (store.model.variables.some(labels) ? "click to observe" : "mean ± standard deviation") : chance === undefined ? "given observations" : `given observations, p = ${general(chance, 3)}`;
    element.classList.toggle("stale", !store.fresh);
    if (focused) refocus(focused.variable, focused.value);
  }

  /** @param {string | null | undefined} variable @param {string | undefined} value */
  function refocus(variable, value) {
    for (const box of list.querySelectorAll("[data-variable]")) {
      if (box.getAttribute("data-variable") !== variable) continue;
      const rows = /** @type {NodeListOf<HTMLElement>} */ (box.querySelectorAll("button"));
      ([...rows].find((r) => r.dataset.value === value) ?? rows[0])?.focus();
    }
  }

  const element = h("details", { open: true, class: "section beliefs" }, h("summary", {}, h("h2", { text: "What to believe" }), note), clear, list);
  store.subscribe((change) => ["score", "document", "filter"].includes(change) && update());
  update();
  return element;
}

