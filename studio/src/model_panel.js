// The whole model: the weight of structure, and what can be added.

import { h } from "./dom.js";
import { number } from "./numbers.js";
import { weightSlider } from "./slider.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store @param {import("./studio.js").Studio} studio */
export function modelPanel(store, studio) {
  const gamma = weightSlider({ label: "γ structure", hint: "the weight of independence", fact: false, onInput: (x) => store.edit("gamma", { model: { ...store.model, gamma: x } }) });
  const size = h("p", { class: "quiet" });
  const evidence = h("p", { class: "quiet" });

  function update() {
    const { variables, arcs } = store.model;
    gamma.show(number(store.model.gamma ?? 0));
    const count = (/** @type {number} */ n, /** @type {string} */ word) => `${n} ${word}${n === 1 ? "" : "s"}`;
    size.textContent = `${count(variables.length, "variable")}, ${count(arcs.length, "belief")}.`;
    const seen = Object.entries(store.document.evidence).map(([n, o]) => `${n}=${o.value}`);
    evidence.textContent = seen.length ? `Observed: ${seen.join(", ")}.` : "";
  }

  const element = h("div", { class: "panel" },
    h("header", { class: "panel-head" }, h("h2", { class: "panel-title", text: "Model" })),
    size, evidence, gamma.element,
    h("div", { class: "button-row" },
      h("button", { type: "button", class: "button", text: "Add a variable", on: { click: () => studio.addVariable() } }),
      h("button", { type: "button", class: "button", text: "Add a belief", on: { click: () => studio.addArc([]) } })),
    h("p", { class: "hint", text: "Choose a belief or a variable, in the picture or in the list, to see and change it. Drag boxes to arrange them." }));
  update();
  return { element, update };
}
