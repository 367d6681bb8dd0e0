// Deliveries (the API calls them letters): each is one event through one channel.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useThrottled } from "../../loaded.js";
import { count, counted } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { usePaged } from "../../paged.js";
import { Badge } from "../../part/badge.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { Moment } from "../../part/moment.js";
import { Segments } from "../../part/segments.js";
import { Empty, Loaded } from "../../part/state.js";
import { More, Table } from "../../part/table.js";
import { status, whyReadOnly } from "../../status.js";

const STATES = [
  { name: "all", title: "All" },
  { name: "pending", title: "Pending" },
  { name: "dead", title: "Given up" },
  { name: "delivered", title: "Delivered" },
];
const NONE = { all: "There are no deliveries yet.", pending: "No delivery is pending.", dead: "No delivery was given up.", delivered: "No delivery has succeeded yet." };
const REFRESH_MS = 5_000;

export function Letters({ query, onChange }) {
  const state = query.state in NONE ? query.state : "all";
  const list = usePaged("alerts/letters", { state }, "letters");
  // A viewer who has loaded older deliveries is not brought back to the first page.
  const freshen = useThrottled(() => list.value?.length <= 50 && list.reload(), REFRESH_MS);
  for (const event of ["stats", "polled"]) useEvent(event, freshen);
  const [asking, setAsking] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const columns = useMemo(() => columnsOf(reason, setAsking), [reason]);
  const changed = () => Promise.all([list.reload(), onChange()]);
  const hasDead = list.value?.some((one) => one.state === "dead");
  const resend = () => act(change("POST", "alerts/resend", asking.event ? { event: asking.event, channel: asking.channel } : { state: "dead" }), ({ resent }) => `${counted(resent, "delivery is", "deliveries are")} sent again.`, changed);
  return html`
    <section class="card flush" aria-labelledby="letters">
      <div class="card-head">
        <h2 id="letters">Deliveries <span class="quiet">one event through one channel</span></h2>
        <span class="row">
          <${Segments} label="Which deliveries" choices=${STATES} current=${state} to=${(name) => linkTo("alerts", { state: name })} />
          <${Button} why=${reason || (hasDead ? "" : "No delivery was given up.")} onClick=${() => setAsking({})}>Resend all …<//>
        </span>
      </div>
      <${Loaded} of=${list} lines=${8} what="The deliveries">
        ${(letters) => (letters.length
          ? html`
            <${Table} caption="Deliveries, the newest first" columns=${columns} rows=${letters} keyOf=${(one) => `${one.event} ${one.channel}`} />
            <${More} shown=${letters.length} noun="delivery" plural="deliveries" hasMore=${Boolean(list.next)} isBusy=${list.isGoingOn} onMore=${list.goOn} />
          `
          : html`<${Empty} isCalm title=${NONE[state]} />`)}
      <//>
    </section>
    ${asking && html`
      <${Confirm}
        title=${asking.event ? `Send it again through ${asking.channel}` : "Send all again that were given up"} verb="Resend" onConfirm=${resend} onClose=${() => setAsking(null)}
        consequences=${asking.event ? `“${asking.title}” is sent again, with its original time.` : "Every delivery that was given up is sent again, on every channel, with its original time. People may get many messages about old incidents."}
      />
    `}
  `;
}

function columnsOf(reason, onResend) {
  return [
    { title: "What", isWide: true, render: (one) => html`${pageOf(one) ? html`<a class="row-link" href=${pageOf(one)}>${one.title}</a>` : html`<span class="row-link">${one.title}</span>`}<span class="under quiet">${one.name}</span>` },
    { title: "Channel", render: (one) => one.channel },
    { title: "State", render: (one) => html`<${State} letter=${one} />` },
    { title: "Happened", isNumber: true, render: (one) => html`<${Moment} at=${one.time} />` },
    { title: "Attempts", isNumber: true, render: (one) => count(one.attempts) },
    { title: "Resend", isAction: true, render: (one) => one.state === "dead" && html`<${Button} kind="small" why=${reason} about=${one.title} onClick=${() => onResend(one)}>Resend …<//>` },
  ];
}

/** The page about what happened; empty where there is none. */
function pageOf({ incident, breach }) {
  if (incident) return linkTo("incident", {}, { id: incident });
  return breach ? linkTo("breach", {}, { id: breach }) : "";
}

function State({ letter }) {
  const [tone, word] = { pending: ["warned", "pending"], dead: ["refused", "given up"], delivered: ["good", "delivered"] }[letter.state] ?? ["plain", letter.state];
  return html`
    <span class="letter-state"><${Badge} tone=${tone}>${word}<//>
      ${letter.due && html` <span class="quiet">next try <${Moment} at=${letter.due} /></span>`}
      ${letter.error && html`<span class="letter-error quiet">${letter.error}</span>`}</span>
  `;
}
