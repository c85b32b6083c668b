// The marks of a scene as SVG, exactly as `dissonance draw` writes them.

/** @typedef {import("./types.js").Mark} Mark */
/** @typedef {import("./types.js").Scene} Scene */

const NS = "http://www.w3.org/2000/svg";

/** A colour of the picture: a role, which the theme decides, or a code. @param {string} colour */
export const paint = (colour) => (colour.startsWith("#") ? colour : `var(--role-${colour})`);

/** The colours that arcs are drawn in, which tell their blame. @param {Scene} scene @returns {Map<string, string>} */
export function arcColours(scene) {
  const line = (/** @type {import("./types.js").Group} */ g) => g.marks.find((m) => m.type === "path" && !["control", "attended"].includes(m.kind));
  return new Map(scene.groups.filter((g) => g.kind === "arc").map((g) => [g.name, paint(line(g)?.colour ?? "muted")]));
}

/** @param {string} tag @param {Record<string, string | number>} attributes */
export function svgElement(tag, attributes) {
  const element = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/** @param {Mark} m @returns {SVGElement} */
export function markElement(m) {
  if (m.type === "path") {
    const path = svgElement("path", { d: m.d, fill: "none", "stroke-width": m.width });
    path.style.stroke = paint(m.colour);
    if (m.dash?.length) path.setAttribute("stroke-dasharray", m.dash.join(" "));
    return path;
  }
  if (m.type === "rect") {
    const rect = svgElement("rect", { x: m.x, y: m.y, width: m.width, height: m.height, rx: m.radius });
    rect.style.fill = paint(m.fill);
    if (m.line) rect.style.stroke = paint(m.line);
    return rect;
  }
  if (m.type === "text") return textElement(m);
  const filled = m.type === "circle" ? svgElement("circle", { cx: m.centre[0], cy: m.centre[1], r: m.radius })
    : svgElement("polygon", { points: m.points.map((/** @type {number[]} */ p) => p.join(",")).join(" ") });
  filled.style.fill = paint(m.colour);
  return filled;
}

/** @param {Mark} m */
function textElement(m) {
  const text = svgElement("text", m.halo ? { "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round" } : {});
  text.style.fill = paint(m.colour);
  if (m.halo) text.style.stroke = paint("paper");
  if (m.italic) text.style.fontStyle = "italic";
  if (m.bold) text.style.fontWeight = "bold";
  for (const s of m.spans) {
    const span = svgElement("tspan", { x: s.x, y: s.y, textLength: s.width, lengthAdjust: "spacingAndGlyphs" });
    span.style.fontSize = `${s.size}px`;
    span.textContent = s.text;
    text.append(span);
  }
  return text;
}
