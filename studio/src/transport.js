// Asking the server: a POST for an action, its events as a stream.

/** @typedef {import("./types.js").Transport} Transport */

const KEY = "dissonance-token";

/** The token in the address, kept for this tab and taken out of the address bar. */
export function takeToken() {
  const address = new URL(location.href);
  const token = address.searchParams.get("token");
  if (token !== null) {
    sessionStorage.setItem(KEY, token);
    address.searchParams.delete("token");
    history.replaceState(null, "", address);
  }
  return token ?? sessionStorage.getItem(KEY) ?? "";
}

/** @param {string} token @param {string} tab which page this is, so that its newer questions replace its older ones @returns {Transport} */
export function overHttp(token, tab) {
  /** @param {string} action @param {object} params @param {AbortSignal} [signal] */
  async function post(action, params, signal) {
    const headers = { "Content-Type": "application/json", "X-Dissonance-Token": token, "X-Dissonance-Tab": tab };
    /** @type {Response} */
    let response;
    try {
      response = await fetch(`api/${action}`, { method: "POST", headers, body: JSON.stringify(params), signal });
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new Error("The studio's server does not answer: is `dissonance studio` still running?");
    }
    if (response.ok) return response;
    const answer = await response.json().catch(() => ({}));
    const refused = "This page may not ask the server: open the address that `dissonance studio` printed.";
    throw new Error(answer.error ?? (response.status === 403 ? refused : `The server answered ${response.status}.`));
  }

  return {
    call: async (action, params = {}, signal) => (await post(action, params, signal)).json(),
    stream(action, params, onEvent) {
      const control = new AbortController();
      post(action, params, control.signal)
        .then((response) => eachEvent(response, onEvent))
        .catch((error) => control.signal.aborted || onEvent({ kind: "error", error: error.message }));
      return () => control.abort();
    },
  };
}

/** Calls back for each event of a text/event-stream. @param {Response} response @param {(event: any) => void} onEvent */
async function eachEvent(response, onEvent) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).getReader();
  const decoder = new TextDecoder();
  let waiting = "";
  let ended = false;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    waiting += decoder.decode(value, { stream: true }).replaceAll("\r\n", "\n");
    const parts = waiting.split("\n\n");
    waiting = parts.pop() ?? "";
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
      if (!data) continue;
      const event = JSON.parse(data);
      ended ||= event.kind === "done" || event.kind === "error";
      onEvent(event);
    }
  }
  if (!ended) onEvent({ kind: "error", error: "The run stopped before it was done." });
}
