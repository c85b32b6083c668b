// Opening, saving, sharing: every format the library reads and writes.

import { fill, h, newId } from "./dom.js";
import { openDialog } from "./dialog.js";

/** @typedef {import("./studio.js").Studio} Studio */

/** @param {Studio} studio */
export function openFiles(studio) {
  openDialog(studio.root, "Open", (close) => {
    const body = h("div", { class: "stack loose" });
    const show = (/** @type {import("./types.js").Hello} */ hello) => fill(body, choices(studio, hello, close));
    show(studio.welcome);
    studio.hello().then(show).catch((error) => studio.say(error.message, "error"));
    return [body];
  });
}

/** What there is to open. @param {Studio} studio @param {import("./types.js").Hello} hello @param {() => void} close */
function choices(studio, hello, close) {
  const input = h("input", { type: "file", class: "visually-hidden", "aria-label": "A file of this computer", tabindex: "-1" });
  input.addEventListener("change", () => {
    close();
    if (input.files?.[0]) void studio.openFile(input.files[0]);
  });
  const from = (/** @type {object} */ params) => () => {
    close();
    void studio.open(params);
  };
  /** @param {string} title @param {{label: string, hint?: string, params: object}[]} rows @param {string} [none] */
  const section = (title, rows, none = "") => (rows.length || none) && h("section", {}, h("h3", { text: title }),
    rows.length ? h("ul", { class: "file-list" }, rows.map((r) => h("li", {}, h("button", { type: "button", on: { click: from(r.params) } }, h("span", { text: r.label }), h("span", { class: "quiet", text: r.hint ?? "" }))))) : h("p", { class: "quiet", text: none }));
  return [
    section(`In ${hello.folder}`, hello.files.map((f) => ({ label: f, params: { file: f } })), "No file here that can be read."),
    section("Examples", hello.examples.map((e) => ({ label: e.name, hint: e.title, params: { example: e.name } }))),
    section("Published networks on this machine", (hello.networks ?? []).map((n) => ({ label: n.name, hint: n.title, params: { example: n.name } }))),
    h("section", { class: "button-row" }, input, h("button", { type: "button", class: "button", text: "From this computer…", on: { click: () => input.click() } }),
      h("button", { type: "button", class: "button", text: "An empty model", on: { click: () => { close(); studio.newModel(); } } })),
    h("p", { class: "hint", text: "Or drop a file on the page." }),
  ];
}

/** @param {Studio} studio */
export function saveFile(studio) {
  const id = newId("save");
  const proposed = /\.[a-z]+$/i.test(studio.store.document.name) ? studio.store.document.name.replace(/\.gz$/, "") : `${studio.store.document.name}.json`;
  openDialog(studio.root, "Save", (close) => {
    const field = h("input", { type: "text", id, value: proposed, class: "wide-field", autocomplete: "off", spellcheck: "false", "data-first": true });
    const problem = h("p", { class: "problem", role: "alert" });
    const replace = h("button", { type: "button", class: "button", text: "Replace it", hidden: true, on: { click: () => attempt(true) } });
    /** @param {boolean} overwrite */
    async function attempt(overwrite) {
      try {
        const { file, view } = await studio.transport.call("save", { document: studio.store.document, file: field.value.trim(), overwrite });
        studio.savedAs(file, view);
        close();
      } catch (error) {
        problem.textContent = /** @type {Error} */ (error).message;
        replace.hidden = !/already/.test(problem.textContent);
      }
    }
    const form = h("form", { class: "stack" }, h("label", { for: id, text: "File name, in the folder where the studio was started" }), field, problem,
      h("div", { class: "button-row" }, h("button", { type: "submit", class: "button primary", text: "Save" }), replace));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void attempt(false);
    });
    field.addEventListener("input", () => {
      problem.textContent = "";
      replace.hidden = true;
    });
    return [form];
  });
}

/** Offers what the library made as a download. @param {{filename: string, text?: string, base64?: string}} made */
export function download(made) {
  const bytes = made.base64 === undefined ? new TextEncoder().encode(made.text ?? "") : Uint8Array.from(atob(made.base64), (c) => c.charCodeAt(0));
  const address = URL.createObjectURL(new Blob([bytes]));
  const link = h("a", { href: address, download: made.filename });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A dropped or chosen file as the parameters of `open`. @param {File} file */
export async function fileParams(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return { filename: file.name, base64: btoa(text) };
}

/** Opens what is dropped anywhere on the page. @param {Studio} studio */
export function acceptDrops(studio) {
  const { root } = studio;
  const over = (/** @type {DragEvent} */ event) => {
    if (!event.dataTransfer?.types.includes("Files")) return;
    event.preventDefault();
    root.classList.add("dropping");
  };
  root.addEventListener("dragenter", over);
  root.addEventListener("dragover", over);
  root.addEventListener("dragleave", (event) => root.contains(/** @type {Node} */ (event.relatedTarget)) || root.classList.remove("dropping"));
  root.addEventListener("drop", (event) => {
    root.classList.remove("dropping");
    const file = event.dataTransfer?.files[0];
    if (!file) return;
    event.preventDefault();
    void studio.openFile(file);
  });
}
