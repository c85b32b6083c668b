// Dialogs that change the model: a new variable, a new belief, a table from a spreadsheet or from counts.

import { h, newId } from "./dom.js";
import { openDialog } from "./dialog.js";
import { arcOf, freshName, labels, rowsOf, settings, variableOf, withArc, withNewArc, withNewVariable } from "./model.js";
import { general } from "./numbers.js";

/** @typedef {import("./studio.js").Studio} Studio */

/** @param {Studio} studio */
export function newVariable(studio) {
  const { store } = studio;
  openDialog(studio.root, "Add a variable", (close) => {
    const names = store.model.variables.map((v) => v.name);
    const [nameId, valuesId] = [newId("name"), newId("values")];
    const name = h("input", { type: "text", id: nameId, value: freshName("Variable", names), class: "wide-field", autocomplete: "off" });
    const values = h("input", { type: "text", id: valuesId, value: "no, yes", class: "wide-field", autocomplete: "off" });
    const problem = h("p", { class: "problem", role: "alert" });
    const form = h("form", { class: "stack" }, h("label", { for: nameId, text: "Name" }), name, h("label", { for: valuesId, text: "Values, separated by commas" }), values, problem,
      h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary", text: "Add" })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const is = name.value.trim();
      const list = values.value.split(",").map((x) => x.trim()).filter(Boolean);
      problem.textContent = !is ? "A name is needed." : names.includes(is) ? `There is a ${JSON.stringify(is)} already.` : !list.length ? "At least one value is needed." : new Set(list).size < list.length ? "Two values are the same." : "";
      if (problem.textContent) return;
      store.edit("add variable", { model: withNewVariable(store.model, is, list) });
      close();
      store.select({ kind: "variable", name: is });
    });
    return [form];
  });
}

/** @param {Studio} studio @param {string[]} targets chosen beforehand */
export function newArc(studio, targets) {
  const { store } = studio;
  const finite = store.model.variables.filter((v) => labels(v));
  if (!finite.length) return studio.say("Add a variable first: a belief is about variables.", "error");
  openDialog(studio.root, "Add a belief", (close) => {
    const names = store.model.arcs.map((a) => a.name);
    const nameId = newId("name");
    const name = h("input", { type: "text", id: nameId, value: freshName("belief", names), class: "wide-field", autocomplete: "off", "data-first": true });
    const problem = h("p", { class: "problem", role: "alert" });
    const rows = finite.map((v) => {
      const choice = h("select", { class: "small", "aria-label": `The part of ${v.name}` }, h("option", { value: "", text: "not in it" }), h("option", { value: "source", text: "given (source)" }), h("option", { value: "target", text: "about (target)" }));
      if (targets.includes(v.name)) choice.value = "target";
      return { v, choice, node: h("li", {}, h("span", { text: v.name }), choice) };
    });
    const form = h("form", { class: "stack" }, h("label", { for: nameId, text: "Name: who says it" }), name, h("ul", { class: "role-list" }, rows.map((r) => r.node)), problem,
      h("p", { class: "hint", text: "It begins with an even table, which you edit in its panel." }), h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary", text: "Add" })));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const part = (/** @type {string} */ role) => rows.filter((r) => r.choice.value === role).map((r) => r.v.name);
      const is = name.value.trim();
      const cells = rows.filter((r) => r.choice.value).reduce((n, r) => n * (labels(r.v) ?? []).length, 1);
      problem.textContent = !is ? "A name is needed." : names.includes(is) ? `There is a ${JSON.stringify(is)} already.` : !part("target").length ? "Choose at least one variable that it is about." : cells > 100_000 ? `Its table would have ${cells} cells.` : "";
      if (problem.textContent) return;
      store.edit("add arc", { model: withNewArc(store.model, is, part("source"), part("target")) });
      close();
      store.select({ kind: "arc", name: is });
    });
    return [form];
  });
}

/** A table typed or pasted whole: probabilities, or counts of what was seen. @param {Studio} studio @param {string} name @param {string} [pasted] */
export function pasteTable(studio, name, pasted) {
  const { store } = studio;
  const arc = arcOf(store.model, name);
  if (!arc) return;
  const heading = ["", ...settings(store.model, arc.targets).map((s) => s.join(", "))].join("\t");
  const givens = settings(store.model, arc.sources ?? []).map((s) => s.join(", "));
  const now = rowsOf(store.model, arc).map((row, i) => [givens[i], ...row.map((p) => general(p, 12))].join("\t"));
  openDialog(studio.root, `The table of ${name}`, (close) => {
    const [id, kindId, trustId] = [newId("paste"), newId("kind"), newId("trust")];
    const area = h("textarea", { id, rows: Math.min(14, givens.length + 2), class: "wide-field mono", spellcheck: "false", wrap: "off" });
    area.value = pasted ?? [heading, ...now].join("\n");
    const trust = h("input", { type: "checkbox", id: trustId, checked: true });
    const kind = h("select", { class: "small", id: kindId }, h("option", { value: "", text: "what they look like" }), h("option", { value: "counts", text: "counts" }), h("option", { value: "shares", text: "probabilities or percentages" }));
    const problem = h("p", { class: "problem", role: "alert" });
    const form = h("form", { class: "stack" },
      h("label", { for: id, text: "Paste from a spreadsheet or type: probabilities or counts, with or without headings." }), area,
      h("div", { class: "check-row" }, h("label", { for: kindId, text: "They are" }), kind),
      h("div", { class: "check-row" }, trust, h("label", { for: trustId, text: "If they are counts, believe them as much as there are: β = how many" })),
      problem, h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary", text: "Use it" })));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      try {
        const made = await studio.transport.call("counts", { model: store.model, arc: name, text: area.value, ...(kind.value && { counts: kind.value === "counts" }) });
        store.edit("paste table", { model: withArc(store.model, name, { table: made.table, ...(made.counts && trust.checked && { beta: made.confidence }) }) });
        close();
      } catch (error) {
        problem.textContent = /** @type {Error} */ (error).message;
      }
    });
    return [form];
  });
}

/** The names of the variables of an observation that can stay. @param {Studio} studio @param {string} gone */
export function evidenceWithout(studio, gone) {
  return Object.fromEntries(Object.entries(studio.store.document.evidence).filter(([n]) => n !== gone && variableOf(studio.store.model, n)));
}
