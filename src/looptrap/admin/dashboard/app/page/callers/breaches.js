// Budgets that refused calls, the latest first; each row opens its page.

import { html } from "../../html.js";
import { useEvent } from "../../live.js";
import { useThrottled } from "../../loaded.js";
import { count, dollars } from "../../number.js";
import { linkTo } from "../../pages.js";
import { usePaged } from "../../paged.js";
import { Badge } from "../../part/badge.js";
import { Moment } from "../../part/moment.js";
import { Loaded } from "../../part/state.js";
import { More, Table } from "../../part/table.js";
import { amount } from "./account.js";

const REFRESH_MS = 5_000;

/** The state of a breach, as a badge has it; `account` is how it stands now, where that is known. */
export function breachState(one, account) {
  if (one.mode === "shadow") return { tone: "shadow", words: "shadow: nothing was refused" };
  if (one.state === "over") return { tone: "plain", words: "the period is over" };
  if (account && !account.is_exceeded) return { tone: "good", words: "calls pass again" };
  return account ? { tone: "warned", words: "refuses calls now" } : { tone: "plain", words: "the period goes on" };
}

export function Breaches() {
  const list = usePaged("breaches", {}, "breaches", { limit: 25, keyOf: (one) => one.id });
  const freshen = useThrottled(list.reload, REFRESH_MS);
  useEvent("stats", () => (list.value?.length ?? 0) <= 25 && freshen());
  return html`
    <${Loaded} of=${list} lines=${3} what="The breaches">
      ${(rows) => rows.length > 0 && html`
        <section class="card flush" aria-labelledby="breaches">
          <div class="card-head"><h2 id="breaches">Breaches <span class="quiet">calls that budgets refused</span></h2></div>
          <${Table} caption="Breaches of budgets, the latest first" columns=${COLUMNS} rows=${rows} keyOf=${(one) => one.id} />
          ${list.next && html`<${More} shown=${rows.length} noun="breach" plural="breaches" hasMore isBusy=${list.isGoingOn} onMore=${list.goOn} />`}
        </section>
      `}
    <//>
  `;
}

const COLUMNS = [
  {
    title: "Budget",
    isWide: true,
    render: (one) => html`
      <a class="row-link" href=${linkTo("breach", {}, { id: one.id })}>${one.budget}</a>
      <span class="under quiet">${Object.entries(one.by).map(([name, value]) => `${name} ${value}`).join(" · ")}</span>
    `,
  },
  { title: "State", render: (one) => html`<${State} one=${one} />` },
  { title: "Refused", isNumber: true, render: (one) => count(one.refused) },
  { title: "Would have cost", isNumber: true, render: (one) => (one.estimated_usd === null ? "unpriced" : `≥ ${dollars(one.estimated_usd)}`) },
  { title: "Limit", isNumber: true, render: (one) => amount(one, one.limit) },
  { title: "Since", isNumber: true, render: (one) => html`<${Moment} at=${one.opened} />` },
  { title: "Latest", isNumber: true, render: (one) => html`<${Moment} at=${one.last} />` },
];

function State({ one }) {
  const { tone, words } = breachState(one);
  return html`<${Badge} tone=${tone}>${words}<//>`;
}
