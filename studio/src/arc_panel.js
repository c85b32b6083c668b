// One belief: how much it is trusted, whether it may move, and its table.

import { fill, h, iconButton, newId } from "./dom.js";
import { arcOf, belief, hasTable, withArc, withoutArc } from "./model.js";
import { nats, number, weight } from "./numbers.js";
import { weightSlider } from "./slider.js";
import { tableEditor } from "./table.js";
import { renameField } from "./rename.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store @param {string} name @param {import("./studio.js").Studio} studio */
export function arcPanel(store, name, studio) {
  const arc = () => arcOf(store.model, name);
  /** @param {string} kind @param {Partial<import("./types.js").Arc>} changes */
  const edit = (kind, changes) => store.edit(`${kind} ${name}`, { model: withArc(store.model, name, changes) });

  const beta = weightSlider({ label: "β confidence", hint: "how much it is believed", fact: true, negative: true, onInput: (x) => edit("beta", { beta: weight(x) }) });
  const alpha = weightSlider({ label: "α mechanism", hint: "counts when γ > 0", fact: false, negative: true, onInput: (x) => edit("alpha", { alpha: x }) });
  const control = weightSlider({ label: "χ control", hint: "how freely it may move", fact: true, end: "free", onInput: (x) => edit("control", { control: weight(x) }) });
  const ignoreId = newId("ignore");
  const ignore = h("input", { type: "checkbox", id: ignoreId, class: "switch", role: "switch", on: { change: () => setIgnored(ignore.checked) } });
  const without = h("span", { class: "hint" });
  const cost = h("dl", { class: "facts" });
  const table = tableEditor(store, name, studio);
  const head = renameField({ label: "Name of the arc", value: name, taken: () => store.model.arcs.map((a) => a.name), onRename: (is) => studio.renameArc(name, is) });

  /** @param {boolean} on */
  function setIgnored(on) {
    const now = arc();
    if (!now) return;
    if (on) {
      store.ignored.set(name, { alpha: now.alpha, beta: now.beta });
      edit("ignore", { alpha: 0, beta: 0 });
    } else {
      edit("ignore", store.ignored.get(name) ?? { alpha: undefined, beta: undefined });
      store.ignored.delete(name);
    }
  }

  function update() {
    const now = arc();
    if (!now) return;
    beta.show(number(now.beta ?? 1));
    alpha.show(number(now.alpha ?? 1));
    control.show(number(now.control ?? 0));
    ignore.checked = number(now.beta ?? 1) === 0;
    const row = store.score?.arcs.find((r) => r.name === name);
    without.textContent = ignore.checked ? "" : row && row.saved_if_dropped !== null ? `saves ${nats(row.saved_if_dropped, 4)} nats` : "";
    fill(cost, row ? [["contribution", row.contribution], ["divergence", row.divergence], ["saved if dropped", row.saved_if_dropped]].map(([term, x]) => h("div", {}, h("dt", { text: String(term) }), h("dd", { text: nats(/** @type {any} */ (x), 4) }))) : []);
    cost.classList.toggle("stale", !store.fresh);
    table.update();
  }

  const now = arc();
  const element = h("div", { class: "panel" },
    h("header", { class: "panel-head" }, head, iconButton("bin", "Remove this arc", () => store.edit("remove arc", { model: withoutArc(store.model, name) })), iconButton("close", "Close the panel (Esc)", () => store.select(null))),
    h("p", { class: "panel-belief", text: now ? belief(now) : "" }),
    cost,
    beta.element,
    h("div", { class: "switch-row" }, ignore, h("label", { for: ignoreId, text: "Ignore this source" }), without),
    alpha.element, control.element,
    now && hasTable(now) ? table.element : h("p", { class: "quiet", text: now?.linear_gaussian ? "A linear Gaussian: its numbers are edited in the file." : "A factor: its numbers are edited in the file." }));
  update();
  return { element, update };
}
