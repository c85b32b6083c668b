// Numbers as the command line prints them, and as people type them.

/** @typedef {import("./types.js").Weight} Weight */

/** A weight as a number. @param {Weight | null | undefined} x */
export function number(x) {
  return x === "inf" ? Infinity : x === "-inf" ? -Infinity : x === null || x === undefined || x === /** @type {any} */ ("nan") ? NaN : Number(x);
}

/** A number as files have it. @param {number} x @returns {Weight} */
export const weight = (x) => (x === Infinity ? "inf" : x === -Infinity ? "-inf" : x);

/** The exact decimal digits of |x| in scientific form, rounded half to even as Python does. @param {number} x @param {number} digits */
function scientific(x, digits) {
  const [mantissa, exponent] = Math.abs(x).toExponential(100).split("e");
  const all = mantissa.replace(".", "");
  const tail = all.slice(digits);
  let head = BigInt(all.slice(0, digits));
  const half = tail[0] > "5" || (tail[0] === "5" && (/[1-9]/.test(tail.slice(1)) || head % 2n === 1n));
  if (half) head += 1n;
  const text = head.toString();
  return text.length > digits ? { digits: text.slice(0, digits), exponent: Number(exponent) + 1 } : { digits: text, exponent: Number(exponent) };
}

/** What Python's f"{x:.{precision}g}" prints. @param {number} x @param {number} precision */
export function general(x, precision) {
  if (Number.isNaN(x)) return "nan";
  if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  if (x === 0) return Object.is(x, -0) ? "-0" : "0";
  const { digits, exponent } = scientific(x, precision);
  const sign = x < 0 ? "-" : "";
  const short = digits.replace(/0+$/, "") || "0";
  if (exponent < -4 || exponent >= precision) {
    const size = String(Math.abs(exponent)).padStart(2, "0");
    return `${sign}${short[0]}${short.length > 1 ? `.${short.slice(1)}` : ""}e${exponent < 0 ? "-" : "+"}${size}`;
  }
  if (exponent < 0) return `${sign}0.${"0".repeat(-exponent - 1)}${short}`;
  const whole = short.padEnd(exponent + 1, "0");
  return `${sign}${whole.slice(0, exponent + 1)}${whole.length > exponent + 1 ? `.${whole.slice(exponent + 1)}` : ""}`;
}

/** What Python's f"{x:.{places}f}" prints. @param {number} x @param {number} places */
export function fixed(x, places) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "nan" : x > 0 ? "inf" : "-inf";
  const text = x.toFixed(places);
  const exact = x.toFixed(Math.min(100, places + 60));
  const tie = /^50*$/.test(exact.slice(exact.length - 60));
  const odd = Number(text.at(-1)) % 2 === 1;
  return tie && odd ? (x - Math.sign(x) * 0.5 * 10 ** -places).toFixed(places) : text;
}

/** Nats (or bits) as `dissonance score` prints them. @param {Weight | null | undefined} x @param {number} [digits] */
export function nats(x, digits = 6) {
  const value = number(x);
  return Number.isNaN(value) ? "-" : Math.abs(value) < 1e-9 ? "0" : general(value, digits);
}

/** A probability as `dissonance score` prints it. @param {number | null | undefined} p */
export const probability = (p) => (p === null || p === undefined || Number.isNaN(p) ? "–" : fixed(p, 4));

/** A percentage as verdicts print it. @param {number} p */
export const percent = (p) => `${general(100 * p, 3)} %`;

/** A weight for people: the shortest text that is that number, infinity as its sign. @param {Weight | undefined} x */
export function shortest(x) {
  const value = number(x);
  return value === Infinity ? "∞" : value === -Infinity ? "−∞" : String(value);
}

/** What a person typed as a number; null if it is none. "∞", "inf" and "fact" are infinite. @param {string} text @returns {number | null} */
export function parsed(text) {
  const plain = text.trim().toLowerCase().replace("−", "-");
  if (["∞", "inf", "infinity", "fact"].includes(plain)) return Infinity;
  if (plain.endsWith("%")) {
    const share = parsed(plain.slice(0, -1));
    return share === null ? null : share / 100;
  }
  const decimal = /^-?\d+,\d+$/.test(plain) ? plain.replace(",", ".") : plain;
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/.test(decimal) ? Number(decimal) : null;
}
