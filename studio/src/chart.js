// The curves of a run: global and local inconsistency above, how far the tables and the best compromise moved below.

import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { h } from "./dom.js";
import { general, nats, number } from "./numbers.js";
import { svgElement } from "./scene.js";

/** @typedef {import("./types.js").Frame} Frame */
/** @typedef {{nats: number, distortion: number, steps: number}} Extent */

const [HIGH, LEFT, RIGHT, TOP, BOTTOM, GAP] = [150, 46, 10, 8, 18, 16];
/** @type {Record<string, string>} */
const MEANING = {
  global: "the inconsistency of all beliefs, in nats",
  local: "the inconsistency of what the step attends to, in nats",
  distortion: "how far the tables have moved: the mean total variation of their rows from the start",
  compromise: "how far the best compromise has moved: its total variation from the start",
};
/** @type {Record<string, string>} */
const CALLED = { distortion: "tables moved", compromise: "compromise moved" };
/** @type {[string, (f: Frame) => any][]} what is below: how far things have moved */
const MOVED = [["compromise", (f) => f.distortion_mu], ["distortion", (f) => f.distortion]];
const SPLIT = 0.64; // the part of the height that the inconsistencies have

/** How far the curves of some runs reach, so that they can share their scales. @param {Frame[][]} runs @param {number} steps @returns {Extent} */
export function extent(runs, steps) {
  const most = (/** @type {(f: Frame) => any} */ of) => Math.max(0, ...runs.flat().map((f) => number(of(f))).filter(Number.isFinite));
  return { nats: Math.max(most((f) => f.global.value), most((f) => f.local)) || 1, distortion: Math.max(...MOVED.map(([, of]) => most(of))) || 0.01, steps: Math.max(1, steps) };
}

/**
 * @param {string} name what the run is called
 * @param {(step: number) => void} onPick
 */
export function chart(name, onPick) {
  const svg = svgElement("svg", { class: "chart", role: "img" });
  const readout = h("p", { class: "readout" });
  const element = h("figure", { class: "chart-figure" }, svg, readout);
  let x = scaleLinear();
  let again = () => {};
  new ResizeObserver(() => again()).observe(svg);

  /** @param {Frame[]} frames @param {Extent} reach @param {number} at the step on show */
  function draw(frames, reach, at) {
    again = () => draw(frames, reach, at);
    const wide = svg.clientWidth || 460;
    const plots = HIGH - TOP - BOTTOM - GAP;
    x = scaleLinear([0, reach.steps], [LEFT, wide - RIGHT]);
    const upper = scaleLinear([0, reach.nats], [TOP + plots * SPLIT, TOP]).nice(3);
    const lower = scaleLinear([0, reach.distortion], [HIGH - BOTTOM, TOP + plots * SPLIT + GAP]).nice(2);
    const parts = [...axis(upper, 3, wide), ...axis(lower, 2, wide)];
    for (const step of x.ticks(Math.min(8, reach.steps)).filter(Number.isInteger)) parts.push(written(x(step), HIGH - 4, String(step), "middle"));
    /** @param {(f: Frame) => any} of @param {import("d3-scale").ScaleLinear<number, number>} y @param {string} look */
    const curve = (of, y, look) => {
      const points = frames.map((f) => [f.step, number(of(f))]).filter(([, v]) => Number.isFinite(v));
      parts.push(svgElement("path", { class: `curve ${look}`, d: line()(points.map(([s, v]) => [x(s), y(v)])) ?? "" }));
      const here = points.find(([s]) => s === at);
      if (here) parts.push(svgElement("circle", { class: `point ${look}`, cx: x(here[0]), cy: y(here[1]), r: 3.2 }));
    };
    if (frames.length) parts.push(svgElement("line", { class: "cursor", x1: x(at), x2: x(at), y1: TOP, y2: HIGH - BOTTOM }));
    curve((f) => f.local, upper, "local");
    curve((f) => f.global.value, upper, "global");
    for (const [look, of] of MOVED) curve(of, lower, look);
    svg.replaceChildren(...parts);
    const now = frames.find((f) => f.step === at);
    const share = (/** @type {any} */ x) => general(number(x ?? NaN), 4).replace("nan", "-");
    const values = now ? [["global", nats(now.global.value)], ["local", nats(now.local)], ["distortion", share(now.distortion)], ["compromise", share(now.distortion_mu)]] : [];
    readout.replaceChildren(...(values.length ? values : Object.keys(MEANING).map((k) => [k, ""])).map(([k, v]) => h("span", { class: `reading ${k}`, title: MEANING[k] }, h("i", {}), `${CALLED[k] ?? k} `, h("b", { text: v }))));
    svg.setAttribute("aria-label", `Curves of ${name}${now ? `; at step ${at}: ${values.map((v) => v.join(" ")).join(", ")}` : ""}`);
  }

  const pick = (/** @type {PointerEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    onPick(Math.round(x.invert(event.clientX - box.left)));
  };
  svg.addEventListener("pointerdown", (event) => {
    svg.setPointerCapture(event.pointerId);
    pick(event);
  });
  svg.addEventListener("pointermove", (event) => svg.hasPointerCapture(event.pointerId) && pick(event));
  return { element, draw };
}

/** @param {import("d3-scale").ScaleLinear<number, number>} y @param {number} count @param {number} wide */
function axis(y, count, wide) {
  return y.ticks(count).flatMap((v) => [svgElement("line", { class: "grid", x1: LEFT, x2: wide - RIGHT, y1: y(v), y2: y(v) }), written(LEFT - 6, y(v) + 3.5, general(v, 3), "end")]);
}

/** @param {number} x @param {number} y @param {string} words @param {string} anchor */
function written(x, y, words, anchor) {
  const text = svgElement("text", { class: "tick", x, y, "text-anchor": anchor });
  text.textContent = words;
  return text;
}
