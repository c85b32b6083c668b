// Asking the kernel of a notebook, by messages of a widget.

/** @typedef {import("./types.js").Transport} Transport */

/** @param {any} model the widget's model @returns {Transport & {close: () => void}} */
export function overComm(model) {
  let ids = 0;
  /** @type {Map<number, (message: any) => void>} */
  const waiting = new Map();
  const onMessage = (/** @type {any} */ message) => waiting.get(message?.id)?.(message);
  model.on("msg:custom", onMessage);

  return {
    call(action, params = {}, signal) {
      const id = ++ids;
      return new Promise((resolve, reject) => {
        signal?.addEventListener("abort", () => {
          if (!waiting.delete(id)) return;
          model.send({ id, cancel: true });
          reject(new DOMException("", "AbortError"));
        });
        waiting.set(id, (message) => {
          waiting.delete(id);
          if (message.error !== undefined) reject(new Error(message.error));
          else resolve(message.result);
        });
        model.send({ id, action, params });
      });
    },
    stream(action, params, onEvent) {
      const id = ++ids;
      waiting.set(id, (message) => {
        const event = message.event ?? { kind: "error", error: message.error };
        if (event.kind === "done" || event.kind === "error") waiting.delete(id);
        onEvent(event);
      });
      model.send({ id, action, params });
      return () => {
        waiting.delete(id);
        model.send({ id, cancel: true });
      };
    },
    close: () => model.off("msg:custom", onMessage),
  };
}
