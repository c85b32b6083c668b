// What the page knows: the document, its history, what is selected, and what the library said about it.

/** @typedef {import("./types.js").Document} Document */
/** @typedef {import("./types.js").Selection} Selection */
/** @typedef {"document" | "selection" | "score" | "scene" | "frame" | "files" | "filter"} Change */

const MERGED = 1200; // milliseconds in which edits of one kind count as one for undo
const MOST_KEPT = 200;

export class Store {
  /** @param {Document} document */
  constructor(document) {
    this.document = document;
    /** @type {Document | null} what is in a file, to tell whether there is anything to lose */
    this.saved = document;
    /** @type {Document[]} */
    this.past = [];
    /** @type {Document[]} */
    this.future = [];
    /** @type {Selection | null} */
    this.selection = null;
    /** what names must contain to be listed */
    this.filter = "";
    /** @type {import("./types.js").Score | null} the latest answer, perhaps of an older document */
    this.score = null;
    /** @type {Document | null} the document the score is of */
    this.scored = null;
    this.error = "";
    /** @type {import("./types.js").Scene | null} */
    this.scene = null;
    /** @type {Map<string, string>} the colour of each arc by its blame */
    this.colours = new Map();
    /** @type {import("./types.js").Frame | null} the step of a run that is on show */
    this.frame = null;
    /** @type {Map<string, {alpha?: number, beta?: import("./types.js").Weight}>} the weights of arcs that are ignored, to bring them back */
    this.ignored = new Map();
    this.lastKind = "";
    this.lastTime = 0;
    /** @type {Set<(change: Change) => void>} */
    this.listeners = new Set();
  }

  /** Whether what is shown was computed for what is there. */
  get fresh() {
    return this.scored === this.document && !this.error;
  }

  get model() {
    return this.document.model;
  }

  get dirty() {
    return this.saved !== this.document;
  }

  /** @param {(change: Change) => void} listener */
  subscribe(listener) {
    this.listeners.add(listener);
  }

  /** @param {Change} change */
  changed(change) {
    for (const listener of this.listeners) listener(change);
  }

  /**
   * A change that can be undone; those of one kind in quick succession are undone together.
   * @param {string} kind @param {Partial<Document>} changes
   */
  edit(kind, changes) {
    const now = Date.now();
    if (kind !== this.lastKind || now - this.lastTime > MERGED) {
      this.past.push(this.document);
      if (this.past.length > MOST_KEPT) this.past.shift();
    }
    this.future = [];
    this.lastKind = kind;
    this.lastTime = now;
    this.#show({ ...this.document, ...changes });
  }

  undo() {
    const before = this.past.pop();
    if (!before) return;
    this.future.push(this.document);
    this.#restored(before);
  }

  redo() {
    const after = this.future.pop();
    if (!after) return;
    this.past.push(this.document);
    this.#restored(after);
  }

  /** A document that was opened: a history of its own. @param {Document} document @param {boolean} saved */
  open(document, saved) {
    this.past = [];
    this.future = [];
    this.selection = null;
    this.frame = null;
    this.scene = null;
    this.score = null;
    this.scored = null;
    this.lastKind = "";
    this.filter = "";
    this.saved = saved ? document : null;
    this.#show(document);
    this.changed("files");
  }

  markSaved() {
    this.saved = this.document;
    this.changed("files");
  }

  /** @param {Selection | null} selection */
  select(selection) {
    if (selection?.kind === this.selection?.kind && selection?.name === this.selection?.name) return;
    this.selection = selection;
    this.changed("selection");
  }

  /** Whether the lists show a name. @param {string} name */
  lists(name) {
    return name.toLowerCase().includes(this.filter);
  }

  /** @param {import("./types.js").Frame | null} frame */
  show(frame) {
    this.frame = frame;
    this.changed("frame");
  }

  /** @param {Document} document */
  #restored(document) {
    this.lastKind = "";
    this.#show(document);
  }

  /** @param {Document} document */
  #show(document) {
    this.document = document;
    this.error = "";
    this.frame = null;
    const names = { arc: document.model.arcs, variable: document.model.variables };
    const selected = this.selection;
    if (selected && !names[selected.kind].some((x) => x.name === selected.name)) this.selection = null;
    this.changed("document");
  }
}
