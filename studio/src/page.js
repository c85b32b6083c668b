// The studio in a browser, served by `dissonance studio`.

import { h } from "./dom.js";
import { Studio } from "./studio.js";
import { overHttp, takeToken } from "./transport.js";

/** @param {HTMLElement} root */
export async function startPage(root) {
  const tab = crypto.randomUUID();
  const transport = overHttp(takeToken(), tab);
  try {
    const hello = await transport.call("hello");
    const studio = new Studio(root, transport, hello, { tab });
    if (hello.start) await studio.open({ start: true });
    else if (hello.examples.length) await studio.open({ example: hello.examples[0].name });
    else studio.start();
    if (hello.recovery) studio.offer(hello.recovery);
  } catch (error) {
    const why = h("p", { role: "alert", text: /** @type {Error} */ (error).message });
    root.replaceChildren(h("main", { class: "fatal" }, h("h1", { text: "dissonance studio" }), why));
  }
}
