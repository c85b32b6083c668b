// One variable: its name and values, what was observed of it, and the beliefs about it.

import { fill, h, iconButton } from "./dom.js";
import { belief, freshName, labels, scope, variableOf, withoutVariable, withValue } from "./model.js";
import { number, weight } from "./numbers.js";
import { renameField } from "./rename.js";
import { weightSlider } from "./slider.js";
import { moments, valueBars } from "./variables.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store @param {string} name @param {import("./studio.js").Studio} studio */
export function variablePanel(store, name, studio) {
  const values = h("div", { class: "value-bars" });
  const confidence = weightSlider({ label: "Confidence", hint: "odds × e^confidence", fact: true, end: "certain", onInput: (x) => {
    const seen = store.document.evidence[name];
    if (seen) store.edit(`confidence ${name}`, { evidence: { ...store.document.evidence, [name]: { ...seen, confidence: weight(x) } } });
  } });
  const observed = h("div", { class: "observed-block" });
  const names = h("ul", { class: "name-list" });
  const arcs = h("ul", { class: "plain-list" });
  const head = renameField({ label: "Name of the variable", value: name, taken: () => store.model.variables.map((v) => v.name), onRename: (is) => studio.renameVariable(name, is) });
  let listed = "";

  function update() {
    const v = variableOf(store.model, name);
    if (!v) return;
    const all = labels(v);
    const focused = values.contains(document.activeElement) ? /** @type {HTMLElement} */ (document.activeElement).dataset.value : undefined;
    fill(values, all ? valueBars(store, v) : moments(store.score?.marginals?.[name]));
    if (focused !== undefined) /** @type {HTMLElement | undefined} */ ([...values.querySelectorAll("button")].find((b) => b.dataset.value === focused))?.focus();
    values.classList.toggle("stale", !store.fresh);
    const seen = store.document.evidence[name];
    if (seen) confidence.show(number(seen.confidence));
    if (Boolean(seen) !== observed.hasChildNodes()) fill(observed, seen && confidence.element);
    const now = JSON.stringify([all, store.model.arcs.map((a) => [a.name, scope(a)])]);
    if (now === listed) return;
    listed = now;
    fill(names, (all ?? []).map((x, i) => h("li", {}, renameField({ label: `Value ${i + 1}`, value: x, taken: () => labels(variableOf(store.model, name) ?? v) ?? [], onRename: (is) => studio.relabel(name, i, is), class: "value-field" }),
      iconButton("close", `Remove the value ${x}`, () => studio.removeValue(name, i), { disabled: (all ?? []).length < 2 }))));
    fill(arcs, store.model.arcs.filter((a) => scope(a).includes(name)).map((a) => h("li", {}, h("button", { type: "button", class: "link-row", on: { click: () => store.select({ kind: "arc", name: a.name }) } }, h("b", { text: a.name }), h("span", { class: "quiet", text: belief(a) })))));
  }

  const v = variableOf(store.model, name);
  const addValue = () => {
    const taken = labels(variableOf(store.model, name) ?? { name, values: [] }) ?? [];
    store.edit("add value", { model: withValue(store.model, name, freshName(`value ${taken.length + 1}`, taken)) });
    /** @type {HTMLInputElement | null} */ (names.querySelector("li:last-child input"))?.select();
  };
  const element = h("div", { class: "panel" },
    h("header", { class: "panel-head" }, head, iconButton("bin", "Remove this variable and the arcs about it", () => store.edit("remove variable", { model: withoutVariable(store.model, name), evidence: studio.evidenceWithout(name) })), iconButton("close", "Close the panel (Esc)", () => store.select(null))),
    h("h3", { text: "Probabilities" }), h("p", { class: "hint", text: v && labels(v) ? "Under the best compromise. Click a value to observe it." : "Mean and standard deviation under the best compromise." }), values, observed,
    v && labels(v) && [h("h3", { text: "Values" }), names, h("button", { type: "button", class: "text-button", text: "Add a value", on: { click: addValue } })],
    h("h3", { text: "Beliefs about it" }), arcs,
    v && labels(v) && h("button", { type: "button", class: "text-button", text: "Add a belief about it…", on: { click: () => studio.addArc([name]) } }));
  update();
  return { element, update };
}

