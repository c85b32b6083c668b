// The shapes that travel between the page and the library. Numbers may be "inf", as in files.

/** @typedef {number | "inf" | "-inf"} Weight */
/** @typedef {{name: string, values?: (string | number)[], size?: number, dim?: number}} Variable */
/** @typedef {{name: string, sources?: string[], targets: string[], alpha?: number, beta?: Weight, control?: Weight, table?: any, factor?: any, linear_gaussian?: object}} Arc */
/** @typedef {{format: string, version: number, gamma?: number, variables: Variable[], arcs: Arc[]}} Model */
/** @typedef {{value: string, confidence: Weight}} Observation */
/** @typedef {{name: string, model: Model, positions: Record<string, [number, number]>, evidence: Record<string, Observation>}} Document */
/** @typedef {{kind: "arc" | "variable", name: string}} Selection */

/** @typedef {{name: string, beta: Weight, divergence: Weight, contribution: Weight, saved_if_dropped: Weight | null}} BlameRow */
/** @typedef {{arc: string, given: Record<string, string>, value: Record<string, string>, claimed: number, reconciled: number | null, contribution: number}} Cell */
/** @typedef {Record<string, Record<string, any>>} Marginals */
/** @typedef {{inconsistency: Weight, lower: Weight, upper: Weight, unit: string, gamma: number, converged: boolean, bracket: boolean, solver: string, arcs: BlameRow[], marginals: Marginals | null, cells: Cell[], verdict: string, caution?: string, probability?: number, seconds: number}} Score */

/** @typedef {Record<string, any> & {type: "path" | "polygon" | "circle" | "rect" | "text", kind: string}} Mark */
/** @typedef {{kind: string, name: string, title: string, marks: Mark[]}} Group */
/** @typedef {{title: string, bounds: [number, number, number, number], colours: {light: Record<string, string>, dark: Record<string, string>}, positions: Record<string, [number, number]>, groups: Group[]}} Scene What `Drawing.data()` returns. */

/** @typedef {{kind: "frame", step: number, attention: Record<string, Weight>, control: Record<string, Weight>, global: {value: Weight, lower: Weight, upper: Weight}, local: Weight | null, distortion: Weight | null, distortion_mu: Weight | null, tables?: Record<string, any>, model?: Model}} Frame */
/** @typedef {{refocus: string, flow: string | null, steps: number, seed: number}} Strategy */
/** @typedef {{version: string, folder: string, files: string[], file?: string | null, examples: {name: string, title: string}[], networks?: {name: string, title: string}[], recovery: Document | null, refocus: string[], flows: string[], formats: string[]}} Hello */

/**
 * @typedef {object} Transport How the page asks the library.
 * @property {(action: string, params?: object, signal?: AbortSignal) => Promise<any>} call
 * @property {(action: string, params: object, onEvent: (event: any) => void) => () => void} stream Returns what stops it.
 */

export {};
