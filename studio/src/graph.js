// The picture: drawn from the library's scene, moved by hand, walked by keyboard.

import { drag } from "d3-drag";
import { select } from "d3-selection";
import "d3-transition";
import { zoom, zoomIdentity, zoomTransform } from "d3-zoom";
import { h, iconButton } from "./dom.js";
import { probability } from "./numbers.js";
import { markElement, svgElement } from "./scene.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./types.js").Group} Group */

const LARGEST = 1.7; // how much a small picture is enlarged to fill the page
const LEGIBLE = 0.45; // below this scale names cannot be read
const NUDGE = 12;
const ABOVE = 24; // the room above the picture

/** @param {MediaQueryList} [query] */
const calm = (query = matchMedia("(prefers-reduced-motion: reduce)")) => query.matches;

/**
 * @param {Store} store
 * @param {object} acts
 * @param {(positions: Record<string, [number, number]>) => void} acts.onDrag while a box is being moved
 * @param {(positions: Record<string, [number, number]>) => void} acts.onDrop
 * @param {() => void} acts.onTidy
 * @param {() => void} acts.onTurn
 * @param {(selection: import("./types.js").Selection | null) => void} acts.choose
 */
export function graph(store, { onDrag, onDrop, onTidy, onTurn, choose }) {
  const svg = /** @type {SVGSVGElement} */ (svgElement("svg", { class: "graph", role: "group", "aria-label": "Picture of the beliefs: arrows go to the next box or arc, Enter selects, Alt with arrows moves a box" }));
  const camera = svgElement("g", { class: "camera" });
  svg.append(camera);
  const legend = /** @type {SVGSVGElement} */ (svgElement("svg", { class: "graph-legend", "aria-hidden": "true" }));
  const tools = h("div", { class: "graph-tools", role: "group", "aria-label": "View" },
    iconButton("plus", "Zoom in", () => scaled(1.3)), iconButton("minus", "Zoom out", () => scaled(1 / 1.3)),
    iconButton("fit", "Fit the picture (0)", () => fit(true)), iconButton("tidy", "Lay out again", onTidy), iconButton("turn", "Lay out the other way: to the right or downwards", onTurn));
  const empty = h("div", { class: "graph-empty" });
  const element = h("section", { class: "canvas", "aria-label": "Picture" }, svg, legend, tools, empty);

  let moved = false; // whether a box was moved, which must not move the view
  let touched = false; // whether a person has zoomed or moved the view
  let seen = ""; // the bounds that the view was fitted to
  /** @type {string} the group that Tab comes to */
  let current = "";
  const behaviour = /** @type {import("d3-zoom").ZoomBehavior<SVGSVGElement, unknown>} */ (zoom())
    .scaleExtent([0.05, 6])
    .on("zoom", (event) => {
      touched ||= Boolean(event.sourceEvent);
      camera.setAttribute("transform", event.transform.toString());
    });
  const root = select(svg).call(behaviour).on("dblclick.zoom", null);
  svg.addEventListener("click", (event) => event.target === svg && choose(null));

  /** @param {number} factor */
  function scaled(factor) {
    touched = true;
    if (calm()) root.call(behaviour.scaleBy, factor);
    else root.transition().duration(160).call(/** @type {any} */ (behaviour.scaleBy), factor);
  }

  /** @param {boolean} [slowly] */
  function fit(slowly = false) {
    const box = /** @type {SVGGElement} */ (camera).getBBox();
    const { clientWidth: wide, clientHeight: high } = svg;
    if (!box.width || !wide || !high) return;
    touched = false;
    const bottom = svg.getBoundingClientRect().bottom; // the legend and the buttons are there
    const room = high - ABOVE - Math.max(...[legend, tools].map((e) => (e.clientHeight ? bottom - e.getBoundingClientRect().top + 8 : 0)));
    const scale = Math.min(LARGEST, (wide - 48) / box.width, Math.max(room, high / 2) / box.height);
    const to = zoomIdentity.translate(wide / 2 - scale * (box.x + box.width / 2), ABOVE + room / 2 - scale * (box.y + box.height / 2)).scale(scale);
    if (slowly && !calm()) root.transition().duration(250).call(/** @type {any} */ (behaviour.transform), to);
    else root.call(behaviour.transform, to);
  }

  /** Brings something into view if it cannot be seen or read. @param {string} which */
  function reveal(which) {
    const node = /** @type {SVGGElement | undefined} */ ([...camera.querySelectorAll("g.thing")].find((n) => key(/** @type {any} */ (n).__data__) === which));
    if (!node) return;
    const [view, there, scale] = [svg.getBoundingClientRect(), node.getBoundingClientRect(), zoomTransform(svg).k];
    const inside = there.left >= view.left && there.right <= view.right && there.top >= view.top && there.bottom <= view.bottom;
    if (inside && scale >= LEGIBLE) return;
    const box = node.getBBox();
    const to = zoomIdentity.translate(view.width / 2, view.height / 2).scale(Math.max(scale, 0.9)).translate(-(box.x + box.width / 2), -(box.y + box.height / 2));
    touched = true;
    if (calm()) root.call(behaviour.transform, to);
    else root.transition().duration(300).call(/** @type {any} */ (behaviour.transform), to);
  }

  /** @param {Group} g */
  const key = (g) => `${g.kind}:${g.name}`;

  function update() {
    const { scene } = store;
    empty.textContent = store.model.variables.length ? "" : "Nothing here yet. Add a variable in the panel, open an example, or drop a file on this page.";
    if (!scene) return;
    const groups = scene.groups.filter((g) => g.kind === "arc" || g.kind === "variable");
    if (!groups.some((g) => key(g) === current)) current = groups.length ? key(groups[groups.length - 1]) : "";
    select(camera)
      .selectAll("g.thing")
      .data(groups, (g) => key(/** @type {Group} */ (g)))
      .join((enter) => enter.append("g").attr("role", "button").each(function (g) {
        listen(/** @type {SVGGElement} */ (this), g);
      }))
      .attr("class", (g) => `thing ${g.kind}`)
      .attr("data-name", (g) => g.name)
      .attr("aria-label", (g) => label(g))
      .attr("tabindex", (g) => (key(g) === current ? 0 : -1))
      .attr("transform", null)
      .order()
      .each(function (g) {
        /** @type {SVGGElement} */ (this).replaceChildren(...contents(g));
      });
    chosen();
    drawLegend();
    const bounds = scene.bounds.join();
    if (!touched && !moved && bounds !== seen && groups.length) fit();
    seen = bounds;
  }

  /** What a screen reader says. @param {Group} g */
  function label(g) {
    const told = g.title.replaceAll("\n", ", ");
    const written = g.marks.filter((m) => m.type === "text").map((m) => m.spans.map((/** @type {any} */ s) => s.text).join("")).join(" ");
    const marginal = g.kind === "variable" && store.score?.marginals?.[g.name];
    if (!marginal || "mean" in marginal) return `${written}, ${g.kind} ${told}`;
    return `variable ${g.name}: ${Object.entries(marginal).slice(0, 8).map(([x, p]) => `${x} ${probability(p)}`).join(", ")}`;
  }

  /** @param {Group} g @returns {(SVGElement | string)[]} spaces keep the words of labels apart */
  function contents(g) {
    const title = svgElement("title", {});
    title.textContent = g.title;
    const lines = g.kind === "arc" ? g.marks.filter((m) => m.type === "path") : [];
    const behind = lines.map((m) => svgElement("path", { d: m.d, class: "halo" }));
    const reach = lines.map((m) => svgElement("path", { d: m.d, class: "reach" }));
    return [title, ...behind, ...g.marks.flatMap((m) => [markElement(m), " "]), ...reach, ...(g.kind === "variable" ? strip(g) : [])];
  }

  /** The probabilities of a variable as a thin line of segments in its box. @param {Group} g */
  function strip(g) {
    const box = g.marks.find((m) => m.type === "rect");
    if (!box) return [];
    const observed = g.name in store.document.evidence;
    const rim = svgElement("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: box.radius, class: `rim${observed ? " observed" : ""}` });
    const marginal = store.score?.marginals?.[g.name];
    if (!marginal || "mean" in marginal) return [rim];
    const ps = Object.values(marginal);
    const [room, gap] = [box.width - 16, ps.length > 1 ? 1 : 0];
    let x = box.x + 8;
    const parts = ps.map((p, i) => {
      const wide = Math.max(0, p * (room - gap * (ps.length - 1)));
      const part = svgElement("rect", { x, y: box.y + box.height - 5.5, width: wide, height: 2.5, rx: 1, class: "share" });
      part.style.fillOpacity = String(ps.length > 1 ? 0.95 - (0.7 * i) / (ps.length - 1) : 0.95);
      x += wide + gap;
      return part;
    });
    return [rim, ...parts];
  }

  function chosen() {
    const picked = store.selection ? `${store.selection.kind}:${store.selection.name}` : "";
    select(camera).selectAll("g.thing").each(function (g) {
      const mine = key(/** @type {Group} */ (g)) === picked;
      /** @type {Element} */ (this).classList.toggle("chosen", mine);
      /** @type {Element} */ (this).setAttribute("aria-pressed", String(mine));
    });
  }

  function drawLegend() {
    const group = store.scene?.groups.find((g) => g.kind === "legend");
    legend.replaceChildren(...(group ? group.marks.map(markElement) : []));
    if (!group || !legend.clientHeight) return;
    const box = legend.getBBox();
    legend.setAttribute("viewBox", `${box.x - 2} ${box.y - 2} ${box.width + 4} ${box.height + 4}`);
    legend.setAttribute("width", String(box.width + 4));
    legend.setAttribute("height", String(box.height + 4));
  }

  /** Every box's centre, as it is drawn. */
  const centres = () => ({ ...store.scene?.positions });

  /** @param {SVGGElement} node @param {Group} first */
  function listen(node, first) {
    const name = first.name;
    node.addEventListener("click", () => choose({ kind: /** @type {"arc" | "variable"} */ (first.kind), name }));
    node.addEventListener("focus", () => {
      current = key(first);
      select(camera).selectAll("g.thing").attr("tabindex", (g) => (key(/** @type {Group} */ (g)) === current ? 0 : -1));
    });
    node.addEventListener("keydown", (event) => onKey(event, node, first));
    if (first.kind === "variable") select(node).call(/** @type {any} */ (moving(name, node)));
  }

  /** @param {string} name @param {SVGGElement} node */
  function moving(name, node) {
    let [dx, dy] = [0, 0];
    /** @type {Record<string, [number, number]>} */
    let start = {};
    return drag()
      .container(/** @type {any} */ (camera))
      .clickDistance(4)
      .on("start", () => {
        [dx, dy] = [0, 0];
        start = centres();
      })
      .on("drag", (event) => {
        dx += event.dx;
        dy += event.dy;
        moved = true;
        const drawn = store.scene?.positions[name];
        const [x, y] = [start[name][0] + dx, start[name][1] + dy];
        if (drawn) node.setAttribute("transform", `translate(${x - drawn[0]}, ${y - drawn[1]})`);
        onDrag({ ...start, [name]: [x, y] });
      })
      .on("end", () => {
        if (Math.hypot(dx, dy) > 1) onDrop({ ...start, [name]: [start[name][0] + dx, start[name][1] + dy] });
      });
  }

  /** @param {KeyboardEvent} event @param {SVGGElement} node @param {Group} g */
  function onKey(event, node, g) {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") choose({ kind: /** @type {"arc" | "variable"} */ (g.kind), name: g.name });
    else if (way && event.altKey && g.kind === "variable") {
      const all = centres();
      onDrop({ ...all, [g.name]: [all[g.name][0] + NUDGE * way[0], all[g.name][1] + NUDGE * way[1]] });
    } else if (way) neighbour(node, way)?.focus();
    else return;
    event.preventDefault();
  }

  /** The nearest thing in a direction. @param {SVGGElement} from @param {number[]} way @returns {SVGGElement | null} */
  function neighbour(from, way) {
    const middle = (/** @type {Element} */ e) => {
      const r = (e.querySelector("text") ?? e).getBoundingClientRect();
      return [r.x + r.width / 2, r.y + r.height / 2];
    };
    const [x, y] = middle(from);
    let best = null;
    let least = Infinity;
    for (const other of /** @type {NodeListOf<SVGGElement>} */ (camera.querySelectorAll("g.thing"))) {
      const [u, v] = middle(other);
      const ahead = (u - x) * way[0] + (v - y) * way[1];
      const aside = Math.abs((u - x) * way[1]) + Math.abs((v - y) * way[0]);
      if (other !== from && ahead > 1 && ahead + 2 * aside < least) [best, least] = [other, ahead + 2 * aside];
    }
    return best;
  }

  store.subscribe((change) => {
    if (change === "files") [touched, moved, seen] = [false, false, ""];
    if (change === "scene" || change === "score" || change === "document") update();
    if (change === "selection") {
      chosen();
      if (store.selection && !svg.contains(document.activeElement)) reveal(`${store.selection.kind}:${store.selection.name}`);
    }
  });
  new ResizeObserver(() => touched || fit()).observe(svg);
  return { element, fit };
}
