// The studio in a notebook, as an anywidget: `document` comes from Python, and edits go back.

import { overComm } from "./comm.js";
import { h } from "./dom.js";
import { whenQuiet } from "./latest.js";
import { Studio } from "./studio.js";

/** @param {{model: any, el: HTMLElement}} context */
export async function render({ model, el }) {
  const root = h("div", { class: "dissonance-studio embedded" });
  el.append(root);
  const transport = overComm(model);
  const hello = await transport.call("hello");
  const studio = new Studio(root, transport, hello, {
    embedded: true,
    document: model.get("document"),
    onEdit: whenQuiet(() => {
      model.set("document", studio.store.document);
      model.save_changes();
    }, 150),
  });
  studio.start();
  const onDocument = () => {
    const document = model.get("document");
    if (document !== studio.store.document) studio.store.open(document, true);
  };
  model.on("change:document", onDocument);
  return () => {
    model.off("change:document", onDocument);
    transport.close();
  };
}
