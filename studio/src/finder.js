// Finding beliefs and variables by name, in models with many.

import { h } from "./dom.js";

const FEW = 12;

/** @param {import("./store.js").Store} store */
export function finder(store) {
  const field = h("input", { type: "search", class: "wide-field", placeholder: "Find a belief or a variable", "aria-label": "Find a belief or a variable", autocomplete: "off", spellcheck: "false" });
  field.addEventListener("input", () => {
    store.filter = field.value.trim().toLowerCase();
    store.changed("filter");
  });
  const element = h("div", { class: "finder", role: "search" }, field);
  const update = () => {
    element.hidden = Math.max(store.model.arcs.length, store.model.variables.length) <= FEW;
    field.value = store.filter && field.value;
  };
  store.subscribe((change) => change === "document" && update());
  update();
  return element;
}
