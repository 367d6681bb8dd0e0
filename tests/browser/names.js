// Every control and picture needs a name, every id is one element's, and a page has one heading.
() => {
  const words = (ids) => (ids ?? "").split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
  const nameOf = (element) =>
    words(element.getAttribute("aria-labelledby")).trim() ||
    element.getAttribute("aria-label")?.trim() ||
    [...(element.labels ?? [])].map((label) => ownWords(label)).join(" ").trim() ||
    (element.matches("input, select, textarea") ? "" : element.textContent.trim());
  // A label around a control holds the control's own words too: they name nothing.
  const ownWords = (label) => {
    const copy = label.cloneNode(true);
    for (const control of copy.querySelectorAll("input, select, textarea")) control.remove();
    return copy.textContent;
  };
  const controls = "a, button, input, select, textarea, summary, [role=button], [role=img], [tabindex='0'], img, dialog, table, nav";
  const found = [];
  const elements = [...document.querySelectorAll(controls)].filter((element) => element.checkVisibility());
  for (const element of elements) {
    const name = element.matches("table") ? (element.caption?.textContent ?? nameOf(element)) : nameOf(element);
    if (!name) found.push(`no name: ${element.outerHTML.slice(0, 120)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((one, index) => ids.indexOf(one) !== index))) found.push(`twice: #${id}`);
  const headings = document.querySelectorAll("h1").length;
  if (headings !== 1) found.push(`${headings} headings of the page`);
  if (!document.title.includes("Looptrap")) found.push("no title");
  return { seen: elements.length, found };
}
