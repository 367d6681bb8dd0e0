// The gateway: version, mode, addresses, store, history, workers and capture.

import { html } from "../../html.js";
import { count, counted } from "../../number.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";

const MODES = { enforce: "Rules act on loops.", shadow: "Shadow: loops are reported, and every call passes.", mixed: "Some policies act, some only report." };
const CAPTURES = { off: "no call is captured", digests: "digests, no text", content: "every message as it was sent" };

export function Gateway({ current }) {
  const { store, history, workers } = current;
  return html`
    <dl class="facts-grid card">
      <${Fact} name="Looptrap" value=${current.version} badge=${current.draining ? ["warned", "stopping"] : ["good", "serving"]}><span>${current.build}, up since <${Moment} at=${current.started} isExact /></span><//>
      <${Fact} name="Mode" value=${current.mode} badge=${current.mode === "enforce" ? null : ["shadow", "reports only"]}><span>${MODES[current.mode]} <a href=${linkTo("settings", { part: "policies" })}>Policies</a></span><//>
      <${Fact} name="Calls come in at" value=${current.listen}><span>${current.upstream ? `and go to ${current.upstream}` : "and go to the provider that their path names"}</span><//>
      <${Fact} name="Store" value=${store.kind} badge=${store.is_degraded ? ["refused", "unreachable"] : ["good", "reachable"]}><span>${storeWords(store)}</span><//>
      <${Fact} name="History" value=${history?.path || "none"} badge=${historyBadge(history)}><span>${historyWords(history)}</span><//>
      <${Fact} name="Workers" value=${workers ? `${workers.serving} of ${workers.size}` : "1"} badge=${workers && workers.serving < workers.size ? ["warned", "being replaced"] : null}><span>${workers ? "processes that share the address" : "one process"}</span><//>
      <${Fact} name="Capture" value=${current.capture}><span>${CAPTURES[current.capture] ?? ""}; used by <a href=${linkTo("settings")}>what if</a></span><//>
      <${Fact} name="Open incidents" value=${count(current.open_incidents)} badge=${current.open_incidents ? ["open", "looping"] : null}><span><a href=${linkTo("incidents")}>See them</a></span><//>
    </dl>
  `;
}

function Fact({ name, value, badge, children }) {
  return html`
    <div>
      <dt>${name}</dt>
      <dd><span class="fact-value">${value}</span> ${badge && html`<${Badge} tone=${badge[0]}>${badge[1]}<//>`}<div class="quiet">${children}</div></dd>
    </div>
  `;
}

function storeWords({ kind, is_degraded: isDegraded, address }) {
  if (isDegraded) return "Cannot be reached: this instance counts alone.";
  return kind === "memory" ? "counts in this process, until it ends" : `shared by all instances${address ? `, at ${address}` : ""}`;
}

function historyBadge(history) {
  if (!history?.path) return null;
  if (!history.is_writing) return ["refused", "not written"];
  return history.failed || history.lost ? ["warned", "lost records"] : ["good", "written"];
}

function historyWords(history) {
  if (!history?.path) return "incidents are not stored";
  if (!history.failed && !history.lost) return "no record was lost";
  return `${counted(history.failed, "write")} failed, ${counted(history.lost, "entry", "entries")} lost`;
}
