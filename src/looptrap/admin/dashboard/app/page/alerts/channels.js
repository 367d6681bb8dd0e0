// The channels, their status, and a test event.

import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { count } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { Empty } from "../../part/state.js";
import { Table } from "../../part/table.js";
import { say } from "../../part/toast.js";
import { status, whyReadOnly } from "../../status.js";

export function Channels({ channels, onChange }) {
  const [testing, setTesting] = useState(null);
  const [results, setResults] = useState({});
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, results, setTesting), [reason, results]);
  const test = async () => {
    const { channels: tried } = await change("POST", "alerts/test", testing.name ? { channel: testing.name } : {});
    setResults({ ...results, ...Object.fromEntries(tried.map((one) => [one.channel, one])) });
    const failed = tried.filter((one) => !one.ok).map((one) => one.channel);
    say(failed.length ? `The test failed: ${failed.join(", ")}.` : "The test was delivered.", failed.length ? "bad" : "good");
    await onChange();
  };
  return html`
    <section class="card flush" aria-labelledby="channels">
      <div class="card-head"><h2 id="channels">Channels</h2>
        ${channels.length > 1 && html`<${Button} why=${reason} onClick=${() => setTesting({ name: "" })}>Test all …<//>`}</div>
      ${channels.length
        ? html`<${Table} caption="Channels" columns=${columns} rows=${channels} keyOf=${(one) => one.name} />`
        : html`<${Empty} title="No alert channel is set.">To send alerts to a webhook, Slack or another service, add <code>[[channels]]</code> to the configuration file; see <code>docs/alerts.md</code>.<//>`}
    </section>
    ${testing && html`
      <${Confirm}
        title=${testing.name ? `Send a test through ${testing.name}` : "Send a test through all channels"} verb="Send" onConfirm=${test} onClose=${() => setTesting(null)}
        consequences="Each channel gets a message that says it is a test. The gateway tries once, for up to 8 seconds, and does not store it."
      />
    `}
  `;
}

function columnsOf(reason, results, onTest) {
  return [
    { title: "Channel", isName: true, render: (one) => html`<strong>${one.name}</strong><span class="under quiet" title=${one.to}>${one.kind} to ${one.to}</span>` },
    { title: "Events", isName: true, render: (one) => html`<span>${one.events.join(", ")}</span><span class="under quiet">${one.projects.length ? `of ${one.projects.join(", ")}` : "of all projects"}</span>` },
    { title: "Status", render: (one) => html`<${Doing} channel=${one} result=${results[one.name]} />` },
    { title: "Delivered", isNumber: true, render: (one) => count(one.delivered) },
    { title: "Pending", isNumber: true, render: (one) => count(one.pending) },
    { title: "Given up", isNumber: true, render: (one) => (one.dead ? html`<a href=${linkTo("alerts", { state: "dead" })}>${count(one.dead)}</a>` : count(one.dead)) },
    { title: "Attempts", isNumber: true, render: (one) => count(one.attempts) },
    { title: "Test", isAction: true, render: (one) => html`<${Button} kind="small" why=${reason} about=${one.name} onClick=${() => onTest(one)}>Test …<//>` },
  ];
}

function Doing({ channel, result }) {
  if (result) return html`<span class="doing">${result.ok ? html`<${Badge} tone="good">test delivered<//>` : html`<${Badge} tone="refused">test failed<//><span class="under quiet" title=${result.error}>${result.error}</span>`}</span>`;
  if (channel.dead) return html`<${Badge} tone="refused">losing alerts<//>`;
  if (channel.pending) return html`<${Badge} tone="warned">retrying<//>`;
  return channel.delivered ? html`<${Badge} tone="good">working<//>` : html`<${Badge}>not used yet<//>`;
}
