// The frame of every page: navigation, connection, theme, messages.

import { asking, hasToken } from "./api.js";
import { html, useEffect, useErrorBoundary, useRef, useState } from "./html.js";
import { connection, reconnect, useEvent } from "./live.js";
import { isHelpOpen } from "./keys.js";
import { useObserved } from "./observed.js";
import { PAGES, pageAt } from "./pages.js";
import { Mark } from "./part/mark.js";
import { Empty, Failed, Loading } from "./part/state.js";
import { announce, Toasts } from "./part/toast.js";
import { TokenDialog } from "./part/token.js";
import { ShortcutsDialog } from "./part/shortcuts.js";
import { href, place } from "./router.js";
import { status } from "./status.js";
import { CHOICES, choice, choose } from "./theme.js";
import { brief, exact } from "./time.js";
import { title } from "./title.js";
import { capital, headline } from "./wording.js";

const ANNOUNCED_MS = 10_000;

let isFirst = true; // the first page leaves the focus where the browser put it

export function Shell() {
  const here = useObserved(place);
  const found = pageAt(here.path);
  useAnnounced();
  return html`
    <a class="skip" href="#main" onClick=${skip}>Skip to content</a>
    <${Header} current=${found?.page} />
    <${Away} />
    <main id="main" tabIndex="-1">
      <${Shown} key=${here.path} found=${found} query=${here.query} />
    </main>
    <${Footer} />
    <${Toasts} />
    <${TokenDialog} />
    <${ShortcutsDialog} />
  `;
}

function Header({ current }) {
  const gateway = useObserved(status);
  const isShut = Boolean(gateway?.open_incidents);
  return html`
    <header class="top">
      <a class="brand" href=${href("/")} aria-label="Looptrap, overview"><${Mark} isShut=${isShut} /><span>Looptrap</span></a>
      <nav aria-label="Pages">
        ${PAGES.filter((page) => page.key).map((page) => html`
          <a key=${page.name} href=${href(page.path)} aria-current=${isWithin(current, page) ? "page" : undefined}>
            ${page.title}${page.name === "incidents" && isShut ? html` <span class="pill" title="open incidents">${gateway.open_incidents}</span>` : ""}
          </a>
        `)}
      </nav>
      <${Connection} />
      <${ThemeSwitch} />
    </header>
  `;
}

function Connection() {
  const { state, since } = useObserved(connection);
  const words = { connecting: "Connecting", live: "Live", polling: "Polling", reconnecting: "Reconnecting", disconnected: "Disconnected", locked: "Token needed" };
  return html`<span class="connection ${state}" title=${`${words[state]} since ${exact(since)}`}><span class="dot"></span><span class="connection-word">${words[state]}</span></span>`;
}

function ThemeSwitch() {
  const chosen = useObserved(choice);
  return html`
    <label class="theme-switch">
      <span class="unseen">Theme</span>
      <select value=${chosen} onChange=${(event) => choose(event.currentTarget.value)}>
        ${CHOICES.map((one) => html`<option key=${one} value=${one}>${capital(one)}</option>`)}
      </select>
    </label>
  `;
}

function Away() {
  const { state, since } = useObserved(connection);
  const isAsking = useObserved(asking) !== null;
  if (state === "locked" && !isAsking && !hasToken()) {
    return html`
      <div class="away" role="alert">
        <p><strong>This gateway needs a token.</strong> Without one it shows nothing.</p>
        <button type="button" class="button small" onClick=${() => location.reload()}>Enter a token</button>
      </div>
    `;
  }
  if (state !== "disconnected") return null;
  return html`
    <div class="away" role="alert">
      <p><strong>The gateway has not answered since ${brief(since)}.</strong> This page shows older data. The dashboard keeps trying to reconnect.</p>
      <button type="button" class="button small" onClick=${reconnect}>Try now</button>
    </div>
  `;
}

function Shown({ found, query }) {
  const [view, setView] = useState({ Page: null, error: null });
  const [broken, mend] = useErrorBoundary();
  const load = () => found.page.load().then(
    (module) => setView({ Page: module.default, error: null }),
    () => setView({ Page: null, error: new Error("Check whether the gateway runs.") }),
  );
  useEffect(() => {
    if (!found) return;
    title.set(found.page.title);
    load();
  }, []);
  // A page opened while the gateway was down is loaded when it is back.
  for (const event of ["connected", "resumed"]) useEvent(event, () => view.error && load());
  useEffect(() => {
    if (!view.Page) return;
    if (!isFirst) document.querySelector("main h1")?.focus({ preventScroll: true });
    isFirst = false;
    scrollTo(0, 0);
  }, [view.Page]);
  if (broken) return html`<${Failed} error=${broken} what="This page" onRetry=${mend} />`;
  if (!found) return html`<${Empty} title="There is no such page."><a href=${href("/")}>Go to the overview</a><//>`;
  if (view.error) return html`<${Failed} error=${view.error} what="This page" onRetry=${load} />`;
  if (!view.Page) return html`<${Loading} lines=${6} />`;
  return html`<${view.Page} ...${found.named} query=${query} />`;
}

function Footer() {
  const gateway = useObserved(status);
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return html`
    <footer class="quiet">
      ${gateway && html`<span>Looptrap ${gateway.version}</span><span>${gateway.mode} mode</span><span>store: ${gateway.store.kind}</span><span>up since ${brief(gateway.started)}</span>`}
      <span>times in ${zone}</span>
      <button type="button" class="link" onClick=${() => isHelpOpen.set(true)}><kbd>?</kbd> shortcuts</button>
    </footer>
  `;
}

/** Announce new incidents to screen readers, at most every ANNOUNCED_MS. */
function useAnnounced() {
  const state = useRef({ known: new Set(), fresh: [], timer: null });
  useEvent("incident", (incident) => {
    const { known, fresh } = state.current;
    if (incident.state !== "open" || known.has(incident.id)) return;
    known.add(incident.id);
    fresh.push(incident);
    state.current.timer ??= setTimeout(() => {
      const [first, ...more] = state.current.fresh;
      announce(`New incident: ${headline(first)}${more.length ? `, and ${more.length} more` : ""}.`);
      state.current.fresh = [];
      state.current.timer = null;
    }, known.size === 1 ? 0 : ANNOUNCED_MS);
  });
}

function isWithin(current, page) {
  if (!current) return false;
  return current.name === page.name || (page.path !== "/" && current.path.startsWith(`${page.path}/`));
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}
