// The studio: what the views show, what the library is asked, and what the keys do.

import { arcPanel } from "./arc_panel.js";
import { blameList } from "./blame.js";
import { menuButton, messages } from "./dialog.js";
import { fill, h, iconButton } from "./dom.js";
import { evidenceWithout, newArc, newVariable, pasteTable } from "./edits.js";
import { acceptDrops, download, fileParams, openFiles, saveFile } from "./files.js";
import { finder } from "./finder.js";
import { gauge } from "./gauge.js";
import { graph } from "./graph.js";
import { openHelp } from "./help.js";
import { latest, whenQuiet } from "./latest.js";
import { relabelled, renamedVariable, structure, variableOf, labels, withArc, withoutValue } from "./model.js";
import { modelPanel } from "./model_panel.js";
import { player } from "./player.js";
import { arcColours } from "./scene.js";
import { Store } from "./store.js";
import { theme } from "./theme.js";
import { variablePanel } from "./variable_panel.js";
import { variableList } from "./variables.js";

/** @typedef {import("./types.js").Document} Document */
/** @typedef {import("./types.js").Transport} Transport */
/** @typedef {Record<string, [number, number]>} Positions */

const STACKED = "(max-width: 680px)"; // where the panel is below the picture, not beside it
const NARROW = 420; // the width that the picture keeps to there, if it can
const COLOURLESS_AFTER = 1200; // milliseconds that the picture of a new structure waits for its colours
const KEPT_AFTER = 500; // milliseconds after an edit, unsaved work is kept by the server

/** @returns {Document} */
const emptyDocument = () => ({ name: "untitled", model: { format: "dissonance.pdg", version: 1, variables: [], arcs: [] }, positions: {}, evidence: {} });

export class Studio {
  /**
   * @param {HTMLElement} root @param {Transport} transport @param {import("./types.js").Hello} hello
   * @param {{tab?: string, embedded?: boolean, document?: Document, onEdit?: (document: Document) => void}} [options]
   */
  constructor(root, transport, hello, options = {}) {
    this.root = root;
    this.transport = transport;
    this.welcome = hello;
    this.options = options;
    this.store = new Store(options.document ?? emptyDocument());
    this.messages = messages();
    /** @type {Positions | null} where boxes are while one is dragged */
    this.dragged = null;
    /** the structure and the positions that the picture was asked for */
    this.laidOut = "";
    this.placed = "{}";
    /** what the panel is of */
    this.shape = "";
    this.chosen = "";
    /** @type {{element: HTMLElement, update: () => void} | null} */
    this.panel = null;
    this.refit = false;
    /** @type {"right" | "down" | null} which way a person wants arcs to run */
    this.direction = null;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.pictureTimer = undefined;
    this.askScore = latest(
      (/** @type {Document} */ d, signal) => this.#answer(d, signal),
      (score, document) => this.#scored(score, document),
      (error, document) => this.#failed(error, document));
    this.askLayout = latest(
      (/** @type {Record<string, any>} */ question) => transport.call("layout", question),
      (scene, question, last) => this.#pictured(scene, "blame" in question, last),
      (error) => {
        this.graph?.element.classList.remove("waiting");
        this.say(error.message, "error");
      });
    this.keepSoon = whenQuiet(() => this.#keep(), KEPT_AFTER);
    this.#build();
    this.store.subscribe((change) => this.#on(change));
  }

  /** @param {string} text @param {"note" | "error"} [kind] @param {import("./dialog.js").Item[]} [items] */
  say(text, kind, items) {
    this.messages.say(text, kind, items);
  }

  #build() {
    const { store, root } = this;
    const choose = (/** @type {import("./types.js").Selection | null} */ s) => store.select(s);
    this.graph = graph(store, {
      onDrag: (positions) => { this.dragged = positions; this.#layout(); },
      onDrop: (positions) => { this.dragged = null; store.edit("move", { positions }); },
      onTidy: () => this.#tidy(),
      onTurn: () => { this.direction = this.#runsDown() ? "right" : "down"; this.#tidy(); },
      choose,
    });
    this.player = player(store, this, this.welcome);
    this.side = h("aside", { class: "side", "aria-label": "What is selected" });
    this.title = h("span", { class: "file-name" });
    this.undoButton = iconButton("undo", "Undo (Ctrl Z)", () => store.undo());
    this.redoButton = iconButton("redo", "Redo (Ctrl Shift Z)", () => store.redo());
    const exports = [["svg", "Picture, SVG"], ["png", "Picture, PNG"], ["html", "Report, HTML"], ["md", "Report, Markdown"], ["python", "Python script"], ["json", "Model, JSON"]];
    const { embedded } = this.options; // a part of somebody else's page has no landmarks and headings of a page
    const header = h(embedded ? "div" : "header", { class: "bar" },
      h(embedded ? "p" : "h1", { class: "brand" }, h("span", { class: "brand-mark", "aria-hidden": "true" }), h("span", { text: "dissonance" })), this.title, h("span", { class: "spacer" }),
      h("div", { class: "bar-group" }, this.undoButton, this.redoButton),
      h("div", { class: "bar-group" },
        h("button", { type: "button", class: "button", text: "Open", on: { click: () => openFiles(this) } }),
        h("button", { type: "button", class: "button", text: "Save", on: { click: () => saveFile(this) } }),
        menuButton("Share", [{ label: "Copy as Python", act: () => void this.copyPython() }, ...exports.map(([kind, label]) => ({ label, act: () => void this.share(kind) }))])),
      h("div", { class: "bar-group" }, iconButton("theme", "Light or dark (T)", () => this.theme?.toggle()),
        h("button", { type: "button", class: "icon-button", "aria-label": "Keys (?)", title: "Keys (?)", text: "?", on: { click: () => openHelp(root, this.welcome.version) } })));
    const left = h("nav", { class: "left", "aria-label": "Blame and beliefs" }, finder(store), blameList(store, choose), variableList(store, choose));
    const middle = h(embedded ? "section" : "main", { class: "middle", "aria-label": "Inconsistency and picture" }, gauge(store, () => this.askScore.stop()), this.graph.element, this.messages.element);
    fill(root, header, left, middle, this.side, this.player.element, h("div", { class: "drop-hint", "aria-hidden": "true", text: "Drop a model to open it" }));
    this.theme = theme(root, () => this.#recolour());
    (this.options.embedded ? root : document).addEventListener("keydown", (event) => this.#key(/** @type {KeyboardEvent} */ (event)));
    acceptDrops(this);
    this.#panel();
    this.#head();
  }

  /** Asks for everything that the first view needs. */
  start() {
    this.#on("document");
  }

  /** @param {import("./store.js").Change} change */
  #on(change) {
    if (change === "document") {
      this.#head();
      this.#panel();
      this.askScore(this.store.document);
      if (JSON.stringify(this.store.document.positions) !== this.placed) this.#layout();
      else if (structure(this.store.model) !== this.laidOut) this.#layoutSoon();
      if (this.store.dirty) this.keepSoon();
      this.options.onEdit?.(this.store.document);
    }
    if (change === "score" || change === "frame") this.#layout();
    if (change === "selection") {
      this.#panel();
      if (this.store.selection && matchMedia(STACKED).matches) this.side?.scrollIntoView({ block: "start" });
    }
    if (change === "score" || change === "frame") this.panel?.update();
    if (change === "files") this.#head();
  }

  #head() {
    const { store } = this;
    fill(this.title ?? this.root, h("span", { text: store.document.name }), store.dirty && h("span", { class: "dirty", title: "not saved", text: "edited" }));
    this.undoButton?.toggleAttribute("disabled", store.past.length === 0);
    this.redoButton?.toggleAttribute("disabled", store.future.length === 0);
    if (!this.options.embedded) document.title = `${store.document.name} · dissonance studio`;
  }

  /** The panel of what is selected: made again when that or the shape of the model changes, else brought up to date. */
  #panel() {
    const { store } = this;
    const now = JSON.stringify([store.selection, structure(store.model)]);
    if (now === this.shape) return this.panel?.update();
    const same = JSON.stringify(store.selection) === this.chosen;
    this.shape = now;
    this.chosen = JSON.stringify(store.selection);
    if (store.selection?.kind === "variable" && same && this.panel) return this.panel.update();
    const { selection } = store;
    this.panel = !selection ? modelPanel(store, this) : selection.kind === "arc" ? arcPanel(store, selection.name, this) : variablePanel(store, selection.name, this);
    fill(this.side ?? this.root, this.panel.element);
    if (this.side) this.side.scrollTop = 0;
  }

  /** A picture without colours if the score, which colours it, takes long. */
  #layoutSoon() {
    clearTimeout(this.pictureTimer);
    this.graph?.element.classList.add("waiting");
    this.pictureTimer = setTimeout(() => this.#layout(), COLOURLESS_AFTER);
  }

  /** Which way arcs run now: on a narrow page downwards if that is narrower. */
  #runsDown() {
    const [, , wide, high] = this.store.scene?.bounds ?? [0, 0, 1, 0];
    return this.direction === "down" || (!this.direction && matchMedia(STACKED).matches && high > wide);
  }

  /** Boxes stand where the library puts them again. */
  #tidy() {
    this.refit = true;
    this.placed = "";
    this.store.edit("tidy", { positions: {} });
  }

  #layout() {
    const { store } = this;
    clearTimeout(this.pictureTimer);
    const { frame, score } = store;
    const now = structure(store.model);
    const names = new Set(store.model.arcs.map((a) => a.name));
    const blame = frame || !score ? null : Object.fromEntries(score.arcs.filter((r) => names.has(r.name)).map((r) => [r.name, r.contribution]));
    this.laidOut = now;
    this.placed = JSON.stringify(store.document.positions);
    this.graph?.element.classList.add("waiting");
    this.askLayout({
      model: frame?.model ?? (frame?.tables ? this.#moved(frame.tables) : store.model),
      positions: this.dragged ?? store.document.positions,
      ...(this.direction ? { direction: this.direction } : matchMedia(STACKED).matches && { width: NARROW }),
      ...(blame && { blame }),
      ...(frame && Object.keys(frame.attention).length > 0 && { attention: frame.attention, control: frame.control }),
    });
  }

  /** The model with the tables of a step. @param {Record<string, any>} tables */
  #moved(tables) {
    return Object.entries(tables).reduce((model, [name, table]) => withArc(model, name, { table }), this.store.model);
  }

  /** The score, and what follows from evidence. @param {Document} document @param {AbortSignal} signal @returns {Promise<import("./types.js").Score>} */
  async #answer({ model, evidence }, signal) {
    const score = await this.transport.call("score", { model, evidence }, signal);
    if (!Object.keys(evidence).length) return score;
    try {
      const given = await this.transport.call("query", { model, evidence }, signal);
      return { ...score, marginals: { ...score.marginals, ...given.marginals }, probability: given.probability };
    } catch (error) {
      if (signal.aborted) throw error;
      return { ...score, marginals: null, caution: /** @type {Error} */ (error).message };
    }
  }

  /** @param {import("./types.js").Score} score @param {Document} document */
  #scored(score, document) {
    this.store.score = score;
    this.store.scored = document;
    this.store.error = "";
    this.store.changed("score");
  }

  /** @param {Error} error @param {Document} document */
  #failed(error, document) {
    if (document !== this.store.document) return;
    this.store.error = error.message;
    this.store.changed("score");
  }

  /** @param {import("./types.js").Scene} scene @param {boolean} blamed @param {boolean} last */
  #pictured(scene, blamed, last) {
    if (last) this.graph?.element.classList.remove("waiting");
    this.store.scene = scene;
    if (blamed) this.store.colours = arcColours(scene);
    this.#recolour();
    this.store.changed("scene");
    if (this.refit) this.graph?.fit(true);
    this.refit = false;
  }

  #recolour() {
    const colours = this.store.scene?.colours[this.theme?.dark() ? "dark" : "light"] ?? {};
    for (const [role, colour] of Object.entries(colours)) this.root.style.setProperty(`--role-${role}`, colour);
  }

  #keep() {
    const { store } = this;
    if (this.options.embedded || !store.dirty) return;
    this.transport.call("keep", { document: store.document, tab: this.options.tab }).catch((error) => this.say(`Unsaved work could not be kept: ${error.message}`, "error"));
  }

  /** @template T @param {Promise<T>} work @returns {Promise<T | undefined>} */
  async #attempt(work) {
    try {
      return await work;
    } catch (error) {
      this.say(/** @type {Error} */ (error).message, "error");
    }
  }

  hello() {
    return this.transport.call("hello", {});
  }

  /** @param {object} params */
  async open(params) {
    const document = await this.#attempt(this.transport.call("open", params));
    if (document) this.store.open({ ...emptyDocument(), ...document }, true);
  }

  /** @param {File} file */
  async openFile(file) {
    await this.open(await fileParams(file));
  }

  newModel() {
    this.store.open(emptyDocument(), true);
  }

  /** Unsaved work of the last time. @param {Document} document */
  offer(document) {
    const forget = () => this.#attempt(this.transport.call("discard", { recovered: true }));
    this.say(`There is unsaved work of the last time: ${document.name}.`, "note", [
      { label: "Bring it back", act: () => { this.store.open({ ...emptyDocument(), ...document }, false); void forget(); } },
      { label: "Forget it", act: () => void forget() },
    ]);
  }

  /** @param {string} file @param {string | null} view the file beside it, if there is one */
  savedAs(file, view) {
    this.store.document = { ...this.store.document, name: file };
    this.store.scored &&= this.store.document;
    this.store.markSaved();
    this.say(`Saved as ${file}${view ? `; where boxes stand and what was observed in ${view}` : ""}.`);
    void this.#attempt(this.transport.call("discard", { tab: this.options.tab }));
  }

  /** @param {string} kind */
  async share(kind) {
    const made = await this.#attempt(this.transport.call("export", { document: this.store.document, kind, direction: this.direction }));
    if (made) download(made);
  }

  async copyPython() {
    const made = await this.#attempt(this.transport.call("export", { document: this.store.document, kind: "python" }));
    if (!made) return;
    await this.#attempt(navigator.clipboard.writeText(made.text).then(() => this.say("The script is in the clipboard; it runs as it is.")));
  }

  addVariable() {
    newVariable(this);
  }

  /** @param {string[]} targets */
  addArc(targets) {
    newArc(this, targets);
  }

  /** @param {string} name @param {string} [text] */
  pasteTable(name, text) {
    pasteTable(this, name, text);
  }

  /** @param {string} name */
  evidenceWithout(name) {
    return evidenceWithout(this, name);
  }

  /** @param {string} was @param {string} is */
  renameArc(was, is) {
    const { store } = this;
    if (store.selection?.name === was) store.selection = { kind: "arc", name: is };
    store.edit("rename", { model: withArc(store.model, was, { name: is }) });
  }

  /** @param {string} was @param {string} is */
  renameVariable(was, is) {
    const { store } = this;
    const renamed = (/** @type {Record<string, any>} */ by) => Object.fromEntries(Object.entries(by).map(([n, x]) => [n === was ? is : n, x]));
    if (store.selection?.name === was) store.selection = { kind: "variable", name: is };
    store.edit("rename", { model: renamedVariable(store.model, was, is), positions: renamed(store.document.positions), evidence: renamed(store.document.evidence) });
  }

  /** @param {string} name @param {number} i @param {string} is */
  relabel(name, i, is) {
    const { store } = this;
    const seen = store.document.evidence[name];
    const was = (labels(variableOf(store.model, name) ?? { name, values: [] }) ?? [])[i];
    const evidence = seen?.value === was ? { ...store.document.evidence, [name]: { ...seen, value: is } } : store.document.evidence;
    store.edit("relabel", { model: relabelled(store.model, name, i, is), evidence });
  }

  /** @param {string} name @param {number} i */
  removeValue(name, i) {
    const { store } = this;
    const gone = (labels(variableOf(store.model, name) ?? { name, values: [] }) ?? [])[i];
    const evidence = store.document.evidence[name]?.value === gone ? this.evidenceWithout(name) : store.document.evidence;
    store.edit("remove value", { model: withoutValue(store.model, name, i), evidence });
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const typing = event.target instanceof HTMLElement && event.target.matches("input:not([type=range]):not([type=checkbox]), textarea, select");
    const command = event.ctrlKey || event.metaKey;
    const key = event.key.toLowerCase();
    if (this.root.querySelector("dialog[open]")) return;
    const acts = command
      ? typing ? {} : { z: () => (event.shiftKey ? this.store.redo() : this.store.undo()), y: () => this.store.redo() }
      : typing || event.altKey ? {} : { "?": () => openHelp(this.root, this.welcome.version), "0": () => this.graph?.fit(true), t: () => this.theme?.toggle(), ...this.player?.key };
    const files = command && !this.options.embedded ? { o: () => openFiles(this), s: () => saveFile(this) } : {};
    const act = /** @type {Record<string, () => void>} */ ({ ...acts, ...files, ...(!command && !typing && { escape: () => this.store.select(null) }) })[key];
    if (!act) return;
    event.preventDefault();
    act();
  }
}
