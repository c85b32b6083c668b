// The bundle: it starts the page that has a place for it, and is an anywidget for notebooks.

import { startPage } from "./page.js";
import { render } from "./widget.js";

const root = document.getElementById("dissonance-studio-page");
if (root) void startPage(root);

export default { render };
