// A line of code with a button that copies it.

import { html, useState } from "../html.js";

export function Copyable({ text, label }) {
  return html`<div class="copyable"><code>${text}</code><${CopyButton} text=${text} label=${label} /></div>`;
}

export function CopyButton({ text, label }) {
  const [word, setWord] = useState("Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setWord("Copied");
    } catch {
      setWord("Select and copy");
    }
    setTimeout(() => setWord("Copy"), 2_000);
  };
  return html`<button type="button" class="button small" onClick=${copy} aria-label=${`${word}: ${label}`}>${word}</button>`;
}
