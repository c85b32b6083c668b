// The keys.

import { openDialog } from "./dialog.js";
import { h } from "./dom.js";

const KEYS = [
  ["Ctrl Z", "undo"], ["Ctrl Shift Z", "redo"], ["Ctrl O", "open"], ["Ctrl S", "save"],
  ["Esc", "close the panel"], ["0", "fit the picture"], ["T", "light or dark"],
  ["J  K  L", "a step back, play or pause, a step on"],
  ["Arrows", "in the picture: to the next box or arc; on a slider: change it"],
  ["Enter", "in the picture: select"], ["Alt Arrows", "in the picture: move the box"],
  ["Shift Arrows", "on a bar of a table: steps of 0.1"], ["?", "these keys"],
];

/** @param {HTMLElement} root @param {string} version */
export function openHelp(root, version) {
  openDialog(root, "Keys", () => [
    h("dl", { class: "keys" }, KEYS.flatMap(([keys, what]) => [h("dt", {}, keys.split(/ +/).map((k) => h("kbd", { text: k }))), h("dd", { text: what })])),
    h("p", { class: "quiet", text: `dissonance ${version}. Everything is computed on this machine; nothing leaves it.` }),
  ]);
}
