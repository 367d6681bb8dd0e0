"""The summary as one page that needs nothing but itself. Whatever text goes in is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib.resources import files

from looptrap.replay import plot
from looptrap.replay.report import Table, tables
from looptrap.replay.result import Result
from looptrap.replay.score import share
from looptrap.replay.summary import Summary
from looptrap.replay.sweep import Sweep

STYLE = (files("looptrap.replay") / "page.css").read_text("utf-8")


def page(summary: Summary, policies: str) -> str:
    """Return the page; `policies` says in a word which policies were replayed."""
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            # Nothing is loaded and nothing runs, whatever a recorded run contains.
            '<meta http-equiv="Content-Security-Policy"'
            " content=\"default-src 'none'; style-src 'unsafe-inline'\">",
            f"<title>Looptrap replay</title><style>{STYLE}</style></head><body>",
            f"<h1>Looptrap replay</h1><p>Recorded runs against {escape(policies)}.</p>",
            *(_section(table, summary) for table in tables(summary)),
            *_flagged(summary),
            "</body></html>",
            "",
        ]
    )


def _section(table: Table, summary: Summary) -> str:
    picture = ""
    if table.heading == "Flagged runs by signal":
        picture = plot.bars(dict(summary.signals.most_common()), table.heading)
    elif table.heading == "Threshold sweep" and summary.sweep is not None:
        picture = _sweep_plot(summary.sweep, table.heading)
    return f"<h2>{escape(table.heading)}</h2>{picture}{_table(table)}"


def _sweep_plot(sweep: Sweep, title: str) -> str:
    scores = list(sweep.scores.values())
    return plot.lines(
        [f"× {factor:g}" for factor in sweep.scores],
        {
            "loops refused": [score.recall for score in scores],
            "ok refused": [share(one.honest.refused, one.honest.runs) for one in scores],
        },
        title,
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(
        f"<tr><td>{escape(row[0])}</td>"
        + "".join(f'<td class="figure">{escape(cell)}</td>' for cell in row[1:])
        + "</tr>"
        for row in table.rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{rows}</table>"


def _flagged(summary: Summary) -> Iterator[str]:
    worst = summary.worst()
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


def _flagged_row(result: Result) -> str:
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
