// A slider for a weight: logarithmic, with 0 at one end and, where that has a meaning, infinity at the other; a box for any number.

import { h, newId } from "./dom.js";
import { general, parsed, shortest } from "./numbers.js";

const LAST = 200;
const DECADES = 4; // from 0.01 to 100

/** The weight at a place of the slider. @param {number} place @param {boolean} fact */
export function weightAt(place, fact) {
  if (place <= 0) return 0;
  if (fact && place >= LAST) return Infinity;
  return Number(general(10 ** (DECADES * ((Math.min(place, LAST - 1) - 1) / (LAST - 2)) - DECADES / 2), 2));
}

/** The place of a weight on the slider. @param {number} weight */
export function placeOf(weight) {
  if (!(weight > 0)) return 0;
  if (weight === Infinity) return LAST;
  const place = 1 + ((Math.log10(weight) + DECADES / 2) / DECADES) * (LAST - 2);
  return Math.round(Math.min(LAST - 1, Math.max(1, place)));
}

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string} options.hint what it means
 * @param {boolean} options.fact whether it may be infinite
 * @param {boolean} [options.negative] whether it may be below 0
 * @param {string} [options.end] what infinity is called
 * @param {(value: number) => void} options.onInput
 */
export function weightSlider({ label, hint, fact, negative = false, end = "fact", onInput }) {
  const id = newId("weight");
  const range = h("input", { type: "range", min: 0, max: LAST, step: 1, id, class: "log-range", "aria-describedby": `${id}-hint` });
  const box = h("input", { type: "text", inputmode: "decimal", class: "number-box", "aria-label": `${label}, as a number`, autocomplete: "off", spellcheck: "false" });
  const ticks = h("div", { class: "ticks", "aria-hidden": "true" });
  for (const [weight, text] of /** @type {[number, string][]} */ ([[0, "0"], [0.1, "0.1"], [1, "1"], [10, "10"], [fact ? Infinity : 100, fact ? end : "100"]])) {
    const tick = h("span", { text });
    tick.style.left = `${(100 * placeOf(weight)) / LAST}%`;
    ticks.append(tick);
  }
  let shown = NaN;

  /** @param {number} value */
  function show(value) {
    shown = value;
    range.value = String(placeOf(value));
    range.style.setProperty("--filled", `${(100 * placeOf(value)) / LAST}%`);
    range.setAttribute("aria-valuetext", value === Infinity ? `infinite: a ${end}` : String(value));
    if (document.activeElement !== box) box.value = shortest(value === Infinity ? "inf" : value);
    box.removeAttribute("aria-invalid");
  }

  range.addEventListener("input", () => {
    const value = weightAt(Number(range.value), fact);
    show(value);
    onInput(value);
  });
  const typed = () => {
    const value = parsed(box.value);
    if (value === null || (value < 0 && !negative) || (value === Infinity && !fact)) return box.setAttribute("aria-invalid", "true");
    if (value !== shown) {
      show(value);
      onInput(value);
    }
  };
  box.addEventListener("input", typed);
  box.addEventListener("blur", () => show(shown));
  box.addEventListener("keydown", (event) => event.key === "Enter" && box.blur());

  const element = h("div", { class: "weight" },
    h("div", { class: "weight-head" }, h("label", { for: id, text: label }), h("span", { class: "hint", id: `${id}-hint`, text: hint }), box),
    range, ticks);
  return { element, show, range, box };
}
