// Settings: loop detection by project, tools with thresholds of their own, the policies, and who changed what.

import { html } from "../html.js";
import { linkTo } from "../pages.js";
import { useObserved } from "../observed.js";
import { Segments } from "../part/segments.js";
import { status, whyReadOnly } from "../status.js";
import { Audit } from "./settings/audit.js";
import { Detection } from "./settings/detection.js";
import { Policies } from "./settings/policies.js";
import { Tools } from "./settings/tools.js";

const PARTS = [
  { name: "detection", title: "Loop detection", Part: Detection },
  { name: "tools", title: "Tools", Part: Tools },
  { name: "policies", title: "Policies", Part: Policies },
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
