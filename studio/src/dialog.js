// Dialogs, menus and passing messages.

import { fill, h, iconButton, newId } from "./dom.js";

/**
 * A modal dialog that is gone when it is closed.
 * @param {HTMLElement} root @param {string} title @param {(close: () => void) => import("./dom.js").Child[]} content
 */
export function openDialog(root, title, content) {
  const id = newId("dialog");
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": id });
  const close = () => dialog.close();
  dialog.append(h("header", { class: "dialog-head" }, h("h2", { id, text: title }), iconButton("close", "Close (Esc)", close)));
  const body = h("div", { class: "dialog-body" });
  fill(body, content(close));
  dialog.append(body);
  dialog.addEventListener("click", (event) => event.target === dialog && close());
  dialog.addEventListener("close", () => dialog.remove());
  root.append(dialog);
  dialog.showModal();
  /** @type {HTMLElement | null} */ (body.querySelector("[data-first], input, textarea, button"))?.focus();
  return dialog;
}

/** @typedef {{label: string, hint?: string, act: () => void}} Item */

/** A button that opens a menu. @param {string} label @param {Item[]} items */
export function menuButton(label, items) {
  const id = newId("menu");
  const menu = h("div", { class: "menu", role: "menu", id, hidden: true, "aria-label": label });
  const button = h("button", { type: "button", class: "button", "aria-haspopup": "menu", "aria-expanded": "false", "aria-controls": id }, label, h("span", { class: "caret", "aria-hidden": "true", text: "▾" }));
  /** @param {boolean} open */
  function show(open) {
    menu.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) /** @type {HTMLElement} */ (menu.firstElementChild).focus();
  }
  for (const item of items) {
    const choose = () => {
      show(false);
      button.focus();
      item.act();
    };
    menu.append(h("button", { type: "button", role: "menuitem", tabindex: "-1", on: { click: choose } }, h("span", { text: item.label }), item.hint ? h("span", { class: "quiet", text: item.hint }) : null));
  }
  button.addEventListener("click", () => show(menu.hidden));
  const wrap = h("div", { class: "menu-wrap" }, button, menu);
  wrap.addEventListener("keydown", (event) => {
    const rows = /** @type {HTMLElement[]} */ ([...menu.children]);
    const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "Escape" && !menu.hidden) {
      show(false);
      button.focus();
      event.stopPropagation();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (menu.hidden) show(true);
      else rows[(at + (event.key === "ArrowDown" ? 1 : rows.length - 1)) % rows.length].focus();
    }
  });
  wrap.addEventListener("focusout", (event) => wrap.contains(/** @type {Node} */ (event.relatedTarget)) || show(false));
  return wrap;
}

/** A place for messages that pass; errors stay until they are closed. */
export function messages() {
  const element = h("div", { class: "messages", role: "status", "aria-live": "polite" });
  /** @param {string} text @param {"note" | "error"} [kind] @param {Item[]} [items] */
  function say(text, kind = "note", items = []) {
    const message = h("div", { class: `message ${kind}` }, h("span", { text }));
    for (const item of items) {
      message.append(h("button", { type: "button", class: "button small", text: item.label, on: { click: () => { message.remove(); item.act(); } } }));
    }
    message.append(iconButton("close", "Close this message", () => message.remove()));
    element.append(message);
    if (kind === "note" && !items.length) setTimeout(() => message.remove(), 4000);
    while (element.children.length > 4) element.firstElementChild?.remove();
  }
  return { element, say };
}
