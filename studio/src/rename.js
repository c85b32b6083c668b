// A name that can be typed over.

import { h } from "./dom.js";

/**
 * @param {object} options
 * @param {string} options.label
 * @param {string} options.value
 * @param {() => string[]} options.taken
 * @param {(is: string) => void} options.onRename
 * @param {string} [options.class]
 */
export function renameField({ label, value, taken, onRename, class: look = "name-field" }) {
  const field = h("input", { type: "text", class: look, value, "aria-label": label, autocomplete: "off", spellcheck: "false" });
  const wrong = () => {
    const is = field.value.trim();
    return is === "" ? "A name is needed." : is !== value && taken().includes(is) ? `There is a ${JSON.stringify(is)} already.` : "";
  };
  field.addEventListener("input", () => {
    field.setCustomValidity(wrong());
    field.toggleAttribute("aria-invalid", Boolean(wrong()));
  });
  field.addEventListener("change", () => {
    const is = field.value.trim();
    if (wrong()) {
      field.reportValidity();
      field.value = value;
      field.setCustomValidity("");
      field.removeAttribute("aria-invalid");
    } else if (is !== value) onRename(is);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") field.blur();
    if (event.key === "Escape") {
      field.value = value;
      field.blur();
      event.stopPropagation();
    }
  });
  return field;
}
