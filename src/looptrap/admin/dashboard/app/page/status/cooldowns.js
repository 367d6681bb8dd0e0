// What is refused now, and until when.

import { act } from "../../act.js";
import { change } from "../../api.js";
import { html, useMemo, useState } from "../../html.js";
import { useEvent } from "../../live.js";
import { useThrottled } from "../../loaded.js";
import { counted } from "../../number.js";
import { useObserved } from "../../observed.js";
import { linkTo } from "../../pages.js";
import { usePaged } from "../../paged.js";
import { Button } from "../../part/button.js";
import { Confirm } from "../../part/dialog.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { More, Table } from "../../part/table.js";
import { CallerLink } from "../../part/who.js";
import { status, whyReadOnly } from "../../status.js";
import { clock } from "../../time.js";

const REFRESH_MS = 5_000;

export function Cooldowns() {
  const cooldowns = usePaged("cooldowns", {}, "cooldowns");
  const [pages, setPages] = useState(1);
  // Loading the first page again would drop the others.
  const freshen = useThrottled(() => pages === 1 && cooldowns.reload(), REFRESH_MS);
  const goOn = () => {
    setPages(pages + 1);
    cooldowns.goOn();
  };
  for (const event of ["incident", "change", "stats", "polled"]) useEvent(event, freshen);
  const [asking, setAsking] = useState(null);
  const reason = whyReadOnly(useObserved(status));
  const at = useObserved(clock);
  const columns = useMemo(() => columnsOf(reason, setAsking), [reason]);
  const release = () => act(change("POST", "release", { incident: asking.incident }), ({ released }) => (released ? "Released: the next such call passes." : "It was not being refused any more."), cooldowns.reload);
  return html`
    <section class="card flush" aria-labelledby="cooldowns">
      <div class="card-head"><h2 id="cooldowns">Cooldowns <span class="quiet">what is refused now</span></h2></div>
      <${Loaded} of=${cooldowns} lines=${3} what="The cooldowns">
        ${(loaded) => {
          const rows = byIncident(loaded.filter((one) => Date.parse(one.until) > at));
          if (!rows.length && !cooldowns.next) return html`<p class="none quiet">Nothing is being refused.</p>`;
          return html`
            <${Table} caption="Cooldowns" columns=${columns} rows=${rows} keyOf=${(one) => one.incident} />
            ${(cooldowns.next || pages > 1) && html`<${More} shown=${rows.length} noun="incident" hasMore=${Boolean(cooldowns.next)} isBusy=${cooldowns.isGoingOn} onMore=${goOn} />`}
          `;
        }}
      <//>
    </section>
    ${asking && html`
      <${Confirm} title="Let these calls pass again" verb="Release" onConfirm=${release} onClose=${() => setAsking(null)}
        consequences="The next call of this kind reaches the provider and is paid for. Counting starts again on all instances; a loop that continues is refused again at its threshold." />
    `}
  `;
}

/** One row for the cooldowns of an incident: they are released together. */
function byIncident(cooldowns) {
  const found = new Map();
  for (const one of cooldowns) {
    const before = found.get(one.incident);
    found.set(one.incident, { ...(before ?? one), number: (before?.number ?? 0) + 1 });
  }
  return [...found.values()];
}

function columnsOf(reason, onRelease) {
  return [
    {
      title: "What",
      isWide: true,
      render: (one) => html`
        <a class="row-link" href=${linkTo("incident", {}, { id: one.incident })}>${what(one)}</a>
        <span class="under quiet" title=${`${one.caller} · ${one.rule}`}><${CallerLink} caller=${one.caller} /> · ${one.rule} · ${counted(one.number, "fingerprint")}</span>
      `,
    },
    { title: "Ends", render: (one) => html`<${Moment} at=${one.until} />` },
    { title: "Release", isAction: true, render: (one) => html`<${Button} kind="small" why=${reason} about=${what(one)} onClick=${() => onRelease(one)}>Release …<//>` },
  ];
}

/** The part of the message to the client that says what it did; the rest is advice. */
function what({ message, rule }) {
  return message.replace(/^(Blocked|Stopped)( \(\w+\))?: /, "").split(". Refused for ")[0] || rule;
}
