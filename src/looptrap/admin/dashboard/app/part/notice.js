// Notices of the gateway, the worst first.

import { html } from "../html.js";
import { linkTo, pageAt } from "../pages.js";
import { place } from "../router.js";
import { firstSentence, noticeCounts } from "../wording.js";

const PLACES = [
  [/letter|channel/, "alerts"],
  [/store|breaker|worker|history|kill/, "status"],
  [/budget/, "callers", { by: "budgets" }],
  [/unpriced/, "callers", { by: "model" }],
  [/indicator/, "callers", { by: "session", order: "burn" }],
  [/shadow|detection/, "settings"],
  [/rules/, "settings", { part: "policies" }],
];

/**
 * One line that says how many there are and what the worst is; opened, all of them.
 * @param {{notices: {level: "warn" | "bad", code: string, message: string}[]}} props
 */
export function Notices({ notices }) {
  if (!notices.length) return null;
  const worstFirst = [...notices].sort((one, other) => Number(other.level === "bad") - Number(one.level === "bad"));
  const problems = notices.filter((one) => one.level === "bad").length;
  return html`
    <details class="notices ${problems ? "bad" : ""}">
      <summary>
        <span class="notice-level">${noticeCounts(problems, notices.length - problems)}</span>
        <span class="notice-line">${firstSentence(worstFirst[0].message)}</span>
      </summary>
      <ul aria-label="Notices">
        ${worstFirst.map((notice) => html`
          <li key=${notice.code + notice.message} class=${notice.level}>
            <span class="notice-level">${notice.level === "bad" ? "Problem" : "Note"}</span>
            <span>${notice.message}</span>
            ${placeOf(notice) && html`<a href=${placeOf(notice)}>See</a>`}
          </li>
        `)}
      </ul>
    </details>
  `;
}

function placeOf({ code }) {
  const found = PLACES.find(([form]) => form.test(code));
  const isHere = found && pageAt(place.value.path)?.page.name === found[1];
  return found && !isHere ? linkTo(found[1], found[2]) : undefined;
}
