// Numbers as a spreadsheet copies them.

import { parsed } from "./numbers.js";

/**
 * The numbers of a pasted table, row by row; a heading and labels in front are passed over.
 * @param {string} text @param {number} height @param {number} width
 * @returns {number[][]}
 */
export function cellsOf(text, height, width) {
  const lines = text.replaceAll("\r", "").split("\n").filter((line) => line.trim());
  const separator = lines.some((line) => line.includes("\t")) ? "\t" : lines.some((line) => line.includes(";")) ? ";" : /[,\s]+/;
  const split = lines.map((line) => line.split(separator).map((cell) => cell.trim()));
  const numbers = split.map((cells) => cells.map(parsed));
  const rows = numbers.filter((cells) => cells.slice(-width).length === width && cells.slice(-width).every((x) => x !== null));
  const leading = split.length - rows.length;
  if (rows.length !== height || leading > 1) throw new Error(`Expected ${height} row${height === 1 ? "" : "s"} of ${width} numbers; found ${rows.length} such row${rows.length === 1 ? "" : "s"} in ${lines.length} line${lines.length === 1 ? "" : "s"}.`);
  return rows.map((cells, i) => cells.slice(-width).map((x) => {
    if (x === null || x < 0 || !Number.isFinite(x)) throw new Error(`Row ${i + 1}: ${x} is no probability and no count.`);
    return x;
  }));
}
