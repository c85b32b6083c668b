// Elements made of data: text is always text, never markup.

/** @typedef {Node | string | number | null | undefined | false} Child */

/**
 * An element; `props` are attributes, except `on` (listeners), `text`, and true/false/null (present or not).
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, any>} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  setProps(element, props);
  element.append(...kept(children));
  return element;
}

/** @param {Element} element @param {Record<string, any>} props */
export function setProps(element, props) {
  for (const [name, value] of Object.entries(props)) {
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "text") element.textContent = value;
    else if (value === true) element.setAttribute(name, "");
    else if (value === false || value === null || value === undefined) element.removeAttribute(name);
    else element.setAttribute(name, String(value));
  }
}

/** @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
  element.replaceChildren(...kept(children));
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function kept(children) {
  return children.flat().filter((c) => c !== null && c !== undefined && c !== false).map((c) => (c instanceof Node ? c : String(c)));
}

const ICONS = {
  undo: "M9 7 4 12l5 5M4 12h10a6 6 0 0 1 6 6v1",
  redo: "m15 7 5 5-5 5M20 12H10a6 6 0 0 0-6 6v1",
  play: "M8 5.5v13l10.5-6.5z",
  pause: "M8 5.5v13M16 5.5v13",
  back: "M17 6.5v11L9 12zM6.5 6v12",
  forward: "M7 6.5v11l8-5.5zM17.5 6v12",
  close: "M6 6l12 12M18 6 6 18",
  plus: "M12 5v14M5 12h14",
  minus: "M5 12h14",
  fit: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  theme: "M12 4a8 8 0 1 0 0 16zM12 4a8 8 0 0 1 0 16",
  bin: "M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13",
  turn: "M5 9h9a5 5 0 0 1 5 5v5M8.5 5.5 5 9l3.5 3.5M15.5 15.5 19 19l3-3.5",
  tidy: "M4 6h6v4H4zM14 4h6v4h-6zM14 15h6v4h-6zM10 8h4M10 9l4 7",
};

/** A line drawing, hidden from screen readers. @param {keyof typeof ICONS} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  setProps(svg, { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true", focusable: "false" });
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/**
 * A button with an icon, a name for screen readers, and a tip.
 * @param {keyof typeof ICONS} name @param {string} label @param {(event: MouseEvent) => void} act @param {Record<string, any>} [props]
 */
export function iconButton(name, label, act, props = {}) {
  return h("button", { type: "button", class: "icon-button", "aria-label": label, title: label, on: { click: act }, ...props }, icon(name));
}

let ids = 0;
/** A new id, for labels. @param {string} [stem] */
export const newId = (stem = "ds") => `${stem}-${++ids}`;
