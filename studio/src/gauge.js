// The certified inconsistency, where it stands on a scale, and the verdict.

import { fill, h, newId } from "./dom.js";
import { general, nats, number } from "./numbers.js";

/** @typedef {import("./store.js").Store} Store */

const PATIENCE = 2000; // milliseconds after which the computation can be cancelled
const LOW = -4; // the scale is logarithmic from 1e-4 to 10 nats
const HIGH = 1;

/** Where a number of nats is on the scale, from 0 to 1. @param {number} x */
export function along(x) {
  if (!(x > 10 ** LOW)) return 0;
  return x === Infinity ? 1 : Math.min(0.97, (0.97 * (Math.log10(x) - LOW)) / (HIGH - LOW));
}

/** @param {import("./types.js").Score} score what `dissonance score` says of the number */
export function certificate(score) {
  const [lower, upper] = [number(score.lower), number(score.upper)];
  const bounds = !Number.isFinite(upper) ? "" : lower === -Infinity ? "an upper bound only (the problem is not convex); " : `certified between ${general(lower, 9)} and ${general(upper, 9)}; `;
  return `${bounds}solver ${score.solver}, gamma ${general(number(score.gamma), 6)}, ${general(score.seconds, 3)} s`;
}

/** A bracket is never shown as a value. @param {import("./types.js").Score} score */
function between(score) {
  return `${nats(score.lower)} to ${nats(score.upper)}`;
}

/** @param {Store} store @param {() => void} onCancel */
export function gauge(store, onCancel) {
  const tipId = newId("bounds");
  const value = h("output", { class: "gauge-value", "data-testid": "inconsistency" });
  const unit = h("span", { class: "gauge-unit" });
  const state = h("span", { class: "gauge-state" });
  const cancel = h("button", { type: "button", class: "text-button", text: "Cancel", on: { click: onCancel } });
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  const tip = h("span", { class: "tip", role: "tooltip", id: tipId });
  const figure = h("div", { class: "gauge-figure", tabindex: "0", role: "group", "aria-label": "Inconsistency", "aria-describedby": tipId }, value, unit, tip);
  const needle = h("div", { class: "gauge-needle" });
  const before = h("div", { class: "gauge-before", title: "where it was when the model was opened" });
  const scale = h("div", { class: "gauge-scale", "aria-hidden": "true" }, h("div", { class: "gauge-track" }), before, needle);
  for (const [x, text] of /** @type {[number, string][]} */ ([[0, "0"], [0.001, "0.001"], [0.01, "0.01"], [0.1, "0.1"], [1, "1"], [Infinity, "∞"]])) {
    const tick = h("span", { class: "gauge-tick", text });
    tick.style.left = `${100 * along(x)}%`;
    scale.append(tick);
  }
  const verdict = h("p", { class: "verdict" });
  const live = h("div", { class: "visually-hidden", role: "status", "aria-live": "polite" });
  /** @type {number | null} */
  let first = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let saying;

  function update() {
    const { score, frame } = store;
    const fresh = frame !== null || store.fresh;
    element.classList.toggle("stale", !fresh && !store.error);
    element.classList.toggle("failed", Boolean(store.error));
    fill(state, store.error ? "" : frame ? `step ${frame.step}` : fresh ? "" : "computing… ");
    clearTimeout(waiting);
    if (!fresh && !store.error) waiting = setTimeout(() => state.append(cancel), PATIENCE);
    const shown = frame ? frame.global.value : score?.bracket ? score.upper : score?.inconsistency;
    value.textContent = shown === undefined ? "–" : frame || !score?.bracket ? nats(shown) : between(score);
    const finite = Number.isFinite(number(shown));
    unit.textContent = shown === undefined ? "" : finite ? `${score?.unit ?? "nats"} of inconsistency` : "inconsistency";
    const at = number(shown ?? 0);
    needle.style.left = `${100 * along(at)}%`;
    element.style.setProperty("--tension", String(along(at)));
    before.hidden = first === null || first === at;
    before.style.left = `${100 * along(first ?? 0)}%`;
    if (frame) tip.textContent = `certified between ${general(number(frame.global.lower), 9)} and ${general(number(frame.global.upper), 9)}`;
    else tip.textContent = score ? certificate(score) : "";
    const warned = score && !frame && !score.converged ? "NOT converged: the bounds are what is known. " : "";
    fill(verdict, store.error ? store.error : frame ? `After ${frame.step} step${frame.step === 1 ? "" : "s"} of the run below.` : `${warned}${score?.verdict ?? ""}`,
      !frame && score?.caution && !store.error && h("span", { class: "caution", text: ` ${score.caution}` }));
    verdict.setAttribute("role", store.error ? "alert" : "none");
  }

  function announce() {
    clearTimeout(saying);
    saying = setTimeout(() => {
      const { score } = store;
      if (store.fresh && score) live.textContent = `Inconsistency ${score.bracket ? between(score) : nats(score.inconsistency)} ${score.unit}. ${score.verdict}`;
    }, 600);
  }

  store.subscribe((change) => {
    if (change === "files") first = null;
    if (change === "score" && store.fresh && store.score) {
      first ??= number(store.score.bracket ? store.score.upper : store.score.inconsistency);
      announce();
    }
    if (change !== "scene" && change !== "selection") update();
  });
  const element = h("section", { class: "gauge", "aria-label": "Inconsistency and verdict" }, h("div", { class: "gauge-row" }, figure, scale, state), verdict, live);
  update();
  return element;
}
