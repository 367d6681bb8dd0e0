"""The summary of a replay as tables, for a terminal or an HTML page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import NamedTuple

from looptrap.policy.action import Action
from looptrap.replay.judge import RunResult
from looptrap.replay.replay import ReplaySummary
from looptrap.replay.score import LabelGroup, Score, ThresholdSweep, ratio

EMPTY_SHARE = "–"
"""Shown for a share of nothing."""


class ReportTable(NamedTuple):
    """Rows under a heading; the first cell of a row says what the others count."""

    heading: str
    rows: list[tuple[str, ...]]
    columns: tuple[str, ...] = ()


def summary_tables(summary: ReplaySummary) -> Iterator[ReportTable]:
    """Yield the tables of a summary, most important first."""
    yield ReportTable("Replayed", _totals(summary))
    if summary.actions:
        by_severity = {action.value: summary.actions[action] for action in reversed(Action)}
        yield ReportTable("Flagged runs by action", _counts(by_severity))
        yield ReportTable("Flagged runs by signal", _counts(dict(summary.signals.most_common())))
        yield ReportTable("Flagged runs by rule", _counts(dict(summary.rules.most_common())))
    if summary.score.has_labels:
        yield ReportTable("Against the labels", _labels(summary.score))
        if summary.sweep is not None:
            yield sweep_table(summary.sweep.scores)


def render_text(summary: ReplaySummary) -> str:
    """Return the tables for a terminal."""
    return "\n\n".join(_text(table) for table in summary_tables(summary))


def sweep_table(scores: Mapping[float, Score]) -> ReportTable:
    """Return the scores with every threshold times each factor."""
    return ReportTable(
        "Threshold sweep",
        [
            (
                f"× {factor:g}",
                share_text(score.loops.refused, score.loops.runs),
                share_text(score.honest.refused, score.honest.runs),
                share_text(score.honest.flagged, score.honest.runs),
                _median(score),
            )
            for factor, score in scores.items()
        ],
        ("thresholds", "loops refused", "ok refused", "ok flagged", "calls until caught"),
    )


def share_text(part: int, whole: int) -> str:
    """Return `5 of 8 (62.5%)`."""
    return f"{part:,} of {whole:,} ({part / whole:.1%})" if whole else EMPTY_SHARE


def _totals(summary: ReplaySummary) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("runs", f"{summary.runs:,}"),
        ("calls", f"{summary.calls:,}"),
        ("flagged runs", share_text(summary.flagged, summary.runs)),
        ("calls saved", share_text(summary.saved_calls, summary.calls)),
        ("tokens saved, about", f"{summary.saved_tokens:,}"),
    ]
    if summary.skipped:
        rows.append(("lines that are not runs", f"{summary.skipped:,}"))
    if summary.unfinished:
        rows.append(("files not read to their end", f"{summary.unfinished:,}"))
    return rows


def _labels(score: Score) -> list[tuple[str, ...]]:
    loops, honest = score.loops, score.honest
    rows: list[tuple[str, ...]] = [
        ("precision: loops among the labelled runs refused", _precision(score)),
        ("recall: loops refused", _refused(loops)),
        ("loops at least warned of", share_text(loops.flagged, loops.runs)),
        ("false blocks: ok, but refused", _refused(honest)),
        ("false warnings: ok, but flagged", share_text(honest.flagged, honest.runs)),
    ]
    if score.hard.runs:
        rows.append(("hard negatives refused", _refused(score.hard)))
    if score.unjudged.runs:
        rows.append(("runs without a label refused", _refused(score.unjudged)))
    spared = score.share_spared
    rows += [
        ("calls until caught, median", _median(score)),
        ("wasted prompt volume saved", EMPTY_SHARE if spared is None else f"{spared:.1%}"),
    ]
    return rows


def _refused(group: LabelGroup) -> str:
    return share_text(group.refused, group.runs)


def _precision(score: Score) -> str:
    return share_text(score.loops.refused, score.loops.refused + score.honest.refused)


def _median(score: Score) -> str:
    calls = score.calls_until_caught
    return EMPTY_SHARE if calls is None else f"{calls:g}"


def _counts(counts: Mapping[str, int]) -> list[tuple[str, ...]]:
    return [(name, f"{count:,}") for name, count in counts.items() if count]


def _text(table: ReportTable) -> str:
    rows = [table.columns, *table.rows] if table.columns else table.rows
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)),
            ]
        )
        for row in rows
    ]
    return "\n".join([table.heading, *(f"  {line}" for line in lines)])


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
    return _svg(LINE_HEIGHT, title, parts) + _legend(list(series))


def _legend(names: Sequence[str]) -> str:
    keys = [f'<li class="series{number}">{escape(name)}</li>' for number, name in enumerate(names)]
    return f'<ul class="legend">{"".join(keys)}</ul>'


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
            *(_section(table, summary) for table in summary_tables(summary)),
            *_flagged(summary),
            "</body></html>",
            "",
        ]
    )


def _section(table: ReportTable, summary: ReplaySummary) -> str:
    picture = ""
    if table.heading == "Flagged runs by signal":
        picture = bar_chart(dict(summary.signals.most_common()), table.heading)
    elif table.heading == "Threshold sweep" and summary.sweep is not None:
        picture = _sweep_plot(summary.sweep, table.heading)
    return f"<h2>{escape(table.heading)}</h2>{picture}{_table(table)}"


def _sweep_plot(sweep: ThresholdSweep, title: str) -> str:
    scores = list(sweep.scores.values())
    return line_chart(
        [f"× {factor:g}" for factor in sweep.scores],
        {
            "loops refused": [score.recall for score in scores],
            "ok refused": [ratio(score.honest.refused, score.honest.runs) for score in scores],
        },
        title,
    )


def _table(table: ReportTable) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><td>{escape(row[0])}</td>"
        + "".join(f'<td class="figure">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{rows}</table>"


def _flagged(summary: ReplaySummary) -> Iterator[str]:
    worst = list(summary.worst)
    if not worst:
        return
    yield "<h2>Flagged runs</h2>"
    if len(worst) < summary.flagged:
        yield f"<p>The {len(worst):,} severest of {summary.flagged:,}.</p>"
    columns = ("run", "verdict", "at turn", "calls", "rule", "signal", "evidence", "calls saved")
    head = "".join(f"<th>{column}</th>" for column in columns)
    yield f'<div class="wide"><table><tr>{head}</tr>'
    yield from map(_flagged_row, worst)
    yield "</table></div>"


def _flagged_row(result: RunResult) -> str:
    action = result.verdict.value
    seen = "; ".join(evidence.what for evidence in result.evidence)
    cells = [
        f"<td>{escape(result.id)}</td>",
        f'<td class="{action}">{action}</td>',
        f'<td class="figure">{getattr(result.first, action)}</td>',
        f'<td class="figure">{result.calls:,}</td>',
        f"<td>{escape(result.rule or '')}</td>",
        f"<td>{escape(result.signal or '')}</td>",
        f"<td>{escape(seen)}</td>",
        f'<td class="figure">{result.saved_calls:,}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"
