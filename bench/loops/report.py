"""The report of LoopBench: a table in its pages, the same as JSON, and a chart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.loops.chart import chart
from bench.loops.package_worker import ADAPTERS
from bench.loops.packages import ROOT
from bench.loops.rules import PRESETS, RULES
from bench.loops.score import Case, Score, Scores, kinds_of, scores_of

HERE = Path("bench") / "loops"
PAGES = (HERE / "README.md", Path("docs") / "loopbench.md")
RESULTS = HERE / "results.json"
CHART = Path("docs") / "pictures" / "loopbench.svg"

BEGIN, END = "<!-- results -->", "<!-- end of results -->"

HEADINGS = (
    "detector", "loops caught", "recall", "loops warned", "early", "honest refused",
    "honest warned", "lag", "waste saved", "CPU µs",
)  # fmt: skip

GROUPS = {
    **{f"preset {name}": "preset" for name in PRESETS[1:]},
    **dict.fromkeys(RULES, "rule"),
    **dict.fromkeys(ADAPTERS, "package"),
    "Looptrap": "ours",
}


def table(scores: Scores, notes: Mapping[str, str]) -> str:
    """Return the results as Markdown, with a table for each split."""
    parts = []
    for split, found in scores.items():
        one = next(iter(found.values()))
        parts.append(f"**{split}**: {one.loops} loops, {one.honest} honest runs\n")
        parts.append(_line(HEADINGS))
        parts.append(_line(["---", *["---:"] * (len(HEADINGS) - 1)]))
        parts += [_line(_row(name, score)) for name, score in found.items()]
        parts.append("")
    parts += [f"- {name}: {note}" for name, note in notes.items()]
    return "\n".join(parts).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _row(name: str, score: Score) -> list[str]:
    return [
        name,
        f"{score.caught}",
        f"{score.recall:.2f}",
        f"{score.loops_flagged}",
        f"{score.early}",
        f"{score.honest_refused}",
        f"{score.honest_flagged}",
        "–" if score.lag is None else f"{score.lag:g}",
        f"{score.waste_saved:.0%}",
        "–" if score.cpu_us is None else f"{score.cpu_us:.0f}",
    ]


def as_json(cases: Sequence[Case], notes: Mapping[str, str], seed: int) -> str:
    """Return all figures, also by kind, as JSON."""
    scores = {
        split: {name: score.as_json() for name, score in found.items()}
        for split, found in scores_of(cases).items()
    }
    whole = {"seed": seed, "splits": scores, "kinds": kinds_of(cases), "missing": dict(notes)}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def between(page: str, text: str) -> str:
    """Return a page with this text between its markers."""
    head, _, rest = page.partition(BEGIN)
    _, marker, tail = rest.partition(END)
    if not marker:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{head}{BEGIN}\n\n{text}\n{END}{tail}"


def write(cases: Sequence[Case], notes: Mapping[str, str], seed: int, root: Path = ROOT) -> None:
    """Write the table into its pages, the JSON and the chart."""
    scores = scores_of(cases)
    for page in PAGES:
        path = root / page
        path.write_text(between(path.read_text("utf-8"), table(scores, notes)), "utf-8")
    (root / RESULTS).write_text(as_json(cases, notes, seed), "utf-8")
    (root / CHART).write_text(chart(scores, GROUPS), "utf-8")
