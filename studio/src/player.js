// Runs of local inconsistency resolution: started, played, compared, kept.

import { chart, extent } from "./chart.js";
import { fill, h, iconButton, newId } from "./dom.js";
import { icon } from "./dom.js";
import { fixed, general, number } from "./numbers.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./types.js").Frame} Frame */

const PACE = 350; // milliseconds a step

/** One strategy, its controls, and what came of it. @param {import("./types.js").Hello} hello @param {string} name @param {(step: number) => void} onPick */
function lane(hello, name, onPick) {
  const ids = { refocus: newId("refocus"), flow: newId("flow"), steps: newId("steps"), seed: newId("seed") };
  const refocus = h("select", { id: ids.refocus }, hello.refocus.map((r) => h("option", { value: r, text: r })));
  const flow = h("select", { id: ids.flow }, h("option", { value: "", text: "default" }), hello.flows.map((f) => h("option", { value: f, text: f })));
  const steps = h("input", { type: "number", id: ids.steps, min: 1, max: 1000, value: 20 });
  const seed = h("input", { type: "number", id: ids.seed, min: 0, max: 2 ** 53 - 1, value: 0 });
  const state = h("p", { class: "lane-state", role: "status" });
  const curves = chart(name, onPick);
  const field = (/** @type {string} */ id, /** @type {string} */ text, /** @type {HTMLElement} */ input) => h("div", { class: "field" }, h("label", { for: id, text }), input);
  const element = h("div", { class: "lane", role: "group", "aria-label": name },
    h("div", { class: "lane-controls" }, field(ids.refocus, "refocus", refocus), field(ids.flow, "flow", flow), field(ids.steps, "steps", steps), field(ids.seed, "seed", seed)), state, curves.element);
  return {
    element, state, curves, refocus, flow, steps, seed,
    /** @type {Frame[]} */
    frames: [],
    /** @type {any} the last event */
    done: null,
    /** @type {(() => void) | null} */
    stop: null,
    strategy: () => ({ refocus: refocus.value, flow: flow.value || null, steps: Math.round(steps.valueAsNumber), seed: Math.round(seed.valueAsNumber) }),
    valid: () => steps.reportValidity() && seed.reportValidity(),
  };
}

/** @param {Store} store @param {import("./studio.js").Studio} studio @param {import("./types.js").Hello} hello */
export function player(store, studio, hello) {
  const lanes = [lane(hello, "First strategy", (step) => goTo(step)), lane(hello, "Second strategy", (step) => goTo(step))];
  if (hello.refocus.length > 1) lanes[1].refocus.value = hello.refocus[1];
  let comparing = false;
  let at = 0;
  let leading = 0; // the lane that the picture shows
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let timer;

  const run = h("button", { type: "button", class: "button primary", text: "Run", on: { click: () => (running() ? cancel() : start()) } });
  const compare = h("button", { type: "button", class: "button", text: "Compare", "aria-pressed": "false", on: { click: () => setComparing(!comparing) } });
  const play = iconButton("play", "Play (K)", () => (timer === undefined ? playOn() : pause()));
  const back = iconButton("back", "One step back (J)", () => goTo(at - 1));
  const forward = iconButton("forward", "One step on (L)", () => goTo(at + 1));
  const scrub = h("input", { type: "range", min: 0, max: 20, value: 0, step: 1, class: "scrub", "aria-label": "Step of the run", on: { input: () => goTo(Number(scrub.value)) } });
  const step = h("output", { class: "step-label" });
  const leader = h("select", { class: "small", "aria-label": "The picture shows", hidden: true, on: { change: () => { leading = Number(leader.value); goTo(at); } } }, h("option", { value: 0, text: "first in the picture" }), h("option", { value: 1, text: "second in the picture" }));
  const leave = h("button", { type: "button", class: "text-button", text: "Back to the model", hidden: true, on: { click: () => { pause(); store.show(null); } } });
  const keep = h("button", { type: "button", class: "button", text: "Keep the result", title: "The resolved beliefs become the model, with a new name; undo brings the old one back", on: { click: () => keepResult() } });
  const moving = h("p", { class: "hint" });

  const shownLanes = () => (comparing ? lanes : lanes.slice(0, 1));
  const running = () => lanes.some((l) => l.stop);
  const last = () => Math.max(0, ...shownLanes().map((l) => l.frames.length - 1));

  /** @param {boolean} on */
  function setComparing(on) {
    comparing = on;
    if (!on) {
      leading = 0;
      leader.value = "0";
    }
    compare.setAttribute("aria-pressed", String(on));
    fill(area, shownLanes().map((l) => l.element));
    element.classList.toggle("comparing", on);
    update();
  }

  function start() {
    if (!shownLanes().every((l) => l.valid())) return;
    details.open = true;
    pause();
    at = 0;
    for (const l of shownLanes()) {
      l.frames = [];
      l.done = null;
      l.state.textContent = "running…";
      l.stop = studio.transport.stream("run", { model: store.model, ...l.strategy() }, (event) => onEvent(l, event));
    }
    update();
  }

  /** @param {ReturnType<typeof lane>} l @param {any} event */
  function onEvent(l, event) {
    if (event.kind === "waiting") {
      l.state.textContent = event.why;
      return;
    }
    if (event.kind === "frame") {
      l.frames.push(event);
      l.state.textContent = `running: step ${event.step} of ${l.strategy().steps}`;
      if (l === lanes[leading]) goTo(event.step);
      else update();
      return;
    }
    l.stop = null;
    if (event.kind === "error") l.state.textContent = event.error;
    else {
      l.done = event;
      const [first, end] = [l.frames[0], l.frames.at(-1)].map((f) => number(f?.global.value));
      const share = first > 0 && Number.isFinite(first) ? `, ${general(100 * (1 - end / first), 3)} % resolved` : "";
      const moved = number(event.distortion_tv);
      const shift = Number.isNaN(moved) ? "" : `; the best compromise moved by ${fixed(moved, 4)} in total variation`;
      l.state.textContent = `done: ${l.frames.length - 1} step${l.frames.length === 2 ? "" : "s"}${share}${shift}`;
    }
    l.state.classList.toggle("problem", event.kind === "error");
    update();
  }

  function cancel() {
    for (const l of lanes) {
      if (l.stop) l.state.textContent = `stopped after ${Math.max(0, l.frames.length - 1)} steps`;
      l.stop?.();
      l.stop = null;
    }
    update();
  }

  /** @param {number} to */
  function goTo(to) {
    if (!last() && !lanes[leading].frames.length) return;
    at = Math.min(last(), Math.max(0, to));
    const { frames } = lanes[leading];
    store.show(frames[Math.min(at, frames.length - 1)] ?? null);
    update();
  }

  function playOn() {
    if (at >= last()) goTo(0);
    timer = setInterval(() => (at >= last() ? pause() : goTo(at + 1)), PACE);
    update();
  }

  function pause() {
    clearInterval(timer);
    timer = undefined;
    update();
  }

  function keepResult() {
    const { done } = lanes[leading];
    if (!done) return;
    pause();
    const stem = store.document.name.replace(/\.[a-z.]+$/i, "");
    store.edit("keep result", { model: done.model, name: `${stem.replace(/-resolved$/, "")}-resolved.json` });
    studio.say("The resolved beliefs are the model now. Undo brings the old ones back.");
  }

  function update() {
    const steps = Math.max(1, last());
    const reach = extent(shownLanes().map((l) => l.frames), running() ? Math.max(...shownLanes().map((l) => l.strategy().steps || 1)) : steps);
    for (const l of shownLanes()) l.curves.draw(l.frames, reach, Math.min(at, Math.max(0, l.frames.length - 1)));
    run.textContent = running() ? "Cancel" : "Run";
    run.classList.toggle("primary", !running());
    const nothing = last() === 0;
    play.replaceChildren(icon(timer === undefined ? "play" : "pause"));
    play.setAttribute("aria-label", timer === undefined ? "Play (K)" : "Pause (K)");
    for (const control of [play, scrub]) control.disabled = nothing;
    back.disabled = nothing || at === 0;
    forward.disabled = nothing || at >= last();
    scrub.max = String(steps);
    scrub.value = String(at);
    scrub.style.setProperty("--filled", `${(100 * at) / steps}%`);
    step.textContent = nothing ? "" : `step ${at} of ${last()}`;
    leader.hidden = !comparing;
    leave.hidden = store.frame === null;
    keep.disabled = !lanes[leading].done;
    const free = store.model.arcs.filter((a) => number(a.control ?? 0) > 0);
    const given = store.model.arcs.some((a) => a.control !== undefined);
    const named = free.length ? `May move: ${free.slice(0, 6).map((a) => a.name).join(", ")}${free.length > 6 ? ` and ${free.length - 6} more` : ""}.` : "Nothing may move: every control is 0.";
    moving.textContent = given ? named : "Every belief but facts may move; give some a control (χ, in its panel) to say which.";
  }

  const area = h("div", { class: "lanes" }, lanes[0].element);
  const details = h("details", {},
    h("summary", {}, h("h2", { text: "Resolve" }), h("span", { class: "quiet", text: "watch the beliefs move until they fit together" })),
    h("div", { class: "player-bar", role: "group", "aria-label": "Player" }, run, back, play, forward, scrub, step, leader, leave, h("span", { class: "spacer" }), compare, keep),
    moving, area);
  const element = h("section", { class: "player", "aria-label": "Resolve" }, details);
  store.subscribe((change) => {
    if (change === "files") {
      cancel();
      pause();
      for (const l of lanes) [l.frames, l.done, l.state.textContent] = [[], null, ""];
      at = 0;
    }
    if (change === "document" || change === "frame" || change === "files") update();
  });
  update();
  const key = { j: () => goTo(at - 1), k: () => (timer === undefined ? playOn() : pause()), l: () => goTo(at + 1) };
  return { element, key };
}
