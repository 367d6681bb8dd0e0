// The keys that work everywhere, in a dialog.

import { html } from "../html.js";
import { isHelpOpen, SHORTCUTS } from "../keys.js";
import { useObserved } from "../observed.js";
import { Dialog } from "./dialog.js";

export function ShortcutsDialog() {
  const isOpen = useObserved(isHelpOpen);
  if (!isOpen) return null;
  const close = () => isHelpOpen.set(false);
  return html`
    <${Dialog} title="Keyboard shortcuts" onClose=${close}>
      <dl class="shortcuts">
        ${SHORTCUTS.map(({ keys, words }) => html`<div key=${words}><dt>${keys.map((key) => html`<kbd key=${key}>${key}</kbd> `)}</dt><dd>${words}</dd></div>`)}
      </dl>
      <div class="row end"><button type="button" class="button" onClick=${close}>Close</button></div>
    <//>
  `;
}
