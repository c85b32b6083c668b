// One question at a time, and of those that wait only the latest.

/**
 * Asks at once if nothing is under way, else when the answer is there, and then only the latest question: while a slider
 * moves, the answers are as fresh as the server is quick, and no question waits behind stale ones. `last` says whether
 * nothing newer was asked in the meantime.
 * @template Q, A
 * @param {(question: Q) => Promise<A>} ask
 * @param {(answer: A, question: Q, last: boolean) => void} onAnswer
 * @param {(error: Error, question: Q) => void} onError
 */
export function latest(ask, onAnswer, onError) {
  /** @type {{question: Q} | null} */
  let next = null;
  let busy = false;

  async function go() {
    busy = true;
    while (next) {
      const { question } = next;
      next = null;
      try {
        const answer = await ask(question);
        onAnswer(answer, question, !next);
      } catch (error) {
        if (!next) onError(/** @type {Error} */ (error), question);
      }
    }
    busy = false;
  }

  return (/** @type {Q} */ question) => {
    next = { question };
    if (!busy) queueMicrotask(() => void (busy || go()));
  };
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
