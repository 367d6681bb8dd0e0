"""The summary of a replay as tables, for a terminal or an HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from looptrap.policy.action import Action
from looptrap.replay.judge import RunResult
from looptrap.replay.replay import LabelGroup, ReplaySummary, Score, ratio

EMPTY_SHARE = "–"
"""Shown for a share of nothing."""


class ReportTable(NamedTuple):
    """Rows under a heading; the first cell of a row says what the others count."""

    heading: str
    rows: Sequence[tuple[str, ...]]
    columns: tuple[str, ...] = ()
    chart: str = ""
    """The same as SVG, for a page."""


def summary_tables(summary: ReplaySummary) -> Iterator[ReportTable]:
    """Yield the tables of a summary, most important first."""
    yield ReportTable("Replayed", _totals(summary))
    if summary.actions:
        actions = {action.value: summary.actions[action] for action in reversed(Action)}
        signals, rules = dict(summary.signals.most_common()), dict(summary.rules.most_common())
        heading = "Flagged runs by signal"
        yield ReportTable("Flagged runs by action", _counts(actions))
        yield ReportTable(heading, _counts(signals), chart=bar_chart(signals, heading))
        yield ReportTable("Flagged runs by rule", _counts(rules))
    if summary.score.has_labels:
        yield ReportTable("Against the labels", _labels(summary.score))
        if summary.sweep is not None:
            yield _sweep_table(summary.sweep.scores)


def render_text(summary: ReplaySummary) -> str:
    """Return the tables for a terminal."""
    return "\n\n".join(_text(table) for table in summary_tables(summary))


def _share(part: int, whole: int) -> str:
    """Return `5 of 8 (62.5%)`."""
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else EMPTY_SHARE


def _flagged(group: LabelGroup) -> str:
    return _share(group.flagged, group.runs)


def _refused(group: LabelGroup) -> str:
    return _share(group.refused, group.runs)


def _median(score: Score) -> str:
    calls = score.calls_until_caught
    return EMPTY_SHARE if calls is None else f"{calls:g}"


def _counts(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    return [(name, f"{count:,}") for name, count in counts.items() if count]


def _totals(summary: ReplaySummary) -> list[tuple[str, ...]]:
    problems = {
        "lines that are not runs": summary.skipped_lines,
        "files not read to their end": summary.unfinished_files,
    }
    return [
        ("runs", f"{summary.runs:,}"),
        ("calls", f"{summary.calls:,}"),
        ("flagged runs", _share(summary.flagged_runs, summary.runs)),
        ("calls saved", _share(summary.saved_calls, summary.calls)),
        ("tokens saved, about", f"{summary.saved_tokens:,}"),
        *_counts(problems),
    ]


def _labels(score: Score) -> list[tuple[str, ...]]:
    loops, honest, saved = score.loops, score.honest, score.saved_share
    others = {"hard negatives": score.hard, "runs without a label": score.unjudged}
    return [
        (
            "precision: loops among the labelled runs refused",
            _share(loops.refused, loops.refused + honest.refused),
        ),
        ("recall: loops refused", _refused(loops)),
        ("loops at least warned of", _flagged(loops)),
        ("false blocks: ok, but refused", _refused(honest)),
        ("false warnings: ok, but flagged", _flagged(honest)),
        *((f"{name} refused", _refused(group)) for name, group in others.items() if group.runs),
        ("calls until caught, median", _median(score)),
        ("wasted prompt volume saved", EMPTY_SHARE if saved is None else f"{saved:.1%}"),
    ]


def _sweep_table(scores: Mapping[float, Score]) -> ReportTable:
    """Return the scores with every threshold times each factor."""
    heading, factors = "Threshold sweep", [f"× {factor:g}" for factor in scores]
    shares = {
        "loops refused": [score.recall for score in scores.values()],
        "ok refused": [ratio(one.honest.refused, one.honest.runs) for one in scores.values()],
    }
    rows = [
        (factor, _refused(one.loops), _refused(one.honest), _flagged(one.honest), _median(one))
        for factor, one in zip(factors, scores.values(), strict=True)
    ]
    columns = ("thresholds", "loops refused", "ok refused", "ok flagged", "calls until caught")
    return ReportTable(heading, rows, columns, line_chart(factors, shares, heading))


def _text(table: ReportTable) -> str:
    rows = [table.columns, *table.rows] if table.columns else list(table.rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [table.heading]
    for first, *others in rows:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  ".join(["", first.ljust(widths[0]), *cells]))
    return "\n".join(lines)


WIDTH = 640
BAR_PX = 26
BAR_LEFT = 180
BAR_RIGHT = 60


def bar_chart(counts: Mapping[str, int], title: str) -> str:
    """Return a horizontal bar for each count."""
    highest = max(counts.values(), default=1)
    parts = []
    for row, (name, count) in enumerate(counts.items()):
        y = row * BAR_PX
        length = (WIDTH - BAR_LEFT - BAR_RIGHT) * count / highest
        parts.append(
            f'<text class="name" x="{BAR_LEFT - 8}" y="{y + 17}">{escape(name)}</text>'
            f'<rect x="{BAR_LEFT}" y="{y + 4}" width="{length:.1f}" height="{BAR_PX - 8}" rx="2"/>'
            f'<text x="{BAR_LEFT + length + 6:.1f}" y="{y + 17}">{count:,}</text>'
        )
    return _svg(len(counts) * BAR_PX, title, parts)


LINE_HEIGHT = 240
LINE_TOP, LINE_BOTTOM, MARGIN = 12, 28, 44


def line_chart(at: Sequence[str], series: Mapping[str, Sequence[float | None]], title: str) -> str:
    """Return one line a series of shares between 0 and 1, over evenly spaced points."""
    step = (WIDTH - 2 * MARGIN) / max(len(at) - 1, 1)

    def place(i: int, value: float) -> tuple[float, float]:
        return MARGIN + i * step, LINE_TOP + (LINE_HEIGHT - LINE_TOP - LINE_BOTTOM) * (1 - value)

    parts = []
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = place(0, value)
        parts.append(
            f'<line class="grid" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="name" x="{MARGIN - 8}" y="{y + 4:.1f}">{value:.0%}</text>'
        )
    parts += [
        f'<text class="below" x="{place(i, 0)[0]:.1f}" y="{LINE_HEIGHT - 8}">{escape(name)}</text>'
        for i, name in enumerate(at)
    ]
    for number, values in enumerate(series.values()):
        points = [place(i, value) for i, value in enumerate(values) if value is not None]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="series{number}" points="{path}"/>')
        parts += [
            f'<circle class="series{number}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points
        ]
    keys = [f'<li class="series{number}">{escape(name)}</li>' for number, name in enumerate(series)]
    return f'{_svg(LINE_HEIGHT, title, parts)}<ul class="legend">{"".join(keys)}</ul>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"{''.join(parts)}</svg>"
    )


PAGE_STYLE = (files("looptrap.replay") / "page.css").read_text("utf-8")


def render_html(summary: ReplaySummary, source: str) -> str:
    """Return the page; `source` names the preset or file of the policies."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Nothing is loaded or run, whatever a recorded run contains.
            '<meta http-equiv="Content-Security-Policy"'
            " content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>Looptrap replay</title><style>{PAGE_STYLE}</style></head><body>",
            "<h1>Looptrap replay</h1>",
            f"<p>Recorded runs against the policies of {escape(source)}.</p>",
            *map(_section, summary_tables(summary)),
            *_worst_runs(summary),
            "</body></html>",
            "",
        ]
    )


def _section(table: ReportTable) -> str:
    rows = [
        [_cell(first), *(_cell(cell, "figure") for cell in others)] for first, *others in table.rows
    ]
    return f"<h2>{escape(table.heading)}</h2>{table.chart}{_html_table(table.columns, rows)}"


def _worst_runs(summary: ReplaySummary) -> Iterator[str]:
    worst = list(summary.worst)
    if not worst:
        return
    yield "<h2>Flagged runs</h2>"
    if len(worst) < summary.flagged_runs:
        yield f"<p>The {len(worst):,} severest of {summary.flagged_runs:,}.</p>"
    columns = ("run", "verdict", "at turn", "calls", "rule", "signal", "evidence", "calls saved")
    yield f'<div class="wide">{_html_table(columns, map(_run_cells, worst))}</div>'


def _run_cells(result: RunResult) -> list[str]:
    action = result.verdict.value
    return [
        _cell(result.id),
        _cell(action, action),
        _cell(str(getattr(result.first, action)), "figure"),
        _cell(f"{result.calls:,}", "figure"),
        _cell(result.rule or ""),
        _cell(result.signal or ""),
        _cell("; ".join(evidence.what for evidence in result.evidence)),
        _cell(f"{result.saved_calls:,}", "figure"),
    ]


def _cell(text: str, kind: str = "") -> str:
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def _html_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    lines = [head] if head else []
    lines += ["".join(cells) for cells in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
