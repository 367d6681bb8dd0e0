// The entry of the dashboard.

import { html, render } from "./html.js";
import { listen } from "./keys.js";
import { follow } from "./live.js";
import { Shell } from "./shell.js";
import { watchStatus } from "./status.js";

render(html`<${Shell} />`, document.getElementById("app"));
listen();
watchStatus();
follow();
