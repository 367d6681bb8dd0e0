// Settings: loop detection by project, the rules, tools, gateway keys, limits of budgets, and who changed what.

import { html } from "../html.js";
import { linkTo } from "../pages.js";
import { useObserved } from "../observed.js";
import { Segments } from "../part/segments.js";
import { status, whyReadOnly } from "../status.js";
import { Audit } from "./settings/audit.js";
import { Budgets } from "./settings/budgets.js";
import { Detection } from "./settings/detection.js";
import { Keys } from "./settings/keys.js";
import { Policies } from "./settings/policies.js";
import { Tools } from "./settings/tools.js";

const PARTS = [
  { name: "detection", title: "Loop detection", Part: Detection },
  { name: "policies", title: "Rules", Part: Policies },
  { name: "tools", title: "Tools", Part: Tools },
  { name: "keys", title: "Keys", Part: Keys },
  { name: "budgets", title: "Budgets", Part: Budgets },
  { name: "changes", title: "Changes", Part: Audit },
];

export default function Settings({ query }) {
  const { name, Part } = PARTS.find((one) => one.name === query.part) ?? PARTS[0];
  const reason = whyReadOnly(useObserved(status));
  return html`
    <div class="page-head">
      <h1 tabIndex="-1">Settings</h1>
      <${Segments} label="Parts of the settings" choices=${PARTS} current=${name} to=${(part) => linkTo("settings", { part })} />
    </div>
    ${reason && html`<p class="quiet read-only">${reason} You can view and try settings, but not change them.</p>`}
    <${Part} query=${query} />
  `;
}
