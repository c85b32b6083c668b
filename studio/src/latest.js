// One question at a time, and of those that wait only the latest.

const LONG = 2000; // milliseconds after which a question is not waited for if there is a newer one
const STOPPED = "Stopped: what was asked is not known.";

/**
 * Asks at once if nothing is under way, else when the answer is there, and then only the latest question: while a slider
 * moves, the answers are as fresh as the server is quick, and no question waits behind stale ones. `last` says whether
 * nothing newer was asked in the meantime. A question that takes long is given up when there is a newer one, or by `stop`.
 * @template Q, A
 * @param {(question: Q, signal: AbortSignal) => Promise<A>} ask
 * @param {(answer: A, question: Q, last: boolean) => void} onAnswer
 * @param {(error: Error, question: Q) => void} onError
 */
export function latest(ask, onAnswer, onError) {
  /** @type {{question: Q} | null} */
  let next = null;
  let busy = false;
  let began = 0;
  let control = new AbortController();

  async function go() {
    busy = true;
    while (next) {
      const { question } = next;
      next = null;
      control = new AbortController();
      began = Date.now();
      try {
        const answer = await ask(question, control.signal);
        onAnswer(answer, question, !next);
      } catch (error) {
        if (!next) onError(control.signal.aborted ? new Error(STOPPED) : /** @type {Error} */ (error), question);
      }
    }
    busy = false;
  }

  const put = (/** @type {Q} */ question) => {
    next = { question };
    if (!busy) queueMicrotask(() => void (busy || go()));
    else if (Date.now() - began > LONG) control.abort();
  };
  return Object.assign(put, { stop: () => control.abort() });
}

/** Calls `act` when nothing was asked for that long. @param {() => void} act @param {number} milliseconds */
export function whenQuiet(act, milliseconds) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, milliseconds);
  };
}
