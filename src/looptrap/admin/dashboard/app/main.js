// The entry of the dashboard.

import { html, render } from "./html.js";
import { listen } from "./keys.js";
import { follow } from "./live.js";
import { Shell } from "./shell.js";
import { watchStatus } from "./status.js";
import { watchTitle } from "./title.js";

render(html`<${Shell} />`, document.getElementById("app"));
listen();
watchTitle();
watchStatus();
follow();
